use super::cpu::{self, Stream};
use super::table::{self, Coding};
use super::{Decoder, Encoder, LANES, M, Mode, Slices, Split, Tile, reference};
use crate::suite::{Bench, Random, suite};
use crate::{Device, Isa};

suite!(
    matches_reference,
    round_trips,
    lengths,
    odd_pairs_and_escapes,
    nearly_constant_planes,
    random_bytes_cost_little,
    records_do_not_depend_on_the_instruction_set,
    damage_is_found,
);

fn isa(bench: &Bench) -> Option<Isa> {
    match &bench.device {
        Device::Cpu(cpu) => Some(cpu.isa),
        Device::Cuda(_) => None,
    }
}

/// Weights as training leaves them: a normal distribution of small variance, as bf16.
pub(super) fn brain_floats(random: &mut Random, n: usize) -> Vec<u8> {
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
    let mut random = Random(1);
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
    let mut random = Random(2);
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
    let mut random = Random(3);
    let bytes: Vec<u8> = (0..33_000 * 8).map(|_| (random.bits() & random.bits() & 31) as u8).collect();
    for split in Split::ALL {
        for n in [0, 1, 2, 31, 32, 63, 64, 65, 129, 1023, 2047, 2048, 2049, 4099, 0x7fff, 0x8000, 0x8001, 33_000] {
            round_trip(isa, split, &bytes[..n * split.width()]);
        }
    }
}

fn odd_pairs_and_escapes(bench: &Bench) {
    let Some(isa) = isa(bench) else { return };
    let mut random = Random(4);
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
    let mut random = Random(6);
    let bytes: Vec<u8> = (0..1 << 19).map(|_| random.bits() as u8).collect();
    for split in Split::ALL {
        let (_, record) = round_trip(isa, split, &bytes);
        assert!(record.len() <= bytes.len() + 64, "{split:?}: {}", record.len());
    }
}

fn records_do_not_depend_on_the_instruction_set(bench: &Bench) {
    let Some(isa) = isa(bench) else { return };
    let weights = brain_floats(&mut Random(7), 140_000);
    let ours = round_trip(isa, Split::BrainFloat16, &weights);
    assert_eq!(ours, round_trip(Isa::SCALAR, Split::BrainFloat16, &weights));
}

fn damage_is_found(bench: &Bench) {
    let Some(isa) = isa(bench) else { return };
    let mut random = Random(8);
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
