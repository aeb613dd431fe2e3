//! Engines whose streams share steps.

use std::fmt::Debug;
use std::time::Instant;

use melisma::Result;
use melisma::snac::{Codes, EncodeEngine, Engine, Noise, StreamId};

use crate::metrics::{Metrics, Stage, Stages};

/// One stream's part of a step.
pub type Input<F> = (StreamId, Vec<F>);

/// An engine that a [`Batcher`](super::Batcher) can serve streams with.
pub trait StepEngine: Debug + Send + 'static {
    /// The initial state of a stream.
    type Start: Debug + Send;
    /// One frame of a stream's input.
    type Frame: Debug + Send;
    /// The output that becomes final with a step.
    type Content: Debug + Send;

    /// Begins a stream.
    ///
    /// # Errors
    /// All slots are taken, or the device fails.
    fn open(&mut self, start: Self::Start) -> Result<StreamId>;

    /// Ends a stream without the rest.
    ///
    /// # Errors
    /// The stream is unknown.
    fn close(&mut self, stream: StreamId) -> Result<()>;

    /// Takes equally many frames of each of some streams. Returns what became final of each.
    ///
    /// # Errors
    /// The device fails.
    fn step(&mut self, input: &[Input<Self::Frame>], stages: &mut Stages<'_>) -> Result<Vec<Self::Content>>;

    /// Ends some streams and returns the rest of each.
    ///
    /// # Errors
    /// The device fails.
    fn finish_each(&mut self, streams: &[StreamId], stages: &mut Stages<'_>) -> Result<Vec<Self::Content>>;

    /// Returns whether nothing became final.
    fn is_empty(content: &Self::Content) -> bool;

    /// Counts frames whose content came after it was due.
    fn missed(metrics: &Metrics, n_frames: u64);
}

/// Frames of codes to samples.
impl StepEngine for Engine {
    type Start = Noise;
    type Frame = Codes;
    type Content = Vec<f32>;

    fn open(&mut self, start: Noise) -> Result<StreamId> {
        Self::open(self, start)
    }

    fn close(&mut self, stream: StreamId) -> Result<()> {
        Self::close(self, stream)
    }

    fn step(&mut self, input: &[Input<Codes>], stages: &mut Stages<'_>) -> Result<Vec<Vec<f32>>> {
        let populating = Instant::now();
        let mut rows = Vec::with_capacity(input.len());
        for (stream, frames) in input {
            let [first, rest @ ..] = &frames[..] else { continue };
            let mut joined = first.clone();
            rest.iter().try_for_each(|frame| joined.append(frame.frames()))?;
            rows.push((*stream, joined));
        }
        let rows: Vec<_> = rows.iter().map(|(stream, codes)| (*stream, codes.frames())).collect();
        let decoding = Instant::now();
        stages.add(Stage::Population, decoding - populating);
        stages.metrics.batch(rows.len());
        let samples = Self::step(self, &rows)?;
        let copying = Instant::now();
        stages.add(Stage::Decode, copying - decoding);
        let blocks = (0..rows.len()).map(|row| samples.of(row).to_vec()).collect();
        stages.add(Stage::Copy, copying.elapsed());
        Ok(blocks)
    }

    fn finish_each(&mut self, streams: &[StreamId], stages: &mut Stages<'_>) -> Result<Vec<Vec<f32>>> {
        let start = Instant::now();
        let samples = Self::finish_each(self, streams)?;
        stages.add(Stage::Decode, start.elapsed());
        Ok(samples)
    }

    fn is_empty(samples: &Vec<f32>) -> bool {
        samples.is_empty()
    }

    fn missed(metrics: &Metrics, n_frames: u64) {
        metrics.missed(n_frames);
    }
}

/// Frames of samples to codes. The last frame of a clip is filled up with silence, which does not change its codes.
impl StepEngine for EncodeEngine {
    type Start = ();
    type Frame = Vec<f32>;
    type Content = Codes;

    fn open(&mut self, (): ()) -> Result<StreamId> {
        Self::open(self)
    }

    fn close(&mut self, stream: StreamId) -> Result<()> {
        Self::close(self, stream)
    }

    fn step(&mut self, input: &[Input<Vec<f32>>], stages: &mut Stages<'_>) -> Result<Vec<Codes>> {
        let start = Instant::now();
        let rows: Vec<(StreamId, Vec<f32>)> = input.iter().map(|(stream, frames)| (*stream, frames.concat())).collect();
        let rows: Vec<(StreamId, &[f32])> = rows.iter().map(|(stream, samples)| (*stream, &samples[..])).collect();
        let encoded = Self::step(self, &rows)?;
        let codes = (0..rows.len()).map(|row| Codes::from(encoded.of(row))).collect();
        stages.add(Stage::Encode, start.elapsed());
        Ok(codes)
    }

    fn finish_each(&mut self, streams: &[StreamId], stages: &mut Stages<'_>) -> Result<Vec<Codes>> {
        let start = Instant::now();
        let codes = streams.iter().map(|stream| self.finish(*stream)).collect::<Result<_>>()?;
        stages.add(Stage::Encode, start.elapsed());
        Ok(codes)
    }

    fn is_empty(codes: &Codes) -> bool {
        codes.n_frames() == 0
    }

    /// Ignores a missed deadline: codes are not played, so their pace only shares the engine fairly among clips.
    fn missed(_: &Metrics, _: u64) {}
}
