//! The score: a file, or a piece generated from a preset.

use std::path::Path;

use melisma::config::DeviceRequest;
use melisma::runtime::device::{self, Device};
use melisma::runtime::memory::{Reservation, Space};
use melisma::synth::{Length, Parts, STYLES, Score, Sequence, SoundFont, Style, compose, seed};
use melisma::{Error, Result};

use super::piece::{seconds, seed_text, style};
use super::request::RenderRequest;
use crate::args::{StemsBy, SynthArgs};
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
    let Read { score, sequence, tracks } = match style(args)? {
        Some(style) => {
            let score = compose(&style, seed(seed_text(args)), seconds(args))?;
            Read { score, sequence: None, tracks: None }
        }
        None if args.seed.is_some() => {
            return Err(Error::invalid(format!("{}: --seed needs a preset", args.score()))
                .with_hint("a score file has its notes already; leave --seed out"));
        }
        None => read(session, args, request)?,
    };
    let sampled =
        args.soundfont.as_ref().map(|path| Sampled::open((session, &cpu), path, &score, sequence)).transpose()?;
    // A SoundFont plays the notes of its sequence.
    let notes = sampled.as_ref().map_or(&score, |sampled| sampled.sequence.score());
    let parts = args.stems.as_ref().map(|_| tracks.unwrap_or_else(|| Parts::by_instrument(notes)));
    let setup = request.setup(1.0);
    let playing = parts.as_ref().map_or_else(|| setup.bytes(&score), |parts| setup.bytes_with(&score, parts));
    let memory = session.reserve(&cpu, "playing this score", score.bytes() + playing)?;
    Ok(ReservedScore { score, sampled, parts, _memory: memory })
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
        let (font, memory) = font((session, cpu), path, sequence.bytes())?;
        Ok(Self { sequence, font, _memory: memory })
    }
}

/// Opens a SoundFont, with a reservation for it and for `more` bytes.
pub fn font((session, cpu): (&Session, &Device), path: &Path, more: u64) -> Result<(SoundFont, Reservation)> {
    let file = std::fs::metadata(path)
        .map_err(|error| Error::io(terminal::name(path), error).with_hint("name an .sf2 file"))?;
    if file.is_dir() {
        return Err(
            Error::invalid(format!("{}: this is a folder", terminal::name(path))).with_hint("name an .sf2 file in it")
        );
    }
    let bytes = SoundFont::needed(file.len()).saturating_add(more);
    let memory = session.reserve(cpu, "playing this SoundFont", bytes)?;
    Ok((SoundFont::open(path)?, memory))
}

/// What was read or composed.
struct Read {
    score: Score,
    /// For a SoundFont.
    sequence: Option<Sequence>,
    /// For stems by track; a preset and a JSON score have none.
    tracks: Option<Parts>,
}

fn read(session: &Session, args: &SynthArgs, request: &RenderRequest) -> Result<Read> {
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
    let parse = || -> Result<Read> {
        if let Kind::Json = kind.unwrap_or_else(|| Kind::detect(&bytes)) {
            return Ok(Read { score: Score::from_json(&bytes)?, sequence: None, tracks: None });
        }
        let sequence = args.soundfont.as_ref().map(|_| Sequence::from_midi(&bytes)).transpose()?;
        let score = sequence.as_ref().map_or_else(|| Score::from_midi(&bytes), |read| Ok(read.score().clone()))?;
        let by_track = args.stems.is_some() && args.stems_by == StemsBy::Track;
        Ok(Read { score, sequence, tracks: by_track.then(|| Parts::by_track(&bytes)).transpose()? })
    };
    let read = parse().map_err(|error| error.at(&name))?;
    match request.length {
        Length::Whole if read.score.notes.is_empty() => {
            Err(Error::invalid(format!("{name}: there are no notes in it"))
                .with_hint("name another score, or give the length of its silence by --seconds"))
        }
        _ => Ok(read),
    }
}

/// A score, and its reservation under the memory limit.
pub struct ReservedScore {
    pub score: Score,
    pub sampled: Option<Sampled>,
    /// What has a stem of its own, where stems are written.
    pub parts: Option<Parts>,
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
