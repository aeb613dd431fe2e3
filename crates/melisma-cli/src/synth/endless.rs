//! `--endless`: the preset as the server streams it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use indicatif::ProgressBar;
use melisma::audio::Meter;
use melisma::runtime::device::{self, DeviceRequest};
use melisma::synth::{Endless, EngineConfig, Length, Level, seed};
use melisma::text::{duration, realtime};
use melisma::{Error, Result};

use super::piece;
use super::render::Rendered;
use super::request::RenderRequest;
use super::sink::{Sink, interleave};
use crate::args::SynthArgs;
use crate::input::is_pipe;
use crate::session::Session;
use crate::terminal::is_closed_pipe;
use crate::{interrupt, progress};

/// The loudness of `--loudness` when it is left out.
const DEFAULT_LOUDNESS: &str = "-18";

pub fn run(session: &Session, args: &SynthArgs) -> Result<()> {
    if ![DEFAULT_LOUDNESS, "off"].contains(&args.loudness.as_str()) {
        return Err(Error::invalid("--endless: music without an end has no loudness to reach")
            .with_hint("leave --loudness out"));
    }
    let style = piece::style(args)?.ok_or_else(|| {
        Error::invalid(format!("{}: --endless needs a preset", args.score())).with_hint("as in preset:focus")
    })?;
    let request = RenderRequest::new(session, args)?;
    let length = match request.length {
        Length::Samples(n) => Some(n),
        _ if is_pipe(args.output()) => None,
        _ => {
            return Err(Error::invalid(format!("{}: --endless never ends, and a file must", args.output().display()))
                .with_hint("give a length by --seconds, or send it to a player: -o - | aplay"));
        }
    };
    let config = EngineConfig::default().with_sample_rate(args.rate);
    let (music, _remote) = Endless::new(style, seed(piece::seed_text(args)), config)?;
    let sink = Sink::create(args.output(), request.layout);
    let start = Instant::now();
    let playing = Playing { rate: args.rate, length, bar: progress::bar(session, length) };
    let (n_notes, rendered) = match sink.and_then(|sink| playing.play(music, sink)) {
        Err(error) if is_closed_pipe(&error) => return Ok(()),
        played => played?,
    };
    let wall = start.elapsed();
    let text = || match length {
        Some(_) => rendered.text(n_notes, wall),
        None => {
            let seconds = rendered.seconds();
            let speed = realtime(seconds, wall.as_secs_f64());
            let [played, wall] = [Duration::from_secs_f64(seconds), wall].map(duration::show);
            format!("{played} of audio in {wall} ({speed})")
        }
    };
    if is_pipe(args.output()) {
        session.say(text().trim_end());
        return Ok(());
    }
    let mut json = rendered.json(wall);
    json["notes"] = n_notes.into();
    json["output"] = args.output().display().to_string().into();
    json["seed"] = piece::seed_text(args).into();
    let cpu = device::select(DeviceRequest::Cpu, session.config.threads.value)?;
    session.print(&cpu, text, json)
}

/// Music on its way to a sink, until its length or, without one, until a signal.
struct Playing {
    rate: u32,
    length: Option<u64>,
    bar: ProgressBar,
}

impl Playing {
    fn play(&self, mut music: Endless, mut sink: Sink) -> Result<(usize, Rendered)> {
        let end = self.end();
        // The meter keeps a figure for each tenth of a second, so music without an end has none.
        let mut meter = self.length.map(|_| Meter::new(self.rate));
        let (mut samples, mut n_notes, mut voices, mut scratch) = (0, 0, 0, Vec::new());
        while self.length.is_none_or(|length| samples < length) && !end.load(Ordering::Relaxed) {
            n_notes += music.plan()?.len();
            let block = music.next_block()?;
            let left_over = self.length.map_or(u64::MAX, |length| length - samples);
            let n = block.left.len().min(usize::try_from(left_over).unwrap_or(usize::MAX));
            if let Some(meter) = &mut meter {
                meter.push(&block.left[..n], &block.right[..n]);
            }
            interleave(&block.left[..n], &block.right[..n], &mut scratch);
            sink.write(&scratch)?;
            samples += n as u64;
            voices = voices.max(music.stream().engine().active());
            self.show(samples, n as u64);
        }
        self.bar.finish_and_clear();
        sink.finish()?;
        let rendered = Rendered {
            voices,
            dropped: music.stream().engine().dropped(),
            clipped: 0,
            samples,
            sample_rate: self.rate,
            level: Level::UNCHANGED,
            peak_dbtp: meter.as_ref().and_then(Meter::peak_dbtp),
            loudness_lufs: meter.as_ref().and_then(Meter::integrated),
            stems: Vec::new(),
        };
        Ok((n_notes, rendered))
    }

    /// Returns a flag that the first signal raises if nothing else ends the music. A second signal ends a write
    /// that the reader keeps waiting.
    fn end(&self) -> Arc<AtomicBool> {
        let end = Arc::new(AtomicBool::new(false));
        if self.length.is_none() {
            let raised = Arc::clone(&end);
            interrupt::on_first_signal(move || raised.store(true, Ordering::Relaxed));
        }
        end
    }

    /// Moves the bar, or shows how much has been played once a second of audio.
    fn show(&self, samples: u64, n: u64) {
        let rate = u64::from(self.rate);
        if self.length.is_none() && samples / rate != (samples - n) / rate {
            self.bar.set_message(format!("{} played", duration::show(Duration::from_secs(samples / rate))));
        }
        self.bar.inc(n);
    }
}
