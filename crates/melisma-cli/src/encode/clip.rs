//! One audio file or pipe to one token file or pipe, as a stream.

use std::path::Path;
use std::time::Instant;

use melisma::audio::{Rates, Stream, Target};
use melisma::fidelity::Meter;
use melisma::runtime::device::Device;
use melisma::runtime::memory::{Budget, Needed};
use melisma::snac::tokens::Format;
use melisma::snac::{Config, EncodeEngine, Engine, Recorder};
use melisma::{Error, ErrorKind, Result};

use super::flow::{self, Flow};
use super::report::Report;
use super::round_trip::RoundTrip;
use super::sink::{self, Sink};
use super::token_format::TokenFormat;
use crate::args::EncodeArgs;
use crate::codec::{Codec, loaded_bytes};
use crate::decode::refuse_mixing;
use crate::input::is_pipe;
use crate::session::Session;
use crate::terminal::is_closed_pipe;

/// More than a meter takes: the limit of the trial that measures its memory.
const TRIAL_BYTES: u64 = 128 << 20;

pub fn run(session: &Session, args: &EncodeArgs, input: &Path) -> Result<()> {
    let format = TokenFormat::choose(&args.output, Format::from_name(&args.format).unwrap_or_default())?;
    refuse_mixing(session, &args.output)?;
    let name = if is_pipe(input) { "stdin".to_owned() } else { input.display().to_string() };
    // Input and output are opened first: if that fails, no model needs to be loaded.
    let output = sink::open(session, &args.output)?;
    let context = session.context()?;
    let config = match Config::open(&args.model) {
        Ok(config) => config,
        // Opening the model says more.
        Err(error) => return Codec::open_in(context, &args.model).and(Err(error)),
    };
    let opening = Instant::now();
    let stream = open(args, input, &config).map_err(|error| flow::at(error, &name))?;
    let opening = opening.elapsed();
    let chunk = args.chunk.map(|frames| frames as usize);
    let waiting = flow::waiting_bytes(chunk, &stream, config.frame_len());
    let needed = Need { args, format, config: &config, stream: &stream, waiting }.on(context.device())?;
    session.require(context.device(), "encoding with this model", needed)?;
    let codec = Codec::open_in(context, &args.model)?;
    if matches!(format, TokenFormat::Text(_)) {
        codec.warn_of_builtin(session, "these tokens are codes", "name it with --model");
    }
    let _waiting = session.reserve(context.device(), "encoding with this model", stream.bytes() + waiting)?;
    let recorder = Recorder::new(&codec.model, context.queue(), context.budget())?;
    let round_trip = args.verify_audio.then(|| RoundTrip::new(context, &codec.model)).transpose()?;
    let sample_rate = codec.model.config().sampling_rate;
    let work = flow::Work { session, name: &name, sample_rate, chunk };
    let outlet = sink::Work { session, model: &codec.model, device: context.device() };
    let start = Instant::now();
    let sink = Sink::new(outlet, output, format);
    let outcome = match sink.and_then(|sink| Flow::new(work, stream, recorder, sink).verify(round_trip).run()) {
        Err(error) if is_closed_pipe(&error) => return Ok(()),
        outcome => outcome?,
    };
    let wall = opening + start.elapsed();
    let report = Report { codec: &codec, outcome, wall, format, min_snr_db: args.min_snr };
    if is_pipe(&args.output) {
        session.say(report.text().trim_end());
    } else {
        session.print(&codec.device, || report.text(), report.json(&args.model))?;
    }
    check(&report, &name, &args.output)
}

fn open(args: &EncodeArgs, input: &Path, config: &Config) -> Result<Stream> {
    let target = Target::new(config.sampling_rate).with_channel(args.channel).with_rates(Rates::Recorded);
    match is_pipe(input) {
        true => Stream::live(std::io::stdin(), target),
        false => Stream::open(input, target),
    }
}

/// What the memory of a clip depends on.
struct Need<'a> {
    args: &'a EncodeArgs,
    format: TokenFormat,
    config: &'a Config,
    stream: &'a Stream,
    /// Bytes of samples between the stream and the engine.
    waiting: u64,
}

impl Need<'_> {
    /// Returns the memory for the weights, the engines, the samples, and the codes of a list.
    fn on(&self, device: &Device) -> Result<Needed> {
        let Self { args, format, config, stream, waiting } = self;
        let mut needed = EncodeEngine::needed(config, device, 1);
        if args.verify_audio {
            // The original and the decoded audio wait for each other.
            needed.host += 2 * waiting;
            let meter = Meter::needed(device, &Budget::limited(TRIAL_BYTES), config.sampling_rate)?;
            for more in [Engine::needed(config, device, 1), meter] {
                needed.host += more.host;
                needed.device += more.device;
            }
        }
        let n_frames = stream.n_samples().unwrap_or(0).div_ceil(config.frame_len() as u64);
        let codes = n_frames * config.n_slots() as u64 * format.code_bytes();
        needed.host += loaded_bytes(&args.model) + stream.bytes() + waiting + codes;
        Ok(needed)
    }
}

/// Fails if the decoded audio is too far from the original. The tokens stay.
fn check(report: &Report<'_>, input: &str, output: &Path) -> Result<()> {
    let Some((snr_db, least)) = report.missed_snr() else { return Ok(()) };
    let message = format!("{input}: {snr_db:.2} dB signal-to-noise after decoding, --min-snr is {least}");
    let kept = match is_pipe(output) {
        true => "the tokens were written".to_owned(),
        false => format!("the tokens are in {}", output.display()),
    };
    Err(Error::new(ErrorKind::Check, message).with_hint(kept))
}
