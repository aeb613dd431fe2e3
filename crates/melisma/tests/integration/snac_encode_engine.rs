//! The encoding engine against the reference model.

use std::sync::LazyLock;

use melisma::runtime::memory::Needed;
use melisma::runtime::{Cpu, Isa};
use melisma::snac::{Codes, Config, EncodeEngine, EngineOptions, Model, StreamId, reference};
use melisma::{Budget, Device, ErrorKind};
use proptest::prelude::*;

use crate::codec::{check_needed, golden, odd_rates, queue, sound};
use crate::encoded::Case;

/// Small models of every kind: without and with attention, odd rates.
static MODELS: LazyLock<Vec<Model>> =
    LazyLock::new(|| vec![golden("tiny24"), golden("tiny44"), Model::random(odd_strides(), 1).unwrap()]);

fn odd_strides() -> Config {
    let mut config = odd_rates(24);
    config.encoder_rates = vec![3, 5];
    config
}

fn engine(model: &Model, isa: Isa, threads: usize, max_streams: usize) -> EncodeEngine {
    EncodeEngine::new(model, &queue(isa, threads), &Budget::unlimited(), EngineOptions::new(max_streams)).unwrap()
}

#[test]
fn a_clip_has_the_codes_of_the_reference_model() {
    for model in MODELS.iter() {
        let unit = model.config().padded_len();
        let mut engine = engine(model, Isa::best(), 2, 1);
        for len in [0, 1, unit - 1, unit, unit + 1, 2 * unit + 77] {
            let case = Case::of_reference(&format!("{len} samples"), model, sound(len, 5));
            let tally = case.compare(model, &engine.encode(&case.samples).unwrap()).unwrap();
            assert!(tally.tied <= 1, "{tally:?}");
        }
    }
}

#[test]
#[ignore = "extended: full-size models in the reference's plain loops"]
fn full_size_models_have_the_codes_of_the_reference_model() {
    for config in [Config::snac_24khz(), Config::snac_32khz(), Config::snac_44khz()] {
        let name = format!("{} Hz", config.sampling_rate);
        let model = Model::random(config, 1).unwrap();
        let case = Case::of_reference(&name, &model, sound(50_000, 3));
        let tally = case.compare(&model, &engine(&model, Isa::best(), 2, 1).encode(&case.samples).unwrap()).unwrap();
        println!("{name}: {tally:?}");
        assert!(tally.tied * 1000 <= tally.total().max(1000), "{tally:?}");
    }
}

#[test]
fn every_cpu_gives_the_same_codes() {
    for model in MODELS.iter() {
        let samples = sound(3 * model.config().frame_len() + 100, 4);
        let expected = engine(model, Isa::SCALAR, 1, 1).encode(&samples).unwrap();
        for isa in Isa::available().filter(|&isa| isa != Isa::SCALAR) {
            for threads in [1, 2, 3] {
                let found = engine(model, isa, threads, 1).encode(&samples).unwrap();
                assert_eq!(found, expected, "{isa:?}, {threads} threads");
            }
        }
    }
}

#[test]
fn the_bytes_that_an_engine_takes_are_known_beforehand() {
    for model in MODELS.iter() {
        for (threads, max_streams) in [(1, 1), (2, 3), (3, 1)] {
            let device = Device::Cpu(Cpu { isa: Isa::best(), threads });
            check_needed(&device, EncodeEngine::needed(model.config(), &device, max_streams), |queue, budget| {
                let mut engine = EncodeEngine::new(model, queue, budget, EngineOptions::new(max_streams)).unwrap();
                let stream = engine.open().unwrap();
                for n_frames in 1..=engine.max_frames() {
                    engine.step(&[(stream, &sound(n_frames * model.config().frame_len(), 3))]).unwrap();
                }
            });
        }
    }
}

#[test]
fn submitted_steps_are_collected_in_any_order() {
    let model = &MODELS[0];
    let mut engine = engine(model, Isa::best(), 2, 1);
    let frame_len = engine.frame_len();
    let samples = sound(8 * frame_len, 6);
    let whole = engine.encode(&samples).unwrap();
    let stream = engine.open().unwrap();
    let mut parts = vec![Vec::new(); 8];
    for (index, four) in samples.chunks(4 * frame_len).enumerate() {
        let tickets: Vec<_> = four.chunks(frame_len).map(|frame| engine.submit(&[(stream, frame)]).unwrap()).collect();
        for (place, ticket) in tickets.iter().enumerate().rev() {
            parts[4 * index + place] = engine.collect(*ticket).unwrap().of(0).as_slice().to_vec();
        }
    }
    let found = parts.concat();
    assert!(!found.is_empty());
    assert_eq!(found, whole.frames().as_slice()[..found.len()]);
}

/// The 24 kHz model looks 10.3 latents ahead: codes of a frame leave with the third frame after it.
#[test]
fn codes_leave_when_no_later_sample_can_change_them() {
    let model = &MODELS[0];
    let mut engine = engine(model, Isa::best(), 1, 1);
    let stream = engine.open().unwrap();
    let samples = sound(8 * engine.frame_len(), 2);
    for (index, frame) in samples.chunks(engine.frame_len()).enumerate() {
        let n_frames = engine.push(stream, frame).unwrap().n_frames();
        assert_eq!(n_frames, usize::from(index >= 3), "frame {index}");
    }
    assert_eq!(engine.finish(stream).unwrap().n_frames(), 3);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 12, failure_persistence: None, ..ProptestConfig::default() })]

    /// Streams that are cut anywhere and pushed in turns; each gives the codes of its clip.
    #[test]
    fn streams_do_not_see_each_other(
        which in 0_usize..3,
        lens in prop::collection::vec(0_usize..40_000, 1..4),
        cuts in prop::collection::vec(1_usize..9_000, 1..5),
    ) {
        let model = &MODELS[which];
        let clips: Vec<Vec<f32>> = lens.iter().enumerate().map(|(index, &len)| sound(len, index as u32)).collect();
        let mut alone = engine(model, Isa::best(), 1, 1);
        let mut shared = engine(model, Isa::best(), 2, clips.len());
        let streams: Vec<StreamId> = clips.iter().map(|_| shared.open().unwrap()).collect();
        let mut found = vec![Codes::empty(model.config()); clips.len()];
        let mut at = vec![0; clips.len()];
        for turn in 0.. {
            if at.iter().zip(&clips).all(|(&at, clip)| at == clip.len()) {
                break;
            }
            let index = turn % clips.len();
            let end = (at[index] + cuts[turn % cuts.len()]).min(clips[index].len());
            let codes = shared.push(streams[index], &clips[index][at[index]..end]).unwrap();
            found[index].append(codes.frames()).unwrap();
            at[index] = end;
        }
        for (index, clip) in clips.iter().enumerate() {
            let codes = shared.finish(streams[index]).unwrap();
            found[index].append(codes.frames()).unwrap();
            prop_assert_eq!(&found[index], &alone.encode(clip).unwrap(), "stream {}", index);
        }
    }
}

#[test]
fn a_batch_has_the_codes_of_its_clips() {
    for model in MODELS.iter() {
        let frame_len = model.config().frame_len();
        let lens = [3 * frame_len, 0, 1, 20 * frame_len + 5, 2 * frame_len];
        let clips: Vec<Vec<f32>> = lens.iter().enumerate().map(|(index, &len)| sound(len, index as u32)).collect();
        let clips: Vec<&[f32]> = clips.iter().map(Vec::as_slice).collect();
        let mut engine = engine(model, Isa::best(), 2, 3);
        let found = engine.encode_batch(&clips).unwrap();
        for (index, clip) in clips.iter().enumerate() {
            assert_eq!(found[index], engine.encode(clip).unwrap(), "clip {index}");
        }
    }
}

#[test]
fn misuse_is_refused() {
    let model = &MODELS[0];
    let mut engine = engine(model, Isa::best(), 1, 2);
    let frame = sound(engine.frame_len(), 1);
    let (a, b) = (engine.open().unwrap(), engine.open().unwrap());
    assert!(engine.open().unwrap_err().to_string().contains("all 2 streams"));
    assert!(engine.step(&[(a, &frame), (a, &frame)]).err().unwrap().to_string().contains("twice"));
    assert!(engine.step(&[(a, &frame), (b, &frame[1..])]).is_err());
    assert!(engine.step(&[(a, &frame[1..])]).is_err(), "not whole frames");
    engine.push(a, &frame).unwrap();
    for bad in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
        let error = engine.push(a, &[0.0, bad]).unwrap_err();
        assert_eq!(error.to_string(), format!("sample {} is {bad}", frame.len() + 1));
    }
    let error = engine.encode_batch(&[&frame, &[0.0, f32::NAN]]).unwrap_err();
    assert_eq!(error.to_string(), "clip 1: sample 1 is NaN");
    assert_eq!(
        engine.finish(a).unwrap(),
        reference::encode(model, &frame).unwrap(),
        "a refused push leaves nothing behind"
    );
    assert!(engine.step(&[(a, &frame)]).err().unwrap().to_string().contains("has ended"));
    let c = engine.open().unwrap();
    assert!(engine.finish(a).is_err(), "a slot was given to another stream");
    assert_eq!(engine.finish(c).unwrap().n_frames(), 0);
    assert!(engine.step(&[]).is_ok());
    engine.close(b).unwrap();
    assert!(engine.close(b).is_err());
}

#[test]
fn models_without_kernels_are_refused() {
    let mut dense = odd_strides();
    dense.depthwise = false;
    for config in [dense, odd_rates(24)] {
        let model = Model::random(config, 1).unwrap();
        let error =
            EncodeEngine::new(&model, &queue(Isa::best(), 1), &Budget::unlimited(), EngineOptions::new(1)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unsupported);
        assert_eq!(EncodeEngine::needed(model.config(), &Device::cpu().unwrap(), 1), Needed::default());
    }
}
