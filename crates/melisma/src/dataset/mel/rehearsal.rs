//! Runs the pipeline without files: generated audio passes through the slots, and nothing is
//! written.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Instant;

use melisma_kernels::lock::Mutex;

use super::clock::Clock;
use super::slot::{Slot, queues, shape};
use super::tuning::tuning;
use crate::dataset::counters::{Counters, Snapshot, Stage};
use crate::dataset::plan::Options;
use crate::dataset::technique::Techniques;
use crate::dataset::work::for_one_thread;
use crate::random::Lcg32;
use crate::runtime::device::{Device, host_threads};
use crate::runtime::memory::Budget;
use crate::runtime::thread;
use crate::{Error, Result};

/// The result of a rehearsal.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Rehearsal {
    /// Rows that were processed.
    pub segments: usize,
    /// Seconds of audio.
    pub audio_seconds: f64,
    /// Seconds from the first row to the last.
    pub wall_seconds: f64,
    /// Threads that worked.
    pub threads: usize,
    /// Rows per slot, and slots per thread.
    pub slots: [usize; 2],
    /// The counters.
    pub counters: Snapshot,
}

/// Sends `n_rows` rows of generated audio through the same slots that a build uses.
///
/// # Errors
/// The budget or the device runs out of memory, or values are not finite.
pub fn rehearse(
    device: &Device,
    budget: &Budget,
    options: &Options,
    techniques: &Techniques,
    n_rows: usize,
) -> Result<Rehearsal> {
    let threads = host_threads(device);
    let tuning = tuning(device, options, techniques, threads);
    let (counters, next) = (Counters::default(), AtomicUsize::new(0));
    let plan = options.mel.plan(device, budget)?;
    let clock = match device {
        Device::Cpu(_) => None,
        Device::Cuda(_) => Some(Clock::start(&device.queue(budget)?)?),
    };
    let sound = sound(options.segment_samples);
    let mut rings = Vec::new();
    for _ in 0..tuning.threads {
        let device = for_one_thread(device);
        let queues = queues(&device, budget, techniques.streams)?;
        let shape = shape(options, tuning.n_rows);
        let slots: Result<VecDeque<Slot>> =
            (0..tuning.n_slots).map(|_| Slot::new(&device, budget, shape, techniques)).collect();
        rings.push((queues, slots?));
    }
    let failed: Mutex<Option<Error>> = Mutex::default();
    let begun = Instant::now();
    let rehearse = |(queues, mut slots): (_, VecDeque<Slot>)| {
        let (counters, plan, next, clock, sound) = (&counters, &plan, &next, clock.as_ref(), &sound);
        let work = move || -> Result<()> {
            let mut overflowed = Vec::new();
            loop {
                let Some(mut slot) = slots.pop_front() else { return Ok(()) };
                counters.time(Stage::Wait, || slot.wait(clock))?;
                slot.settle(&mut overflowed)?;
                slot.clear();
                let n_rows = tuning.n_rows.min(n_rows.saturating_sub(next.fetch_add(tuning.n_rows, Relaxed)));
                if n_rows == 0 {
                    break;
                }
                counters.time(Stage::Read, || {
                    (0..n_rows).try_for_each(|row| {
                        slot.add_samples(row as u32, &sound[row % ROTATIONS..][..options.segment_samples])
                    })
                })?;
                counters.rows.fetch_add(n_rows as u64, Relaxed);
                counters.bytes_read.fetch_add(slot.sample_bytes() as u64, Relaxed);
                counters.bytes_sent.fetch_add(slot.sample_bytes() as u64, Relaxed);
                match clock {
                    None => counters.time(Stage::Compute, || slot.launch(plan, &queues))?,
                    Some(_) => slot.launch(plan, &queues)?,
                }
                slots.push_back(slot);
            }
            slots.iter_mut().try_for_each(|slot| slot.wait(clock))?;
            match overflowed.is_empty() {
                true => Ok(()),
                false => Err(Error::new(crate::ErrorKind::Check, "generated sound became a value that is not finite")),
            }
        };
        let failed = &failed;
        move || {
            if let Err(error) = { work }() {
                failed.lock().get_or_insert(error);
            }
        }
    };
    thread::team(rings.into_iter().map(rehearse), || ())?;
    let wall_seconds = begun.elapsed().as_secs_f64();
    if let Some(error) = failed.into_inner() {
        return Err(error);
    }
    if let Some(clock) = clock {
        clock.tell(&counters);
    }
    let seconds = options.segment_samples as f64 / f64::from(options.mel.sample_rate);
    Ok(Rehearsal {
        segments: n_rows,
        audio_seconds: n_rows as f64 * seconds,
        wall_seconds,
        threads: tuning.threads,
        slots: [tuning.n_rows, tuning.n_slots],
        counters: counters.now(),
    })
}

/// The number of offsets in the generated audio at which rows start.
const ROTATIONS: usize = 1024;

fn sound(n_samples: usize) -> Vec<i16> {
    let mut random = Lcg32::new(1);
    std::iter::repeat_with(|| (random.bits() >> 16) as i16 / 4).take(n_samples + ROTATIONS).collect()
}
