//! The batcher with the built-in model.

use std::sync::LazyLock;

use melisma::Device;
use melisma::snac::{Codes, EngineOptions, Frames, Noise};

use super::*;

static MODEL: LazyLock<Model> = LazyLock::new(|| Model::mini24().unwrap());

fn batcher(max_streams: usize) -> Batcher {
    let budget = Budget::unlimited();
    let queue = Device::cpu().unwrap().queue(&budget).unwrap();
    let setup = Setup {
        queue: &queue,
        budget: &budget,
        options: EngineOptions::new(max_streams),
        sizing: Sizing::Given(Capacity { streams: max_streams, step_frames: 8 }),
        metrics: Arc::default(),
        log: Log::default(),
        stopper: Stopper::default(),
    };
    Batcher::start(&MODEL, setup).unwrap()
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap()
}

fn codes(seed: i32, n_frames: usize) -> Codes {
    let n = n_frames * MODEL.config().n_slots();
    let size = MODEL.config().codebook_size as i32;
    let frames: Vec<i32> = (0..n as i32).map(|i| (i * 7919 + seed * 104_729).rem_euclid(size)).collect();
    Codes::from_frames(MODEL.config(), &frames).unwrap()
}

fn frames(frames: Frames<'_>) -> Vec<Codes> {
    frames.chunks(1).map(Codes::from).collect()
}

/// What the engine alone makes of `codes`.
fn alone(codes: &Codes, noise: &Noise) -> Vec<f32> {
    let budget = Budget::unlimited();
    let queue = Device::cpu().unwrap().queue(&budget).unwrap();
    Engine::new(&MODEL, &queue, &budget, EngineOptions::new(1)).unwrap().decode(codes, noise).unwrap()
}

async fn receive(mut output: Output) -> Result<Vec<f32>> {
    let (mut samples, mut is_over) = (Vec::new(), false);
    while let Some(block) = output.next().await? {
        assert!(!is_over, "a block after the last one");
        is_over = block.is_last;
        samples.extend(block.content);
    }
    Ok(samples)
}

#[test]
fn streams_that_share_steps_have_the_samples_they_have_alone() {
    let batcher = batcher(4);
    runtime().block_on(async {
        let jobs: Vec<_> = (0..batcher.capacity().capacity.streams as i32)
            .map(|seed| {
                let (codes, noise) = (codes(seed, 3 + 5 * seed as usize), Noise::Seed(seed as u64));
                let (input, output) = batcher.open(noise.clone()).unwrap();
                let expected = alone(&codes, &noise);
                let received = tokio::spawn(receive(output));
                let pushed = tokio::spawn(async move {
                    for piece in codes.frames().chunks(1 + seed as usize) {
                        input.push(frames(piece)).await.unwrap();
                    }
                    input.finish();
                });
                (expected, received, pushed)
            })
            .collect();
        for (expected, received, pushed) in jobs {
            assert_eq!(received.await.unwrap().unwrap(), expected);
            pushed.await.unwrap();
        }
    });
    let Account { pushed, taken, discarded } = batcher.account();
    assert_eq!((pushed, discarded), (taken, 0));
    assert_eq!(batcher.slots().in_use(), 0);
}

#[test]
fn a_full_batcher_refuses_and_a_client_that_leaves_makes_room() {
    let batcher = batcher(2);
    let limit = batcher.slots().limit();
    let mut open: Vec<_> = (0..limit).map(|_| batcher.open(Noise::Off).unwrap()).collect();
    assert!(batcher.open(Noise::Off).is_none());
    let (_input, output) = open.pop().unwrap();
    drop(output);
    let waiting = Instant::now();
    while batcher.slots().in_use() == limit {
        assert!(waiting.elapsed() < Duration::from_secs(60), "the place was not freed");
        std::thread::yield_now();
    }
    assert!(batcher.open(Noise::Off).is_some());
}

#[test]
fn a_client_that_leaves_has_no_place_when_the_next_frame_is_decoded() {
    let batcher = batcher(2);
    runtime().block_on(async {
        let (input, mut output) = batcher.open(Noise::Off).unwrap();
        let mut frames = frames(codes(3, 20).frames()).into_iter();
        // Later frames than these have final samples at once.
        input.push(frames.by_ref().take(10).collect()).await.unwrap();
        for (number, frame) in frames.enumerate() {
            let (other_input, other_output) = batcher.open(Noise::Off).unwrap();
            other_input.push(vec![frame.clone(); 5]).await.unwrap();
            if number % 2 == 0 {
                drop(other_output)
            } else {
                drop(other_input)
            }
            let left = Instant::now();
            input.push(vec![frame]).await.unwrap();
            while output.next().await.unwrap().unwrap().arrived < left {}
            assert_eq!(batcher.slots().in_use(), 1, "after frame {number}");
        }
    });
}

#[test]
fn a_client_that_does_not_receive_holds_a_bounded_queue() {
    let batcher = batcher(1);
    runtime().block_on(async {
        let (input, output) = batcher.open(Noise::Off).unwrap();
        let long = codes(0, 4 * (INPUT_FRAMES + 64 * OUTPUT_BLOCKS));
        let pushing = tokio::time::timeout(Duration::from_millis(500), input.push(frames(long.frames()))).await;
        assert!(pushing.is_err(), "all frames were taken");
        assert!(batcher.queue_depth() <= INPUT_FRAMES);
        drop(output);
        assert!(input.push(frames(long.frames())).await.is_err());
    });
}

#[test]
fn a_step_of_several_frames_makes_room_for_as_many() {
    let batcher = batcher(1);
    let (input, output) = batcher.open(Noise::Off).unwrap();
    let room = Arc::clone(&batcher.shared.state.lock().channels[&0].room);
    runtime().block_on(async {
        // What arrives meanwhile is taken together.
        batcher.shared.state.lock().schedule.block(0);
        batcher.shared.is_lost.store(true, Relaxed);
        input.push(frames(codes(1, 5).frames())).await.unwrap();
        assert_eq!(room.available_permits(), INPUT_FRAMES - 5);
        batcher.shared.state.lock().schedule.unblock(0);
        input.finish();
        receive(output).await.unwrap();
    });
    assert!(!batcher.is_lost());
    assert_eq!(room.available_permits(), INPUT_FRAMES);
}

#[test]
fn streams_fail_when_the_batcher_goes() {
    let batcher = batcher(1);
    let (_input, output) = batcher.open(Noise::Off).unwrap();
    drop(batcher);
    let error = runtime().block_on(receive(output)).unwrap_err();
    assert_eq!(error.to_string(), "the server is stopping");
}

#[test]
fn the_device_is_measured_before_it_serves() {
    let budget = Budget::unlimited();
    let queue = Device::cpu().unwrap().queue(&budget).unwrap();
    let mut engine = Engine::new(&MODEL, &queue, &budget, EngineOptions::new(4)).unwrap();
    let mut rounds = Rounds::new(&engine, MODEL.config(), 4).unwrap();
    let Capacity { streams, step_frames } = rounds.measure(&mut engine, &Stopper::default()).unwrap().capacity;
    assert!((1..=4).contains(&streams) && (1..=engine.max_frames()).contains(&step_frames));
    // A client that comes ends the measurement.
    let n_left = std::cell::Cell::new(7);
    let is_idle = || n_left.replace(n_left.get() - 1) > 0;
    assert_eq!(rounds.measure_while(&mut engine, &is_idle).unwrap(), None);
    // So does the end of the server.
    let stopper = Stopper::default();
    stopper.drain();
    let error = rounds.measure(&mut engine, &stopper).unwrap_err();
    assert_eq!(error.to_string(), "the server is stopping");
    // All measured streams have left their slots.
    assert!((0..4).all(|_| engine.open(Noise::Off).is_ok()));
}

#[test]
fn an_idle_device_is_measured_again_and_a_busy_one_is_not() {
    let budget = Budget::unlimited();
    let queue = Device::cpu().unwrap().queue(&budget).unwrap();
    let engine = Engine::new(&MODEL, &queue, &budget, EngineOptions::new(4)).unwrap();
    let report = |streams| CapacityReport::pinned(Capacity { streams, step_frames: 4 });
    let n_measured = Arc::new(Mutex::new(0));
    let measured = Arc::clone(&n_measured);
    let measure = move |_: &mut Engine, current: CapacityReport, is_idle: &dyn Fn() -> bool| {
        assert!(is_idle());
        *measured.lock() += 1;
        Ok(Some(report(current.capacity.streams + 1)))
    };
    let idle = Some(Idle::new(Box::new(measure), Duration::ZERO, Duration::from_millis(1)));
    let told = (Arc::default(), Log::default());
    let batcher = Batcher::begin(engine, period(MODEL.config()), (report(1), idle), told).unwrap();
    let until = |what: &str, is_so: &dyn Fn() -> bool| {
        let waiting = Instant::now();
        while !is_so() {
            assert!(waiting.elapsed() < Duration::from_secs(60), "not within a minute: {what}");
            std::thread::yield_now();
        }
    };
    let held = batcher.open(Noise::Off).unwrap();
    until("the stream is open", &|| batcher.shared.state.lock().opening.is_empty());
    let before = *n_measured.lock();
    std::thread::sleep(Duration::from_millis(100));
    assert_eq!(*n_measured.lock(), before, "a stream is open");
    batcher.shared.is_lost.store(true, Relaxed);
    drop(held);
    until("the device works again", &|| !batcher.is_lost());
    until("the idle device is measured", &|| *n_measured.lock() > before);
    until("the result is in effect", &|| batcher.slots().limit() > 1 + before);
    assert_eq!(batcher.capacity().capacity.streams, batcher.slots().limit());
}
