//! Samples to frames of codes, in bounded memory for streams of any length.

use std::time::{Duration, Instant};

use indicatif::ProgressBar;
use melisma::audio::Stream;
use melisma::fidelity::Fidelity;
use melisma::snac::{Codes, Recorder};
use melisma::text::duration;
use melisma::{Error, ErrorKind, Result};

use super::round_trip::RoundTrip;
use super::sink::Sink;
use crate::codec::with_hint;
use crate::progress;
use crate::session::Session;

/// Frames of a file that are encoded at once, unless `--chunk` is given.
const PIECE_FRAMES: usize = 64;

const CHANNELS: &str = "use --channel mix, or the number of one of its channels";
const CUT_OFF: &str = "the file was cut off: make or fetch it again";
const DAMAGED: &str = "the file is damaged: make or fetch it again; `ffmpeg -i IN OUT.wav` may save a part of it";
const EXPECTED: &str = "audio is WAV, FLAC, MP3, Ogg Vorbis, Opus, WebM, M4A, AIFF or CAF; convert other formats, \
                        as in `ffmpeg -i IN OUT.wav`";

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
    /// `None` after its end.
    recorder: Option<Recorder>,
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
    pub fn new(work: Work<'a>, input: Stream, recorder: Recorder, sink: Sink<'a>) -> Self {
        let piece_len = piece_len(work.chunk, input.n_samples(), recorder.frame_len());
        Self {
            bar: progress::bar(work.session, input.n_samples()),
            work,
            input,
            recorder: Some(recorder),
            sink,
            round_trip: None,
            pending: Vec::new(),
            piece_len,
            n_frames: 0,
            encoding: Duration::ZERO,
            n_notes: 0,
        }
    }

    /// Adds a check that decodes the codes and compares.
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
        self.print_notes();
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
                self.push(&pending[..n_ready])?;
                self.pending = pending;
                self.pending.drain(..n_ready);
            }
            self.show_progress();
        }
        let rest = std::mem::take(&mut self.pending);
        self.push(&rest)?;
        self.finish()?;
        self.print_notes();
        Ok(())
    }

    fn push(&mut self, samples: &[f32]) -> Result<()> {
        let start = Instant::now();
        let codes = self.recorder.as_mut().map(|recorder| recorder.push(samples)).transpose()?;
        self.encoding += start.elapsed();
        self.write(codes)
    }

    fn finish(&mut self) -> Result<()> {
        let start = Instant::now();
        let codes = self.recorder.take().map(Recorder::finish).transpose()?;
        self.encoding += start.elapsed();
        self.write(codes)
    }

    fn write(&mut self, codes: Option<Codes>) -> Result<()> {
        let Some(codes) = codes else { return Ok(()) };
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
    fn print_notes(&mut self) {
        let notes = self.input.notes();
        let new = &notes[self.n_notes.min(notes.len())..];
        self.bar.suspend(|| new.iter().for_each(|note| self.work.session.say(&format!("note: {note}"))));
        self.n_notes = notes.len();
    }
}

/// Returns the samples that are encoded at once, of an input of `n_samples`, if known.
fn piece_len(chunk: Option<usize>, n_samples: Option<u64>, frame_len: usize) -> usize {
    match (chunk, n_samples) {
        (Some(frames), _) => frames * frame_len,
        (None, Some(_)) => PIECE_FRAMES * frame_len,
        // A live stream must not wait.
        (None, None) => 1,
    }
}

/// Returns the bytes of the samples that wait for a whole piece and of a piece that is encoded, besides those of
/// the stream itself.
pub fn waiting_bytes(chunk: Option<usize>, input: &Stream, frame_len: usize) -> u64 {
    let piece = piece_len(chunk, input.n_samples(), frame_len) as u64;
    let piece = input.n_samples().map_or(piece, |n_samples| piece.min(n_samples));
    2 * size_of::<f32>() as u64 * piece + input.bytes()
}

/// Names the input in errors about it, but not in errors about the memory limit.
pub fn at(error: Error, input: &str) -> Error {
    match error.kind() {
        ErrorKind::Memory => error,
        ErrorKind::InvalidArgument => with_hint(error.at(input), CHANNELS),
        ErrorKind::Truncated => with_hint(error.at(input), CUT_OFF),
        ErrorKind::Corrupt => with_hint(error.at(input), DAMAGED),
        ErrorKind::Unsupported => with_hint(error.at(input), EXPECTED),
        _ => error.at(input),
    }
}
