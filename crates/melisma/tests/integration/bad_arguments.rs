//! Bad arguments from a caller of the library are errors: never panics, hangs or huge allocations.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use melisma::audio::{Clip, Source, Target, wav};
use melisma::config::{Config, DeviceRequest, Threads};
use melisma::dataset::{Counters, Feature, Inputs, Options, Plan, Scan};
use melisma::mel::{self, Transform};
use melisma::pack::{self, Array};
use melisma::runtime::device;
use melisma::snac::{self, Codes, DecodeOptions, Model, Noise, Player, reference};
use melisma::synth::{
    Action, BulkConfig, BulkRenderer, BusConfig, EngineConfig, Instrument, Length, Melody, Note, Performance, Phrase,
    PhraseRenderer, STYLES, Score, Setup, Stream, compose,
};
use melisma::tensor::TensorOptimizer;
use melisma::{Budget, DType, Device, ErrorKind, Queue, Tensor};

fn cpu() -> (Device, Budget, Queue) {
    let (device, budget) = (Device::cpu().unwrap(), Budget::limited(1 << 30));
    let queue = device.queue(&budget).unwrap();
    (device, budget, queue)
}

#[test]
fn codes_of_the_wrong_shape_are_refused() {
    let model = Model::mini24().unwrap();
    let config = model.config();
    for frames in [&[0; 6][..], &[0; 8], &[-1; 7], &[i32::MAX; 7], &[0, 0, 0, 0, 0, 0, 4096]] {
        assert_eq!(Codes::from_frames(config, frames).unwrap_err().kind(), ErrorKind::InvalidArgument, "{frames:?}");
    }
    assert!(Codes::new(config, vec![]).is_err());
    assert!(Codes::new(config, vec![vec![0], vec![0], vec![0]]).is_err());
    let none = Codes::from_frames(config, &[]).unwrap();
    assert!(reference::decode(&model, &none, &Noise::Off).is_empty());
    let (_, budget, _) = cpu();
    for source in ["", "builtin:", "builtin:none", "/none", "\0", "/dev/null"] {
        assert!(Model::open(source).is_err(), "{source:?}");
    }
    assert!(Model::from_bytes(b"", b"", &budget).is_err());
    assert!(Model::from_bytes(b"{}", &[0xff; 64], &budget).is_err());
}

#[test]
fn engines_refuse_streams_that_they_do_not_have() {
    let (model, (_, budget, queue)) = (Arc::new(Model::mini24().unwrap()), cpu());
    for max_streams in [usize::MAX, usize::MAX / 2, 1 << 40] {
        assert!(
            snac::Engine::new(&model, &queue, &budget, snac::EngineOptions::new(max_streams)).is_err(),
            "{max_streams}"
        );
        assert!(
            snac::EncodeEngine::new(&model, &queue, &budget, snac::EngineOptions::new(max_streams)).is_err(),
            "{max_streams}"
        );
    }
    let _ = snac::Engine::needed(model.config(), &queue.device(), usize::MAX);
    let _ = snac::EncodeEngine::needed(model.config(), &queue.device(), usize::MAX);
    let mut none = snac::Engine::new(&model, &queue, &budget, snac::EngineOptions::new(0)).unwrap();
    assert!(none.open(Noise::Off).is_err());
    let tiny = snac::Engine::new(&model, &queue, &Budget::limited(1000), snac::EngineOptions::new(1));
    assert_eq!(tiny.unwrap_err().kind(), ErrorKind::Memory);
    let codes = Codes::from_frames(model.config(), &[1; 14]).unwrap();
    let mut engine = snac::Engine::new(&model, &queue, &budget, snac::EngineOptions::new(1)).unwrap();
    let stream = engine.open(Noise::Off).unwrap();
    assert!(engine.open(Noise::Off).is_err(), "one stream at most");
    assert!(engine.step(&[(stream, codes.frames()), (stream, codes.frames())]).is_err(), "twice in one step");
    assert!(engine.step(&[]).is_ok());
    engine.close(stream).unwrap();
    assert!(engine.close(stream).is_err());
    assert!(engine.step(&[(stream, codes.frames())]).is_err());
    assert!(engine.push(stream, &codes).is_err() && engine.finish(stream).is_err() && engine.progress(stream).is_err());
    let again = engine.open(Noise::Off).unwrap();
    assert!(engine.push(stream, &codes).is_err(), "the slot has another stream now");
    assert!(engine.push(again, &codes).is_ok());
    let player = Player::new(&model, &queue, &Budget::limited(1000), DecodeOptions::default());
    assert_eq!(player.unwrap_err().kind(), ErrorKind::Memory);
}

#[test]
fn encoders_refuse_bad_samples_and_closed_streams() {
    let (model, (_, budget, queue)) = (Model::mini24().unwrap(), cpu());
    let mut engine = snac::EncodeEngine::new(&model, &queue, &budget, snac::EngineOptions::new(1)).unwrap();
    for samples in [&[f32::NAN; 10][..], &[f32::INFINITY; 5000]] {
        assert_eq!(engine.encode(samples).unwrap_err().kind(), ErrorKind::InvalidArgument, "{:?}", &samples[..1]);
    }
    assert!(engine.encode(&[]).is_ok_and(|codes| codes.n_frames() == 0));
    assert!(engine.encode(&[0.1]).is_ok_and(|codes| codes.n_frames() == 1));
    let stream = engine.open().unwrap();
    assert!(engine.open().is_err(), "one stream at most");
    let frame = vec![0.0; engine.frame_len()];
    assert!(engine.step(&[(stream, &frame[1..])]).is_err(), "not a whole frame");
    assert!(engine.step(&[(stream, &frame), (stream, &frame)]).is_err(), "twice in one step");
    assert!(engine.push(stream, &[]).is_ok());
    engine.close(stream).unwrap();
    assert!(engine.close(stream).is_err() && engine.push(stream, &frame).is_err() && engine.finish(stream).is_err());
    assert!(engine.encode_batch(&[]).is_ok_and(|codes| codes.is_empty()));
    let tiny = snac::EncodeEngine::new(&model, &queue, &Budget::limited(1000), snac::EngineOptions::new(1));
    assert_eq!(tiny.unwrap_err().kind(), ErrorKind::Memory);
}

#[test]
fn phrases_out_of_range_are_refused() {
    let config = EngineConfig::default();
    for seconds in [-1.0, f64::NAN, f64::INFINITY, 1e300] {
        assert!(PhraseRenderer::new(config, seconds).is_err(), "{seconds}");
    }
    for sample_rate in [0, 1, u32::MAX] {
        assert!(PhraseRenderer::new(config.with_sample_rate(sample_rate), 1.0).is_err(), "{sample_rate} Hz");
        assert!(Stream::new(config.with_sample_rate(sample_rate)).is_err(), "{sample_rate} Hz");
    }
    for max_voices in [0, usize::MAX] {
        assert!(Stream::new(config.with_max_voices(max_voices)).is_err(), "{max_voices} voices");
    }
    assert!(Stream::new(config.with_max_events(usize::MAX)).is_err());
    let mut renderer = PhraseRenderer::new(config, 1.0).unwrap();
    let of = |seconds, onset, duration, key, velocity| Phrase {
        seconds,
        melody: vec![Melody { onset, duration, key, velocity }],
        ..Phrase::default()
    };
    for phrase in [
        of(2.0, 0.0, 0.5, 69, 0.8),
        of(-1.0, 0.0, 0.5, 69, 0.8),
        of(f64::NAN, 0.0, 0.5, 69, 0.8),
        of(1.0, f64::NAN, 0.5, 69, 0.8),
        of(1.0, -1.0, 0.5, 69, 0.8),
        of(1.0, 0.0, f64::INFINITY, 69, 0.8),
        of(1.0, 0.0, 0.5, 200, 0.8),
        of(1.0, 0.0, 0.5, 69, f32::NAN),
        of(1.0, 0.0, 0.5, 69, 2.0),
    ] {
        assert!(renderer.render_phrase(&phrase).is_err(), "{phrase:?}");
    }
    assert!(renderer.render_phrase(&of(1.0, 0.0, 0.5, 69, 0.8)).is_ok(), "it still works");
}

#[test]
fn scores_and_setups_out_of_range_are_refused() {
    let note =
        Note { instrument: Instrument::Lead, start: 0.0, duration: 0.1, key: 69, velocity: 0.5, pan: 0.0, channel: 0 };
    let score = |note| Score { notes: vec![note], ..Score::default() };
    let setup =
        |sample_rate| Setup::new(BusConfig::new(sample_rate)).with_length(Length::Samples(100)).with_max_voices(4);
    for bad in [
        Note { start: f64::NAN, ..note },
        Note { start: -1.0, ..note },
        Note { duration: 1e300, ..note },
        Note { key: 128, ..note },
        Note { velocity: -0.1, ..note },
        Note { pan: f32::NAN, ..note },
        Note { channel: 16, ..note },
    ] {
        assert!(Performance::new(&score(bad), setup(48_000)).is_err(), "{bad:?}");
    }
    assert!(Performance::new(&Score { tempo: 0.0, ..Score::default() }, setup(48_000)).is_err(), "a tempo of 0");
    for sample_rate in [0, 1, u32::MAX] {
        assert!(Performance::new(&score(note), setup(sample_rate)).is_err(), "{sample_rate} Hz");
    }
    for max_voices in [0, usize::MAX] {
        let setup = setup(48_000).with_max_voices(max_voices);
        assert!(Performance::new(&score(note), setup).is_err(), "{max_voices} voices");
    }
    let mut nothing = Performance::new(&score(note), setup(48_000).with_length(Length::Samples(0))).unwrap();
    assert!(nothing.next_block(None).unwrap().is_none());
    for seconds in [f64::NAN, -1.0, f64::INFINITY, 1e12] {
        assert!(compose(&STYLES[0], 1, seconds).is_err(), "{seconds}");
    }
}

#[test]
fn live_streams_take_notes_from_many_threads_and_refuse_bad_ones() {
    let (mut stream, remote) = Stream::new(EngineConfig::default()).unwrap();
    let start =
        |note, key, velocity, pan| Action::Start { note, instrument: Instrument::Lead, channel: 0, key, velocity, pan };
    for bad in [start(0, 128, 0.5, 0.0), start(0, 60, f32::NAN, 0.0), start(0, 60, 0.5, 9.0)] {
        assert!(remote.send(bad).is_err(), "{bad:?}");
    }
    std::thread::scope(|scope| {
        for thread in 0..8 {
            let remote = remote.clone();
            // A full queue is an error as well.
            scope.spawn(move || (0..2000).for_each(|n| drop(remote.send(start(thread * 10_000 + n, 60, 0.5, 0.0)))));
        }
        for _ in 0..20 {
            let played = stream.next_block();
            assert!(played.left.iter().all(|sample| sample.is_finite()));
        }
    });
    drop(stream);
    assert!(remote.send(start(1, 60, 0.5, 0.0)).is_err(), "its stream is gone");
}

#[test]
fn bulk_renderers_refuse_empty_and_huge_batches() {
    let (device, budget, _) = cpu();
    let config = BulkConfig::new(2, 0.1, 48_000);
    for bad in [
        BulkConfig::new(usize::MAX, 0.1, 48_000),
        BulkConfig::new(2, f64::NAN, 48_000),
        BulkConfig::new(2, 1e300, 48_000),
        BulkConfig::new(2, 0.1, 0),
        BulkConfig::new(2, 0.1, u32::MAX),
    ] {
        assert!(BulkRenderer::new(&device, &budget, bad).is_err(), "{bad:?}");
    }
    let mut renderer = BulkRenderer::new(&device, &budget, config).unwrap();
    let phrase = Phrase { seconds: 0.1, ..Phrase::default() };
    assert!(renderer.render(&[phrase.clone(), phrase.clone(), phrase.clone()]).is_err(), "more than its mixes");
    let first = renderer.start(std::slice::from_ref(&phrase)).unwrap();
    let [second, third] = [(); 2].map(|()| renderer.start(std::slice::from_ref(&phrase)).unwrap());
    assert!(renderer.wait(first).is_err(), "its buffers are used again");
    assert!(renderer.wait(second).is_ok() && renderer.wait(third).is_ok());
}

#[test]
fn spectrograms_of_nothing_and_with_bad_settings_are_refused() {
    assert!(mel::Config::preset("none").is_err());
    let mut config = mel::Config::preset("whisper-80").unwrap();
    for bad in [
        "n_fft=0",
        "n_fft=-1",
        "n_fft=1e99",
        "hop_length=0",
        "n_mels=0",
        "n_mels=999999999",
        "f_min=nan",
        "f_max=-1",
        "sample_rate=0",
        "none=1",
        "n_fft",
        "=",
        "",
    ] {
        let mut changed = config.clone();
        let refused = changed.set(bad).is_err() || Transform::new(changed).is_err();
        assert!(refused, "{bad}");
    }
    config.f_min = 1e9;
    assert!(Transform::new(config).is_err());
    let transform = Transform::new(mel::Config::preset("whisper-80").unwrap()).unwrap();
    for samples in [&[][..], &[0.1]] {
        // Too short to reflect at its ends.
        assert!(transform.run(samples).is_err(), "{} samples", samples.len());
    }
    assert!(transform.run::<f32>(&[f32::NAN; 16_000]).is_ok_and(|made| !made.values.is_finite()));
}

#[test]
fn audio_without_a_rate_and_missing_files_are_refused() {
    for clip in [
        Clip::mono(0, vec![0.0; 4]),
        Clip { sample_rate: 8000, n_channels: 0, samples: vec![] },
        Clip { sample_rate: 8000, n_channels: 2, samples: vec![0.0; 3] },
        Clip { sample_rate: 8000, n_channels: 70_000, samples: vec![] },
    ] {
        assert!(wav::encode(&clip, wav::SampleFormat::S16).is_err(), "{clip:?}");
    }
    assert!(wav::encode(&Clip::mono(8000, vec![]), wav::SampleFormat::S16).is_ok());
    for path in ["", "/none.wav", "/", "/dev/null"] {
        assert!(Source::open(Path::new(path), Target::new(16_000)).is_err(), "{path:?}");
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.wav");
    std::fs::write(&path, wav::encode(&Clip::mono(8000, vec![0.1; 800]), wav::SampleFormat::S16).unwrap()).unwrap();
    for rate in [0, u32::MAX] {
        assert!(Source::open(&path, Target::new(rate)).is_err(), "{rate} Hz");
    }
    let mut source = Source::open(&path, Target::new(8000)).unwrap();
    for first in [801, u64::MAX] {
        let mut samples = [0f32; 8];
        let read = source.read_f32(first, &mut samples);
        assert!(read.is_err() && source.read_i16(first, &mut [0; 8]).is_err(), "from sample {first}");
    }
}

#[test]
fn dataset_plans_without_length_or_files_are_refused() {
    let config = || mel::Config::preset("whisper-80").unwrap();
    let (second, none) = (Duration::from_secs(1), Duration::ZERO);
    for (segment, hop) in [(none, second), (second, none), (Duration::MAX, second), (Duration::from_nanos(1), second)] {
        assert!(
            Options::new(config(), segment).and_then(|options| options.with_hop(hop)).is_err(),
            "{segment:?} {hop:?}"
        );
    }
    assert!(Inputs::find(&[""; 0]).is_err());
    assert!(Inputs::find(&["/none"]).is_err());
    let options = Options::new(config(), second).unwrap();
    let counters = Counters::default();
    let scan = Scan::new(&counters).with_threads(0);
    assert!(Plan::new(Feature::Mel(options), &Inputs::default(), 0..3, scan).is_ok_and(|plan| plan.rows.is_empty()));
}

#[test]
fn packed_bytes_and_shapes_that_do_not_match_are_refused() {
    let (_, budget, _) = cpu();
    assert!(Array::new(&[1.0f32, 2.0], &[3]).is_err());
    assert!(Array::new(&[1.0f32, 2.0], &[usize::MAX, 2]).is_err());
    let empty = Array::new::<f32>(&[], &[0]).unwrap();
    assert!(pack::decompress(&pack::compress(&empty, &budget).unwrap(), &budget).is_ok());
    for array in [Array::from_bytes("F32", &[3], &[0; 4]), Array::from_bytes("F32", &[u64::MAX, 2], &[0; 4])] {
        assert!(pack::compress(&array, &budget).is_err());
    }
    let packed = pack::compress(&Array::new(&[1.0f32; 4096], &[4096]).unwrap(), &budget).unwrap();
    for len in [0, 1, 8, packed.len() / 2, packed.len() - 1] {
        assert!(pack::decompress(&packed[..len], &budget).is_err(), "{len} bytes");
    }
    assert_eq!(pack::decompress(&packed, &Budget::limited(0)).unwrap_err().kind(), ErrorKind::Memory);
    assert!(pack::decompress(&packed, &budget).unwrap().to_vec::<i16>().is_err());
}

#[test]
fn tensors_of_other_shapes_are_refused() {
    let optimizer = TensorOptimizer::new(&Config::load_with_profile("field").unwrap()).unwrap();
    let budget = optimizer.memory().budget().clone();
    assert!(Tensor::from_slice(&budget, &[1.0f32], &[2]).is_err());
    assert!(Tensor::from_slice(&budget, &[1.0f32], &[usize::MAX, usize::MAX]).is_err());
    let of = |shape: &[usize]| Tensor::from_slice(&budget, &vec![1.0f32; shape.iter().product()], shape).unwrap();
    for (a, b) in [(&[2, 3][..], &[2, 3][..]), (&[2], &[2, 2]), (&[2, 2, 2], &[2, 2]), (&[], &[])] {
        assert!(optimizer.matmul(&of(a), &of(b)).is_err(), "{a:?} {b:?}");
    }
    assert!(optimizer.matmul(&of(&[0, 3]), &of(&[3, 0])).is_ok_and(|product| product.shape() == [0, 0]));
    assert!(optimizer.optimize_tensor(of(&[2]), DType::I16).is_err());
    assert!(Config::load_with_profile("none").is_err());
    assert!(device::select(DeviceRequest::Cuda(99), Threads::Count(1)).is_err());
}

#[cfg(feature = "onnx")]
#[test]
fn models_and_values_that_do_not_fit_are_refused() {
    use melisma::DType;
    use melisma::engine::{Engine, Options, rten};
    use melisma::format::Value;
    use melisma::onnx::{Dim, Graph, Model, Node, Opset, ValueInfo};

    assert!(Value::from_slice(&[1.0f32], &[2]).is_err());
    for shape in [&[usize::MAX][..], &[usize::MAX, 2], &[1 << 62, 8]] {
        assert!(Value::zeros(DType::F32, shape).is_err(), "{shape:?}");
    }
    assert!(Model::from_bytes(b"").is_err() && Model::from_bytes(&[0xff; 100]).is_err());
    assert!(Model::open(Path::new("/none.onnx")).is_err());
    let port = |name| ValueInfo::tensor(name, DType::F32.code(), &[Dim::Open]);
    let graph = |node| Graph {
        name: "test".to_owned(),
        nodes: vec![node],
        inputs: vec![port("x")],
        outputs: vec![port("y")],
        ..Graph::default()
    };
    let opsets = || vec![Opset { domain: String::new(), version: 17 }];
    let model = |node| Model { ir_version: 8, opsets: opsets(), graph: graph(node), ..Model::default() }.checked();
    for node in [Node::new("Relu", &["none"], &["y"]), Node::new("Relu", &["x"], &["x"])] {
        assert!(model(node.clone()).is_err(), "{node:?}");
    }
    let unknown = model(Node::new("None", &["x"], &["y"])).and_then(|model| rten::build(&model, &Options::default()));
    assert!(unknown.is_err());
    let relu = model(Node::new("Relu", &["x"], &["y"])).unwrap();
    let mut engine = rten::build(&relu, &Options::default()).unwrap();
    let x = Value::from_slice(&[-1.0f32, 2.0], &[2]).unwrap();
    let wrong = [
        vec![],
        vec![x.clone(), x.clone()],
        vec![Value::from_slice(&[1i64], &[1]).unwrap()],
        vec![Value::from_slice(&[1.0f32; 4], &[2, 2]).unwrap()],
    ];
    for inputs in wrong {
        assert!(engine.run(&inputs).is_err(), "{inputs:?}");
    }
    assert!(engine.run(&[x]).is_ok(), "it still works");
}
