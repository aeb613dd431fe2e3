//! Samples to frames of codes, in bounded memory for streams of any length.

use std::time::{Duration, Instant};

use indicatif::ProgressBar;
use melisma::audio::Stream;
use melisma::fidelity::Fidelity;
use melisma::snac::{Codes, EncodeEngine, StreamId};
use melisma::text::duration;
use melisma::{Error, Kind, Result};

use super::round_trip::RoundTrip;
use super::sink::Sink;
use crate::codec::with_hint;
use crate::progress;
use crate::session::Session;

/// Frames of a file that are encoded at once, unless `--chunk` is given.
const PIECE_FRAMES: usize = 64;

const CUT_OFF: &str = "the file was cut off: make or fetch it again";
const EXPECTED: &str = "audio is WAV, FLAC, MP3, Ogg Vorbis, M4A, AIFF or CAF; convert other formats, as in \
                        `ffmpeg -i IN OUT.wav`";

/// Everything a flow works with.
pub struct Work<'a> {
    pub session: &'a Session,
    /// The input's name in messages.
    pub name: &'a str,
    pub sample_rate: u32,
    /// Frames to encode at once.
    pub chunk: Option<usize>,
}

/// The result of encoding all samples.
pub struct Outcome {
    pub n_frames: u64,
    pub n_samples: u64,
    pub notes: Vec<String>,
    pub encoding: Duration,
    pub fidelity: Option<Fidelity>,
}

pub struct Flow<'a> {
    work: Work<'a>,
    input: Stream,
    engine: EncodeEngine,
    stream: StreamId,
    sink: Sink<'a>,
    round_trip: Option<RoundTrip>,
    bar: ProgressBar,
    /// Samples waiting for a whole piece.
    pending: Vec<f32>,
    piece_len: usize,
    n_frames: u64,
    encoding: Duration,
    n_notes: usize,
}

impl<'a> Flow<'a> {
    pub fn new(work: Work<'a>, input: Stream, mut engine: EncodeEngine, sink: Sink<'a>) -> Result<Self> {
        let stream = engine.open()?;
        let piece_len = match (work.chunk, input.n_samples()) {
            (Some(frames), _) => frames * engine.frame_len(),
            (None, Some(_)) => PIECE_FRAMES * engine.frame_len(),
            // A live stream must not wait.
            (None, None) => 1,
        };
        Ok(Self {
            bar: progress::bar(work.session, input.n_samples()),
            work,
            input,
            engine,
            stream,
            sink,
            round_trip: None,
            pending: Vec::new(),
            piece_len,
            n_frames: 0,
            encoding: Duration::ZERO,
            n_notes: 0,
        })
    }

    /// Also decodes the codes and compares.
    pub fn verify(self, round_trip: Option<RoundTrip>) -> Self {
        Self { round_trip, ..self }
    }

    /// Encodes all samples and finishes the output.
    pub fn run(mut self) -> Result<Outcome> {
        let encoded = self.encode();
        self.bar.finish_and_clear();
        encoded?;
        self.sink.finish()?;
        let fidelity = self.round_trip.map(RoundTrip::finish).transpose()?;
        Ok(Outcome {
            n_frames: self.n_frames,
            n_samples: self.input.n_read(),
            notes: self.input.notes(),
            encoding: self.encoding,
            fidelity,
        })
    }

    fn encode(&mut self) -> Result<()> {
        self.say_notes();
        loop {
            let samples = self.input.read().map_err(|error| at(error, self.work.name))?;
            if samples.is_empty() {
                break;
            }
            if let Some(trip) = &mut self.round_trip {
                trip.original(samples)?;
            }
            self.pending.extend_from_slice(samples);
            let n_ready = self.pending.len() - self.pending.len() % self.piece_len;
            if n_ready > 0 {
                let pending = std::mem::take(&mut self.pending);
                self.step(|engine, stream| engine.push(stream, &pending[..n_ready]))?;
                self.pending = pending;
                self.pending.drain(..n_ready);
            }
            self.show_progress();
        }
        let rest = std::mem::take(&mut self.pending);
        self.step(|engine, stream| engine.push(stream, &rest))?;
        self.step(EncodeEngine::finish)?;
        self.say_notes();
        Ok(())
    }

    fn step(&mut self, work: impl FnOnce(&mut EncodeEngine, StreamId) -> Result<Codes>) -> Result<()> {
        let start = Instant::now();
        let codes = work(&mut self.engine, self.stream)?;
        self.encoding += start.elapsed();
        self.n_frames += codes.n_frames() as u64;
        self.sink.write(codes.frames())?;
        match &mut self.round_trip {
            Some(trip) => trip.codes(codes.frames()),
            None => Ok(()),
        }
    }

    fn show_progress(&self) {
        let seconds = |n_samples: u64| n_samples as f64 / f64::from(self.work.sample_rate);
        let show = |n_samples: u64| duration::show(Duration::from_secs_f64(seconds(n_samples)));
        let n_read = self.input.n_read();
        let speed = seconds(n_read) / self.encoding.as_secs_f64().max(1e-9);
        let total = self.input.n_samples().map_or_else(String::new, |n| format!(" of {}", show(n)));
        self.bar.set_position(n_read);
        self.bar.set_message(format!("{}{total}, {speed:.1}x realtime", show(n_read)));
    }

    /// Says the notes that have not been said: some are known only at the end.
    fn say_notes(&mut self) {
        let notes = self.input.notes();
        let new = &notes[self.n_notes.min(notes.len())..];
        self.bar.suspend(|| new.iter().for_each(|note| self.work.session.say(&format!("note: {note}"))));
        self.n_notes = notes.len();
    }
}

/// Names the input in errors about it, but not in errors about the memory limit.
pub fn at(error: Error, input: &str) -> Error {
    match error.kind() {
        Kind::Memory => error,
        Kind::Truncated => with_hint(error.at(input), CUT_OFF),
        Kind::Corrupt | Kind::Unsupported => with_hint(error.at(input), EXPECTED),
        _ => error.at(input),
    }
}
