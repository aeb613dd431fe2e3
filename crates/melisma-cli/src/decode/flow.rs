//! Bytes to frames to samples, in bounded memory for streams of any length.

use std::time::{Duration, Instant};

use indicatif::ProgressBar;
use melisma::runtime::memory::Reservation;
use melisma::snac::tokens::{Format, Ledger, Reader};
use melisma::snac::{Codes, DecodeOptions, Frames, Player, Progress};
use melisma::text::{count, realtime, size};
use melisma::{Error, ErrorKind, Result};

use super::sink::Sink;
use crate::codec::{BUILTIN, Codec, with_hint};
use crate::input::Input;
use crate::progress;
use crate::session::Session;

/// Bytes per read.
const READ_LEN: usize = 1 << 16;
/// Frames decoded before their samples are written, unless `--chunk` is given.
const PIECE_FRAMES: usize = 64;
/// The most bytes of memory per byte of a list of codes.
const LISTED: u64 = 8;
/// Bytes reserved for the first read, before the format is known: it may begin a list of codes.
pub const UNDECIDED_BYTES: u64 = LISTED * READ_LEN as u64;
/// A stream without a frame in this many bytes is rejected.
const MAX_FRAMELESS: u64 = 64 << 20;

const FORMATS: &str = "tokens are text with <custom_token_N>, vocabulary ids, or lists of codes; --format says which";

/// When the first samples are output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Start {
    /// Once they are final.
    Exact,
    /// With the first chunk, computed as if it were the last.
    Early,
}

pub struct Options {
    pub format: Format,
    pub decoding: DecodeOptions,
    pub chunk: Option<usize>,
    pub start: Start,
}

/// Everything a flow works with.
pub struct Work<'a> {
    pub session: &'a Session,
    pub codec: &'a Codec,
    pub options: &'a Options,
}

/// The result of decoding all tokens.
pub struct Outcome {
    pub ledger: Ledger,
    pub n_samples: u64,
    pub format: &'static str,
    pub notes: Vec<String>,
    pub early_samples: u64,
    pub gap_samples: u64,
    pub decode_seconds: f64,
}

pub struct Flow<'a> {
    session: &'a Session,
    codec: &'a Codec,
    options: &'a Options,
    reader: Reader,
    stream: Player,
    progress: Progress,
    sink: Sink,
    bar: ProgressBar,
    /// Frames waiting for a full chunk.
    pending: Codes,
    frame_codes: usize,
    n_samples: u64,
    /// Bytes since the last frame.
    n_frameless: u64,
    gap_samples: u64,
    decoding: Duration,
    /// Time since the last chunk in which text became frames.
    validating: Duration,
    n_chunks: u64,
    notes: Vec<String>,
    /// Memory of a list of codes, held until the list is complete.
    list_memory: Vec<Reservation>,
}

/// Whether more frames may follow.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Pending {
    More,
    Last,
}

impl<'a> Flow<'a> {
    pub fn new(work: Work<'a>, stream: Player, sink: Sink) -> Result<Self> {
        let Work { session, codec, options } = work;
        let config = codec.model.config();
        Ok(Self {
            session,
            codec,
            options,
            reader: Reader::new(options.format, config)?,
            stream,
            progress: Progress::default(),
            sink,
            bar: ProgressBar::hidden(),
            pending: Codes::empty(config),
            frame_codes: config.n_slots(),
            n_samples: 0,
            n_frameless: 0,
            gap_samples: 0,
            decoding: Duration::ZERO,
            validating: Duration::ZERO,
            n_chunks: 0,
            notes: Vec::new(),
            list_memory: Vec::new(),
        })
    }

    /// Decodes all of `input` and finishes the output.
    pub fn run(mut self, mut input: Input) -> Result<Outcome> {
        self.bar = progress::bar(self.session, input.len());
        let outcome = self.read_all(&mut input).map_err(|error| error_at(error, input.name()));
        self.bar.finish_and_clear();
        outcome?;
        self.check_frames().map_err(|error| error.at(input.name()))?;
        let Self { session, codec, stream, mut sink, reader, mut decoding, mut n_samples, .. } = self;
        let early_samples = self.progress.early;
        let start = Instant::now();
        let rest = stream.finish()?;
        let flushing = start.elapsed();
        decoding += flushing;
        n_samples += rest.len() as u64;
        let start = Instant::now();
        sink.write(&rest)?;
        sink.finish()?;
        if session.settings.verbose.value {
            let [decode, write] = [flushing, start.elapsed()].map(|stage| stage.as_secs_f64() * 1e3);
            let sound = sound_ms(codec, rest.len());
            session.say(&format!("flush: decode {decode:.3} ms, write {write:.3} ms, {sound:.0} ms of sound"));
        }
        Ok(Outcome {
            ledger: reader.ledger(),
            n_samples,
            format: name(reader.format()),
            notes: self.notes,
            early_samples,
            gap_samples: self.gap_samples,
            decode_seconds: decoding.as_secs_f64(),
        })
    }

    fn read_all(&mut self, input: &mut Input) -> Result<()> {
        let mut bytes = vec![0; READ_LEN];
        loop {
            let n = input.read(&mut bytes)?;
            self.reserve_list(n)?;
            let before = self.reader.ledger().frames;
            let start = Instant::now();
            let codes = if n == 0 { self.reader.finish()? } else { self.reader.push(&bytes[..n])? };
            self.validating += start.elapsed();
            self.pending.append(codes.frames())?;
            let found = self.reader.ledger().frames > before;
            self.n_frameless = if found { 0 } else { self.n_frameless + n as u64 };
            self.check_endless()?;
            self.check_origin()?;
            self.decode(if n == 0 { Pending::Last } else { Pending::More })?;
            if n == 0 {
                return Ok(());
            }
            self.bar.inc(n as u64);
        }
    }

    /// Counts the memory of a list of codes while it is read: its text, and every code as a number,
    /// twice.
    fn reserve_list(&mut self, n_read: usize) -> Result<()> {
        if matches!(self.reader.format(), Format::Codes | Format::Auto) && n_read > 0 {
            let bytes = LISTED * n_read as u64;
            self.list_memory.push(self.session.reserve(&self.codec.device, "this list of codes", bytes)?);
        }
        Ok(())
    }

    /// Decodes the frames that form whole chunks, and at the end the rest.
    fn decode(&mut self, more: Pending) -> Result<()> {
        let pending = std::mem::replace(&mut self.pending, Codes::empty(self.codec.model.config()));
        let mut rest = pending.frames();
        while !rest.is_empty() {
            let piece = self.piece_frames();
            if rest.len() < piece && self.options.chunk.is_some() && more == Pending::More {
                break;
            }
            let (now, later) = rest.split_at(piece.min(rest.len()));
            self.decode_piece(now)?;
            rest = later;
        }
        self.pending.append(rest)?;
        self.sink.flush()
    }

    fn piece_frames(&self) -> usize {
        let is_first = self.progress.pushed == 0;
        let first = if is_first && self.options.start == Start::Early { 1 } else { PIECE_FRAMES };
        self.options.chunk.unwrap_or(first)
    }

    fn decode_piece(&mut self, frames: Frames<'_>) -> Result<()> {
        let _span = tracing::info_span!("frames", n = frames.len()).entered();
        let start = Instant::now();
        let mut samples = self.stream.push(frames)?;
        if samples.is_empty() && self.options.start == Start::Early {
            samples = self.stream.peek()?;
        }
        self.progress = self.stream.progress()?;
        let decoding = start.elapsed();
        self.decoding += decoding;
        self.gap_samples = self.gap_samples.max(self.progress.gap());
        self.n_samples += samples.len() as u64;
        let audio = self.n_samples as f64 / f64::from(self.codec.model.config().sampling_rate);
        let speed = realtime(audio, self.decoding.as_secs_f64());
        self.bar.set_message(format!("{} frames, {speed}", self.reader.ledger().frames));
        let start = Instant::now();
        self.sink.write(&samples)?;
        self.report_chunk(frames.len(), samples.len(), [decoding, start.elapsed()]);
        Ok(())
    }

    /// Prints the stages of a chunk with `--verbose`. Chunks of one read share its validation: the first
    /// has it.
    fn report_chunk(&mut self, n_frames: usize, n_samples: usize, [decoding, writing]: [Duration; 2]) {
        self.n_chunks += 1;
        let validating = std::mem::take(&mut self.validating);
        if !self.session.settings.verbose.value {
            return;
        }
        let [validation, decode, write] = [validating, decoding, writing].map(|stage| stage.as_secs_f64() * 1e3);
        let sound = sound_ms(self.codec, n_samples);
        let line = format!(
            "chunk {}: {}, validation {validation:.3} ms, decode {decode:.3} ms, write {write:.3} ms, {sound:.0} ms of \
             sound",
            self.n_chunks,
            count(n_frames as u64, "frame"),
        );
        self.bar.suspend(|| self.session.say(&line));
    }

    /// Rejects tokens of another model, and warns once about tokens that may be from another model.
    fn check_origin(&mut self) -> Result<()> {
        self.reader.origin(&self.codec.model)?;
        if self.reader.is_doubtful(&self.codec.model) && self.notes.is_empty() {
            let note = format!(
                "these tokens do not say which model made them; {BUILTIN} has codebooks of its own, and tokens of another \
                 model sound like noise"
            );
            self.bar.suspend(|| {
                self.session.say(&format!("warning: {note}\nhint: name the model that made them with --model"));
            });
            self.notes.push(note);
        }
        Ok(())
    }

    fn check_endless(&self) -> Result<()> {
        // A list of codes is complete only at its end, and has its own limit.
        if self.n_frameless < MAX_FRAMELESS || self.reader.format() == Format::Codes {
            return Ok(());
        }
        let (len, ledger) = (size::show(MAX_FRAMELESS), self.reader.ledger());
        let message = format!("{len} without a whole frame; {} rejected so far", count(ledger.rejected, "token"));
        Err(Error::corrupt(message).with_hint(FORMATS))
    }

    /// Rejects input without a frame, unless an encoder wrote it for an empty clip.
    fn check_frames(&self) -> Result<()> {
        let ledger = self.reader.ledger();
        let is_made_empty = self.reader.stamp().is_some() || self.reader.format() == Format::Codes;
        if ledger.frames > 0 || (ledger.seen() == 0 && is_made_empty) {
            return Ok(());
        }
        let message = match ledger.seen() {
            0 => "no tokens in it".to_owned(),
            n => format!("{}, but no whole frame of {} in order", count(n, "token"), self.frame_codes),
        };
        Err(Error::corrupt(message).with_hint(FORMATS))
    }
}

fn sound_ms(codec: &Codec, n_samples: usize) -> f64 {
    n_samples as f64 * 1e3 / f64::from(codec.model.config().sampling_rate)
}

/// Names the input in errors about it, but not in those about the output.
fn error_at(error: Error, input: &str) -> Error {
    match error.kind() {
        ErrorKind::Io | ErrorKind::Memory => error,
        _ => with_hint(error.at(input), FORMATS),
    }
}

fn name(format: Format) -> &'static str {
    match format {
        Format::Auto => "auto",
        Format::Orpheus => "orpheus",
        Format::Ids => "ids",
        Format::Codes => "codes",
    }
}
