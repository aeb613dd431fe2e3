//! `melisma synth --clips`: a folder of sounds with their notes and parameters, for `dataset build` and for training.

use std::path::{Path, PathBuf};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use melisma::runtime::device::{self, Device};
use melisma::runtime::output;
use melisma::synth::{Length, Recording, Score, Style, compose, seed, voice_seconds};
use melisma::{Error, Result};
use serde_json::json;

use super::render::{Order, Rendered};
use super::{choose, shown, source};
use crate::args::SynthArgs;
use crate::progress;
use crate::session::Session;

/// A clip's length without `--seconds`.
const DEFAULT_SECONDS: f64 = 10.0;

/// Clips whose voices a GPU renders together.
const BATCH: u32 = 64;

pub fn run(session: &Session, args: &SynthArgs, n: u32) -> Result<()> {
    let style = source::style(args)?.ok_or_else(|| {
        Error::invalid(format!("{}: clips are made of presets", args.score)).with_hint("name one, as in preset:focus")
    })?;
    if args.output.extension().is_some() {
        return Err(Error::invalid(format!("{}: --clips needs a folder", args.output.display()))
            .with_hint("name a folder without a suffix"));
    }
    let maker = Maker { session, args, style, first_seed: seed(&args.seed) };
    let sample = maker.clip(0)?;
    let per_clip = voice_seconds(maker.order(&sample)?.take(&sample.score), args.rate);
    let choice = choose(session, args, per_clip.map(|seconds| seconds * f64::from(n)))?;
    std::fs::create_dir_all(&args.output).map_err(|error| output::failed(&args.output, error))?;
    let start = Instant::now();
    let total = maker.make(&choice.device, n)?;
    let wall = start.elapsed().as_secs_f64();
    let text = || {
        let rate = total.seconds / wall.max(1e-9);
        format!(
            "{n} clips, {:.0} s of sound, {} notes in {wall:.1} s ({rate:.0} x realtime)\n{}",
            total.seconds,
            total.notes,
            shown(&choice)
        )
    };
    let json = json!({
        "clips": n, "voices": total.voices, "notes": total.notes, "samples": total.samples, "sample_rate_hz": args.rate,
        "audio_seconds": total.seconds, "wall_seconds": wall, "output": args.output.display().to_string(), "seed": args.seed,
        "device_reason": choice.reason,
    });
    session.print(&choice.device, text, json)
}

/// A clip that is composed, and perhaps recorded.
struct Clip {
    index: u32,
    seed: u64,
    style: Style,
    score: Score,
    recording: Option<Arc<Recording>>,
}

struct Maker<'a> {
    session: &'a Session,
    args: &'a SynthArgs,
    style: Style,
    first_seed: u64,
}

impl Maker<'_> {
    fn seconds(&self) -> f64 {
        self.args.seconds.unwrap_or(DEFAULT_SECONDS)
    }

    fn clip(&self, index: u32) -> Result<Clip> {
        let seed = self.first_seed.wrapping_add(index.into());
        let style = self.style.varied(seed);
        let score = compose(&style, seed, self.seconds())?;
        Ok(Clip { index, seed, style, score, recording: None })
    }

    fn order(&self, clip: &Clip) -> Result<Order> {
        let mut order = Order::new(self.session, self.args)?;
        order.output = self.args.output.join(format!("clip_{:06}.wav", clip.index));
        order.length = Length::Samples((self.seconds() * f64::from(self.args.rate)).round().max(1.0) as u64);
        Ok(order)
    }

    /// One thread composes, and a GPU renders ahead; the others finish clips.
    fn make(&self, device: &Device, n: u32) -> Result<Total> {
        let bar = progress::bar(self.session, Some(n.into()));
        let n_threads = match device {
            Device::Cpu(cpu) => cpu.threads.max(1),
            Device::Cuda(_) => device::available_threads(),
        };
        let (send, receive) = sync_channel(BATCH as usize);
        let (receive, state) = (Mutex::new(receive), Mutex::new(Ok(Total::default())));
        let has_failed = || state.lock().unwrap_or_else(PoisonError::into_inner).is_err();
        let add = |made: Result<(usize, Rendered)>| {
            let mut state = state.lock().unwrap_or_else(PoisonError::into_inner);
            match (made, state.as_mut()) {
                (Ok((n_notes, rendered)), Ok(total)) => total.add(n_notes, &rendered),
                (Err(error), Ok(_)) => *state = Err(error),
                (_, Err(_)) => {}
            }
            state.is_ok()
        };
        let work = || {
            loop {
                let next = receive.lock().unwrap_or_else(PoisonError::into_inner).recv();
                let Ok(clip) = next else { return };
                // After a failure what still comes is only taken, so that the sender ends.
                if !has_failed() && add(self.finish(&clip)) {
                    bar.inc(1);
                }
            }
        };
        std::thread::scope(|scope| {
            (0..n_threads.min(n as usize)).for_each(|_| drop(scope.spawn(work)));
            let outcome = self.compose(device, n, &send);
            drop(send);
            outcome
        })?;
        bar.finish_and_clear();
        state.into_inner().unwrap_or_else(PoisonError::into_inner)
    }

    fn compose(&self, device: &Device, n: u32, to: &SyncSender<Clip>) -> Result<()> {
        let batch = if matches!(device, Device::Cuda(_)) { BATCH } else { 1 };
        for first in (0..n).step_by(batch as usize) {
            let mut clips =
                (first..n.min(first + batch)).map(|index| self.clip(index)).collect::<Result<Vec<Clip>>>()?;
            if let Device::Cuda(_) = device {
                let order = self.order(&clips[0])?;
                let scores: Vec<&Score> = clips.iter().map(|clip| &clip.score).collect();
                let recordings = order.record(self.session, device, &scores)?;
                clips.iter_mut().zip(recordings).for_each(|(clip, made)| clip.recording = Some(made));
            }
            for clip in clips {
                if to.send(clip).is_err() {
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    /// Renders one clip and writes its notes and parameters beside it.
    fn finish(&self, clip: &Clip) -> Result<(usize, Rendered)> {
        let Clip { seed, style, score, .. } = clip;
        let order = self.order(clip)?;
        let path = order.output.clone();
        let rendered = order.render_alone(score, clip.recording.clone())?;
        let notes = serde_json::from_str::<serde_json::Value>(&score.to_json());
        let notes = notes.map_err(|error| Error::invalid(error.to_string()))?;
        let facts = json!({
            "audio": name(&path), "seed": seed, "seconds": self.seconds(), "sample_rate_hz": self.args.rate,
            "parameters": style, "gain_db": 20.0 * f64::from(rendered.gain).log10(),
            "loudness_lufs": rendered.loudness_lufs, "peak_dbtp": rendered.peak_dbtp, "score": notes,
        });
        let beside: PathBuf = path.with_extension("json");
        output::write(&beside, format!("{facts:#}\n").as_bytes(), self.session.existing)?;
        Ok((score.notes.len(), rendered))
    }
}

/// Sums over all clips, and the most voices of any.
#[derive(Default)]
struct Total {
    notes: usize,
    samples: u64,
    seconds: f64,
    voices: usize,
}

impl Total {
    fn add(&mut self, n_notes: usize, rendered: &Rendered) {
        self.notes += n_notes;
        self.samples += rendered.samples;
        self.seconds += rendered.seconds();
        self.voices = self.voices.max(rendered.voices);
    }
}

fn name(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}
