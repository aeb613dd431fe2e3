//! `melisma synth --clips`: a folder of clips with their notes and parameters, for `dataset build`
//! and training.

use std::path::Path;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use melisma::output;
use melisma::output::Existing;
use melisma::runtime::device::{self, Device};
use melisma::runtime::memory::{Reservation, Space};
use melisma::synth::{Length, Recording, Score, Style, compose, seed, voice_seconds};
use melisma::text::{count, realtime};
use melisma::{Error, Remedy, Result};
use serde_json::{Value, json};

use super::choice::{choose, shown};
use super::order::Order;
use super::render::Rendered;
use super::{label, piece};
use crate::args::SynthArgs;
use crate::decode::Place;
use crate::session::Session;
use crate::{interrupt, progress};

/// A clip's length without `--seconds`.
const DEFAULT_SECONDS: f64 = 10.0;

/// Clips whose voices a GPU renders together, and the most that wait to be finished.
const BATCH: u32 = 64;
/// The most bytes of a clip's notes and label, as a multiple of the bytes of the first clip's
/// notes.
const LABELLED: u64 = 16;
/// Buffer bytes of a file being written.
const FILE_BYTES: u64 = 1 << 19;

pub fn run(session: &Session, args: &SynthArgs, n: u32) -> Result<()> {
    let style = piece::style(args)?.ok_or_else(|| {
        Error::invalid(format!("{}: --clips needs a preset", args.score)).with_hint("name one, as in preset:focus")
    })?;
    if args.output.extension().is_some() {
        return Err(Error::invalid(format!("{}: --clips needs a folder", args.output.display()))
            .with_hint("name a folder without a suffix"));
    }
    let maker = Maker { session, args, style, first_seed: seed(piece::seed_text(args)) };
    let sample = maker.clip(0)?;
    let per_clip = voice_seconds(maker.order(&sample)?.take(&sample.score), args.rate);
    let choice = choose(session, args, per_clip.map(|seconds| seconds * f64::from(n)))?;
    output::create_directory(&args.output)?;
    let folder = args.output.display().to_string();
    interrupt::keep_with(move || {
        Some(format!("the finished clips stay in {folder}; run the same command again to resume"))
    });
    let start = Instant::now();
    let total = maker.make(&choice.device, &sample, n)?;
    let wall = start.elapsed().as_secs_f64();
    let text = || {
        let speed = realtime(total.seconds, wall);
        let kept = match total.kept {
            0 => String::new(),
            kept => format!("{} already there\n", count(kept, "clip")),
        };
        format!(
            "{}, {:.0} s of audio, {} in {wall:.1} s ({speed})\n{kept}{}",
            count(u64::from(n) - total.kept, "clip"),
            total.seconds,
            count(total.notes as u64, "note"),
            shown(&choice)
        )
    };
    let json = json!({
        "clips": n, "clips_kept": total.kept,
        "voices": total.voices, "notes": total.notes, "samples": total.samples, "sample_rate_hz": args.rate,
        "audio_seconds": total.seconds, "wall_seconds": wall, "output": args.output.display().to_string(), "seed": piece::seed_text(args),
        "device_reason": choice.reason,
    });
    session.print(&choice.device, text, json)
}

/// A composed clip, perhaps with recorded voices.
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

    /// The number of rendering threads that fit under the memory limit, and the reservation for
    /// them and the waiting clips.
    fn threads(&self, device: &Device, sample: &Clip) -> Result<(usize, Reservation)> {
        let wanted = match device {
            Device::Cpu(cpu) => cpu.threads.max(1),
            Device::Cuda(_) => device::available_threads(),
        };
        // Clips differ: few have more than twice as many notes as the first, and labels are text.
        let waiting = LABELLED * sample.score.bytes();
        let rendering = self.order(sample)?.setup(1.0).bytes(&sample.score) + waiting + FILE_BYTES;
        let free = self.session.memory(device).budget().free(Space::Host);
        let batch = waiting * u64::from(BATCH);
        let n = usize::try_from(free.saturating_sub(batch) / rendering).unwrap_or(usize::MAX).clamp(1, wanted);
        let memory = self.session.reserve(device, "rendering a clip", batch + n as u64 * rendering)?;
        Ok((n, memory))
    }

    /// One thread composes, and a GPU renders ahead; the others finish clips.
    fn make(&self, device: &Device, sample: &Clip, n: u32) -> Result<Total> {
        let bar = progress::bar(self.session, Some(n.into()));
        let (n_threads, _memory) = self.threads(device, sample)?;
        let (send, receive) = sync_channel(BATCH as usize);
        let (receive, state) = (Mutex::new(receive), Mutex::new(Ok(Total::default())));
        let has_failed = || state.lock().unwrap_or_else(PoisonError::into_inner).is_err();
        let add = |made: Result<Made>| {
            let mut state = state.lock().unwrap_or_else(PoisonError::into_inner);
            match (made, state.as_mut()) {
                (Ok(made), Ok(total)) => total.add(&made),
                (Err(error), Ok(_)) => *state = Err(error),
                (_, Err(_)) => {}
            }
            state.is_ok()
        };
        let work = || {
            loop {
                let next = receive.lock().unwrap_or_else(PoisonError::into_inner).recv();
                let Ok(clip) = next else { return };
                // After a failure, drain the channel so that the sender ends.
                if !has_failed() && add(self.finish(&clip)) {
                    bar.inc(1);
                }
            }
        };
        std::thread::scope(|scope| {
            (0..n_threads.min(n as usize)).for_each(|_| drop(scope.spawn(work)));
            let kept = || {
                add(Ok(Made::Kept));
                bar.inc(1);
            };
            let outcome = self.compose(device, n, &send, &kept);
            drop(send);
            outcome
        })?;
        bar.finish_and_clear();
        state.into_inner().unwrap_or_else(PoisonError::into_inner)
    }

    fn compose(&self, device: &Device, n: u32, to: &SyncSender<Clip>, kept: &dyn Fn()) -> Result<()> {
        let batch = if matches!(device, Device::Cuda(_)) { BATCH } else { 1 };
        for first in (0..n).step_by(batch as usize) {
            let mut clips = Vec::new();
            for index in first..n.min(first + batch) {
                let clip = self.clip(index)?;
                if self.is_there(&clip)? { kept() } else { clips.push(clip) }
            }
            if let (Device::Cuda(_), Some(clip)) = (device, clips.first()) {
                let order = self.order(clip)?;
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

    /// The label of a clip before it is rendered.
    fn label(&self, clip: &Clip) -> Result<Value> {
        let Clip { seed, style, score, .. } = clip;
        let order = self.order(clip)?;
        let notes =
            serde_json::from_str::<Value>(&score.to_json()).map_err(|error| Error::invalid(error.to_string()))?;
        Ok(json!({
            "audio": name(&order.output), "seed": seed, "seconds": self.seconds(), "sample_rate_hz": self.args.rate,
            "sample_format": self.args.sample_format, "loudness_target_lufs": order.loudness,
            "parameters": style, "score": notes,
        }))
    }

    /// Whether an earlier run made the clip, according to its label and the hash in it. A different
    /// file with that name is an error.
    fn is_there(&self, clip: &Clip) -> Result<bool> {
        let audio = self.order(clip)?.output;
        if self.session.existing == Existing::Replace || !audio.exists() {
            return Ok(false);
        }
        let beside = audio.with_extension("json");
        if !beside.exists() {
            return Err(Error::invalid(format!("{}: the file exists already, without a label", audio.display()))
                .with_hint("choose another folder")
                .or_hint(Remedy::Replace));
        }
        label::check(&beside, &audio, &self.label(clip)?)?;
        Ok(true)
    }

    /// Renders one clip. The label is written first, so audio without a label is not ours.
    fn finish(&self, clip: &Clip) -> Result<Made> {
        let order = self.order(clip)?;
        let (rendered, place) = order.render_alone(&clip.score, clip.recording.clone())?;
        let Place::File(mut file) = place else { return Err(Error::invalid("a clip is a file")) };
        let mut label = self.label(clip)?;
        label["gain_db"] = rendered.gain_db().into();
        label["loudness_lufs"] = rendered.loudness_lufs.into();
        label["peak_dbtp"] = rendered.peak_dbtp.into();
        label[label::HASH] = label::hash(file.reader()?, &order.output)?.into();
        label::write(&order.output.with_extension("json"), &label, self.session.existing)?;
        file.commit()?;
        Ok(Made::New { n_notes: clip.score.notes.len(), rendered })
    }
}

/// The outcome of a clip.
enum Made {
    /// It already exists.
    Kept,
    New {
        n_notes: usize,
        rendered: Rendered,
    },
}

/// Sums over all rendered clips, and the most voices in any of them.
#[derive(Default)]
struct Total {
    kept: u64,
    notes: usize,
    samples: u64,
    seconds: f64,
    voices: usize,
}

impl Total {
    fn add(&mut self, made: &Made) {
        let Made::New { n_notes, rendered } = made else {
            self.kept += 1;
            return;
        };
        self.notes += n_notes;
        self.samples += rendered.samples;
        self.seconds += rendered.seconds();
        self.voices = self.voices.max(rendered.voices);
    }
}

fn name(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}
