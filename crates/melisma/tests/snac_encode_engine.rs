//! The encoding engine against the reference model.
#![allow(clippy::unwrap_used, reason = "a failed expectation is the test's message")]

mod codec;

use std::sync::LazyLock;

use melisma::snac::{Codes, Config, EncodeEngine, Model, StreamId};
use melisma::{Budget, Cpu, Device, Isa, Queue};
use proptest::prelude::*;

use codec::{golden, odd_rates, sound};

fn queue(isa: Isa, threads: usize) -> Queue {
    Device::Cpu(Cpu { isa, threads }).queue(&Budget::unlimited()).unwrap()
}

/// Small models of every kind: without and with attention, odd rates.
static MODELS: LazyLock<Vec<Model>> =
    LazyLock::new(|| vec![golden("tiny24"), golden("tiny44"), Model::random(odd_strides(), 1).unwrap()]);

fn odd_strides() -> Config {
    Config { encoder_rates: vec![3, 5], ..odd_rates(24) }
}

fn engine(model: &Model, isa: Isa, threads: usize, max_streams: usize) -> EncodeEngine {
    EncodeEngine::new(model, &queue(isa, threads), &Budget::unlimited(), max_streams).unwrap()
}

#[test]
fn a_clip_has_the_codes_of_the_reference_model() {
    for model in MODELS.iter() {
        let unit = model.config().padded_len();
        let mut engine = engine(model, Isa::best(), 2, 1);
        for len in [0, 1, unit - 1, unit, unit + 1, 2 * unit + 77] {
            let samples = sound(len, 5);
            assert_eq!(engine.encode(&samples).unwrap(), model.encode(&samples).unwrap(), "{len} samples");
        }
    }
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
    assert_eq!(engine.finish(a).unwrap(), model.encode(&frame).unwrap(), "a refused push leaves nothing behind");
    assert!(engine.step(&[(a, &frame)]).err().unwrap().to_string().contains("has ended"));
    let c = engine.open().unwrap();
    assert!(engine.finish(a).is_err(), "a slot was given to another stream");
    assert_eq!(engine.finish(c).unwrap().n_frames(), 0);
    assert!(engine.step(&[]).is_ok());
    engine.close(b).unwrap();
    assert!(engine.close(b).is_err());
}
