//! Silence that is left out, and loudness, before rows are made.

use std::path::Path;
use std::time::Duration;

use melisma::audio::{Clip, Meter, Source, Target, wav};
use melisma::dataset::store::Store;
use melisma::dataset::{Inputs, Lengths, Options, Outcome, Preparation, Request, Tokens, Trim, verify};
use melisma::mel::Config;
use melisma::runtime::memory::Budget;

use crate::dataset_tokens::{model, sound};

const RATE: u32 = 24_000;

fn write(path: &Path, samples: Vec<f32>) {
    std::fs::write(path, wav::encode(&Clip::mono(RATE, samples), wav::SampleFormat::S16).unwrap()).unwrap();
}

/// Returns a sound between silence.
fn padded(before: usize, gain: f32, n: usize, after: usize) -> Vec<f32> {
    let sound = sound(7, n).into_iter().map(|sample| gain * sample);
    std::iter::repeat_n(0.0, before).chain(sound).chain(std::iter::repeat_n(0.0, after)).collect()
}

fn encode(files: &Path, preparation: Preparation, name: &str) -> melisma::Result<Outcome> {
    let inputs = Inputs::find(&[files]).unwrap();
    let tokens = Tokens::new(model()).with_preparation(preparation);
    Request::new(&inputs, files.with_file_name(name), tokens).unwrap().build()
}

fn column(path: &Path, name: &str) -> Vec<u8> {
    let store = Store::open(path).unwrap();
    let column = store.layout.column(name).unwrap();
    let described = &store.layout.columns[column];
    let mut bytes = vec![0; store.layout.len(described) as usize * described.row_bytes()];
    store.read(column, 0, &mut bytes).unwrap();
    bytes
}

fn trim() -> Preparation {
    Preparation::new(Some(Trim::default().with_margin_seconds(0.05)), None).unwrap()
}

#[test]
fn a_trimmed_file_has_the_rows_of_its_part() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    for name in ["w", "cut"] {
        std::fs::create_dir(at(name)).unwrap();
    }
    let margin = 1200;
    write(&at("w/a.wav"), padded(24_000, 1.0, 12_000, 36_000));
    write(&at("cut/a.wav"), padded(margin, 1.0, 12_000, margin));
    write(&at("w/b.wav"), vec![0.0; 30_000]);
    let outcome = encode(&at("w"), trim(), "trimmed.safetensors").unwrap();
    assert_eq!((outcome.files_ok, outcome.files_failed(), outcome.failures_by_code()["silent"]), (1, 1, 1));
    assert_eq!(outcome.failures[0].message, "no 10 ms of it are louder than -50 dB of full scale");
    assert_eq!(outcome.audio_seconds, 0.6);
    encode(&at("cut"), Preparation::default(), "cut.safetensors").unwrap();
    for name in ["codes", "offsets", "seconds"] {
        assert!(column(&at("trimmed.safetensors"), name) == column(&at("cut.safetensors"), name), "{name}");
    }
    verify(at("trimmed.safetensors"), 1, &Budget::unlimited()).unwrap().check().unwrap();
    // The settings are a part of the plan.
    assert_eq!(encode(&at("w"), trim(), "trimmed.safetensors").unwrap().resumed_segments, 1);
    assert!(encode(&at("w"), Preparation::default(), "trimmed.safetensors").is_err());
    let other = Preparation::new(Some(Trim::default()), None).unwrap();
    assert!(encode(&at("w"), other, "trimmed.safetensors").is_err());
    // So are the lengths that count: those of the part.
    let inputs = Inputs::find(&[at("w")]).unwrap();
    let lengths = Lengths::new(None, Some(0.59)).unwrap();
    let tokens = Tokens::new(model()).with_preparation(trim()).with_lengths(lengths);
    let error = Request::new(&inputs, at("b.safetensors"), tokens).unwrap().build().unwrap_err().to_string();
    assert!(error.contains("1 silent, 1 too-long"), "{error}");
}

#[test]
fn segments_of_a_trimmed_file_know_their_place_in_it() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    for name in ["w", "cut"] {
        std::fs::create_dir(at(name)).unwrap();
    }
    write(&at("w/a.wav"), padded(24_000, 1.0, 50_000, 36_000));
    write(&at("cut/a.wav"), padded(1200, 1.0, 50_000, 1200));
    let options = || {
        let mut config = Config::preset("builder").unwrap();
        config.sample_rate = RATE;
        Options::new(config, Duration::from_secs(1)).unwrap()
    };
    let build = |files: &str, options: Options, name: &str| {
        Request::new(&Inputs::find(&[at(files)]).unwrap(), at(name), options).unwrap().build().unwrap()
    };
    build("w", options().with_preparation(trim()), "a.h5");
    build("cut", options(), "b.h5");
    assert!(column(&at("a.h5"), "mel") == column(&at("b.h5"), "mel"));
    assert!(column(&at("a.h5"), "valid_frames") == column(&at("b.h5"), "valid_frames"));
    let starts = column(&at("a.h5"), "start_sample");
    let starts: Vec<i64> = starts.as_chunks().0.iter().map(|&at| i64::from_le_bytes(at)).collect();
    assert_eq!(starts, [22_800, 46_800, 70_800]);
    // A gain that undoes that of the file: floats in place of integers, and the same rows within rounding.
    let loud = Preparation::new(Some(Trim::default().with_margin_seconds(0.05)), Some(-30.0)).unwrap();
    build("w", options().with_preparation(loud), "c.h5");
    assert!(column(&at("c.h5"), "mel") != column(&at("a.h5"), "mel"));
    verify(at("c.h5"), 1, &Budget::unlimited()).unwrap().check().unwrap();
    let store = Store::open(at("c.h5")).unwrap();
    let config = store.layout.text("config").unwrap();
    assert_eq!(Options::parse(config).unwrap().preparation, loud);
    assert!(!Store::open(at("b.h5")).unwrap().layout.text("config").unwrap().contains("trim"));
}

fn loudness(path: &Path) -> (f64, f64) {
    let mut source = Source::open(path, Target::new(RATE)).unwrap();
    let mut samples = vec![0.0; source.facts().n_samples as usize];
    source.read_f32(0, &mut samples).unwrap();
    let mut meter = Meter::new(RATE);
    meter.push(&samples, &vec![0.0; samples.len()]);
    (meter.integrated().unwrap(), meter.peak())
}

#[test]
fn files_of_any_level_get_the_codes_of_one_loudness() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    for name in ["w", "made"] {
        std::fs::create_dir(at(name)).unwrap();
    }
    write(&at("w/a.wav"), padded(0, 0.2, 48_000, 0));
    // A click that leaves no room.
    let mut click = padded(0, 0.05, 48_000, 0);
    click[20_000] = 0.9;
    write(&at("w/b.wav"), click);
    write(&at("w/c.wav"), vec![0.1; 2400]);
    write(&at("w/d.wav"), vec![0.0; 48_000]);
    let preparation = Preparation::new(None, Some(-20.0)).unwrap();
    let outcome = encode(&at("w"), preparation, "a.safetensors").unwrap();
    assert_eq!((outcome.files_ok, outcome.files_failed(), outcome.limited), (2, 2, 1));
    let codes = outcome.failures_by_code();
    assert_eq!((codes["too-short"], codes["silent"], codes["peak-limited"]), (1, 1, 1));
    assert!(outcome.failures[0].path == "b.wav" && outcome.failures[0].message.contains("LUFS instead of -20"));
    // The same files, made so loud before they are encoded.
    for name in ["a.wav", "b.wav"] {
        let (found, peak) = loudness(&at("w").join(name));
        let gain = 10f64.powf((-20.0 - found) / 20.0).min(10f64.powf(-0.05) / peak) as f32;
        assert!(name == "a.wav" || gain < 1.0);
        let mut source = Source::open(at("w").join(name), Target::new(RATE)).unwrap();
        let mut samples = vec![0.0; source.facts().n_samples as usize];
        source.read_f32(0, &mut samples).unwrap();
        samples.iter_mut().for_each(|sample| *sample *= gain);
        let bytes = wav::encode(&Clip::mono(RATE, samples), wav::SampleFormat::F32).unwrap();
        std::fs::write(at("made").join(name), bytes).unwrap();
    }
    let (loud, _) = loudness(&at("made/a.wav"));
    let (_, peak) = loudness(&at("made/b.wav"));
    assert!((loud + 20.0).abs() < 1e-3 && (20.0 * peak.log10() + 1.0).abs() < 1e-3, "{loud} {peak}");
    encode(&at("made"), Preparation::default(), "b.safetensors").unwrap();
    assert!(column(&at("a.safetensors"), "codes") == column(&at("b.safetensors"), "codes"));
}
