//! Makes many clips: one thread composes, and a GPU renders ahead; the others finish clips.

use std::ops::Range;
use std::sync::Arc;
use std::sync::mpsc::{SyncSender, sync_channel};

use melisma_kernels::lock::Mutex;

use super::{Clip, Clips};
use crate::runtime::device::Device;
use crate::runtime::memory::Budget;
use crate::runtime::thread;
use crate::synth::recording::record;
use crate::synth::score::Score;
use crate::{Error, Remedy, Result};

/// Clips whose voices a GPU renders together, and the most that wait to be finished.
const BATCH: u32 = 64;
/// The most bytes of a clip's notes and label, as a multiple of the bytes of the first clip's
/// notes.
const LABELLED: u64 = 16;
/// Buffer bytes of a file being written.
const FILE_BYTES: u64 = 1 << 19;

/// Sums over clips, and the most voices in any of them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Total {
    /// Clips that an earlier run made.
    pub kept: u64,
    /// Notes of the others.
    pub notes: usize,
    /// Samples per channel of the others.
    pub samples: u64,
    /// The most voices at once.
    pub voices: usize,
}

impl Total {
    fn add(&mut self, other: Self) {
        self.kept += other.kept;
        self.notes += other.notes;
        self.samples += other.samples;
        self.voices = self.voices.max(other.voices);
    }
}

impl Clips {
    /// Returns the bytes of the clips that wait, and of each clip that is being finished. Clips
    /// differ: few have more than twice as many notes as the first, and labels are text.
    pub fn bytes(&self, first: &Clip) -> [u64; 2] {
        let waiting = LABELLED * first.score.bytes();
        [waiting * u64::from(BATCH), self.setup(1.0).bytes(&first.score) + waiting + FILE_BYTES]
    }

    /// Returns the clips of shard `index` of `n`, among `count`. Shards are contiguous; those beyond the last are
    /// empty.
    pub fn shard(count: u32, (index, n): (usize, usize)) -> Range<u32> {
        let n = n.max(1);
        let bound = |i: usize| (u128::from(count) * i.min(n) as u128 / n as u128) as u32;
        bound(index)..bound(index.saturating_add(1))
    }

    /// Makes the clips of `part` that are missing, on `threads` threads. `tick` is called after each
    /// clip, and its error stops the work.
    ///
    /// # Errors
    /// A clip with that name was made with other settings or is damaged, a file cannot be written, or
    /// memory is short.
    pub fn make(
        &self,
        part: Range<u32>,
        (device, budget, threads): (&Device, &Budget, usize),
        tick: &(dyn Fn() -> Result<()> + Sync),
    ) -> Result<Total> {
        if let (Some(_), Device::Cuda(_)) = (&self.soundfont, device) {
            return Err(Error::unsupported("a SoundFont is played on the CPU").with_hint(Remedy::use_device(&["cpu"])));
        }
        let (send, receive) = sync_channel(BATCH as usize);
        let (receive, state) = (Mutex::new(receive), Mutex::new(Ok(Total::default())));
        let has_failed = || state.lock().is_err();
        let add = |made: Result<Total>| {
            let made = made.and_then(|made| tick().map(|()| made));
            let mut state = state.lock();
            match (made, state.as_mut()) {
                (Ok(made), Ok(total)) => total.add(made),
                (Err(error), Ok(_)) => *state = Err(error),
                (_, Err(_)) => {}
            }
        };
        let work = || {
            loop {
                let next = receive.lock().recv();
                let Ok(clip) = next else { return };
                // After a failure, drain the channel so that the sender ends.
                if !has_failed() {
                    add(self.finish(&clip));
                }
            }
        };
        thread::team((0..threads.max(1).min(part.len())).map(|_| work), || {
            let kept = || add(Ok(Total { kept: 1, ..Total::default() }));
            let outcome = self.compose_all(part, (device, budget), &send, &kept);
            drop(send);
            outcome
        })??;
        state.into_inner()
    }

    fn compose_all(
        &self,
        part: Range<u32>,
        (device, budget): (&Device, &Budget),
        to: &SyncSender<Clip>,
        kept: &dyn Fn(),
    ) -> Result<()> {
        let batch = if matches!(device, Device::Cuda(_)) { BATCH } else { 1 };
        for first in part.clone().step_by(batch as usize) {
            let mut clips = Vec::new();
            for index in first..part.end.min(first + batch) {
                let clip = self.compose(index)?;
                if self.is_there(&clip)? { kept() } else { clips.push(clip) }
            }
            if let (Device::Cuda(_), false) = (device, clips.is_empty()) {
                let scores: Vec<&Score> = clips.iter().map(|clip| &clip.score).collect();
                let takes: Vec<_> = scores.iter().map(|score| self.take(score)).collect();
                let recordings = record(device, budget, self.sample_rate, &takes)?;
                clips.iter_mut().zip(recordings).for_each(|(clip, made)| clip.recording = Some(Arc::new(made)));
            }
            for clip in clips {
                if to.send(clip).is_err() {
                    return Ok(());
                }
            }
        }
        Ok(())
    }
}
