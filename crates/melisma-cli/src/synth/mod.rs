//! `melisma synth`: scores and generated music to audio.

mod choice;
mod clips;
mod endless;
mod list;
mod piece;
mod render;
mod request;
mod sink;
mod source;

use std::time::{Duration, Instant};

use melisma::output;
use melisma::runtime::device;
use melisma::synth::{MAX_GAIN_DB, voice_seconds};
use melisma::text::{count, duration, realtime};
use melisma::{Error, Result};
use serde_json::{Value, json};

use crate::args::SynthArgs;
use crate::decode::refuse_mixing;
use crate::input::is_pipe;
use crate::session::Session;
use crate::terminal::is_closed_pipe;
use choice::{choose, describe};
use render::Rendered;
use request::{RenderRequest, loudness};

pub fn run(session: &Session, args: &SynthArgs) -> Result<()> {
    let _span = tracing::info_span!("synth").entered();
    if args.list {
        return list::run(session, args);
    }
    if args.print_preset {
        return list::print(session, args);
    }
    check(session, args)?;
    if session.config.memory_limit.value.bytes().is_some() {
        // A GPU that shares the CPU's memory also shares its limit, so select the device first.
        session.memory(&device::select(session.config.device.value, session.config.threads.value)?);
    }
    if let Some(n) = args.clips {
        return clips::run(session, args, n);
    }
    if args.endless {
        return endless::run(session, args);
    }
    let request = RenderRequest::new(session, args)?;
    let source = source::open(session, args, &request)?;
    let score = &source.score;
    let choice = match source.sampled {
        None => choose(session, args, voice_seconds(request.take(score), args.rate))?,
        Some(_) => choice::cpu(session)?,
    };
    let midi = match &args.midi {
        Some(path) => Some((output::OutputFile::create(path, session.existing)?, score.to_midi()?)),
        None => None,
    };
    let start = Instant::now();
    let rendered = match request.render(session, &source, &choice.device) {
        Err(error) if is_closed_pipe(&error) => None,
        rendered => Some(rendered?),
    };
    if let Some((mut file, bytes)) = midi {
        let path = file.path().to_owned();
        std::io::Write::write_all(&mut file, &bytes).map_err(|error| output::failed(&path, error))?;
        file.commit()?;
    }
    let wall = start.elapsed();
    let Some(rendered) = rendered else { return Ok(()) };
    if rendered.dropped > 0 {
        session.say(&format!("note: {} got no voice", count(rendered.dropped, "note")));
    }
    rendered.report(session, request.loudness);
    let text = || rendered.text(score.notes.len(), wall) + &describe(&choice);
    if is_pipe(args.output()) {
        session.say(text().trim_end());
        return Ok(());
    }
    let mut json = rendered.json(wall);
    json["notes"] = score.notes.len().into();
    json["output"] = args.output().display().to_string().into();
    json["seed"] = piece::style(args)?.map(|_| piece::seed_text(args)).into();
    json["loudness_target_lufs"] = request.loudness.into();
    json["device_reason"] = choice.reason.clone().into();
    session.print(&choice.device, text, json)
}

/// Rejects invalid values and conflicting flags before any work.
fn check(session: &Session, args: &SynthArgs) -> Result<()> {
    refuse_mixing(session, args.output())?;
    if args.seconds.is_some_and(|seconds| !(seconds > 0.0 && seconds <= melisma::synth::MAX_SECONDS)) {
        let message = format!("--seconds {}: must be more than 0 and at most 86400", args.seconds.unwrap_or_default());
        return Err(Error::invalid(message).with_hint("a day is the longest piece"));
    }
    let conflict = match args {
        SynthArgs { clips: Some(_), stems: Some(_), .. } => Some("--stems"),
        SynthArgs { clips: Some(_), midi: Some(_), .. } => Some("--midi"),
        SynthArgs { clips: Some(_), debug_capture: Some(_), .. } => Some("--debug-capture"),
        _ => None,
    };
    if args.clips.is_some() && args.variation.key.is_some() {
        return Err(Error::invalid("--key cannot be used with --clips").with_hint("each clip has a key of its own"));
    }
    match conflict {
        None => loudness(args).map(drop),
        Some(flag) => Err(Error::invalid(format!("{flag} cannot be used with --clips"))
            .with_hint("clips have their notes and parameters beside them; render one seed alone for more")),
    }
}

/// The largest acceptable distance from the requested loudness, in LU.
const NEAR: f64 = 0.1;

impl Rendered {
    /// Prints notes where the result differs from the request.
    fn report(&self, session: &Session, target: Option<f64>) {
        if let Some(target) = target {
            match self.loudness_lufs {
                Some(found) if (found - target).abs() <= NEAR => {}
                Some(found) => {
                    session.say(&format!("note: {found:.1} LUFS instead of {target}: {}", self.obstacle()));
                }
                None => session.say(&format!("note: the piece is silent or too short to be made {target} LUFS loud")),
            }
        }
        if self.clipped > 0 {
            let samples = count(self.clipped, "sample");
            session.say(&format!("note: {samples} of the stems clipped at full scale; --sample-format f32 keeps them"));
        }
    }

    /// Returns why the requested loudness is not reached.
    fn obstacle(&self) -> String {
        if self.level.is_limited {
            "the limiter holds peaks at -1 dBTP".to_owned()
        } else if self.gain_db() > MAX_GAIN_DB - NEAR {
            format!("the piece is too quiet for the largest gain of {MAX_GAIN_DB} dB")
        } else {
            "parts below -70 LUFS do not count, and fewer or more of them do at this level".to_owned()
        }
    }

    fn text(&self, n_notes: usize, wall: Duration) -> String {
        let level = match (self.loudness_lufs, self.peak_dbtp) {
            (Some(lufs), Some(peak)) => format!("{lufs:.1} LUFS, {peak:.1} dBTP"),
            (None, Some(peak)) => format!("{peak:.1} dBTP, too short or quiet to measure the loudness"),
            (_, None) => "silent".to_owned(),
        };
        format!(
            "{} of audio in {} ({}): {}, up to {}, {level}\n",
            duration::show(Duration::from_secs_f64(self.seconds())),
            duration::show(wall),
            realtime(self.seconds(), wall.as_secs_f64()),
            count(n_notes as u64, "note"),
            count(self.voices as u64, "voice"),
        )
    }

    fn json(&self, wall: Duration) -> Value {
        json!({
            "voices": self.voices,
            "samples": self.samples,
            "sample_rate_hz": self.sample_rate,
            "audio_seconds": self.seconds(),
            "wall_seconds": wall.as_secs_f64(),
            "peak_dbtp": self.peak_dbtp,
            "loudness_lufs": self.loudness_lufs,
            "gain_db": self.gain_db(),
            "dropped_notes": self.dropped,
            "clipped_samples": self.clipped,
            "stems": self.stems,
        })
    }
}
