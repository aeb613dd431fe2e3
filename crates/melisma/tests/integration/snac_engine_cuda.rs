//! The engine on a GPU against the engine on the CPU; and its speed.

use std::time::Instant;

use melisma::runtime::Space;
use melisma::snac::{Codes, Config, Engine, EngineOptions, Frames, Model, Noise, Rounding, StreamId};
use melisma::{Budget, Device, Queue};

use crate::codec::{Vectors, bits, check_needed, codes, golden, odd_rates, worst};
use crate::gpu;

fn engine(model: &Model, queue: &Queue, max_streams: usize) -> Engine {
    Engine::new(model, queue, &Budget::unlimited(), EngineOptions::new(max_streams)).unwrap()
}

fn models() -> Vec<Model> {
    if gpu::cases(true, false) {
        return vec![golden("tiny24")];
    }
    let mut small = Config::snac_24khz();
    (small.encoder_dim, small.decoder_dim) = (4, 64);
    let mut attention = small.clone();
    (attention.attn_window_size, attention.vq_strides) = (Some(32), vec![8, 4, 2, 1]);
    [small, attention, odd_rates(24)].map(|config| Model::random(config, 1).unwrap()).into()
}

#[test]
fn on_cuda_agrees_with_the_cpu() {
    let Some(queue) = gpu::queue() else { return };
    let cpu = Device::cpu().unwrap().queue(&Budget::unlimited()).unwrap();
    for model in models() {
        let codes = codes(&model, 5, 7);
        for noise in gpu::cases(vec![Noise::Seed(11)], vec![Noise::Off, Noise::Seed(11)]) {
            let found = engine(&model, &queue, 1).decode(&codes, &noise).unwrap();
            let error = worst(&found, &engine(&model, &cpu, 1).decode(&codes, &noise).unwrap());
            println!("decoder_dim {}, {noise:?}: {error:e}", model.config().decoder_dim);
            assert!(error < 1e-4, "{error:e}");
        }
    }
}

/// Streams join and leave while others go on; each equals its own clip, bit for bit.
#[test]
fn on_cuda_streams_do_not_see_each_other() {
    let Some(queue) = gpu::queue() else { return };
    for model in models() {
        let n_streams = gpu::cases(2, 3);
        let mut engine = engine(&model, &queue, n_streams);
        let (n_clips, shortest) = gpu::cases((3, 1), (5, 3));
        let clips: Vec<Codes> = (0..n_clips).map(|i| codes(&model, shortest + i, i as u32)).collect();
        let mut found = vec![Vec::new(); clips.len()];
        let mut live: Vec<(StreamId, usize, usize)> = Vec::new();
        let mut next = 0;
        while next < clips.len() || !live.is_empty() {
            if next < clips.len() && live.len() < n_streams {
                live.push((engine.open(Noise::Seed(next as u64)).unwrap(), next, 0));
                next += 1;
            }
            let input: Vec<(StreamId, Frames<'_>)> =
                live.iter().map(|&(id, clip, at)| (id, clips[clip].frames().range(at..at + 1))).collect();
            let samples = engine.step(&input).unwrap();
            for (index, &(_, clip, _)) in live.iter().enumerate() {
                found[clip].extend_from_slice(samples.of(index));
            }
            let mut ended = Vec::new();
            live.retain_mut(|(id, clip, at)| {
                *at += 1;
                let more = *at < clips[*clip].n_frames();
                if !more {
                    ended.push((*id, *clip));
                }
                more
            });
            let ending: Vec<StreamId> = ended.iter().map(|&(id, _)| id).collect();
            for ((_, clip), rest) in ended.into_iter().zip(engine.finish_each(&ending).unwrap()) {
                found[clip].extend(rest);
            }
        }
        for (index, clip) in clips.iter().enumerate() {
            let whole = engine.decode(clip, &Noise::Seed(index as u64)).unwrap();
            assert_eq!(bits(&found[index]), bits(&whole), "clip {index}");
        }
    }
}

/// A step is submitted while the one before runs; the samples are those of steps one after another.
#[test]
fn on_cuda_submitted_steps_give_the_samples_of_steps() {
    let Some(queue) = gpu::queue() else { return };
    for model in models() {
        let clip = codes(&model, gpu::cases(5, 12), 5);
        let mut engine = engine(&model, &queue, 2);
        let [one, other] = [1, 2].map(|seed| engine.open(Noise::Seed(seed)).unwrap());
        let mut expected = [Vec::new(), Vec::new()];
        for frame in clip.frames().chunks(1) {
            let samples = engine.step(&[(one, frame), (other, frame)]).unwrap();
            (0..2).for_each(|index| expected[index].extend(samples.of(index).iter().map(|x| x.to_bits())));
        }
        engine.close(one).unwrap();
        engine.close(other).unwrap();
        let [one, other] = [1, 2].map(|seed| engine.open(Noise::Seed(seed)).unwrap());
        let (mut found, mut waiting) = ([Vec::new(), Vec::new()], std::collections::VecDeque::new());
        for frame in clip.frames().chunks(1).map(Some).chain([None; 3]) {
            if let Some(frame) = frame {
                waiting.push_back(engine.submit(&[(one, frame), (other, frame)]).unwrap());
            }
            if waiting.len() == 4 || frame.is_none() {
                let samples = engine.collect(waiting.pop_front().unwrap()).unwrap();
                (0..2).for_each(|index| found[index].extend(samples.of(index).iter().map(|x| x.to_bits())));
            }
        }
        assert_eq!(found, expected);
    }
}

/// The goldens of the reference implementation.
#[test]
fn on_cuda_goldens() {
    let Some(queue) = gpu::queue() else { return };
    for name in ["tiny24", "tiny44"] {
        let (model, vectors) = (golden(name), Vectors::open(name));
        let codes = vectors.codes("codes", 0, &model);
        let mut engine = engine(&model, &queue, 1);
        let given = Noise::Given(vectors.noise(0).into());
        let all = [(Noise::Off, "decoded_noise_off"), (given, "decoded_noise_given")];
        // The shim's models take one each.
        let skip = gpu::cases(usize::from(name == "tiny24"), 2);
        for (_, (noise, expected)) in all.into_iter().enumerate().filter(|(index, _)| *index != skip) {
            let error = worst(&engine.decode(&codes, &noise).unwrap(), &vectors.floats(expected, 0));
            println!("{name}, {expected}: {error:e}");
            assert!(error < 1e-4, "{name}, {expected}: {error:e}");
        }
    }
}

/// Rounded products change the samples by as much as their format says, and still do not see steps and batches.
#[test]
fn on_cuda_rounding_is_asked_for_and_small() {
    let Some(queue) = gpu::queue() else { return };
    let model = &models()[0];
    let codes = codes(model, gpu::cases(2, 6), 7);
    let exact = engine(model, &queue, 1).decode(&codes, &Noise::Seed(1)).unwrap();
    let all = vec![(Rounding::Tf32, 1e-2), (Rounding::Bf16, 1e-1)];
    for (rounding, most) in gpu::cases(all[..1].to_vec(), all) {
        let options = EngineOptions::new(2).with_rounding(rounding);
        let mut engine = Engine::new(model, &queue, &Budget::unlimited(), options).unwrap();
        let whole = engine.decode(&codes, &Noise::Seed(1)).unwrap();
        let error = worst(&whole, &exact);
        println!("{rounding:?}: {error:e}");
        assert!(error > 0.0 && error < most, "{rounding:?}: {error:e}");
        let stream = engine.open(Noise::Seed(1)).unwrap();
        let other = engine.open(Noise::Off).unwrap();
        let mut heard = Vec::new();
        for frame in codes.frames().chunks(1) {
            heard.extend_from_slice(engine.step(&[(other, frame), (stream, frame)]).unwrap().of(1));
        }
        heard.extend(engine.finish(stream).unwrap());
        assert!(heard == whole, "{rounding:?}: steps and batches are heard");
    }
}

/// After the first step of each size, streams come, speak and go without a byte more.
#[test]
fn on_cuda_steps_allocate_nothing_after_warm_up() {
    let Some(_) = gpu::queue() else { return };
    let budget = Budget::unlimited();
    let queue = Device::cuda(0).unwrap().queue(&budget).unwrap();
    let model = &models()[0];
    let most = gpu::cases(2, 8);
    let mut engine = Engine::new(model, &queue, &budget, EngineOptions::new(most)).unwrap();
    let frame = codes(model, 1, 3);
    let mut round = |n_streams: usize| {
        let streams: Vec<_> = (0..n_streams).map(|seed| engine.open(Noise::Seed(seed as u64)).unwrap()).collect();
        let input: Vec<_> = streams.iter().map(|&stream| (stream, frame.frames())).collect();
        for _ in 0..gpu::cases(1, 3) {
            engine.step(&input).unwrap();
        }
        streams.into_iter().for_each(|stream| drop(engine.finish(stream).unwrap()));
    };
    (1..=most).for_each(&mut round);
    let before = [Space::Host, Space::Device].map(|space| budget.usage(space).now);
    let watch = budget.watch();
    (0..gpu::cases(2, 40)).for_each(|index| round(1 + index % most));
    for (space, before) in [Space::Host, Space::Device].into_iter().zip(before) {
        assert_eq!((budget.usage(space).now, watch.peak(space)), (before, before), "{space:?}");
    }
}

#[test]
fn on_cuda_the_bytes_that_an_engine_takes_are_known_beforehand() {
    let Some(device) = gpu::find() else { return };
    for model in models() {
        for max_streams in gpu::cases(vec![2], vec![1, 3]) {
            check_needed(&device, Engine::needed(model.config(), &device, max_streams), |queue, budget| {
                let mut engine = Engine::new(&model, queue, budget, EngineOptions::new(max_streams)).unwrap();
                for n_frames in gpu::cases(vec![engine.max_frames()], (1..=engine.max_frames()).collect()) {
                    engine.decode(&codes(&model, n_frames, 3), &Noise::Seed(1)).unwrap();
                }
            });
        }
    }
}

fn percentile(sorted: &[f64], part: f64) -> f64 {
    sorted[((sorted.len() - 1) as f64 * part) as usize]
}

/// Milliseconds of `n_steps` steps of `n_streams` streams, sorted.
fn time_steps(engine: &mut Engine, model: &Model, n_streams: usize, n_steps: usize) -> Vec<f64> {
    let ids: Vec<StreamId> = (0..n_streams).map(|i| engine.open(Noise::Seed(i as u64)).unwrap()).collect();
    let codes = codes(model, n_streams + n_steps, 5);
    let mut times = Vec::new();
    for step in 0..n_steps {
        let frame = |at: usize| codes.frames().range(at..at + 1);
        let input: Vec<(StreamId, Frames<'_>)> = ids.iter().enumerate().map(|(i, &id)| (id, frame(i + step))).collect();
        let start = Instant::now();
        let samples = engine.step(&input).unwrap();
        std::hint::black_box(samples.of(0));
        times.push(start.elapsed().as_secs_f64() * 1e3);
    }
    for id in ids {
        engine.close(id).unwrap();
    }
    let mut times = times[n_steps / 10..].to_vec();
    times.sort_by(f64::total_cmp);
    times
}

#[test]
#[ignore = "extended: figures of this machine"]
fn on_cuda_speed() {
    let Some(queue) = gpu::queue() else { return };
    let model = Model::random(Config::snac_24khz(), 1).unwrap();
    for (n_streams, n_steps) in
        [(1, 1000), (8, 200), (32, 200), (64, 200), (128, 100), (256, 100), (512, 50), (2000, 30)]
    {
        let start = Instant::now();
        let mut engine = engine(&model, &queue, n_streams);
        let ready_s = start.elapsed().as_secs_f64();
        let times = time_steps(&mut engine, &model, n_streams, n_steps);
        let p50 = percentile(&times, 0.5);
        let realtime = n_streams as f64 * 2048.0 / 24.0 / p50;
        println!(
            "{n_streams} streams: p50 {p50:.3} ms, p99 {:.3} ms, {realtime:.0}x realtime, ready in {ready_s:.2} s",
            percentile(&times, 0.99)
        );
    }
}

/// Milliseconds of each kernel in a step without a graph.
#[test]
#[ignore = "extended: figures of this machine"]
fn on_cuda_kernels() {
    let Some(queue) = gpu::queue() else { return };
    let model = Model::random(Config::snac_24khz(), 1).unwrap();
    for n_streams in [1, 256] {
        let mut engine = engine(&model, &queue, n_streams);
        // A given noise keeps the step out of its graph.
        let given = Noise::Given(vec![vec![0.5; 1 << 16]; 4].into());
        let ids: Vec<StreamId> = (0..n_streams).map(|_| engine.open(given.clone()).unwrap()).collect();
        let codes = codes(&model, 1, 5);
        let input: Vec<(StreamId, Frames<'_>)> = ids.iter().map(|&id| (id, codes.frames())).collect();
        for _ in 0..3 {
            engine.step(&input).unwrap();
        }
        queue.start_timing().unwrap();
        queue.device_spans().unwrap();
        engine.step(&input).unwrap();
        let mut total = 0.0;
        for span in queue.device_spans().unwrap() {
            println!("{n_streams} streams: {span:?}");
            total += 1.0;
        }
        println!("{n_streams} streams: {total} spans");
    }
}
