use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use melisma::audio::{Clip, wav};
use melisma::config::{Config, DeviceRequest, Limit, Size, Threads};
use melisma::dataset::{
    Counters, Feature, Inputs, Options, Plan, Preparation, Request, Scan, Snapshot, Techniques, Trim, rehearse,
    verify_watched,
};
use melisma::format::{Value, hash, npy, png, read_text, safetensors};
use melisma::pack::{self, Archive, Array, Region};
use melisma::runtime::{MemoryTracker, Space, machine, memory};
use melisma::snac::populate::{Populated, populate, populate_into};
use melisma::snac::reference::seam::{self, Seam};
use melisma::snac::{self, Codes, Decoder, Model, Noise, Piece, reference};
use melisma::tensor::{Operation, TensorOptimizer, Values};
use melisma::text::{self, duration, size};
use melisma::trace::{Busy, Collector, Sort};
use melisma::{Budget, Context, DType, Device, Error, Existing, Tensor, mel};

use super::{COUNTS, Calls, Change, FLOATS, PLACES, SHORT, each, float, limit};

#[test]
fn numbers_as_text_and_bytes() {
    limit();
    let mut calls = Calls::default();
    each!(calls, "size::show", n in PLACES => (size::show(n), size::show_limit(Some(n)), size::exact(n), text::count(n, "file")));
    each!(calls, "duration::show", n in PLACES => duration::show(Duration::new(n, 999_999_999)));
    each!(calls, "realtime", audio in FLOATS, wall in FLOATS => text::realtime(audio, wall));
    each!(calls, "png::encode", width in COUNTS, height in COUNTS => png::encode(width, height, &[1; 12]).len());
    each!(calls, "npy::header", a in COUNTS, b in COUNTS => npy::header("<f4", &[a, b]).len());
    each!(calls, "safetensors::header", align in [0, 1, 2, 64, 4096] => safetensors::header("{}".to_owned(), align).len());
    each!(calls, "safetensors::Header::parse", len in PLACES => safetensors::Header::parse(b"{}", len).map(drop));
    each!(calls, "Preparation", threshold in FLOATS, margin in FLOATS, loudness in FLOATS => {
        let trim = Trim::default().with_threshold_db(threshold).with_margin_seconds(margin);
        Preparation::new(Some(trim), Some(loudness)).map(drop)
    });
    each!(calls, "read_text", limit in PLACES => read_text(Path::new("/proc/self/limits"), limit).map(drop));
    each!(calls, "hash::file", threads in COUNTS => hash::file(Path::new("/proc/self/limits"), threads.min(64)).map(drop));
    each!(calls, "DType::from_code", code in [i32::MIN, -1, 0, 1, 17, i32::MAX] => DType::from_code(code));
    each!(calls, "Value", a in COUNTS, b in COUNTS => {
        let shape = [a, b];
        let _ = (Value::zeros(DType::F64, &shape), Value::from_bytes(DType::F32, &shape, &[0; 4]));
        Value::from_slice(&[1.0f32], &[1])?.reshaped(&shape).map(drop)
    });
    each!(calls, "Busy::add", start in PLACES, end in PLACES => {
        let mut busy = Busy::default();
        busy.add(start, end);
        busy.add(end, start);
        busy.covered()
    });
    let report = Collector::new().report();
    each!(calls, "Report", limit in COUNTS => {
        Collector::new().set_threads(limit);
        let of = |sort| (report.sorted(sort, limit).len(), report.text(sort, limit), report.json(sort, limit));
        (of(Sort::Name), of(Sort::Total), report.table(Sort::Calls, limit).text(), report.footer(limit))
    });
    each!(calls, "MemoryTracker", bytes in PLACES => {
        let memory = MemoryTracker::new(Budget::limited(1 << 20));
        memory.device_reports("cuda:0", bytes);
        let _ = memory.reserve(Space::Host, bytes);
        memory.summary().table().text()
    });
    each!(calls, "machine", id in [0, 1, u32::MAX] => {
        (machine::peak_resident_bytes_of(id), machine::resident_bytes_of(id))
    });
    each!(calls, "Config", n in PLACES => {
        let _ = (Size(n), Limit(std::num::NonZeroU64::new(n)).bytes());
        Threads::Count(1).count()
    });
    calls.end(200);
}

#[test]
fn codes_and_models() {
    limit();
    let mut calls = Calls::default();
    let (device, budget) = (Device::cpu().unwrap(), Budget::limited(1 << 28));
    let model = Arc::new(Model::mini24().unwrap());
    let codes = Codes::from_frames(model.config(), &[1; 14]).unwrap();
    let frames = codes.frames();
    each!(calls, "Frames", a in COUNTS, b in COUNTS => {
        let (first, rest) = frames.split_at(a);
        assert_eq!(first.len() + rest.len(), 2);
        frames.range(a..b).len() + frames.chunks(a).count()
    });
    each!(calls, "populate", size in [i32::MIN, -1, 0, 1, 4096, i32::MAX], code in [i32::MIN, -1, 0, i32::MAX] => {
        let _ = populate(&[code; 15], size);
    });
    each!(calls, "Noise::fill", block in COUNTS, start in PLACES => {
        for noise in [Noise::Off, Noise::Seed(start), Noise::Given(Arc::from([vec![0.5; 3]]))] {
            noise.fill(block, start, &mut [0.0; 9]);
        }
    });
    let mut engine =
        snac::EncodeEngine::new(&model, &device.queue(&budget).unwrap(), &budget, snac::EngineOptions::new(1)).unwrap();
    let stream = engine.open().unwrap();
    each!(calls, "EncodeEngine", n in COUNTS, samples in SHORT => {
        let _ = (engine.step_frames(n), engine.submit(&[(stream, samples)]));
        let piece = Piece::new(stream, samples, n);
        engine.submit_pieces(&[piece], n).map(drop)
    });
    each!(calls, "Model", samples in SHORT => {
        let _ = (seam::windowed_part(&model, samples), reference::latents(&model, samples), reference::encode(&model, samples));
        populate_into(&[0; 9], 1, &mut Populated::default());
    });
    each!(calls, "Seam::measure", a in SHORT, b in SHORT => Seam::measure(a, b));
    let queue = device.queue(&budget).unwrap();
    each!(calls, "snac engines", max_streams in COUNTS => {
        let _ = snac::Engine::needed(model.config(), &device, max_streams);
        let _ = snac::EncodeEngine::needed(model.config(), &device, max_streams);
        let _ = snac::Engine::new(&model, &queue, &budget, snac::EngineOptions::new(1))?.sibling(&queue, &budget, max_streams);
        snac::EncodeEngine::new(&model, &queue, &budget, snac::EngineOptions::new(1))?.sibling(&queue, &budget, max_streams).map(drop)
    });
    let changes: [Change<snac::Config, usize>; 9] = [
        ("sampling_rate", |config, n| config.sampling_rate = n as u32),
        ("encoder_dim", |config, n| config.encoder_dim = n),
        ("encoder_rates", |config, n| config.encoder_rates = vec![n; 4]),
        ("decoder_dim", |config, n| config.decoder_dim = n),
        ("decoder_rates", |config, n| config.decoder_rates = vec![n; 4]),
        ("attn_window_size", |config, n| config.attn_window_size = Some(n)),
        ("codebook_size", |config, n| config.codebook_size = n),
        ("codebook_dim", |config, n| config.codebook_dim = n),
        ("vq_strides", |config, n| config.vq_strides = vec![n; 3]),
    ];
    for (name, change) in changes {
        each!(calls, "Model::random", n in COUNTS.into_iter().chain([1 << 20]), _ in [name] => {
            let mut config = model.config().clone();
            change(&mut config, n);
            let _ = (Codes::from_frames(&config, &[0; 7]), snac::Engine::needed(&config, &device, 1));
            // Small figures give models that work, which is slow.
            if n > 2 { Model::random(config, 1).map(drop) } else { Ok(()) }
        });
    }
    calls.end(150);
}

#[test]
fn datasets() {
    limit();
    let mut calls = Calls::default();
    let (device, budget) = (Device::cpu().unwrap(), Budget::limited(1 << 28));
    let times = [Duration::ZERO, Duration::from_nanos(1), Duration::from_millis(500), Duration::MAX];
    each!(calls, "Options::new", segment in times, hop in times => {
        Options::new(mel::Config::preset("whisper-80")?, segment)?.with_hop(hop).map(drop)
    });
    each!(calls, "Inputs::shard", index in COUNTS, n in COUNTS => {
        assert_eq!(Inputs::default().shard(index, n), 0..0);
    });
    let second = Duration::from_secs(1);
    let options = Options::new(mel::Config::preset("whisper-80").unwrap(), second).unwrap();
    each!(calls, "Plan::new", first in COUNTS, last in COUNTS, threads in [0, 1, 3] => {
        let counters = Counters::default();
        let scan = Scan::new(&counters).with_threads(threads);
        Plan::new(Feature::Mel(options.clone()), &Inputs::default(), first..last, scan).map(drop)
    });
    let folder = tempfile::tempdir().unwrap();
    let clip = Clip::mono(16_000, vec![0.1; 16_000]);
    std::fs::write(folder.path().join("a.wav"), wav::encode(&clip, wav::SampleFormat::S16).unwrap()).unwrap();
    let inputs = Inputs::find(&[folder.path()]).unwrap();
    each!(calls, "Request", index in COUNTS, n in COUNTS, threads in [0, 1, usize::MAX] => {
        let request = Request::new(&inputs, folder.path().join("out.h5"), options.clone())?;
        let request = request.with_shard(index, n).with_threads(threads).with_max_failures(Some(threads));
        let request = request.with_existing(Existing::Replace);
        request.build_watched(&Counters::default(), |_, _| {}).map(drop)
    });
    each!(calls, "Context", threads in COUNTS, bytes in [0, 1, 1 << 20, u64::MAX] => {
        let context = Context::builder().with_device(DeviceRequest::Cpu).with_threads(threads).with_memory_limit(bytes).build()?;
        Decoder::open_in(&context, "builtin:mini24").map(drop)
    });
    each!(calls, "verify", threads in COUNTS => {
        verify_watched(Path::new("/none.h5"), threads, &budget, &Counters::default()).map(drop)
    });
    each!(calls, "too_small", needed in [0, 1, 1 << 20, u64::MAX], limit in [0, 1, u64::MAX] => {
        memory::too_small("a run", needed, limit).to_string().len()
    });
    each!(calls, "Snapshot::usage", wall in FLOATS, threads in COUNTS => Snapshot::default().usage(wall, threads).len());
    each!(calls, "rehearse", buffers_in_flight in [0, 1, usize::MAX], segments in COUNTS, n_rows in [0, 1] => {
        let techniques = Techniques { buffers_in_flight, segments_per_buffer: Some(segments), ..Techniques::default() };
        rehearse(&device, &budget, &options, &techniques, n_rows).map(drop)
    });
    each!(calls, "Techniques::fail_launch", launch in PLACES => {
        let techniques = Techniques { fail_launch: Some(launch), ..Techniques::default() };
        rehearse(&device, &budget, &options, &techniques, 1).map(drop)
    });
    calls.end(100);
}

#[test]
fn arrays_and_tensors() {
    limit();
    let mut calls = Calls::default();
    let budget = Budget::limited(1 << 28);
    each!(calls, "Array", a in COUNTS, b in COUNTS => {
        let _ = Array::new(&[1.0f32], &[a, b]).map(drop);
        pack::compress(&Array::from_bytes("F32", &[a as u64, b as u64], &[0; 4]), &budget).map(drop)
    });
    let source = pack_source();
    each!(calls, "pack", tile_size in [0, 1, 2, 512, u32::MAX], threads in [0, 1, 3], gpu_index in [0, 1, 512, u32::MAX] => {
        let options = pack::Options::new(&budget).with_tile_size(tile_size).with_threads(threads).with_gpu_index(gpu_index);
        pack::pack(&source, &mut Vec::new(), &options, &|_| ()).map(drop)
    });
    let mut packed = Vec::new();
    pack::pack(&source, &mut packed, &pack::Options::new(&budget), &|_| ()).unwrap();
    each!(calls, "unpack_region", first in PLACES, last in PLACES, threads in [0, 1, 3] => {
        let archive = Archive::open(&packed, &budget)?;
        for region in [Region { rows: first..last, cols: 0..1 }, Region { rows: 0..1, cols: first..last }] {
            let _ = (region.len(), region.is_empty(), archive.unpack_region("a", &region, &mut [0; 4], threads));
        }
        let _ = (archive.tile("a", [first, last]), archive.unpack(&mut Vec::new(), threads, &|_| ()));
        let _ = archive.unpack_tensor("a", &mut Vec::new(), threads);
        let _ = archive.unpack_into(vec![("a", &mut [0; 3])], threads);
        archive.check(threads, &|_| ())
    });
    let optimizer = TensorOptimizer::new(&Config::load_with_profile("field").unwrap()).unwrap();
    each!(calls, "Tensor", a in COUNTS, b in COUNTS => {
        let _ = Tensor::from_slice(&budget, &[1.0f32], &[a, b]).map(drop);
        Tensor::new(&Device::cpu()?, &Budget::limited(1 << 20), DType::F32, &[a, b]).map(drop)
    });
    each!(calls, "combine", factor in FLOATS, operation in [Operation::Add, Operation::Maximum] => {
        let tensor = Tensor::from_slice(&budget, &[1.0f32, f32::NAN], &[2])?;
        let _ = optimizer.combine_slices(operation, &mut [1.0f32; 3], Values::All(float(factor)));
        let _ = optimizer.combine_slices(operation, &mut [1.0f32; 3], Values::Each(&[1.0; 2]));
        optimizer.combine(operation, tensor, float(factor)).map(drop)
    });
    calls.end(200);
}

/// One small tensor called `a`.
fn pack_source() -> Vec<u8> {
    let mut bytes = safetensors::header(r#"{"a":{"dtype":"F32","shape":[2,2],"data_offsets":[0,16]}}"#.to_owned(), 8);
    bytes.extend([0; 16]);
    bytes
}

#[test]
fn errors_of_these_tests_are_errors() -> Result<(), Error> {
    // `call` counts panics only if unwinding reaches it.
    let mut calls = Calls::default();
    calls.call(|| "a panic".to_owned(), || panic!("expected"));
    assert_eq!((calls.n, calls.panicked.len()), (1, 1));
    Ok(())
}
