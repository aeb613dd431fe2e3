//! How a build works changes no byte; files that change under it, and memory that is short, lose nothing else.
#![allow(missing_docs, clippy::unwrap_used, reason = "a failed expectation is the test's own message")]

use std::fs::File;
use std::path::{Path, PathBuf};
use std::time::Duration;

use melisma::Kind;
use melisma::audio::{Clip, Reads, Source, wav};
use melisma::dataset::{
    Counters, Inputs, Options, Outcome, Request, StoreKind, Tail, Techniques, build, rehearse, verify,
};
use melisma::mel::Config;
use melisma::runtime::device::{Device, host_threads};
use melisma::runtime::memory::Budget;
use melisma::runtime::output::Existing;

fn sound(seed: u32, n: usize) -> Vec<f32> {
    let mut state = seed + 1;
    let next = |_| {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 8) as f32 / (1 << 25) as f32 - 0.25
    };
    (0..n).map(next).collect()
}

fn corpus(folder: &Path, n: u32) -> PathBuf {
    let place = folder.join("w");
    std::fs::create_dir(&place).unwrap();
    for index in 0..n {
        let clip = Clip::mono(22_050, sound(index, 6000 + 700 * (index as usize % 7)));
        let format = if index % 5 == 3 { wav::SampleFormat::F32 } else { wav::SampleFormat::S16 };
        std::fs::write(place.join(format!("{index:03}.wav")), wav::write(&clip, format).unwrap()).unwrap();
    }
    place
}

fn devices() -> Vec<Device> {
    let mut devices = vec![Device::cpu().unwrap()];
    match Device::cuda(0) {
        Ok(device) => devices.push(device),
        Err(error) if std::env::var_os("REQUIRE_CUDA").is_some() => panic!("{error}"),
        Err(_) => println!("SKIPPED: no GPU"),
    }
    devices
}

fn options() -> Options {
    let segment = Duration::from_millis(100);
    Options::new(Config::preset("builder").unwrap(), segment, segment, Tail::Pad).unwrap()
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
    let request = Request {
        inputs: &inputs,
        shard: (0, 1),
        options: options(),
        output: &output,
        store: StoreKind::Hdf5,
        existing: Existing::Replace,
        stops_on_failure: false,
        device,
        threads: host_threads(device),
        budget,
        techniques,
    };
    let outcome = build(&request, &Counters::default(), |_, _| planned()).unwrap();
    verify(&output, 1, &Budget::unlimited()).unwrap().check().unwrap();
    (outcome, std::fs::read(&output).unwrap())
}

#[test]
fn no_technique_changes_a_byte() {
    let folder = tempfile::tempdir().unwrap();
    let files = corpus(folder.path(), 40);
    for device in devices() {
        let budget = Budget::unlimited();
        let (outcome, expected) = run(&device, &budget, &files, Techniques::default(), || {});
        assert_eq!((outcome.files_ok, outcome.failures.len()), (40, 0));
        for text in [
            "reads=buffered",
            "reads=mapped",
            "writes=direct",
            "writes=copied",
            "writes=mapped",
            "conversion=per-file",
            "streams=own",
            "streams=one",
            "pinned=off",
            "num_mega_buffers=1",
            "seg_microbatch_segments=1",
            "seg_microbatch_segments=8192",
            "autosize_gpu_batch=off",
        ] {
            let mut techniques = Techniques::default();
            techniques.set(text).unwrap();
            let (_, bytes) = run(&device, &budget, &files, techniques, || {});
            assert!(bytes == expected, "{device}: {text} changes the dataset");
        }
        // Too little memory for the first, a middle and, again and again, every following launch of one thread.
        for launch in [1, 3, 7] {
            let techniques =
                Techniques { fail_launch: Some(launch), seg_microbatch_segments: Some(8), ..Techniques::default() };
            let (outcome, bytes) = run(&device, &budget, &files, techniques, || {});
            assert_eq!(outcome.counters.recovered, 1);
            assert!(bytes == expected, "{device}: recovery at launch {launch} changes the dataset");
        }
        if let Device::Cuda(_) = device {
            // What the budget refuses makes slots smaller.
            let (_, bytes) = run(&device, &Budget::new(64 << 20, 400_000), &files, Techniques::default(), || {});
            assert!(bytes == expected, "{device}: little device memory changes the dataset");
        }
    }
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
        let mut source = Source::reopen(&shrinks, 22_050, 8800, reads).unwrap();
        let mut samples = vec![0i16; 4000];
        source.read_i16(0, &mut samples).unwrap();
        let bytes = std::fs::read(&shrinks).unwrap();
        File::options().write(true).open(&shrinks).unwrap().set_len(5000).unwrap();
        assert_eq!(source.read_i16(4000, &mut samples).unwrap_err().kind(), Kind::Truncated, "{reads:?}");
        std::fs::write(&shrinks, bytes).unwrap();
    }
}

#[test]
fn generated_sound_goes_through_the_pipeline() {
    for device in devices() {
        let techniques = Techniques { seg_microbatch_segments: Some(3), ..Techniques::default() };
        let done = rehearse(&device, &Budget::unlimited(), &options(), &techniques, 100).unwrap();
        assert_eq!((done.segments, done.counters.rows), (100, 100));
        assert!(done.counters.seconds[2] > 0.0 && done.wall_seconds > 0.0, "{done:?}");
        assert_eq!(done.counters.device_seconds > 0.0, matches!(device, Device::Cuda(_)));
    }
}
