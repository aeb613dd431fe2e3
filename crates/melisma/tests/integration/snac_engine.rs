//! The engine against the reference model.

use std::sync::{Arc, LazyLock};

use melisma::runtime::{Cpu, Isa};
use melisma::snac::{Codes, Engine, EngineOptions, Model, Noise, reference};
use melisma::{Budget, Device};
use proptest::prelude::*;

use crate::codec::{Vectors, bits, check_needed, codes, golden, odd_rates, queue, worst};

/// Small models of every kind: without and with attention, without noise, odd rates.
static MODELS: LazyLock<Vec<Model>> =
    LazyLock::new(|| vec![golden("tiny24"), golden("tiny44"), Model::random(odd_rates(24), 1).unwrap()]);

fn engine(model: &Model, isa: Isa, threads: usize, max_streams: usize) -> Engine {
    Engine::new(model, &queue(isa, threads), &Budget::unlimited(), EngineOptions::new(max_streams)).unwrap()
}

fn golden_decodes(name: &str) {
    let (model, vectors) = (golden(name), Vectors::open(name));
    for isa in Isa::available() {
        let mut engine = engine(&model, isa, 2, 1);
        for item in 0..2 {
            let codes = vectors.codes("codes", item, &model);
            let given = Noise::Given(Arc::from(vectors.noise(item)));
            for (noise, key) in [(Noise::Off, "decoded_noise_off"), (given, "decoded_noise_given")] {
                let error = worst(&engine.decode(&codes, &noise).unwrap(), &vectors.floats(key, item));
                println!("{name} item {item}, {isa:?}: {key} {error:e} of full scale");
                assert!(error < 1e-4, "{key}: {error}");
            }
        }
    }
}

#[test]
fn tiny24_decodes() {
    golden_decodes("tiny24");
}

#[test]
fn tiny44_decodes_with_attention() {
    golden_decodes("tiny44");
}

#[test]
fn agrees_with_the_reference_model() {
    for (index, model) in MODELS.iter().enumerate() {
        let codes = codes(model, 11, 4);
        let expected = reference::decode(model, &codes, &Noise::Seed(6));
        let found = engine(model, Isa::best(), 1, 1).decode(&codes, &Noise::Seed(6)).unwrap();
        let error = worst(&found, &expected);
        println!("model {index}: {error:e} of full scale");
        assert!(error < 1e-4);
    }
}

#[test]
fn every_cpu_gives_the_same_bits() {
    for model in MODELS.iter() {
        let codes = codes(model, 3, 4);
        let expected = engine(model, Isa::SCALAR, 1, 1).decode(&codes, &Noise::Seed(6)).unwrap();
        for isa in Isa::available().filter(|&isa| isa != Isa::SCALAR) {
            for threads in [1, 2, 3] {
                let found = engine(model, isa, threads, 1).decode(&codes, &Noise::Seed(6)).unwrap();
                assert_eq!(bits(&found), bits(&expected), "{isa:?}, {threads} threads");
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() })]

    /// Streams join and leave at any time, with steps of any number of frames; each gives the bits of its clip.
    #[test]
    fn streams_do_not_see_each_other(
        which in 0_usize..3,
        lens in prop::collection::vec(0_usize..7, 1..5),
        starts in prop::collection::vec(0_usize..5, 5),
        seed in any::<u32>(),
        isa in 1_usize..3,
    ) {
        let model = &MODELS[which];
        let isa = Isa::available().nth(isa).unwrap_or(Isa::best());
        let noise = |index: usize| if index % 3 == 2 { Noise::Off } else { Noise::Seed(u64::from(seed) + index as u64) };
        let clips: Vec<Codes> =
            lens.iter().enumerate().map(|(index, &len)| codes(model, len, seed ^ index as u32)).collect();
        let mut alone = engine(model, isa, 1, 1);
        let mut shared = engine(model, isa, 2, clips.len());
        let mut streams = vec![None; clips.len()];
        let mut heard = vec![Vec::new(); clips.len()];
        for step in 0..16 {
            let (mut input, mut ended) = (Vec::new(), Vec::new());
            for (index, clip) in clips.iter().enumerate() {
                let at = step as i64 - starts[index] as i64;
                if at == 0 {
                    streams[index] = Some(shared.open(noise(index)).unwrap());
                }
                if at >= 0 && (at as usize) < lens[index] {
                    let at = at as usize;
                    input.push((index, streams[index].unwrap(), clip.frames().range(at..at + 1)));
                } else if at == lens[index] as i64 {
                    ended.push(index);
                }
            }
            let ending: Vec<_> = ended.iter().map(|&index: &usize| streams[index].unwrap()).collect();
            for (index, rest) in ended.into_iter().zip(shared.finish_each(&ending).unwrap()) {
                heard[index].extend(rest);
            }
            let parts: Vec<_> = input.iter().map(|&(_, stream, frame)| (stream, frame)).collect();
            let samples = shared.step(&parts).unwrap();
            for (place, (index, ..)) in input.iter().enumerate() {
                heard[*index].extend_from_slice(samples.of(place));
            }
        }
        for (index, clip) in clips.iter().enumerate() {
            let whole = alone.decode(clip, &noise(index)).unwrap();
            prop_assert_eq!(whole.len(), lens[index] * model.config().frame_len());
            prop_assert_eq!(bits(&heard[index]), bits(&whole), "stream {}", index);
        }
    }
}

#[test]
fn an_early_peek_changes_nothing_later() {
    for model in MODELS.iter() {
        let all = codes(model, 9, 5);
        let mut engine = engine(model, Isa::best(), 2, 2);
        let whole = engine.decode(&all, &Noise::Seed(9)).unwrap();
        let stream = engine.open(Noise::Seed(9)).unwrap();
        assert!(engine.peek(stream).unwrap().is_empty());
        let (first, rest) = all.frames().split_at(1);
        engine.push(stream, first).unwrap();
        if engine.progress(stream).unwrap().emitted > 0 {
            continue;
        }
        let early = engine.peek(stream).unwrap();
        let alone = Codes::from_frames(model.config(), first.as_slice()).unwrap();
        assert_eq!(bits(&early), bits(&engine.decode(&alone, &Noise::Seed(9)).unwrap()));
        assert_eq!(engine.progress(stream).unwrap().gap(), early.len() as u64);
        assert!(engine.peek(stream).unwrap().is_empty(), "each sample once");
        let mut heard = early.clone();
        heard.extend(engine.push(stream, rest).unwrap());
        heard.extend(engine.finish(stream).unwrap());
        assert_eq!(heard.len(), whole.len());
        assert_eq!(bits(&heard[early.len()..]), bits(&whole[early.len()..]));
        let short = engine.open(Noise::Seed(9)).unwrap();
        engine.push(short, first).unwrap();
        assert_eq!(bits(&engine.peek(short).unwrap()), bits(&early));
        assert!(engine.finish(short).unwrap().is_empty(), "the peek gave all of it");
    }
}

#[test]
fn submitted_steps_are_collected_in_any_order() {
    let model = &MODELS[0];
    let clip = codes(model, 8, 3);
    let mut engine = engine(model, Isa::best(), 2, 1);
    let whole = engine.decode(&clip, &Noise::Seed(4)).unwrap();
    let stream = engine.open(Noise::Seed(4)).unwrap();
    let mut parts = vec![Vec::new(); 8];
    for (index, four) in clip.frames().chunks(4).enumerate() {
        let tickets: Vec<_> = four.chunks(1).map(|frame| engine.submit(&[(stream, frame)]).unwrap()).collect();
        for (place, ticket) in tickets.iter().enumerate().rev() {
            parts[4 * index + place] = engine.collect(*ticket).unwrap().of(0).to_vec();
        }
    }
    let heard = parts.concat();
    let first = clip.frames().range(0..1);
    let last = engine.submit(&[(stream, first)]).unwrap();
    assert_eq!(bits(&heard), bits(&whole[..heard.len()]));
    for _ in 0..4 {
        engine.step(&[(stream, first)]).unwrap();
    }
    let error = engine.collect(last).unwrap_err();
    assert!(error.to_string().contains("are gone"), "{error}");
}

#[test]
fn the_lag_is_that_of_the_receptive_field() {
    let model = &MODELS[0];
    let mut engine = engine(model, Isa::best(), 1, 1);
    assert_eq!((engine.lag(), engine.state_bytes() % 4), (4757, 0));
    let stream = engine.open(Noise::Off).unwrap();
    for n_frames in 1..=6_u64 {
        engine.push(stream, &codes(model, 1, n_frames as u32)).unwrap();
        let expected = (2048 * n_frames).saturating_sub(4757);
        assert_eq!(engine.progress(stream).unwrap().exact, expected, "after {n_frames} frames");
    }
}

#[test]
fn the_bytes_that_an_engine_takes_are_known_beforehand() {
    for model in MODELS.iter() {
        for (threads, max_streams) in [(1, 1), (2, 3), (3, 1)] {
            let device = Device::Cpu(Cpu { isa: Isa::best(), threads });
            check_needed(&device, Engine::needed(model.config(), &device, max_streams), |queue, budget| {
                let mut engine = Engine::new(model, queue, budget, EngineOptions::new(max_streams)).unwrap();
                for n_frames in 1..=engine.max_frames() {
                    engine.decode(&codes(model, n_frames, 3), &Noise::Seed(1)).unwrap();
                }
            });
        }
    }
}

#[test]
fn misuse_is_refused() {
    let model = &MODELS[0];
    let mut engine = engine(model, Isa::best(), 1, 2);
    let two = codes(model, 2, 1);
    let frame = two.frames().range(0..1);
    let (a, b) = (engine.open(Noise::Off).unwrap(), engine.open(Noise::Off).unwrap());
    assert!(engine.open(Noise::Off).unwrap_err().to_string().contains("all 2 streams"));
    assert!(engine.step(&[(a, frame), (a, frame)]).unwrap_err().to_string().contains("twice"));
    let error = engine.step(&[(a, frame), (b, two.frames())]).unwrap_err();
    assert_eq!(error.to_string(), "engine: all streams of a step need the same number of frames: got 1 and 2");
    let many = codes(model, 5, 1);
    assert!(engine.step(&[(a, many.frames()), (b, many.frames())]).is_err(), "more than 8 frames");
    let foreign = codes(&MODELS[1], 1, 1);
    let error = engine.step(&[(a, foreign.frames())]).unwrap_err();
    assert!(error.to_string().contains("strides [8, 4, 2, 1]"), "{error}");
    assert!(engine.decode(&foreign, &Noise::Off).is_err());
    engine.close(a).unwrap();
    assert!(engine.step(&[(a, frame)]).unwrap_err().to_string().contains("has ended"));
    let c = engine.open(Noise::Off).unwrap();
    assert!(engine.finish(a).is_err(), "a slot was given to another stream");
    assert!(engine.finish_each(&[c, c]).is_err(), "one end given twice");
    assert!(engine.finish(c).unwrap().is_empty());
    assert!(engine.step(&[]).is_ok());
}
