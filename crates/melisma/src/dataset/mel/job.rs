//! Spectrograms on a device: the transform, and the threads that feed it.

use std::sync::atomic::AtomicU64;

use super::clock::Clock;
use super::slot::{Queues, shape};
use super::tuning::{Tuning, tuning};
use crate::Result;
use crate::dataset::plan::{Options, Request};
use crate::dataset::technique::Techniques;
use crate::dataset::work::{Shared, for_one_thread};
use crate::mel::{Batch, Plan};
use crate::runtime::device::Device;

/// What a build of spectrograms computes with.
pub(in crate::dataset) struct Job {
    pub(super) options: Options,
    pub(super) plan: Plan,
    pub(super) tuning: Tuning,
    device: Device,
    techniques: Techniques,
}

/// State shared by the threads of a run.
pub(super) struct Run<'a> {
    pub(super) job: &'a Job,
    pub(super) shared: &'a Shared<'a>,
    pub(super) clock: Option<Clock>,
    /// The queues of all threads, if they share them.
    pub(super) queues: Option<Queues>,
    pub(super) launches: AtomicU64,
}

impl Job {
    pub(in crate::dataset) fn new(options: &Options, request: &Request<'_>) -> Result<Self> {
        let (device, techniques) = (request.context.device(), request.techniques);
        let plan = options.mel.plan(device, request.context.budget())?;
        let tuning = tuning(device, options, &techniques, request.threads);
        Ok(Self { options: options.clone(), plan, tuning, device: device.clone(), techniques })
    }

    pub(in crate::dataset) fn threads(&self) -> usize {
        self.tuning.threads
    }

    /// Returns the bytes of slots of one row for one thread, and of the transform's scratch.
    pub(in crate::dataset) fn least_bytes(&self) -> u64 {
        let n_slots = if matches!(self.device, Device::Cpu(_)) { 1 } else { self.techniques.buffers_in_flight.max(1) };
        let slots = shape(&self.options, 1).bytes().iter().sum::<usize>() * n_slots;
        let batch = Batch { n_items: 1, n_samples: 0, n_frames: self.options.n_frames() };
        slots as u64 + self.plan.scratch_bytes(&for_one_thread(&self.device), batch)
    }
}
