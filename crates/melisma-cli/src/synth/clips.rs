//! `melisma synth --clips`: a folder of sounds with their notes and parameters, for `dataset build` and for training.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use melisma::runtime::device::Device;
use melisma::runtime::output;
use melisma::synth::{Style, compose, seed};
use melisma::{Error, Result};
use serde_json::json;

use super::render::{Order, Rendered};
use super::source;
use crate::args::SynthArgs;
use crate::progress;
use crate::session::Session;

/// A clip's length without `--seconds`.
const DEFAULT_SECONDS: f64 = 10.0;

pub fn run(session: &Session, args: &SynthArgs, device: &Device, n: u32) -> Result<()> {
    let style = source::style(args)?.ok_or_else(|| {
        Error::invalid(format!("{}: clips are made of presets", args.score)).with_hint("name one, as in preset:focus")
    })?;
    if args.output.extension().is_some() {
        return Err(Error::invalid(format!("{}: --clips needs a folder", args.output.display()))
            .with_hint("name a folder without a suffix"));
    }
    std::fs::create_dir_all(&args.output).map_err(|error| output::failed(&args.output, error))?;
    let start = Instant::now();
    let bar = progress::bar(session, Some(n.into()));
    let (next, state) = (AtomicU32::new(0), Mutex::new(Ok(Total::default())));
    let first = seed(&args.seed);
    let work = || {
        loop {
            let index = next.fetch_add(1, Ordering::Relaxed);
            if index >= n {
                return;
            }
            let made = clip(session, args, &style, (first.wrapping_add(index.into()), index));
            let mut state = state.lock().unwrap_or_else(PoisonError::into_inner);
            match (made, state.as_mut()) {
                (Ok((n_notes, rendered)), Ok(total)) => total.add(n_notes, &rendered),
                (Err(error), Ok(_)) => *state = Err(error),
                // Another thread failed: there is nothing left to do.
                (_, Err(_)) => return,
            }
            bar.inc(1);
        }
    };
    let n_threads = match device {
        Device::Cpu(cpu) => cpu.threads.max(1),
        Device::Cuda(_) => 1,
    };
    std::thread::scope(|scope| (0..n_threads.min(n as usize)).for_each(|_| drop(scope.spawn(work))));
    bar.finish_and_clear();
    let total: Total = state.into_inner().unwrap_or_else(PoisonError::into_inner)?;
    let wall = start.elapsed().as_secs_f64();
    let text = || {
        let rate = total.seconds / wall.max(1e-9);
        format!(
            "{n} clips, {:.0} s of sound, {} notes in {wall:.1} s ({rate:.0} x realtime)\n",
            total.seconds, total.notes
        )
    };
    let json = json!({
        "clips": n, "voices": total.voices, "notes": total.notes, "samples": total.samples, "sample_rate_hz": args.rate,
        "audio_seconds": total.seconds, "wall_seconds": wall, "output": args.output.display().to_string(), "seed": args.seed,
    });
    session.print(device, text, json)
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

/// Renders one clip and writes its notes and parameters beside it; the sound comes last.
fn clip(session: &Session, args: &SynthArgs, style: &Style, (seed, index): (u64, u32)) -> Result<(usize, Rendered)> {
    let style = style.varied(seed);
    let seconds = args.seconds.unwrap_or(DEFAULT_SECONDS);
    let score = compose(&style, seed, seconds)?;
    let path = args.output.join(format!("clip_{index:06}.wav"));
    let mut order = Order::new(session, args)?;
    order.output = path.clone();
    order.length = melisma::synth::Length::Samples((seconds * f64::from(args.rate)).round().max(1.0) as u64);
    let rendered = order.render_alone(&score)?;
    let notes = serde_json::from_str::<serde_json::Value>(&score.to_json());
    let notes = notes.map_err(|error| Error::invalid(error.to_string()))?;
    let facts = json!({
        "audio": name(&path), "seed": seed, "seconds": seconds, "sample_rate_hz": args.rate, "parameters": style,
        "gain_db": 20.0 * f64::from(rendered.gain).log10(), "loudness_lufs": rendered.loudness_lufs,
        "peak_dbtp": rendered.peak_dbtp, "score": notes,
    });
    let beside: PathBuf = path.with_extension("json");
    output::write(&beside, format!("{facts:#}\n").as_bytes(), session.existing)?;
    Ok((score.notes.len(), rendered))
}

fn name(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}
