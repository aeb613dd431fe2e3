//! Tiles encoded and decoded in memory, hash included, by one core and by several.

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use melisma::Result;
use melisma::pack::{Decoder, Encoder, Header, Layout, Split, Tile};
use melisma::runtime::device::available_threads;
use melisma_kernels::Isa;

use super::{Figures, beside, check_equal};
use crate::forecast::id;
use crate::{Peer, Plan, Row, measure};

/// Numbers of threads beside one, where the machine has as many.
const THREADS: [usize; 3] = [2, 4, 16];
const PLAN: Plan = Plan { warm_up: 1, least: 5, time: Duration::from_millis(400), most: 200 };

/// Tiles of a source as contiguous bytes, with their records.
struct Tiles {
    split: Split,
    bytes: Vec<Vec<u8>>,
    records: Vec<(Tile, Vec<u8>)>,
    len: usize,
}

impl Tiles {
    fn of(source: &[u8]) -> Result<Self> {
        let header = Header::read(&source)?;
        let mut tiles = Self { split: Split::Bytes1, bytes: Vec::new(), records: Vec::new(), len: 0 };
        for entry in header.tensors.iter().filter(|entry| entry.len() >= 1 << 17) {
            let layout = Layout::of(entry, 512)?;
            tiles.split = layout.split;
            let data = &source[(header.len + entry.bytes[0]) as usize..(header.len + entry.bytes[1]) as usize];
            let width = layout.split.width();
            for number in 0..layout.n_tiles() {
                let [rows, cols] = layout.tile(number);
                let row = |row: u64| {
                    let at = (row * layout.cols + cols.start) as usize * width;
                    data[at..at + (cols.end - cols.start) as usize * width].iter().copied()
                };
                tiles.bytes.push(rows.flat_map(row).collect());
            }
        }
        let mut encoder = Encoder::new(Isa::best());
        for (number, bytes) in tiles.bytes.iter().enumerate() {
            let mut record = Vec::new();
            let tile = encoder.encode(tiles.split, number as u64, bytes, &mut record)?;
            tiles.records.push((tile, record));
            tiles.len += bytes.len();
        }
        Ok(tiles)
    }

    /// Encodes one thread's share: takes tiles from `next` until none is left.
    fn encode(&self, encoder: &mut Encoder, record: &mut Vec<u8>, next: &AtomicUsize) -> Result<()> {
        while let Some((number, bytes)) = take(next, &self.bytes) {
            record.clear();
            encoder.encode(self.split, number as u64, bytes, record)?;
        }
        Ok(())
    }

    fn decode(&self, decoder: &mut Decoder, out: &mut Vec<u8>, next: &AtomicUsize) -> Result<()> {
        while let Some((number, (tile, record))) = take(next, &self.records) {
            out.resize(self.bytes[number].len(), 0);
            decoder.decode(self.split, number as u64, tile, record, out)?;
        }
        Ok(())
    }
}

fn take<'a, T>(next: &AtomicUsize, items: &'a [T]) -> Option<(usize, &'a T)> {
    let number = next.fetch_add(1, Relaxed);
    Some((number, items.get(number)?))
}

/// Measures encoding and decoding by turns.
pub(super) fn rows(name: &str, source: &[u8], figures: &Figures) -> Result<Vec<Row>> {
    let tiles = Tiles::of(source)?;
    let gigabytes = tiles.len as f64 / 1e9;
    let memcpy = {
        let mut copy = vec![0; tiles.len];
        let flat = tiles.bytes.concat();
        gigabytes / measure(PLAN, || copy.copy_from_slice(std::hint::black_box(&flat))).median
    };
    let memcpy = Peer { name: "memcpy".to_owned(), median: memcpy };
    let mut rows = Vec::new();
    let mut outcome = Ok(());
    for isa in Isa::available() {
        let level = isa.level().name();
        let (mut encoder, mut record) = (Encoder::new(isa), Vec::new());
        let encoded = measure(PLAN, || outcome = tiles.encode(&mut encoder, &mut record, &AtomicUsize::new(0)));
        let mut row = encoded.rate(&format!("pack/encode {name} {level} 1t"), "GB/s", gigabytes);
        row.peers = beside(figures, "encode", 1.0);
        rows.push(row);
        let (mut decoder, mut out) = (Decoder::new(isa), Vec::new());
        let decoded = measure(PLAN, || outcome = tiles.decode(&mut decoder, &mut out, &AtomicUsize::new(0)));
        let mut row = decoded.rate(&format!("pack/decode {name} {level} 1t"), "GB/s", gigabytes);
        row.peers = beside(figures, "decode", 1.0);
        row.peers.push(memcpy.clone());
        rows.push(row);
        check_equal(&out, &tiles.bytes[tiles.bytes.len() - 1], name)?;
    }
    outcome?;
    for threads in THREADS.into_iter().filter(|n| *n <= available_threads()) {
        rows.extend(on_threads(threads, name, &tiles, gigabytes)?);
    }
    if tiles.split != Split::BrainFloat16 {
        return Ok(rows);
    }
    let ids = [id::PACK, id::UNPACK].into_iter().cycle();
    Ok(rows.into_iter().zip(ids).map(|(row, id)| row.with_id(id)).collect())
}

/// Decodes the tiles of a source on `threads` threads.
pub(super) fn decode_on(threads: usize, source: &[u8]) -> Result<crate::Measured> {
    let tiles = Tiles::of(source)?;
    let mut decoders: Vec<_> = (0..threads.max(1)).map(|_| (Decoder::new(Isa::best()), Vec::new())).collect();
    let mut outcome = Ok(());
    let decoded = measure(PLAN, || {
        let next = AtomicUsize::new(0);
        outcome = share(&mut decoders, |(decoder, bytes)| tiles.decode(decoder, bytes, &next));
    });
    outcome.map(|()| decoded)
}

/// Encodes and decodes with the best instruction set.
fn on_threads(threads: usize, name: &str, tiles: &Tiles, gigabytes: f64) -> Result<Vec<Row>> {
    let isa = Isa::best();
    let mut coders: Vec<_> = (0..threads).map(|_| (Encoder::new(isa), Decoder::new(isa), Vec::new())).collect();
    let mut outcome = Ok(());
    let encoded = measure(PLAN, || {
        let next = AtomicUsize::new(0);
        outcome = share(&mut coders, |(encoder, _, bytes)| tiles.encode(encoder, bytes, &next));
    });
    outcome?;
    let mut outcome = Ok(());
    let decoded = measure(PLAN, || {
        let next = AtomicUsize::new(0);
        outcome = share(&mut coders, |(_, decoder, bytes)| tiles.decode(decoder, bytes, &next));
    });
    outcome?;
    let level = isa.level().name();
    Ok(vec![
        encoded.rate(&format!("pack/encode {name} {level} {threads}t"), "GB/s", gigabytes),
        decoded.rate(&format!("pack/decode {name} {level} {threads}t"), "GB/s", gigabytes),
    ])
}

/// Runs the same work on one thread per coder.
fn share<T: Send>(coders: &mut [T], work: impl Fn(&mut T) -> Result<()> + Sync) -> Result<()> {
    std::thread::scope(|scope| {
        let threads: Vec<_> = coders.iter_mut().map(|coder| scope.spawn(|| work(coder))).collect();
        threads.into_iter().try_for_each(|thread| thread.join().unwrap_or(Ok(())))
    })
}
