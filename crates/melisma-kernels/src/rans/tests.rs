use super::cpu::{self, Stream};
use super::table::{self, Coding};
use super::{Batch, Decoder, Encoder, Job, LANES, Lens, M, Mode, Segments, Slices, Split, Status, Tile, reference};
use crate::random::SplitMix64;
use crate::suite::{Bench, suite};
use crate::{Device, Isa, Space, Tensor};

suite!(
    matches_reference,
    round_trips,
    lengths,
    odd_pairs_and_escapes,
    nearly_constant_planes,
    random_bytes_cost_little,
    records_do_not_depend_on_the_instruction_set,
    damage_is_found,
    every_bit_of_the_hash_counts,
    batches,
    damaged_batches,
    indexed_batches,
    damaged_indices,
    parts_of_batches,
);

fn isa(bench: &Bench) -> Option<Isa> {
    match &bench.device {
        Device::Cpu(cpu) => Some(cpu.isa),
        Device::Cuda(_) => None,
    }
}

/// Returns weights as after training: a normal distribution of small variance, as bf16.
pub(super) fn brain_floats(random: &mut SplitMix64, n: usize) -> Vec<u8> {
    let mut normal = || (0..12).map(|_| random.signed()).sum::<f32>() * 0.01;
    (0..n).flat_map(|_| half::bf16::from_f32(normal()).to_le_bytes()).collect()
}

fn round_trip(isa: Isa, split: Split, elements: &[u8]) -> (Tile, Vec<u8>) {
    let mut record = vec![1, 2, 3];
    let tile = Encoder::new(isa).encode(split, 9, elements, &mut record).unwrap();
    record.drain(..3);
    assert_eq!(record.len(), tile.len as usize);
    let mut decoded = vec![0xa5; elements.len()];
    let outcome = Decoder::new(isa).decode(split, 9, &tile, &record, &mut decoded);
    outcome.unwrap_or_else(|error| panic!("{split:?}, {} bytes: {error}", elements.len()));
    if let Some(at) = decoded.iter().zip(elements).position(|(found, expected)| found != expected) {
        panic!("{split:?}, {} bytes: byte {at} is {}, not {}", elements.len(), decoded[at], elements[at]);
    }
    (tile, record)
}

fn matches_reference(bench: &Bench) {
    let Some(isa) = isa(bench) else { return };
    let mut random = SplitMix64::new(1);
    for n in [0, 1, 31, 32, 33, 4096, 5000, 20_001] {
        let symbols: Vec<u8> = (0..n).map(|_| (random.bits() & random.bits() & random.bits()) as u8).collect();
        let mut counts = [0; 256];
        (counts[0], counts[255]) = (1, 1);
        symbols.iter().for_each(|&symbol| counts[usize::from(symbol)] += 1);
        let frequencies = table::normalize(&counts);
        let (states, words) = reference::encode(&frequencies, &symbols);
        assert_eq!(reference::decode(&frequencies, states, &words, n), symbols);

        let mut codings = [Coding::default(); 256];
        table::codings(&frequencies, &mut codings);
        let mut out = vec![0; 2 * n + 64];
        let mut found = [[0; LANES]];
        let [at] = cpu::encode(isa, &codings, &[&symbols], &mut [&mut out], &mut found);
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        assert_eq!((found[0], &out[at..]), (states, &bytes[..]), "{n} symbols");

        let mut lookup = [0; M];
        table::fill(&frequencies, &mut lookup);
        let stored: Vec<u8> = states.iter().flat_map(|state| state.to_le_bytes()).collect();
        let mut streams = [Stream::new(stored[..].try_into().unwrap(), &bytes).unwrap()];
        let mut decoded = vec![0xa5; n];
        assert!(cpu::decode(isa, &lookup, &mut streams, &mut [&mut decoded]));
        assert!(streams[0].is_finished() && decoded == symbols, "{n} symbols");
    }
}

fn round_trips(bench: &Bench) {
    let Some(isa) = isa(bench) else { return };
    let mut random = SplitMix64::new(2);
    let weights = brain_floats(&mut random, 150_001);
    let (tile, record) = round_trip(isa, Split::BrainFloat16, &weights);
    assert_eq!((tile.mode(0).unwrap(), tile.mode(1).unwrap()), (Mode::Pairs, Mode::Raw));
    let ratio = record.len() as f64 / weights.len() as f64;
    assert!(ratio < 0.67, "{ratio}");
    let slices = Slices::of(150_001);
    let parts: Vec<&[u8]> = (0..4).map(|k| &weights[2 * slices.range(k).start..2 * slices.range(k).end]).collect();
    assert_eq!(tile.hash, reference::hash(9, &parts));
    for split in Split::ALL {
        for n in [1000, 40_000, 131_073] {
            let bytes: Vec<u8> = (0..n * split.width())
                .map(|at| if at % split.width() == 0 { random.bits() as u8 } else { (random.bits() & 0x83) as u8 })
                .collect();
            round_trip(isa, split, &bytes);
        }
    }
}

fn lengths(bench: &Bench) {
    let Some(isa) = isa(bench) else { return };
    let mut random = SplitMix64::new(3);
    let bytes: Vec<u8> = (0..33_000 * 8).map(|_| (random.bits() & random.bits() & 31) as u8).collect();
    for split in Split::ALL {
        for n in [0, 1, 2, 31, 32, 63, 64, 65, 129, 1023, 2047, 2048, 2049, 4099, 0x7fff, 0x8000, 0x8001, 33_000] {
            round_trip(isa, split, &bytes[..n * split.width()]);
        }
    }
}

fn odd_pairs_and_escapes(bench: &Bench) {
    let Some(isa) = isa(bench) else { return };
    let mut random = SplitMix64::new(4);
    for n in [3001, 65_537, 200_003] {
        let bytes: Vec<u8> = (0..n)
            .map(|_| match random.bits() % 500 {
                0 => random.bits() as u8,
                _ => (random.bits() % 5 + random.bits() % 8) as u8 * 3,
            })
            .chain([250])
            .collect();
        let (tile, _) = round_trip(isa, Split::Bytes1, &bytes);
        assert!(n < 10_000 || tile.mode(0).unwrap() == Mode::Pairs);
    }
}

fn nearly_constant_planes(bench: &Bench) {
    let Some(isa) = isa(bench) else { return };
    for n in [5000, 100_000, 300_000] {
        let mut bytes = vec![7; n];
        let (tile, record) = round_trip(isa, Split::Bytes1, &bytes);
        assert_eq!((tile.mode(0).unwrap(), record.len()), (Mode::Constant, 32));
        bytes[n / 3] = 9;
        let (_, record) = round_trip(isa, Split::Bytes1, &bytes);
        assert!(record.len() < n / 2, "{}", record.len());
        let alternating: Vec<u8> = (0..n).map(|i| (i % 2) as u8).collect();
        round_trip(isa, Split::Bytes1, &alternating);
    }
}

fn random_bytes_cost_little(bench: &Bench) {
    let Some(isa) = isa(bench) else { return };
    let mut random = SplitMix64::new(6);
    let bytes: Vec<u8> = (0..1 << 19).map(|_| random.bits() as u8).collect();
    for split in Split::ALL {
        let (_, record) = round_trip(isa, split, &bytes);
        assert!(record.len() <= bytes.len() + 64, "{split:?}: {}", record.len());
    }
}

fn records_do_not_depend_on_the_instruction_set(bench: &Bench) {
    let Some(isa) = isa(bench) else { return };
    let weights = brain_floats(&mut SplitMix64::new(7), 140_000);
    let ours = round_trip(isa, Split::BrainFloat16, &weights);
    assert_eq!(ours, round_trip(Isa::SCALAR, Split::BrainFloat16, &weights));
}

fn damage_is_found(bench: &Bench) {
    let Some(isa) = isa(bench) else { return };
    let mut random = SplitMix64::new(8);
    let (mut encoder, mut decoder) = (Encoder::new(isa), Decoder::new(isa));
    let weights = brain_floats(&mut random, 33_000);
    let mut record = Vec::new();
    let tile = encoder.encode(Split::BrainFloat16, 0, &weights, &mut record).unwrap();
    let mut decoded = vec![0; weights.len()];
    for _ in 0..500 {
        let bit = random.bits() as usize % (8 * record.len());
        record[bit / 8] ^= 1 << (bit % 8);
        let outcome = decoder.decode(Split::BrainFloat16, 0, &tile, &record, &mut decoded);
        assert!(outcome.is_err(), "bit {bit}");
        record[bit / 8] ^= 1 << (bit % 8);
    }
    assert!(decoder.decode(Split::BrainFloat16, 1, &tile, &record, &mut decoded).is_err());
    for len in [0, 15, 16, 100, record.len() - 16] {
        let cut = Tile { len: len as u32, ..tile };
        assert!(decoder.decode(Split::BrainFloat16, 0, &cut, &record[..len], &mut decoded).is_err());
    }
}

fn every_bit_of_the_hash_counts(bench: &Bench) {
    let small = tiles(&mut SplitMix64::new(16)).into_iter().filter(|(_, bytes)| bytes.len() == 78).collect();
    let mut packed = pack(small);
    for bit in 0..64 {
        packed.jobs[0].tile.hash ^= 1 << bit;
        let (_, status) = run(bench, &packed);
        assert_eq!(status[0], Status::Hash, "bit {bit}");
        packed.jobs[0].tile.hash ^= 1 << bit;
    }
    let (_, status) = run(bench, &packed);
    assert!(status.iter().all(|status| *status == Status::Whole));
}

/// Returns tiles of every split with all modes, one, two and four slices, odd lengths, and
/// separated rows.
fn tiles(random: &mut SplitMix64) -> Vec<(Job, Vec<u8>)> {
    let is_shim = std::env::var_os("MELISMA_SHIM").is_some();
    let sizes: &[usize] = if is_shim { &[0, 1, 78, 2111, 33_003] } else { &[0, 1, 78, 2111, 33_003, 131_074, 262_144] };
    let mut jobs = Vec::new();
    for split in Split::ALL {
        let width = split.width();
        for (index, &n) in sizes.iter().enumerate() {
            let bytes: Vec<u8> = match split {
                Split::BrainFloat16 => brain_floats(random, n),
                // The upper byte of these elements has too many values for pairs.
                Split::Bytes2 if index % 2 == 0 => {
                    (0..n).flat_map(|_| half::f16::from_f32(random.signed() * random.signed()).to_le_bytes()).collect()
                }
                _ => (0..n * width)
                    .map(|at| match at % width {
                        0 if width > 1 => random.bits() as u8,
                        1 if width > 2 => 9,
                        2 => (random.bits() % 300).min(255) as u8 & 0x7f,
                        _ => (random.bits() & random.bits() & 0x47) as u8,
                    })
                    .collect(),
            };
            let rows = if n % 3 == 0 && n > 0 { 3 } else { 1 };
            let row_len = (bytes.len() / rows) as u32;
            let row_step = u64::from(row_len) + [0, 8, 5][index % 3];
            let tile = Tile::new(0, 0, &[]);
            let job = Job {
                split,
                number: index as u64,
                tile,
                record: 0,
                out: 0,
                row_len,
                rows: rows as u32,
                row_step,
                segments: None,
            };
            jobs.push((job, bytes));
        }
    }
    jobs
}

struct Packed {
    jobs: Vec<Job>,
    bytes: Vec<u8>,
    expected: Vec<u8>,
}

fn pack(tiles: Vec<(Job, Vec<u8>)>) -> Packed {
    pack_with_index(tiles, None)
}

fn pack_with_index(tiles: Vec<(Job, Vec<u8>)>, segment: Option<u32>) -> Packed {
    let mut encoder = Encoder::new(Isa::best());
    let mut packed = Packed { jobs: Vec::new(), bytes: Vec::new(), expected: Vec::new() };
    for (mut job, bytes) in tiles {
        job.record = packed.bytes.len() as u64;
        job.out = packed.expected.len() as u64;
        job.tile = encoder.encode(job.split, job.number, &bytes, &mut packed.bytes).unwrap();
        if let Some(len) = segment {
            let mut decoder = Decoder::indexing(Isa::best(), len).unwrap();
            let record = &packed.bytes[job.record as usize..];
            decoder.decode(job.split, job.number, &job.tile, record, &mut vec![0; bytes.len()]).unwrap();
            let n = bytes.len() / job.split.width();
            assert_eq!(decoder.index().len(), super::index_len(job.split, &job.tile, n, len).unwrap());
            let at = packed.bytes.len() as u64;
            job.segments = (!decoder.index().is_empty()).then_some(Segments { at, len });
            packed.bytes.extend_from_slice(decoder.index());
        }
        for row in bytes.chunks(job.row_len.max(1) as usize) {
            packed.expected.extend_from_slice(row);
            packed.expected.resize(packed.expected.len() + (job.row_step - u64::from(job.row_len)) as usize, 0xa5);
        }
        // Outputs of every alignment, most of them on words.
        let align = if packed.jobs.len() % 3 == 2 { 1 } else { 4 };
        packed.expected.resize(packed.expected.len().next_multiple_of(align), 0xa5);
        packed.jobs.push(job);
    }
    packed
}

/// A batch with its inputs and outputs on the device.
struct Planned {
    batch: Batch,
    records: Tensor,
    out: Tensor,
    status: Tensor,
}

fn planned(bench: &Bench, packed: &Packed) -> Planned {
    let lens = Lens { packed: packed.bytes.len(), out: packed.expected.len() };
    Planned {
        batch: Batch::plan(&bench.device, &bench.budget, &packed.jobs, lens).unwrap(),
        records: bench.tensor(&packed.bytes),
        out: bench.tensor(&vec![0xa5u8; packed.expected.len()]),
        status: bench.tensor(&vec![-1i32; packed.jobs.len()]),
    }
}

fn run(bench: &Bench, packed: &Packed) -> (Vec<u8>, Vec<Status>) {
    let Planned { batch, records, mut out, mut status } = planned(bench, packed);
    let (from, to) = (records.view().unwrap(), out.view_mut().unwrap());
    batch.run(&bench.queue, from, to, status.view_mut().unwrap()).unwrap();
    let words = status.to_vec::<i32>(&bench.queue).unwrap();
    (out.to_vec(&bench.queue).unwrap(), words.into_iter().map(Status::from_word).collect())
}

fn batches(bench: &Bench) {
    check_batch(bench, &pack(tiles(&mut SplitMix64::new(11))));
}

fn indexed_batches(bench: &Bench) {
    for segment in [2048, 8192, 16_384] {
        check_batch(bench, &pack_with_index(tiles(&mut SplitMix64::new(13)), Some(segment)));
    }
}

fn check_batch(bench: &Bench, packed: &Packed) {
    let (out, status) = run(bench, packed);
    for (job, status) in packed.jobs.iter().zip(status) {
        assert_eq!(status, Status::Whole, "{job:?}");
    }
    if let Some(at) = out.iter().zip(&packed.expected).position(|(found, expected)| found != expected) {
        let job = packed.jobs.iter().rfind(|job| job.out <= at as u64);
        panic!("byte {at} is {}, not {}: {job:?}", out[at], packed.expected[at]);
    }
}

/// A wrong index is detected where it is used, and does not affect other tiles.
fn damaged_indices(bench: &Bench) {
    let mut random = SplitMix64::new(14);
    let large: Vec<_> = tiles(&mut random).into_iter().filter(|(job, _)| job.number == 4).collect();
    let mut packed = pack_with_index(large, Some(2048));
    let is_used = matches!(bench.device, Device::Cuda(_));
    for round in 0..24 {
        let victim = round % packed.jobs.len();
        let job = packed.jobs[victim];
        let n = job.row_len as usize * job.rows as usize / job.split.width();
        let len = super::index_len(job.split, &job.tile, n, 2048).unwrap();
        let bit = random.bits() as usize % (8 * len);
        let at = job.segments.unwrap().at as usize + bit / 8;
        packed.bytes[at] ^= 1 << (bit % 8);
        let (_, status) = run(bench, &packed);
        for (index, status) in status.into_iter().enumerate() {
            let is_whole = status == Status::Whole;
            assert!(is_whole || (is_used && index == victim), "{:?}, bit {bit}: {status:?}", packed.jobs[index]);
        }
        packed.bytes[at] ^= 1 << (bit % 8);
    }
}

/// Ranges of tiles one after another, as a loader decodes them.
fn parts_of_batches(bench: &Bench) {
    let packed = pack(tiles(&mut SplitMix64::new(15)));
    let Planned { batch, records, mut out, mut status } = planned(bench, &packed);
    let n = batch.len();
    batch.prepare(&bench.queue, [0..3, 3..n - 1, n - 1..n].into_iter()).unwrap();
    let held = bench.budget.usage(Space::Device).now;
    for tiles in [0..3, 3..3, 3..n - 1, n - 1..n] {
        let words = status.view_mut().unwrap().range(tiles.clone()).unwrap();
        batch.run_some(&bench.queue, tiles, records.view().unwrap(), out.view_mut().unwrap(), words).unwrap();
    }
    assert_eq!(bench.budget.usage(Space::Device).now, held, "the memory was prepared");
    assert_eq!(status.to_vec::<i32>(&bench.queue).unwrap(), vec![0; n]);
    assert!(out.to_vec::<u8>(&bench.queue).unwrap() == packed.expected);
    let words = status.view_mut().unwrap();
    assert!(batch.run_some(&bench.queue, 0..n + 1, records.view().unwrap(), out.view_mut().unwrap(), words).is_err());
}

/// Each tile is damaged in turn; the others stay intact.
fn damaged_batches(bench: &Bench) {
    let mut random = SplitMix64::new(12);
    let small: Vec<_> =
        tiles(&mut random).into_iter().filter(|(_, bytes)| (1..10_000).contains(&bytes.len())).collect();
    let mut packed = pack(small);
    for round in 0..40 {
        let victim = round % packed.jobs.len();
        let job = packed.jobs[victim];
        let bit = random.bits() as usize % (8 * job.tile.len as usize);
        let at = job.record as usize + bit / 8;
        packed.bytes[at] ^= 1 << (bit % 8);
        let (out, status) = run(bench, &packed);
        for (index, (other, status)) in packed.jobs.iter().zip(status).enumerate() {
            let start = other.out as usize;
            let end = packed.jobs.get(index + 1).map_or(out.len(), |next| next.out as usize);
            let is_same = out[start..end] == packed.expected[start..end];
            // The GPU ignores a record's padding, so there the decoded bytes are right.
            assert!(
                if index == victim { status != Status::Whole || is_same } else { status == Status::Whole && is_same },
                "{other:?}, bit {bit}"
            );
        }
        packed.bytes[at] ^= 1 << (bit % 8);
    }
}
