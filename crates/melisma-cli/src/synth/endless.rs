//! `--endless`: the preset as the server streams it.

use std::time::Instant;

use melisma::audio::Meter;
use melisma::runtime::device::{self, DeviceRequest};
use melisma::synth::{Endless, EngineConfig, Length, Level, seed};
use melisma::{Error, Result};

use super::piece;
use super::render::Rendered;
use super::request::RenderRequest;
use super::sink::{Sink, interleave};
use crate::args::SynthArgs;
use crate::input::is_pipe;
use crate::progress;
use crate::session::Session;
use crate::terminal::is_closed_pipe;

/// The loudness of `--loudness` when it is left out.
const DEFAULT_LOUDNESS: &str = "-18";

pub fn run(session: &Session, args: &SynthArgs) -> Result<()> {
    if ![DEFAULT_LOUDNESS, "off"].contains(&args.loudness.as_str()) {
        return Err(Error::invalid("--endless: music without an end has no loudness to reach")
            .with_hint("leave --loudness out"));
    }
    let style = piece::style(args)?.ok_or_else(|| {
        Error::invalid(format!("{}: --endless needs a preset", args.score)).with_hint("as in preset:focus")
    })?;
    let request = RenderRequest::new(session, args)?;
    let Length::Samples(n_samples) = request.length else { return Err(Error::invalid("--endless needs --seconds")) };
    let config = EngineConfig::default().with_sample_rate(args.rate);
    let (mut music, _remote) = Endless::new(style, seed(piece::seed_text(args)), config)?;
    let mut sink = match Sink::create(&args.output, request.layout) {
        Err(error) if is_closed_pipe(&error) => return Ok(()),
        sink => sink?,
    };
    let (start, bar) = (Instant::now(), progress::bar(session, Some(n_samples)));
    let mut meter = Meter::new(args.rate);
    let (mut left_over, mut n_notes, mut voices, mut scratch) = (n_samples, 0, 0, Vec::new());
    while left_over > 0 {
        n_notes += music.plan()?.len();
        let block = music.next_block()?;
        let n = block.left.len().min(usize::try_from(left_over).unwrap_or(usize::MAX));
        meter.push(&block.left[..n], &block.right[..n]);
        interleave(&block.left[..n], &block.right[..n], &mut scratch);
        match sink.write(&scratch) {
            Err(error) if is_closed_pipe(&error) => return Ok(()),
            written => written?,
        }
        left_over -= n as u64;
        bar.inc(n as u64);
        voices = voices.max(music.stream().engine().active());
    }
    bar.finish_and_clear();
    match sink.finish() {
        Err(error) if is_closed_pipe(&error) => return Ok(()),
        ended => ended?,
    }
    let rendered = Rendered {
        voices,
        dropped: music.stream().engine().dropped(),
        clipped: 0,
        samples: n_samples,
        sample_rate: args.rate,
        level: Level::UNCHANGED,
        peak_dbtp: meter.peak_dbtp(),
        loudness_lufs: meter.integrated(),
        stems: Vec::new(),
    };
    let wall = start.elapsed();
    let text = || rendered.text(n_notes, wall);
    if is_pipe(&args.output) {
        session.say(text().trim_end());
        return Ok(());
    }
    let mut json = rendered.json(wall);
    json["notes"] = n_notes.into();
    json["output"] = args.output.display().to_string().into();
    json["seed"] = piece::seed_text(args).into();
    let cpu = device::select(DeviceRequest::Cpu, session.config.threads.value)?;
    session.print(&cpu, text, json)
}
