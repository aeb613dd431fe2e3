//! How a build works changes no byte; files that change under it, and memory that is short, lose nothing else.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::time::Duration;

use melisma::Existing;
use melisma::audio::{Clip, Reads, Source, Target, wav};
use melisma::dataset::{Counters, Inputs, Options, Outcome, Request, Techniques, rehearse, verify};
use melisma::mel::Config;
use melisma::random::Lcg32;
use melisma::runtime::device::Device;
use melisma::runtime::memory::Budget;
use melisma::trace::{Collector, Detail};
use melisma::{Context, ErrorKind};

use crate::{gpu, process};

fn sound(seed: u32, n: usize) -> Vec<f32> {
    let mut random = Lcg32::new(seed + 1);
    (0..n).map(|_| random.signed() / 4.0).collect()
}

fn corpus(folder: &Path, n: u32) -> PathBuf {
    let place = folder.join("w");
    std::fs::create_dir(&place).unwrap();
    for index in 0..n {
        let clip = Clip::mono(22_050, sound(index, 6000 + 700 * (index as usize % 7)));
        let format = if index % 5 == 3 { wav::SampleFormat::F32 } else { wav::SampleFormat::S16 };
        std::fs::write(place.join(format!("{index:03}.wav")), wav::encode(&clip, format).unwrap()).unwrap();
    }
    place
}

fn options() -> Options {
    let segment = Duration::from_millis(100);
    Options::new(Config::preset("builder").unwrap(), segment).unwrap()
}

fn run(
    device: &Device,
    budget: &Budget,
    files: &Path,
    techniques: Techniques,
    planned: impl FnOnce(),
) -> (Outcome, Vec<u8>) {
    let output = files.with_file_name("out.h5");
    let inputs = Inputs::find(&[files.to_owned()]).unwrap();
    let context = Context::on(device.clone(), budget.clone()).unwrap();
    let request = Request::new_in(&context, &inputs, &output, options())
        .with_existing(Existing::Replace)
        .with_techniques(techniques);
    let outcome = request.build_watched(&Counters::default(), |_, _| planned()).unwrap();
    verify(&output, 1, &Budget::unlimited()).unwrap().check().unwrap();
    (outcome, std::fs::read(&output).unwrap())
}

/// Every technique that can be set, each against the defaults.
const TECHNIQUES: [&str; 13] = [
    "reads=buffered",
    "reads=mapped",
    "writes=direct",
    "writes=copied",
    "writes=mapped",
    "conversion=per-file",
    "streams=own",
    "streams=one",
    "pinned=off",
    "buffers_in_flight=1",
    "segments_per_buffer=1",
    "segments_per_buffer=8192",
    "autosize_gpu_batch=off",
];

/// What only a GPU has: buffers in flight, and copies and kernels on streams of their own.
const PIPELINES: [&[&str]; 6] = [
    &["buffers_in_flight=2", "streams=split"],
    &["buffers_in_flight=3", "streams=split"],
    &["buffers_in_flight=2", "streams=own"],
    &["buffers_in_flight=3", "streams=one"],
    &["buffers_in_flight=3", "streams=split", "pinned=off"],
    &["buffers_in_flight=2", "streams=one", "conversion=per-file"],
];

fn no_technique_changes_a_byte(device: &Device, cases: &[&[&str]]) {
    let folder = tempfile::tempdir().unwrap();
    let n_files = if let Device::Cuda(_) = device { gpu::cases(10, 40) } else { 12 };
    let files = corpus(folder.path(), n_files);
    let budget = Budget::unlimited();
    let (outcome, expected) = run(device, &budget, &files, Techniques::default(), || {});
    assert_eq!((outcome.files_ok, outcome.failures.len()), (n_files as usize, 0));
    for texts in cases {
        // Batches that are small enough for every buffer to be used again and again.
        let mut techniques = Techniques { segments_per_buffer: Some(3), ..Techniques::default() };
        texts.iter().for_each(|text| techniques.set(text).unwrap());
        let (_, bytes) = run(device, &budget, &files, techniques, || {});
        assert!(bytes == expected, "{device}: {texts:?} changes the dataset");
    }
    // Too little memory for the first, a middle and, again and again, every following launch of one thread.
    for launch in [1, 3, 7] {
        let techniques =
            Techniques { fail_launch: Some(launch), segments_per_buffer: Some(2), ..Techniques::default() };
        let (outcome, bytes) = run(device, &budget, &files, techniques, || {});
        assert_eq!(outcome.counters.recovered, 1);
        assert!(bytes == expected, "{device}: recovery at launch {launch} changes the dataset");
    }
    if let Device::Cuda(_) = device {
        // What the budget refuses makes slots smaller.
        let (_, bytes) = run(device, &Budget::new(64 << 20, 400_000), &files, Techniques::default(), || {});
        assert!(bytes == expected, "{device}: little device memory changes the dataset");
    }
}

#[test]
fn no_technique_changes_a_byte_on_the_cpu() {
    let cases: Vec<&[&str]> = TECHNIQUES.iter().map(std::slice::from_ref).collect();
    no_technique_changes_a_byte(&Device::cpu().unwrap(), &cases);
}

#[test]
fn no_technique_changes_a_byte_on_cuda() {
    let Some(device) = gpu::find() else { return };
    let rest = TECHNIQUES.iter().map(std::slice::from_ref).take(gpu::cases(0, TECHNIQUES.len()));
    let cases: Vec<&[&str]> = PIPELINES.into_iter().chain(rest).collect();
    no_technique_changes_a_byte(&device, &cases);
}

#[test]
fn files_that_shrink_or_vanish_lose_only_themselves() {
    let folder = tempfile::tempdir().unwrap();
    let files = corpus(folder.path(), 12);
    let device = Device::cpu().unwrap();
    for reads in [Reads::Direct, Reads::Buffered, Reads::Mapped] {
        let (shrinks, vanishes) = (files.join("004.wav"), files.join("007.wav"));
        let [first, second] = [&shrinks, &vanishes].map(|path| std::fs::read(path).unwrap());
        let techniques = Techniques { reads, ..Techniques::default() };
        let (outcome, _) = run(&device, &Budget::unlimited(), &files, techniques, || {
            File::options().write(true).open(&shrinks).unwrap().set_len(1000).unwrap();
            std::fs::remove_file(&vanishes).unwrap();
        });
        let failed: Vec<_> = outcome.failures.iter().map(|failure| failure.path.as_str()).collect();
        assert_eq!((outcome.files_ok, failed), (10, vec!["004.wav", "007.wav"]), "{reads:?}");
        std::fs::write(&shrinks, first).unwrap();
        std::fs::write(&vanishes, second).unwrap();
        // While it is open: an error of the call, no signal.
        let mut source = Source::reopen(&shrinks, Target::new(22_050), 8800, reads).unwrap();
        let mut samples = vec![0i16; 4000];
        source.read_i16(0, &mut samples).unwrap();
        let bytes = std::fs::read(&shrinks).unwrap();
        File::options().write(true).open(&shrinks).unwrap().set_len(5000).unwrap();
        assert_eq!(source.read_i16(4000, &mut samples).unwrap_err().kind(), ErrorKind::Truncated, "{reads:?}");
        std::fs::write(&shrinks, bytes).unwrap();
    }
}

fn generated_sound_goes_through_the_pipeline(device: &Device, n_segments: usize) {
    for n_buffers in [1, 2, 3] {
        let techniques = Techniques {
            segments_per_buffer: Some(3),
            buffers_in_flight: n_buffers,
            autosize_gpu_batch: false,
            ..Techniques::default()
        };
        let done = rehearse(device, &Budget::unlimited(), &options(), &techniques, n_segments).unwrap();
        assert_eq!((done.segments, done.counters.rows), (n_segments, n_segments as u64));
        assert!(done.counters.seconds[2] > 0.0 && done.wall_seconds > 0.0, "{done:?}");
        let is_gpu = matches!(device, Device::Cuda(_));
        assert_eq!(done.counters.device_seconds > 0.0, is_gpu);
        assert_eq!(done.slots, [3, if is_gpu { n_buffers } else { 1 }]);
    }
}

#[test]
fn generated_sound_goes_through_the_pipeline_on_the_cpu() {
    generated_sound_goes_through_the_pipeline(&Device::cpu().unwrap(), 100);
}

#[test]
fn generated_sound_goes_through_the_pipeline_on_cuda() {
    let Some(device) = gpu::find() else { return };
    generated_sound_goes_through_the_pipeline(&device, gpu::cases(20, 100));
}

/// The device's time is in the report, also that of queues that are gone when it is made. A build has many threads, so
/// the collector is that of a whole process.
#[test]
fn the_profile_of_a_build_has_device_times_on_cuda() {
    let Some(device) = gpu::find() else { return };
    process::alone("dataset_techniques::the_profile_of_a_build_has_device_times_on_cuda", || {
        let folder = tempfile::tempdir().unwrap();
        let files = corpus(folder.path(), 3);
        let collector = Collector::new();
        collector.time_devices(Detail::Graphs);
        collector.install().unwrap();
        run(&device, &Budget::unlimited(), &files, Techniques::default(), || {});
        let report = collector.report();
        let row = |name: &str| report.rows.iter().find(|row| row.name == name).unwrap();
        assert!(row("mel").device_seconds > 0.0 && row("copy").device_seconds > 0.0, "{report:?}");
        assert!(row("read").calls > 0 && row("write").bytes > 0 && row("wait").calls > 0, "{report:?}");
        assert!(report.rows.iter().map(|row| row.allocated_bytes).sum::<u64>() > 0, "{report:?}");
        let gpu = report.loads.iter().find(|load| load.device == "cuda:0").unwrap();
        assert!(gpu.share > 0.0 && gpu.share <= 1.0, "{gpu:?}");
    });
}
