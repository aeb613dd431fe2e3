//! The context of a search.

use std::path::Path;

use super::Message;
use super::candidate::EngineSettings;
use super::candidate::bound::Bound;
use super::candidate::engines::free_gpu_bytes;
use super::measure::Worker;
use crate::config::Config;
use crate::engine::need::Limits;
use crate::optimize::cache::{Cache, Parts};
use crate::runtime::machine;
use crate::runtime::memory::Budget;

/// The context of a search.
#[non_exhaustive]
pub struct Search<'a> {
    /// Profile, threads, memory limit and the section `tensor_optimizations`.
    pub config: &'a Config,
    /// Memory for packing, unpacking and running models in this process.
    pub budget: &'a Budget,
    /// Where engines are cached.
    pub cache: Cache,
    /// Measures the candidates.
    pub worker: Worker,
    /// Memory that candidates may use, in bytes.
    pub free_bytes: Option<u64>,
    /// Receives progress messages.
    pub say: &'a dyn Fn(&Message),
}

impl<'a> Search<'a> {
    /// Creates a search that uses the cache from the settings and the machine's free memory. `say`
    /// is told if the cache cannot be used.
    pub fn new(config: &'a Config, budget: &'a Budget, worker: Worker, say: &'a dyn Fn(&Message)) -> Self {
        let cache = Cache::of(config);
        if let Some(note) = cache.note() {
            say(&Message::Note(note.to_owned()));
        }
        Self::with_cache(cache, config, budget, worker).with_say(say)
    }

    /// Creates a silent search that uses `cache` and the machine's free memory.
    pub fn with_cache(cache: Cache, config: &'a Config, budget: &'a Budget, worker: Worker) -> Self {
        Self { config, budget, cache, worker, free_bytes: machine::free_bytes(), say: &|_| {} }
    }

    setters! {
        /// Receives progress messages.
        pub fn with_say(say: &'a dyn Fn(&Message));
        /// Sets the memory that candidates may use, in bytes; `None` for no limit but that of the
        /// settings.
        pub fn with_free_bytes(free_bytes: Option<u64>);
    }

    pub(super) fn limits(&self) -> Limits {
        Limits::of(self.config, self.free_bytes)
    }

    pub(super) fn most_bytes(&self) -> u64 {
        self.limits().most_bytes().unwrap_or(u64::MAX)
    }

    pub(super) fn settings(&self, folder: &Path, parts: &Parts) -> EngineSettings {
        let settings = EngineSettings::new(self.config, folder.join("tensorrt"), parts.key().as_str());
        let gpu_limit = Bound::of(self.config, free_gpu_bytes(self.config)).map(Bound::bytes);
        EngineSettings { gpu_limit, ..settings }
    }
}
