//! `melisma synth`: scores and generated music to sound.

mod clips;
mod render;
mod sink;
mod source;

use std::time::{Duration, Instant};

use melisma::runtime::{duration, output};
use melisma::synth::{Choice, voice_seconds};
use melisma::{Error, Result};
use serde_json::{Value, json};

use crate::args::SynthArgs;
use crate::decode::refuse_mixing;
use crate::input::is_pipe;
use crate::session::Session;
use render::{Order, Rendered};

pub fn run(session: &Session, args: &SynthArgs) -> Result<()> {
    let _span = tracing::info_span!("synth").entered();
    check(session, args)?;
    if let Some(n) = args.clips {
        return clips::run(session, args, n);
    }
    let score = source::open(args)?;
    let order = Order::new(session, args)?;
    let choice = choose(session, args, voice_seconds(order.take(&score), args.rate))?;
    let midi = match &args.midi {
        Some(path) => Some((output::OutputFile::create(path, session.existing)?, score.to_midi()?)),
        None => None,
    };
    let start = Instant::now();
    let rendered = order.render(session, &score, &choice.device)?;
    if let Some((mut file, bytes)) = midi {
        let path = file.path().to_owned();
        std::io::Write::write_all(&mut file, &bytes).map_err(|error| output::failed(&path, error))?;
        file.commit()?;
    }
    let wall = start.elapsed();
    if rendered.dropped > 0 {
        session.say(&format!("note: {} notes found no voice", rendered.dropped));
    }
    rendered.tell(session, order.loudness);
    let text = || rendered.text(score.notes.len(), wall) + &shown(&choice);
    if is_pipe(&args.output) {
        session.say(text().trim_end());
        return Ok(());
    }
    let mut json = rendered.json(wall);
    json["notes"] = score.notes.len().into();
    json["output"] = args.output.display().to_string().into();
    json["seed"] = args.seed.clone().into();
    json["loudness_target_lufs"] = order.loudness.into();
    json["device_reason"] = choice.reason.clone().into();
    session.print(&choice.device, text, json)
}

/// The device for so many seconds of voices. Where the level is found first, the CPU plays twice.
fn choose(session: &Session, args: &SynthArgs, voice_seconds: Result<f64>) -> Result<Choice> {
    let n_passes = if loudness(args)?.is_some() { 2.0 } else { 1.0 };
    let (request, threads) = (session.config.device.value, session.config.threads.value);
    melisma::synth::choose(request, threads, voice_seconds.map(|seconds| n_passes * seconds))
}

fn shown(choice: &Choice) -> String {
    format!("voices on {}: {}\n", choice.device, choice.reason)
}

/// Refuses what cannot be meant, before any work.
fn check(session: &Session, args: &SynthArgs) -> Result<()> {
    refuse_mixing(session, &args.output)?;
    if args.seconds.is_some_and(|seconds| !(seconds > 0.0 && seconds <= melisma::synth::MAX_SECONDS)) {
        let message = format!("--seconds {}: more than 0 and at most 86400", args.seconds.unwrap_or_default());
        return Err(Error::invalid(message).with_hint("a day is the longest piece"));
    }
    let conflict = match args {
        SynthArgs { clips: Some(_), stems: Some(_), .. } => Some("--stems"),
        SynthArgs { clips: Some(_), midi: Some(_), .. } => Some("--midi"),
        SynthArgs { clips: Some(_), debug_capture: Some(_), .. } => Some("--debug-capture"),
        _ => None,
    };
    match conflict {
        None => loudness(args).map(drop),
        Some(flag) => Err(Error::invalid(format!("{flag} does not go with --clips"))
            .with_hint("clips have their notes and parameters beside them; render one seed alone for more")),
    }
}

/// The loudness that is asked for.
fn loudness(args: &SynthArgs) -> Result<Option<f64>> {
    match args.loudness.as_str() {
        "off" => Ok(None),
        text => text.parse().ok().filter(|lufs| (-70.0..=0.0).contains(lufs)).map(Some).ok_or_else(|| {
            Error::invalid(format!("--loudness {text}: -70 to 0 LUFS, or off"))
                .with_hint("-14 to -23 is usual for music")
        }),
    }
}

/// How near to the loudness that is asked for is near enough, in LU.
const NEAR: f64 = 0.1;

impl Rendered {
    /// Says what is not as it was asked for.
    fn tell(&self, session: &Session, target: Option<f64>) {
        if let Some(target) = target {
            match self.loudness_lufs {
                Some(found) if (found - target).abs() <= NEAR => {}
                Some(found) => session.say(&format!(
                    "note: {found:.1} LUFS, not {target}: the limiter, or the most gain there is, does not allow more"
                )),
                None => session.say(&format!("note: the piece is silent or too short to be made {target} LUFS loud")),
            }
        }
        if self.clipped > 0 {
            let n = self.clipped;
            session.say(&format!(
                "note: {n} samples of the stems are beyond full scale and cut; --sample-format f32 keeps them"
            ));
        }
    }

    fn text(&self, n_notes: usize, wall: Duration) -> String {
        let show = |value: Option<f64>| value.map_or("silence".to_owned(), |value| format!("{value:.1}"));
        format!(
            "{} of sound in {} ({:.0} x realtime): {n_notes} notes, up to {} voices, {} LUFS, {} dBTP\n",
            duration::show(Duration::from_secs_f64(self.seconds())),
            duration::show(wall),
            self.seconds() / wall.as_secs_f64().max(1e-9),
            self.voices,
            show(self.loudness_lufs),
            show(self.peak_dbtp),
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
            "gain_db": 20.0 * f64::from(self.gain).log10(),
            "dropped_notes": self.dropped,
            "clipped_samples": self.clipped,
            "stems": self.stems,
        })
    }
}
