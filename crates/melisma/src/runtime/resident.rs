//! The growth of the process's physical memory over a stretch of time, as the system counts it.

use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread::JoinHandle;
use std::time::Duration;

use super::{machine, thread};
use crate::Result;

/// Time between two samples.
const TICK: Duration = Duration::from_millis(5);

/// Watches the resident memory from [`Resident::watch`] to [`Resident::growth`].
///
/// The system has one peak for the whole life of a process. If that rises meanwhile, it is the peak that is wanted, to
/// the page; a lower peak is sampled every few milliseconds.
#[derive(Debug)]
pub struct Resident {
    entry: u64,
    highest: u64,
    sampler: JoinHandle<u64>,
    stop: Sender<()>,
}

impl Resident {
    /// Starts watching.
    ///
    /// # Errors
    /// The system refuses a thread.
    pub fn watch() -> Result<Self> {
        let entry = machine::resident_bytes().unwrap_or(0);
        let (stop, stopped) = mpsc::channel();
        let sample = move || {
            let mut most = entry;
            while stopped.recv_timeout(TICK) == Err(RecvTimeoutError::Timeout) {
                most = most.max(machine::resident_bytes().unwrap_or(0));
            }
            most
        };
        let highest = machine::peak_resident_bytes().unwrap_or(u64::MAX);
        Ok(Self { entry, highest, sampler: thread::start("melisma-resident", sample)?, stop })
    }

    /// Stops watching. Gives the most bytes beyond those at the start; 0 where the system tells nothing.
    pub fn growth(self) -> u64 {
        let now = machine::resident_bytes().unwrap_or(0);
        let highest = machine::peak_resident_bytes().filter(|&highest| highest > self.highest).unwrap_or(0);
        drop(self.stop);
        let sampled = self.sampler.join().unwrap_or(0);
        now.max(highest).max(sampled).saturating_sub(self.entry)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_that_are_touched_are_seen_also_after_they_are_gone() {
        const BYTES: usize = 200 << 20;
        for _ in 0..2 {
            let watch = Resident::watch().unwrap();
            let held = std::hint::black_box(vec![1u8; BYTES]);
            std::thread::sleep(4 * TICK);
            drop(held);
            // Other tests run at the same time.
            let growth = watch.growth();
            assert!(growth > BYTES as u64 / 2 || machine::resident_bytes().is_none(), "{growth}");
        }
    }
}
