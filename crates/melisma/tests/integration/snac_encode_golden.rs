//! Codes of speech and music against those of the original implementation.

use melisma::runtime::{Cpu, Isa};
use melisma::snac::{Codes, EncodeEngine, EngineOptions, Model, reference};
use melisma::{Budget, Device};

use crate::encoded::{self, Case, MODELS, Tally};
use crate::gpu;

fn engine(model: &Model, device: &Device, max_streams: usize) -> EncodeEngine {
    let budget = Budget::unlimited();
    EncodeEngine::new(model, &device.queue(&budget).unwrap(), &budget, EngineOptions::new(max_streams)).unwrap()
}

fn cpu(threads: usize) -> Device {
    Device::Cpu(Cpu { isa: Isa::best(), threads })
}

/// The codes of a stream that gets its samples in pieces.
fn streamed(engine: &mut EncodeEngine, model: &Model, samples: &[f32], piece_len: usize) -> Codes {
    let stream = engine.open().unwrap();
    let mut codes = Codes::empty(model.config());
    for piece in samples.chunks(piece_len) {
        codes.append(engine.push(stream, piece).unwrap().frames()).unwrap();
    }
    codes.append(engine.finish(stream).unwrap().frames()).unwrap();
    codes
}

/// Compares all codes of the models and clips; at most one in 1,000 may tie.
fn check(models: &[&str], encode: impl Fn(&Model, &[f32]) -> Codes) {
    let mut total = Tally::default();
    for name in models {
        let model = encoded::model(name);
        for case in Case::all(name, &model) {
            let tally = case.compare(&model, &encode(&model, &case.samples)).unwrap();
            println!("{}: {tally:?}", case.name);
            total.add(tally);
        }
    }
    println!("all: {total:?}");
    assert!(total.tied * 1000 <= total.total(), "{total:?}");
}

/// The reference of mini24 meets its own sample elsewhere.
#[test]
fn the_reference_gives_the_expected_codes() {
    check(&["tiny24", "tiny44"], |model, samples| reference::encode(model, samples).unwrap());
}

#[test]
fn the_engine_gives_the_expected_codes_with_any_threads_and_pieces() {
    check(&MODELS, |model, samples| {
        let mut two = engine(model, &cpu(2), 1);
        let codes = two.encode(samples).unwrap();
        assert_eq!(streamed(&mut two, model, samples, 4321), codes);
        for threads in [1, 3] {
            assert_eq!(engine(model, &cpu(threads), 1).encode(samples).unwrap(), codes, "{threads} threads");
        }
        codes
    });
}

/// On the host shim, the first frame of one clip.
#[test]
fn on_cuda_the_engine_gives_the_expected_codes() {
    let Some(device) = gpu::find() else { return };
    if gpu::cases(false, true) {
        return check(&MODELS, |model, samples| {
            let mut engine = engine(model, &device, 2);
            let codes = engine.encode(samples).unwrap();
            assert_eq!(streamed(&mut engine, model, samples, 4321), codes);
            let half = &samples[..samples.len() / 2];
            let [whole, _] = engine.encode_batch(&[samples, half]).unwrap().try_into().unwrap();
            assert_eq!(whole, codes);
            codes
        });
    }
    let model = encoded::model("tiny24");
    let case = Case::open("speech", "tiny24", &model);
    let mut engine = engine(&model, &device, 1);
    let stream = engine.open().unwrap();
    let mut codes = Codes::empty(model.config());
    for frame in case.samples.chunks_exact(engine.frame_len()) {
        codes.append(engine.push(stream, frame).unwrap().frames()).unwrap();
        if codes.n_frames() > 0 {
            break;
        }
    }
    println!("{:?}", case.first(codes.n_frames()).compare(&model, &codes).unwrap());
}

/// The expected codes with the second nearest code at `[level, at]`, and the reference's choices below it.
fn with_second(case: &Case, model: &Model, [level, at]: [usize; 2]) -> Codes {
    let mut levels: Vec<Vec<i32>> = case.levels[..=level].iter().map(|level| level.codes.clone()).collect();
    levels[level][at] = case.levels[level].second[at];
    let latents = reference::latents(model, &case.samples);
    while levels.len() < case.levels.len() {
        let choices = reference::quantizer(model).encode_after(&latents, &levels);
        levels.push(choices.iter().map(|choice| choice.code).collect());
    }
    Codes::new(model.config(), levels).unwrap()
}

#[test]
fn codes_below_a_tie_follow_it() {
    let model = encoded::model("tiny24");
    let mut case = Case::open("music", "tiny24", &model);
    let codes = with_second(&case, &model, [0, 5]);
    let error = case.compare(&model, &codes).unwrap_err();
    assert!(error.contains("level 0, code 5 is"), "{error}");
    case.levels[0].margin[5] = 0.9e-5;
    let tally = case.compare(&model, &codes).unwrap();
    assert_eq!(tally, Tally { equal: 161, tied: 1, following: 6 });
    let mut levels = codes.levels();
    levels[2][23] ^= 1;
    let error = case.compare(&model, &Codes::new(model.config(), levels).unwrap()).unwrap_err();
    assert!(error.contains("level 2, code 23 is"), "{error}");
}

#[test]
fn a_third_code_is_not_a_tie() {
    let model = encoded::model("tiny44");
    let mut case = Case::open("speech", "tiny44", &model);
    let mut levels: Vec<Vec<i32>> = case.levels.iter().map(|level| level.codes.clone()).collect();
    case.levels[3].margin[255] = 0.0;
    let [first, second] = [case.levels[3].codes[255], case.levels[3].second[255]];
    levels[3][255] = second;
    let codes = |levels: &[Vec<i32>]| Codes::new(model.config(), levels.to_vec()).unwrap();
    assert_eq!(case.compare(&model, &codes(&levels)).unwrap().tied, 1);
    levels[3][255] = (0..).find(|code| ![first, second].contains(code)).unwrap();
    assert!(case.compare(&model, &codes(&levels)).is_err());
}
