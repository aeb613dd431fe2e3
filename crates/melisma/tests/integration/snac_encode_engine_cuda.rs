//! The encoding engine on a GPU against the reference model; and its speed.

use std::time::Instant;

use melisma::snac::{Codes, Config, EncodeEngine, EngineOptions, Model, StreamId};
use melisma::{Budget, Queue};

use crate::codec::{check_needed, golden, odd_rates, sound};
use crate::encoded::Case;
use crate::gpu;

fn engine(model: &Model, queue: &Queue, max_streams: usize) -> EncodeEngine {
    EncodeEngine::new(model, queue, &Budget::unlimited(), EngineOptions::new(max_streams)).unwrap()
}

/// On the shim the smallest model, with odd strides and rates.
fn models() -> Vec<Model> {
    let mut odd = odd_rates(24);
    odd.encoder_rates = vec![3, 5];
    let odd = Model::random(odd, 1).unwrap();
    gpu::cases(false, true).then(|| [golden("tiny24"), golden("tiny44")]).into_iter().flatten().chain([odd]).collect()
}

#[test]
fn on_cuda_a_clip_has_the_codes_of_the_reference_model() {
    let Some(queue) = gpu::queue() else { return };
    for model in models() {
        let mut engine = engine(&model, &queue, 1);
        let unit = model.config().padded_len();
        for len in gpu::cases(vec![2 * unit + 7], vec![0, 1, unit, 9 * unit + 7]) {
            let case = Case::of_reference(&format!("{len} samples"), &model, sound(len, 5));
            let tally = case.compare(&model, &engine.encode(&case.samples).unwrap()).unwrap();
            assert!(tally.tied <= 1, "{tally:?}");
        }
    }
}

/// Streams in steps of one frame, and clips of a batch: each has the codes of its clip.
#[test]
fn on_cuda_streams_and_batches_have_the_codes_of_their_clips() {
    let Some(queue) = gpu::queue() else { return };
    for model in models() {
        let frame_len = model.config().frame_len();
        let n_frames = gpu::cases(vec![2, 1, 3], vec![12, 1, 30, 7, 19]);
        let clips: Vec<Vec<f32>> =
            n_frames.iter().enumerate().map(|(index, n)| sound(n * frame_len - index, index as u32)).collect();
        let mut engine = engine(&model, &queue, 2);
        let expected: Vec<Codes> = clips.iter().map(|clip| engine.encode(clip).unwrap()).collect();
        let clips: Vec<&[f32]> = clips.iter().map(Vec::as_slice).collect();
        assert_eq!(engine.encode_batch(&clips).unwrap(), expected);
        let streams: Vec<StreamId> = (0..2).map(|_| engine.open().unwrap()).collect();
        assert_eq!(engine.encode_batch(&clips[1..2]).unwrap(), expected[1..2], "in the engine's own slot");
        let mut found = vec![Codes::empty(model.config()); 2];
        for index in 0..2 {
            for piece in clips[index].chunks(frame_len - 1) {
                found[index].append(engine.push(streams[index], piece).unwrap().frames()).unwrap();
            }
            found[index].append(engine.finish(streams[index]).unwrap().frames()).unwrap();
        }
        assert_eq!(found, expected[..2]);
    }
}

/// A step is submitted while the one before runs; the codes are those of the clip.
#[test]
fn on_cuda_submitted_steps_give_the_codes_of_steps() {
    let Some(queue) = gpu::queue() else { return };
    for model in models() {
        let mut engine = engine(&model, &queue, 2);
        let frame_len = engine.frame_len();
        let samples = sound(gpu::cases(6, 16) * frame_len, 5);
        let whole = engine.encode(&samples).unwrap();
        let streams = [engine.open().unwrap(), engine.open().unwrap()];
        let mut found = [Vec::new(), Vec::new()];
        for four in samples.chunks(4 * frame_len) {
            let submit = |frame| engine.submit(&[(streams[0], frame), (streams[1], frame)]).unwrap();
            let tickets: Vec<_> = four.chunks(frame_len).map(submit).collect();
            for ticket in tickets {
                let codes = engine.collect(ticket).unwrap();
                (0..2).for_each(|index| found[index].extend_from_slice(codes.of(index).as_slice()));
            }
        }
        for found in found {
            assert_eq!(found, whole.frames().as_slice()[..found.len()]);
        }
    }
}

#[test]
fn on_cuda_the_bytes_that_an_engine_takes_are_known_beforehand() {
    let Some(device) = gpu::find() else { return };
    for model in models() {
        for max_streams in gpu::cases(vec![2], vec![1, 9]) {
            check_needed(&device, EncodeEngine::needed(model.config(), &device, max_streams), |queue, budget| {
                let mut engine = EncodeEngine::new(&model, queue, budget, EngineOptions::new(max_streams)).unwrap();
                let most = engine.max_frames() * model.config().frame_len();
                engine.encode(&sound(gpu::cases(most / 16, most), 3)).unwrap();
            });
        }
    }
}

#[test]
#[ignore = "extended: figures of this machine"]
fn on_cuda_speed() {
    let Some(queue) = gpu::queue() else { return };
    let model = Model::random(Config::snac_24khz(), 1).unwrap();
    for n_clips in [1, 8, 64, 256] {
        let clips: Vec<Vec<f32>> = (0..n_clips).map(|seed| sound(240_000, seed)).collect();
        let clips: Vec<&[f32]> = clips.iter().map(Vec::as_slice).collect();
        let mut engine = engine(&model, &queue, clips.len());
        engine.encode_batch(&clips).unwrap();
        let start = Instant::now();
        engine.encode_batch(&clips).unwrap();
        let seconds = start.elapsed().as_secs_f64();
        println!("{n_clips} clips of 10 s: {:.0}x realtime", 10.0 * f64::from(n_clips) / seconds);
    }
}
