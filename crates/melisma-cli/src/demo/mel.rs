//! The step `mel`: one clip through every preset, and a small dataset.

use std::path::Path;
use std::time::{Duration, Instant};

use melisma::Result;
use melisma::audio::{Clip, wav};
use melisma::config::DeviceRequest;
use melisma::dataset::{self, Inputs, Options, Request};
use melisma::mel::{Config, PRESETS, Transform};
use melisma::output::{self, Existing};
use melisma::random::Lcg32;
use melisma::runtime::device;
use melisma::synth::{Clips, Style};
use melisma::text::table::{Align, Table};
use melisma::text::{duration, size};

use super::folder::Folder;
use super::page::{commands, facts};
use super::{Chapter, in_words, picture};
use crate::session::Session;

/// Clips in the dataset, and how they are rendered.
const CLIPS: u32 = 40;
const CLIP_SECONDS: f64 = 2.0;
const CLIP_RATE: u32 = 22_050;
const CLIP_LUFS: f64 = -18.0;
const PRESET: &str = "bright";

pub fn run(session: &Session, folder: &Folder) -> Result<Chapter> {
    let context = session.context()?;
    let mut table =
        Table::new([("preset", Align::Left), ("shape", Align::Left), ("time", Align::Right), ("is", Align::Left)]);
    let mut image = String::new();
    for (name, about) in PRESETS {
        let config = Config::preset(name)?;
        let sound = sweep(config.sample_rate, 4.0);
        let transform = Transform::new_in(context, config.clone())?;
        transform.run(&sound)?;
        let start = Instant::now();
        let mel = transform.run(&sound)?;
        let time = duration::show(start.elapsed());
        table.push([(*name).to_owned(), format!("{:?}", mel.shape), time, (*about).to_owned()]);
        if *name == "builder" {
            image = picture::spectrogram(&mel, &config);
        }
    }
    let clip = Clip::mono(22_050, sweep(22_050, 4.0));
    folder.write("clip.wav", &wav::encode(&clip, wav::SampleFormat::S16)?)?;
    let build = dataset(session, folder)?;
    let shown = [
        format!(
            "<p>Four seconds of a rising tone over noise; then {CLIPS} clips of the preset {PRESET}, composed and rendered \
             for training, and a broken file, as one file of spectrograms.</p>\n"
        ),
        format!("<figure>{image}<figcaption><span>4 s</span><span>preset builder</span></figcaption></figure>\n"),
        facts(&[
            (format!("{:.0}x", build.speed), "faster than the clips play"),
            (build.segments.to_string(), "segments of one second, each with its checksum"),
            (build.refused.to_string(), "broken file, named and left out"),
        ]),
        commands(&[
            "melisma mel clip.wav -o clip.npy",
            &format!(
                "melisma synth preset:{PRESET} -o wavs --clips {CLIPS} --seconds {CLIP_SECONDS} --rate {CLIP_RATE}"
            ),
            "melisma dataset build wavs/ -o train.h5 --segment 1s",
        ]),
    ];
    Ok(Chapter {
        title: "Spectrograms, one or a million".to_owned(),
        device: Some(in_words(context.device())),
        shown: shown.concat(),
        folded: table.html() + &build.table.html(),
    })
}

/// A dataset that was built, and how fast.
struct Build {
    speed: f64,
    segments: usize,
    refused: usize,
    table: Table,
}

fn dataset(session: &Session, folder: &Folder) -> Result<Build> {
    let context = session.context()?;
    let scratch = Scratch(std::env::temp_dir().join(format!("melisma-demo-{}", std::process::id())));
    output::create_directory(&scratch.0)?;
    let sounds = folder.path("wavs");
    output::create_directory(&sounds)?;
    render(session, &sounds, folder.existing())?;
    let broken = scratch.0.join("broken.wav");
    std::fs::write(&broken, b"RIFF").map_err(|error| output::failed(&broken, error))?;
    let second = Duration::from_secs(1);
    let inputs = Inputs::find(&[sounds, broken])?;
    let output = scratch.0.join("train.h5");
    let options = Options::new(Config::preset("builder")?, second)?;
    let request = Request::new_in(context, &inputs, &output, options);
    let outcome = request.with_threads(session.config.threads.value.count()).build()?;
    let verified = dataset::verify(&output, 1, context.budget())?;
    verified.check()?;
    let mut table = Table::new([("what", Align::Left), ("value", Align::Left)]);
    let mut line = |what: &str, value: String| table.push([what.to_owned(), value]);
    line("files", outcome.files_ok.to_string());
    line("refused", outcome.failures.iter().map(|failure| format!("{}: {}", failure.path, failure.message)).collect());
    line("segments of 1 s", outcome.segments.to_string());
    line("sound", format!("{:.0} s", outcome.audio_seconds));
    line("time", duration::show(Duration::from_secs_f64(outcome.wall_seconds)));
    let speed = outcome.audio_seconds / outcome.wall_seconds.max(1e-9);
    line("times real time", format!("{speed:.0}"));
    line("checked against checksums", format!("{} rows, {}", verified.rows, size::show(verified.bytes)));
    Ok(Build { speed, segments: outcome.segments, refused: outcome.failures.len(), table })
}

/// Renders the clips of the dataset into `folder`.
fn render(session: &Session, folder: &Path, existing: Existing) -> Result<()> {
    let style = Style::named(PRESET)?;
    let clips = Clips::new(style, CLIP_SECONDS, folder)
        .with_sample_rate(CLIP_RATE)
        .with_loudness(CLIP_LUFS)
        .with_existing(existing);
    let cpu = device::select(DeviceRequest::Cpu, session.config.threads.value)?;
    let n_threads = session.config.threads.value.count();
    let [waiting, each] = clips.bytes(&clips.compose(0)?);
    let _memory = session.reserve(&cpu, "rendering clips", waiting + n_threads as u64 * each)?;
    clips.make(0..CLIPS, (&cpu, session.memory(&cpu).budget(), n_threads), &|| Ok(()))?;
    Ok(())
}

/// Returns a rising tone over noise.
fn sweep(rate: u32, seconds: f32) -> Vec<f32> {
    let mut random = Lcg32::new(1);
    let mut phase = 0f32;
    let n = (rate as f32 * seconds) as usize;
    let sample = |i: usize| {
        let noise = random.unit() - 0.5;
        phase = (phase + (200.0 + 3000.0 * i as f32 / n as f32) / rate as f32).fract();
        0.4 * (std::f32::consts::TAU * phase).sin() + 0.02 * noise
    };
    (0..n).map(sample).collect()
}

struct Scratch(std::path::PathBuf);

impl Drop for Scratch {
    fn drop(&mut self) {
        // If removal fails, the files are only in the temporary folder.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
