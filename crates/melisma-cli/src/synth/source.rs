//! The score: a file, or a piece generated from a preset.

use std::path::Path;

use melisma::config::DeviceRequest;
use melisma::runtime::device;
use melisma::runtime::memory::{Reservation, Space};
use melisma::synth::{STYLES, Score, Style, compose, seed};
use melisma::{Error, Result};

use super::piece::{seconds, seed_text, style};
use super::request::RenderRequest;
use crate::args::SynthArgs;
use crate::input::{Input, is_pipe};
use crate::session::Session;

/// The largest file; the readers have their own limits.
const MAX_BYTES: u64 = 512 << 20;
/// The most bytes of parsing memory per byte of a file: three bytes of MIDI become a message of 32.
const PARSED: u64 = 12;
/// The most bytes of notes and their events per byte of a file.
const PLAYED: u64 = 24;

pub fn open(session: &Session, args: &SynthArgs, request: &RenderRequest) -> Result<ReservedScore> {
    let cpu = device::select(DeviceRequest::Cpu, session.config.threads.value)?;
    let score = match style(args)? {
        Some(style) => compose(&style, seed(seed_text(args)), seconds(args))?,
        None if args.seed.is_some() => {
            return Err(Error::invalid(format!("{}: --seed needs a preset", args.score))
                .with_hint("a score file has its notes already; leave --seed out"));
        }
        None => read(session, args, request)?,
    };
    let bytes = score.bytes() + request.setup(1.0).bytes(&score);
    let memory = session.reserve(&cpu, "playing this score", bytes)?;
    Ok(ReservedScore { score, _memory: memory })
}

fn read(session: &Session, args: &SynthArgs, request: &RenderRequest) -> Result<Score> {
    let path = Path::new(&args.score);
    let input = Input::open(path).map_err(|error| not_there(args, error))?;
    let name = input.name().to_owned();
    let kind = if is_pipe(path) { None } else { Some(Kind::of(path)?) };
    let cpu = device::select(DeviceRequest::Cpu, session.config.threads.value)?;
    let free = session.memory(&cpu).budget().free(Space::Host);
    let limit = MAX_BYTES.min(free / PARSED);
    let too_small = |len: u64| {
        let playing = request.setup(1.0).bytes(&Score::default()) + PLAYED * len;
        session.too_small("reading and playing this score", playing.max(PARSED * len))
    };
    if let Some(len) = input.len().filter(|len| (limit + 1..=MAX_BYTES).contains(len)) {
        return Err(too_small(len));
    }
    let bytes = session.read_all(&cpu, input, MAX_BYTES, PARSED)?;
    let _parsing = session.reserve(&cpu, "reading this score", PARSED * bytes.len() as u64)?;
    let read = match kind.unwrap_or_else(|| Kind::found(&bytes)) {
        Kind::Midi => Score::from_midi,
        Kind::Json => Score::from_json,
    };
    read(&bytes).map_err(|error| error.at(&name))
}

/// A score, and its reservation under the memory limit.
pub struct ReservedScore {
    pub score: Score,
    _memory: Reservation,
}

/// The format of a score.
enum Kind {
    Midi,
    Json,
}

impl Kind {
    fn of(path: &Path) -> Result<Self> {
        let suffix = path.extension().map(|suffix| suffix.to_string_lossy().to_lowercase());
        match suffix.as_deref() {
            Some("mid" | "midi" | "smf" | "rmi") => Ok(Self::Midi),
            Some("json") => Ok(Self::Json),
            _ => Err(Error::invalid(format!("{}: scores end in .mid, .midi, .smf, .rmi or .json", path.display()))
                .with_hint("rename the file, or pipe it in: `melisma synth - < FILE` looks at the content")),
        }
    }

    fn found(bytes: &[u8]) -> Self {
        if bytes.starts_with(b"MThd") || bytes.starts_with(b"RIFF") { Self::Midi } else { Self::Json }
    }
}

/// If the file does not exist, lists the presets.
fn not_there(args: &SynthArgs, error: Error) -> Error {
    if Path::new(&args.score).exists() || is_pipe(Path::new(&args.score)) {
        return error;
    }
    match Style::named(&args.score) {
        Ok(style) => error.with_hint(format!("did you mean `preset:{}`?", style.name)),
        Err(_) => error.with_hint(format!("name a .mid or .json file, - for a pipe, or one of {}", presets())),
    }
}

fn presets() -> String {
    STYLES.iter().map(|style| format!("preset:{}", style.name)).collect::<Vec<_>>().join(", ")
}
