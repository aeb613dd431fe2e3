//! `melisma decode`: tokens to audio, written as soon as it is final.
//!
//! # Why is a file without a frame rejected?
//!
//! Exit code 0 and an empty WAV would hide a wrong format or a dead language model. The empty token
//! file that `encode` writes for an empty recording decodes to an empty recording. A pipe that
//! sends 64 MiB without a frame is rejected too: it would never end.

mod flow;
mod sink;

use std::path::Path;
use std::time::{Duration, Instant};

use melisma::audio;
use melisma::audio::wav::SampleFormat;
use melisma::config::Policy;
use melisma::runtime::device::Device;
use melisma::runtime::memory::Needed;
use melisma::snac::tokens::Format;
use melisma::snac::{Config, DecodeOptions, Engine, Noise, Player, Rounding};
use melisma::text::{count, duration, realtime};
use melisma::{Error, Result};
use serde_json::{Value, json};

use crate::args::DecodeArgs;
use crate::codec::{Codec, loaded_bytes};
use crate::input::{Input, is_pipe};
use crate::session::Session;
use crate::terminal::is_closed_pipe;
use flow::{Flow, Options, Outcome, Work};
pub use sink::{Layout, Output, Sink, partial_name};

pub fn run(session: &Session, args: &DecodeArgs) -> Result<()> {
    let _span = tracing::info_span!("decode").entered();
    let options = options(session, args)?;
    refuse_mixing(session, &args.output)?;
    let format = audio_format(&args.output, &args.sample_format)?;
    // Input and output are opened first: if that fails, no model needs to be loaded.
    let input = Input::open(&args.tokens)?;
    let output = Output::open(&args.output, session.existing)?;
    let context = session.context()?;
    session.require(context.device(), "decoding with this model", required_memory(&args.model, context.device()))?;
    let codec = Codec::open_in(context, &args.model)?;
    let player = Player::new(&codec.model, context.queue(), context.budget(), options.decoding.clone())?;
    let sink = Sink::new(output, Layout { sample_rate: codec.model.config().sampling_rate, format });
    let start = Instant::now();
    let outcome = match Flow::new(Work { session, codec: &codec, options: &options }, player, sink)?.run(input) {
        Err(error) if is_closed_pipe(&error) => return Ok(()),
        outcome => outcome?,
    };
    let report = Report { codec: &codec, outcome, wall: start.elapsed() };
    if is_pipe(&args.output) {
        session.say(report.text().trim_end());
        return Ok(());
    }
    session.print(&codec.device, || report.text(), report.json(&args.model))
}

/// Returns the memory that decoding needs: the weights, the first tokens, whose format is not known yet, and the
/// engine. A model that cannot be read counts as 0, because opening it fails later.
fn required_memory(model: &str, device: &Device) -> Needed {
    let engine = Config::open(model).map(|config| Engine::needed(&config, device, 1)).unwrap_or_default();
    Needed { host: loaded_bytes(model) + engine.host + flow::UNDECIDED_BYTES, ..engine }
}

/// Returns the format that the name of the output asks for. A pipe and a name without a suffix get WAV.
pub fn audio_format(output: &Path, sample_format: &str) -> Result<audio::Format> {
    let samples = SampleFormat::from_name(sample_format).unwrap_or_default();
    match output.extension() {
        Some(_) if !is_pipe(output) => audio::Format::of(output, samples),
        _ => Ok(audio::Format::Wav(samples)),
    }
}

/// Rejects `--json` with output to a pipe: one pipe cannot carry both a result and its description.
pub fn refuse_mixing(session: &Session, output: &Path) -> Result<()> {
    if is_pipe(output) && session.wants_json() {
        return Err(Error::invalid("--json and -o - both need stdout").with_hint("write the result to a file"));
    }
    Ok(())
}

/// Returns the noise that `text` names.
pub fn noise(text: &str) -> Result<Noise> {
    let wrong =
        || Error::invalid(format!("`{text}` is not a noise setting")).with_hint("use off, or seed:N as in seed:7");
    match text {
        "off" => Ok(Noise::Off),
        _ => text.strip_prefix("seed:").and_then(|seed| seed.parse().ok()).map(Noise::Seed).ok_or_else(wrong),
    }
}

fn options(session: &Session, args: &DecodeArgs) -> Result<Options> {
    Ok(Options {
        format: Format::from_name(&args.format).unwrap_or_default(),
        decoding: DecodeOptions::default().with_noise(noise(&args.noise)?).with_rounding(rounding(session)?),
        chunk: args.chunk.map(|frames| frames as usize),
        start: if args.early { flow::Start::Early } else { flow::Start::Exact },
    })
}

/// Returns the rounding allowed on a GPU by the settings `precision` and `tf32`. The CPU always computes in
/// FP32.
pub fn rounding(session: &Session) -> Result<Rounding> {
    Policy::new(&session.config).rounding().map_err(|error| error.at("decode"))
}

struct Report<'a> {
    codec: &'a Codec,
    outcome: Outcome,
    wall: Duration,
}

impl Report<'_> {
    fn sample_rate(&self) -> u32 {
        self.codec.model.config().sampling_rate
    }

    fn audio_seconds(&self) -> f64 {
        self.outcome.n_samples as f64 / f64::from(self.sample_rate())
    }

    fn text(&self) -> String {
        let ledger = self.outcome.ledger;
        let (audio, wall) = (self.audio_seconds(), self.wall.as_secs_f64());
        let early = match self.outcome.early_samples {
            0 => String::new(),
            n => format!("early: {} played before they were final\n", count(n, "sample")),
        };
        format!(
            "{}, {} of audio at {} Hz in {} ({})\n\
             tokens: {} accepted, {} rejected, {}; frames: {} concealed, {} dropped\n{early}",
            count(ledger.frames, "frame"),
            duration::show(Duration::from_secs_f64(audio)),
            self.sample_rate(),
            duration::show(self.wall),
            realtime(audio, wall),
            ledger.accepted,
            ledger.rejected,
            count(ledger.resyncs, "resync"),
            ledger.concealed_frames,
            ledger.dropped_frames,
        )
    }

    fn json(&self, source: &str) -> Value {
        let Outcome { ledger, n_samples, format, notes, early_samples, gap_samples, decode_seconds } = &self.outcome;
        let (audio, wall) = (self.audio_seconds(), self.wall.as_secs_f64());
        json!({
            "frames": ledger.frames,
            "samples": n_samples,
            "sample_rate_hz": self.sample_rate(),
            "audio_seconds": audio,
            "wall_seconds": wall,
            "load_seconds": self.codec.load_seconds,
            "decode_seconds": decode_seconds,
            // Seconds of work per second of audio: below 1 is faster than real time.
            "real_time_factor": (audio > 0.0).then(|| wall / audio),
            "tokens": {
                "accepted": ledger.accepted,
                "rejected": ledger.rejected,
                "resyncs": ledger.resyncs,
                "concealed_frames": ledger.concealed_frames,
                "dropped_frames": ledger.dropped_frames,
            },
            "format": format,
            "model": { "source": source, "hash": self.codec.model.hash() },
            "early": { "samples": early_samples, "gap_samples": gap_samples },
            "notes": notes,
        })
    }
}
