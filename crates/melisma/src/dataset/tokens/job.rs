//! Tokens on a device: the encoder, and the threads that feed it.

use std::collections::HashMap;

use melisma_kernels::lock::Mutex;

use crate::Result;
use crate::dataset::plan::{Check, Request, Tokens};
use crate::dataset::store::hash::Table;
use crate::dataset::work::{Shared, for_one_thread};
use crate::runtime::device::Device;
use crate::runtime::memory::{Needed, Space};
use crate::snac::{Config, EncodeEngine, Engine, Model};

/// Frames of samples that are read and encoded at once.
pub(super) const FRAMES: usize = 16;
/// Memory of a comparison: its transform, and the samples that wait.
const CHECK_BYTES: u64 = 4 << 20;

/// What a build of tokens computes with.
pub(in crate::dataset) struct Job {
    pub(in crate::dataset) threads: usize,
    pub(super) n_slots: usize,
    tokens: Tokens,
    /// The device of one thread.
    pub(super) device: Device,
    /// Memory in use before the build, such as the model's.
    held_bytes: u64,
}

impl Tokens {
    /// Returns the least memory of a build, apart from its files and the model: one thread that
    /// encodes one file at a time.
    pub fn needed(config: &Config, device: &Device, check: Check) -> Needed {
        let device = for_one_thread(device);
        let mut needed = EncodeEngine::needed(config, &device, 1);
        needed.host += (FRAMES * config.frame_len() * size_of::<f32>()) as u64;
        if check != Check::None {
            let decoder = Engine::needed(config, &device, 1);
            needed.host += decoder.host + CHECK_BYTES;
            needed.device += decoder.device;
        }
        needed
    }
}

/// State shared by the threads of a run.
pub(super) struct Run<'a> {
    pub(super) job: &'a Job,
    pub(super) shared: &'a Shared<'a>,
    /// The columns that a row's hash covers.
    pub(super) table: Table<'a>,
    /// Where the audio of rows that were read to their ends is clipped.
    pub(super) clipped: Mutex<HashMap<u32, String>>,
}

impl Job {
    pub(in crate::dataset) fn new(tokens: &Tokens, request: &Request<'_>) -> Result<Self> {
        let held_bytes = request.context.budget().usage(Space::Host).now;
        let (threads, device) = (request.threads, for_one_thread(request.context.device()));
        Ok(Self { threads, n_slots: tokens.n_slots(), tokens: tokens.clone(), device, held_bytes })
    }

    /// Returns what is held already, and one thread that encodes one file.
    pub(in crate::dataset) fn least_bytes(&self) -> u64 {
        self.held_bytes + Tokens::needed(self.model().config(), &self.device, self.tokens.check).host
    }

    /// Returns whether rows are decoded again and compared with their files.
    pub(super) fn measures(&self) -> bool {
        self.tokens.check != Check::None
    }

    pub(super) fn model(&self) -> &Model {
        &self.tokens.model
    }

    /// Returns the bytes of the samples of `n_frames` frames.
    pub(super) fn samples_bytes(&self, n_frames: usize) -> u64 {
        (n_frames * self.model().config().frame_len() * size_of::<f32>()) as u64
    }
}
