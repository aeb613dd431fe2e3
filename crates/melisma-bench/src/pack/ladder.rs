//! The ladder of techniques on five layers of 11 MB: each step adds one technique and reports its
//! time, and its factor beside the expected one.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use melisma::pack::{Archive, Decoder, Encoder, Header, Layout, Split, Tile};
use melisma::random::Lcg64;
use melisma::{Budget, Result};
use melisma_kernels::Isa;

use super::{check_equal, packed};
use crate::{Peer, Plan, Row, measure};

const ROWS: u64 = 2048;
const COLS: u64 = 2816;
const PLAN: Plan = Plan { warm_up: 1, least: 3, time: std::time::Duration::ZERO, most: 3 };

/// Returns five files of one layer each, with approximately normal bf16 weights.
pub(super) fn layers() -> Vec<Vec<u8>> {
    let len = 2 * ROWS * COLS;
    let json = format!(r#"{{"w":{{"dtype":"BF16","shape":[{ROWS},{COLS}],"data_offsets":[0,{len}]}}}}"#);
    let mut random = Lcg64::new(7);
    let mut layer = || {
        let mut file = (json.len() as u64).to_le_bytes().to_vec();
        file.extend_from_slice(json.as_bytes());
        for _ in 0..ROWS * COLS {
            let weight = (0..6).map(|_| random.unit() - 0.5).sum::<f32>() * 0.04;
            file.extend_from_slice(&half::bf16::from_f32(weight).to_le_bytes());
        }
        file
    };
    (0..5).map(|_| layer()).collect()
}

/// The state that a step reuses from one tile to the next.
#[derive(Clone, Copy, PartialEq, PartialOrd)]
enum Reused {
    Nothing,
    Coder,
    Buffers,
    /// Ten records are passed on together.
    Batch,
}

pub(super) fn rows(layers: &[Vec<u8>], threads: usize) -> Result<Vec<Row>> {
    let mut rows = Vec::new();
    let mut before = None;
    let mut step = |name: &str, expected: &str, seconds: crate::Measured| {
        let mut row = seconds.seconds(&format!("pack/ladder {name}"));
        (row.median, row.unit) = (row.median * 1e3, "ms".to_owned());
        let factor = before.map(|before: f64| before / row.median);
        before = Some(row.median);
        rows.push(row.clone());
        if let Some(factor) = factor {
            let name = format!("pack/ladder {name}: factor, expected {expected}");
            rows.push(Row { name, unit: "x".to_owned(), median: factor, ..row });
        }
    };
    let mut outcome = Ok(());
    for (name, expected, reused, tile_size, cut) in [
        ("1 an encoder per tile of 256", "", Reused::Nothing, 256, Cut::Squares),
        ("2 reused", "10 to 50", Reused::Coder, 256, Cut::Squares),
        ("3 tiles of 512", "2 to 5", Reused::Coder, 512, Cut::Squares),
        ("4 tiles of 1024", "2 to 5 with 3", Reused::Coder, 1024, Cut::Squares),
        ("5 preallocated, 512", "1.5 to 2", Reused::Buffers, 512, Cut::Squares),
        ("6 batched", "2 to 3", Reused::Batch, 512, Cut::Squares),
        ("7 contiguous", "1.2 to 1.5", Reused::Batch, 512, Cut::Runs),
    ] {
        let way = Way { reused, tile_size, cut };
        let seconds = measure(PLAN, || {
            outcome = layers.iter().try_for_each(|layer| round_trip(layer, way, &AtomicU64::new(0)));
        });
        step(name, expected, seconds);
    }
    outcome?;
    let way = Way { reused: Reused::Batch, tile_size: 512, cut: Cut::Runs };
    let mut outcome = Ok(());
    let all = measure(PLAN, || outcome = on_threads(layers, way, threads));
    outcome?;
    step(&format!("8 all cores, {threads} threads"), "5 to 10", all);
    rows.push(files(layers, threads)?);
    rows.extend(tile_sizes(&layers[0])?);
    Ok(rows)
}

/// Encodes on threads that take the same tiles one at a time.
fn on_threads(layers: &[Vec<u8>], way: Way, threads: usize) -> Result<()> {
    let next: Vec<AtomicU64> = layers.iter().map(|_| AtomicU64::new(0)).collect();
    let share = || layers.iter().zip(&next).try_for_each(|(layer, next)| round_trip(layer, way, next));
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..threads).map(|_| scope.spawn(share)).collect();
        workers.into_iter().try_for_each(|worker| worker.join().unwrap_or(Ok(())))
    })
}

/// Measures whole files: packed with all hashes, verified, opened, checked and unpacked.
fn files(layers: &[Vec<u8>], threads: usize) -> Result<Row> {
    let mut outcome = Ok(());
    let seconds = measure(PLAN, || {
        outcome = layers.iter().try_for_each(|layer| {
            let packed = packed(layer, Some(512), threads)?;
            let mut out = Vec::with_capacity(layer.len());
            Archive::open(&packed, &Budget::unlimited())?.unpack(&mut out, threads, &|_| {})?;
            check_equal(&out, layer, "a layer")
        });
    });
    outcome?;
    let row = seconds.seconds(&format!("pack/five layers as files, verified, there and back, {threads} threads"));
    Ok(Row { unit: "ms".to_owned(), median: row.median * 1e3, ..row })
}

/// How a step traverses a layer.
#[derive(Clone, Copy)]
struct Way {
    reused: Reused,
    tile_size: u32,
    cut: Cut,
}

#[derive(Clone, Copy, PartialEq)]
enum Cut {
    /// Rows and columns of tiles, gathered and scattered.
    Squares,
    /// The same number of elements, contiguous.
    Runs,
}

/// Encodes and decodes the remaining tiles of a layer, taken from `next`.
fn round_trip(layer: &[u8], way: Way, next: &AtomicU64) -> Result<()> {
    let Way { reused, tile_size, cut } = way;
    let header = Header::read(&layer)?;
    let data = &layer[header.len as usize..];
    let mut layout = Layout::of(&header.tensors[0], tile_size)?;
    if cut == Cut::Runs {
        (layout.rows, layout.cols) = (1, ROWS * COLS);
        (layout.tile_rows, layout.tile_cols) = (1, u64::from(tile_size).pow(2));
    }
    let isa = Isa::best();
    let (mut encoder, mut decoder) = (Encoder::new(isa), Decoder::new(isa));
    let (mut gathered, mut records, mut decoded) = (Vec::new(), Vec::new(), Vec::new());
    let mut tiles: Vec<(Tile, Vec<u8>)> = Vec::new();
    let width = Split::BrainFloat16.width();
    let mut done = 0;
    loop {
        let number = next.fetch_add(1, Relaxed);
        if number >= layout.n_tiles() {
            break;
        }
        if reused == Reused::Nothing {
            (encoder, decoder) = (Encoder::new(isa), Decoder::new(isa));
        }
        if reused <= Reused::Coder {
            (gathered, decoded) = (Vec::new(), Vec::new());
        }
        let [rows, cols] = layout.tile(number);
        let row_len = (cols.end - cols.start) as usize * width;
        gathered.clear();
        for row in rows {
            let at = (row * layout.cols + cols.start) as usize * width;
            gathered.extend_from_slice(&data[at..at + row_len]);
        }
        if reused < Reused::Batch || done % 10 == 0 {
            records = if reused <= Reused::Coder { Vec::new() } else { std::mem::take(&mut records) };
            records.clear();
        }
        let start = records.len();
        let tile = encoder.encode(Split::BrainFloat16, number, &gathered, &mut records)?;
        decoded.resize(gathered.len(), 0);
        decoder.decode(Split::BrainFloat16, number, &tile, &records[start..], &mut decoded)?;
        if reused <= Reused::Coder {
            tiles.push((tile, records.clone()));
        }
        done += 1;
    }
    check_equal(&decoded, &gathered, "a tile")
}

/// Measures tiles, packed bytes and memory per worker for each tile size.
fn tile_sizes(layer: &[u8]) -> Result<Vec<Row>> {
    let header = Header::read(&layer)?;
    let mut rows = Vec::new();
    for tile_size in melisma::pack::TILE_SIZES {
        let layout = Layout::of(&header.tensors[0], tile_size)?;
        let way = Way { reused: Reused::Buffers, tile_size, cut: Cut::Squares };
        let size = packed(layer, Some(tile_size), 1)?.len() as f64;
        let seconds = measure(PLAN, || drop(round_trip(layer, way, &AtomicU64::new(0))));
        let mut encoder = Encoder::new(Isa::best());
        let tile_len = (layout.tile_rows * layout.tile_cols * 2) as usize;
        encoder.encode(layout.split, 0, &layer[header.len as usize..][..tile_len], &mut Vec::new())?;
        let name = format!("pack/layer in tiles of {tile_size}");
        let row = seconds.seconds(&format!("{name}: {} tiles there and back", layout.n_tiles()));
        let bytes = |what: &str, median: f64| Row::single(format!("{name}: {what}"), "bytes", median);
        let source = vec![Peer { name: "source".to_owned(), median: layer.len() as f64 }];
        rows.push(Row { unit: "ms".to_owned(), median: row.median * 1e3, ..row });
        rows.push(Row { peers: source, ..bytes("packed", size) });
        rows.push(bytes("memory of an encoder", encoder.held_bytes() as f64));
    }
    Ok(rows)
}
