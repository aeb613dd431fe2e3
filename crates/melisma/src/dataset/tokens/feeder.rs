//! The thread that feeds an engine with the samples of many rows, and writes their codes.

use std::collections::VecDeque;
use std::sync::mpsc::{Receiver, Sender, TryRecvError};
use std::time::Instant;

use super::job::Run;
use super::lane::Lane;
use super::round_trip::RoundTrip;
use crate::dataset::counters::Stage;
use crate::snac::{EncodeEngine, Piece, StreamId, Ticket};
use crate::trace::Busy;
use crate::{Error, Result};

/// Frames of samples that a row has in a step.
pub(super) const FRAMES: usize = 8;

/// A message of a reader.
pub(super) enum Event {
    /// A row begins.
    Open { row: u32, reader: usize },
    /// Samples of a row: whole frames, except for its last ones.
    Samples { row: u32, samples: Vec<f32> },
    /// The file cannot be read.
    Failed { row: u32, error: Error },
}

/// A row on its way through the engine.
struct Clip<'a> {
    lane: Lane<'a>,
    reader: usize,
    /// Samples of the file.
    n_samples: usize,
    /// Samples that did not come yet.
    n_missing: usize,
    waiting: VecDeque<Vec<f32>>,
    /// Its place in the engine, while steps must still take frames.
    stream: Option<StreamId>,
    n_left: usize,
    error: Option<Error>,
}

impl Clip<'_> {
    /// Returns whether a step can take the row, if it has a place in the engine.
    fn is_ready(&self) -> bool {
        self.n_left > 0 && self.error.is_none() && (!self.waiting.is_empty() || self.n_missing == 0)
    }
}

/// A step on its way, and the rows that it has.
struct Step {
    ticket: Ticket,
    rows: Vec<u32>,
    begun: Instant,
}

pub(super) struct Feeder<'a> {
    run: &'a Run<'a>,
    engine: EncodeEngine,
    check: Option<RoundTrip>,
    n_streams: usize,
    inbox: Receiver<Event>,
    /// Where the buffers of each reader go back to.
    returns: Vec<Sender<Vec<f32>>>,
    /// The rows that are not written yet, in the order in which they began.
    clips: Vec<Clip<'a>>,
    before: Option<Step>,
    begun: Instant,
    busy: Busy,
}

impl<'a> Feeder<'a> {
    pub(super) fn new(
        run: &'a Run<'a>,
        (engine, check): (EncodeEngine, Option<RoundTrip>),
        n_streams: usize,
        (inbox, returns): (Receiver<Event>, Vec<Sender<Vec<f32>>>),
    ) -> Self {
        let (clips, before, begun, busy) = (Vec::new(), None, Instant::now(), Busy::default());
        Self { run, engine, check, n_streams, inbox, returns, clips, before, begun, busy }
    }

    /// Steps until the readers have ended and all rows are written.
    pub(super) fn run(mut self) -> Result<()> {
        loop {
            let has_readers = self.receive()?;
            if self.run.shared.is_stopped() {
                return Ok(());
            }
            self.settle()?;
            self.join()?;
            let now = self.submit()?;
            if let Some(before) = self.before.take() {
                self.collect(before)?;
            }
            self.before = now;
            if !has_readers && self.clips.is_empty() {
                let covered = self.busy.covered();
                self.run.shared.work.counters.add(Stage::Compute, covered);
                self.run.shared.work.counters.device_was_busy(covered);
                return Ok(());
            }
        }
    }

    /// Takes all messages that are there; waits for one if there is nothing else to do. Returns
    /// whether more can come.
    fn receive(&mut self) -> Result<bool> {
        loop {
            let is_idle =
                self.before.is_none() && !self.clips.iter().any(|clip| clip.is_ready() || clip.error.is_some());
            let event = match is_idle {
                true => self.inbox.recv().map_err(|_| TryRecvError::Disconnected),
                false => self.inbox.try_recv(),
            };
            match event {
                Ok(event) => self.take(event)?,
                Err(TryRecvError::Empty) => return Ok(true),
                Err(TryRecvError::Disconnected) => return Ok(false),
            }
        }
    }

    fn take(&mut self, event: Event) -> Result<()> {
        match event {
            Event::Open { row, reader } => {
                let n_samples = self.run.shared.work.plan.rows[row as usize].n_samples as usize;
                self.clips.push(Clip {
                    lane: Lane::new(self.run, row),
                    reader,
                    n_samples,
                    n_missing: n_samples,
                    waiting: VecDeque::new(),
                    stream: None,
                    n_left: self.engine.step_frames(n_samples),
                    error: None,
                });
            }
            Event::Samples { row, samples } => {
                let clip = clip(&mut self.clips, row)?;
                clip.n_missing = clip.n_missing.saturating_sub(samples.len());
                match samples.is_empty() {
                    true => give_back(&self.returns, clip.reader, samples),
                    false => clip.waiting.push_back(samples),
                }
            }
            Event::Failed { row, error } => clip(&mut self.clips, row)?.error = Some(error),
        }
        Ok(())
    }

    /// Gives places in the engine to rows, in the order in which they began.
    fn join(&mut self) -> Result<()> {
        let mut n_free = self.n_streams - self.clips.iter().filter(|clip| clip.stream.is_some()).count();
        for clip in self.clips.iter_mut().filter(|clip| clip.stream.is_none() && clip.n_left > 0) {
            if n_free == 0 {
                break;
            }
            clip.stream = Some(self.engine.open()?);
            n_free -= 1;
        }
        Ok(())
    }

    /// Starts a step of all rows that have samples.
    fn submit(&mut self) -> Result<Option<Step>> {
        let counters = self.run.shared.work.counters;
        let (mut pieces, mut rows) = (Vec::new(), Vec::new());
        for clip in self.clips.iter().filter(|clip| clip.is_ready()) {
            let Some(stream) = clip.stream else { continue };
            let samples = clip.waiting.front().map_or(&[][..], |samples| samples);
            pieces.push(Piece { stream, samples, n_samples: clip.n_samples });
            rows.push(clip.lane.row);
        }
        if pieces.is_empty() {
            return Ok(None);
        }
        let begun = Instant::now();
        let ticket = counters.time(Stage::Wait, || self.engine.submit_pieces(&pieces, FRAMES))?;
        for &row in &rows {
            let clip = clip(&mut self.clips, row)?;
            if let Some(samples) = clip.waiting.pop_front() {
                give_back(&self.returns, clip.reader, samples);
            }
            clip.n_left -= clip.n_left.min(FRAMES);
            if clip.n_left == 0
                && let Some(stream) = clip.stream.take()
            {
                self.engine.close(stream)?;
            }
        }
        Ok(Some(Step { ticket, rows, begun }))
    }

    /// Writes the codes of a step, and the rows that are complete with them.
    fn collect(&mut self, step: Step) -> Result<()> {
        let counters = self.run.shared.work.counters;
        let encoded = counters.time(Stage::Wait, || self.engine.collect(step.ticket))?;
        let nanos = |time: Instant| time.duration_since(self.begun).as_nanos() as u64;
        self.busy.add(nanos(step.begun), nanos(Instant::now()));
        for (index, &row) in step.rows.iter().enumerate() {
            // Rows that failed meanwhile are gone.
            let Some(at) = self.clips.iter().position(|clip| clip.lane.row == row) else { continue };
            self.clips[at].lane.push(encoded.of(index))?;
            if self.clips[at].lane.is_complete() {
                self.clips.remove(at).lane.finish(self.check.as_mut())?;
            }
        }
        Ok(())
    }

    /// Ends the rows whose files failed.
    fn settle(&mut self) -> Result<()> {
        while let Some(at) = self.clips.iter().position(|clip| clip.error.is_some()) {
            let clip = self.clips.remove(at);
            if let Some(stream) = clip.stream {
                self.engine.close(stream)?;
            }
            clip.waiting.into_iter().for_each(|samples| give_back(&self.returns, clip.reader, samples));
            if let Some(error) = &clip.error {
                clip.lane.fail("read", error)?;
            }
        }
        Ok(())
    }
}

fn clip<'b, 'a>(clips: &'b mut [Clip<'a>], row: u32) -> Result<&'b mut Clip<'a>> {
    let found = clips.iter_mut().find(|clip| clip.lane.row == row);
    found.ok_or_else(|| Error::invalid(format!("row {row} is not being encoded")))
}

/// Gives a buffer back to its reader; one that has ended takes none.
fn give_back(returns: &[Sender<Vec<f32>>], reader: usize, samples: Vec<f32>) {
    let _ = returns[reader].send(samples);
}
