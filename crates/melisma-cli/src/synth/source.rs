//! The score: a file, or a piece generated from a preset.

use std::path::Path;

use melisma::config::DeviceRequest;
use melisma::runtime::device::{self, Device};
use melisma::runtime::memory::{Reservation, Space};
use melisma::synth::{STYLES, Score, Sequence, SoundFont, Style, compose, seed};
use melisma::{Error, Result};

use super::piece::{seconds, seed_text, style};
use super::request::RenderRequest;
use crate::args::SynthArgs;
use crate::input::{Input, is_pipe};
use crate::session::Session;
use crate::terminal;

/// The largest file; the readers have their own limits.
const MAX_BYTES: u64 = 512 << 20;
/// The most bytes of parsing memory per byte of a file: three bytes of MIDI become a message of 32.
const PARSED: u64 = 12;
/// The most bytes of notes and their events per byte of a file.
const PLAYED: u64 = 24;

pub fn open(session: &Session, args: &SynthArgs, request: &RenderRequest) -> Result<ReservedScore> {
    let cpu = device::select(DeviceRequest::Cpu, session.config.threads.value)?;
    let (score, sequence) = match style(args)? {
        Some(style) => (compose(&style, seed(seed_text(args)), seconds(args))?, None),
        None if args.seed.is_some() => {
            return Err(Error::invalid(format!("{}: --seed needs a preset", args.score()))
                .with_hint("a score file has its notes already; leave --seed out"));
        }
        None => read(session, args, request)?,
    };
    let sampled =
        args.soundfont.as_ref().map(|path| Sampled::open((session, &cpu), path, &score, sequence)).transpose()?;
    let bytes = score.bytes() + request.setup(1.0).bytes(&score);
    let memory = session.reserve(&cpu, "playing this score", bytes)?;
    Ok(ReservedScore { score, sampled, _memory: memory })
}

/// A SoundFont, and the messages that it plays.
pub struct Sampled {
    pub sequence: Sequence,
    pub font: SoundFont,
    _memory: Reservation,
}

impl Sampled {
    fn open(
        (session, cpu): (&Session, &Device),
        path: &Path,
        score: &Score,
        sequence: Option<Sequence>,
    ) -> Result<Self> {
        let sequence = sequence.map_or_else(|| Sequence::from_score(score), Ok)?;
        let file = std::fs::metadata(path)
            .map_err(|error| Error::io(terminal::name(path), error).with_hint("name an .sf2 file"))?;
        if file.is_dir() {
            return Err(Error::invalid(format!("{}: this is a directory", terminal::name(path)))
                .with_hint("name an .sf2 file in it"));
        }
        let bytes = SoundFont::needed(file.len()).saturating_add(sequence.bytes());
        let memory = session.reserve(cpu, "playing this SoundFont", bytes)?;
        Ok(Self { sequence, font: SoundFont::open(path)?, _memory: memory })
    }
}

fn read(session: &Session, args: &SynthArgs, request: &RenderRequest) -> Result<(Score, Option<Sequence>)> {
    let path = Path::new(args.score());
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
    let read = match kind.unwrap_or_else(|| Kind::detect(&bytes)) {
        Kind::Midi if args.soundfont.is_some() => {
            Sequence::from_midi(&bytes).map(|sequence| (sequence.score().clone(), Some(sequence)))
        }
        Kind::Midi => Score::from_midi(&bytes).map(|score| (score, None)),
        Kind::Json => Score::from_json(&bytes).map(|score| (score, None)),
    };
    read.map_err(|error| error.at(&name))
}

/// A score, and its reservation under the memory limit.
pub struct ReservedScore {
    pub score: Score,
    pub sampled: Option<Sampled>,
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

    fn detect(bytes: &[u8]) -> Self {
        if bytes.starts_with(b"MThd") || bytes.starts_with(b"RIFF") { Self::Midi } else { Self::Json }
    }
}

/// Lists the presets if the file does not exist.
fn not_there(args: &SynthArgs, error: Error) -> Error {
    if Path::new(args.score()).exists() || is_pipe(Path::new(args.score())) {
        return error;
    }
    match Style::named(args.score()) {
        Ok(style) => error.with_hint(format!("did you mean `preset:{}`?", style.name)),
        Err(_) => error.with_hint(format!("name a .mid or .json file, - for a pipe, or one of {}", presets())),
    }
}

fn presets() -> String {
    STYLES.iter().map(|style| format!("preset:{}", style.name)).collect::<Vec<_>>().join(", ")
}
