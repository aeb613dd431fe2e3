//! Tokens on a GPU: threads read files, and one thread feeds their samples to an engine in which
//! rows join and leave between steps.
//!
//! A reader sends the samples of one file after the other, in pieces. Its buffers come back when
//! the device has taken them, so a reader waits only if all of its buffers are on their way. Rows
//! join in the order in which they begin: the rows that a reader finished earlier never wait for a
//! row that it still reads.

use std::sync::mpsc::{Receiver, Sender, channel};

use super::feeder::{Event, FRAMES, Feeder};
use super::job::Run;
use super::reader::Reader;
use super::round_trip::RoundTrip;
use crate::runtime::memory::{Reservation, Space};
use crate::runtime::thread;
use crate::snac::{EncodeEngine, EngineOptions};
use crate::{ErrorKind, Result};

/// Rows that are encoded at the same time.
const STREAMS: usize = 64;
/// Buffers of a reader, enough for some files of a few seconds.
const BUFFERS: usize = 48;

/// The memory of a run, allocated before it begins.
pub(super) struct Feed<'a> {
    run: &'a Run<'a>,
    engine: EncodeEngine,
    check: Option<RoundTrip>,
    n_streams: usize,
    n_readers: usize,
    n_buffers: usize,
    _memory: Reservation,
}

impl<'a> Feed<'a> {
    /// Creates an engine and the buffers of all readers. If memory is short, there are fewer
    /// streams, buffers and readers.
    pub(super) fn new(run: &'a Run<'a>) -> Result<Self> {
        let (mut n_streams, mut n_buffers, mut n_readers) = (STREAMS, BUFFERS, run.shared.n_threads);
        loop {
            match Self::with(run, [n_streams, n_buffers, n_readers]) {
                Err(error) if error.kind() == ErrorKind::Memory && [n_streams, n_buffers, n_readers] != [1; 3] => {
                    [n_streams, n_buffers, n_readers] = [n_streams, n_buffers, n_readers].map(|n| n.div_ceil(2));
                }
                made => return made,
            }
        }
    }

    fn with(run: &'a Run<'a>, [n_streams, n_buffers, n_readers]: [usize; 3]) -> Result<Self> {
        let work = run.shared.work;
        let piece_bytes = run.job.samples_bytes(FRAMES);
        let memory = work.budget.reserve(Space::Host, (n_buffers * n_readers) as u64 * piece_bytes)?;
        let queue = work.device.queue(work.budget)?;
        let engine = EncodeEngine::new(run.job.model(), &queue, work.budget, EngineOptions::new(n_streams))?;
        let check = run.job.measures().then(|| RoundTrip::new(run, &queue, None)).transpose()?;
        Ok(Self { run, engine, check, n_streams, n_readers, n_buffers, _memory: memory })
    }

    /// Encodes all rows. Returns the number of readers.
    pub(super) fn run(self) -> Result<usize> {
        let (shared, n_readers) = (self.run.shared, self.n_readers);
        let (events, inbox) = channel();
        let (returns, outboxes): (Vec<_>, Vec<_>) = (0..n_readers).map(|_| channel()).unzip();
        let piece = FRAMES * self.engine.frame_len();
        for returned in &returns {
            (0..self.n_buffers).for_each(|_| drop(returned.send(Vec::with_capacity(piece))));
        }
        let run = self.run;
        let readers: Vec<_> = outboxes
            .into_iter()
            .enumerate()
            .map(|(reader, buffers)| {
                let files = Files { run, reader, buffers, events: events.clone(), piece };
                move || {
                    files.run();
                }
            })
            .collect();
        drop(events);
        let (engine, check, n_streams) = (self.engine, self.check, self.n_streams);
        let feeder = Feeder::new(run, (engine, check), n_streams, (inbox, returns));
        thread::team(readers, || shared.attempt(|| feeder.run()))?;
        Ok(n_readers)
    }
}

/// A thread that reads one file after the other.
struct Files<'a> {
    run: &'a Run<'a>,
    reader: usize,
    buffers: Receiver<Vec<f32>>,
    events: Sender<Event>,
    /// Samples of a piece.
    piece: usize,
}

impl Files<'_> {
    /// Reads until no files are left, or the feeder has ended.
    fn run(&self) -> Option<()> {
        loop {
            let items = self.run.shared.take();
            if items.is_empty() {
                return None;
            }
            for item in items {
                self.read(item.first_row)?;
            }
        }
    }

    fn read(&self, row: u32) -> Option<()> {
        let send = |event: Event| self.events.send(event).ok();
        send(Event::Open { row, reader: self.reader })?;
        let mut source = match Reader::open(self.run, row) {
            Ok(source) => source,
            Err(error) => return send(Event::Failed { row, error }),
        };
        while !source.is_at_end() {
            let mut samples = self.buffers.recv().ok()?;
            samples.resize(self.piece, 0.0);
            match source.read(self.run, &mut samples) {
                Ok(n) => {
                    samples.truncate(n);
                    send(Event::Samples { row, samples })?;
                }
                Err(error) => {
                    // The buffer goes back.
                    samples.clear();
                    send(Event::Samples { row, samples })?;
                    return send(Event::Failed { row, error });
                }
            }
        }
        Some(())
    }
}
