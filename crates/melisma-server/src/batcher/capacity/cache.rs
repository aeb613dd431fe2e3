//! Capacities of earlier processes, in the cache folder.
//!
//! A start compares what it measures with the cached capacity and takes the one with the smaller standard error. So a
//! start beside a busy process does not lower the capacity; if two starts in a row differ from it by much, the device
//! has changed, and the next one takes what it measures.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use melisma::runtime::machine;
use melisma::snac::Model;
use melisma::{Device, Error, Existing, Result, output};
use serde::{Deserialize, Serialize};

use super::{CapacityReport, Measurement, Source};

/// Capacities that differ by this share are far apart.
const FAR: f64 = 0.25;
/// Starts in a row that may differ from the cached capacity by much.
const MAX_DISPUTES: u32 = 2;
/// The folder in the cache folder.
const FOLDER: &str = "capacity";
/// The size of a file that is read.
const MAX_BYTES: u64 = 4096;

/// What a capacity depends on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Key {
    /// Its hash.
    model: String,
    device: String,
    /// CPU threads; 0 on a GPU.
    threads: usize,
    /// The streams up to which it was measured.
    max_streams: usize,
    /// The version of this program.
    version: String,
}

/// The file of one capacity.
#[derive(Debug, Clone)]
pub struct Cache {
    path: PathBuf,
    key: Key,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
struct Content {
    key: Key,
    measurement: Measurement,
    /// Starts in a row that measured something else.
    disputes: u32,
}

impl Key {
    fn file_name(&self) -> String {
        let plain: String = format!("{:.16}-{}", self.model, self.device)
            .chars()
            .map(|letter| if letter.is_ascii_alphanumeric() { letter } else { '-' })
            .collect();
        format!("{plain:.80}-{}-{}.json", self.threads, self.max_streams)
    }
}

impl Cache {
    /// Returns the file for a model on a device, in the cache folder.
    pub fn of(folder: &Path, model: &Model, device: &Device, max_streams: usize) -> Self {
        let (name, threads) = match device {
            Device::Cpu(cpu) => (format!("cpu {}", machine::cpu_model()), cpu.threads),
            Device::Cuda(_) => (device.to_string(), 0),
        };
        let (model, version) = (model.hash().to_owned(), env!("CARGO_PKG_VERSION").to_owned());
        Self::new(folder, Key { model, device: name, threads, max_streams, version })
    }

    /// Returns how many capacities the cache folder has.
    pub fn count(folder: &Path) -> usize {
        fs::read_dir(folder.join(FOLDER)).map_or(0, Iterator::count)
    }

    /// Removes all capacities from the cache folder. Returns how many there were.
    ///
    /// # Errors
    /// The folder cannot be removed.
    pub fn clear(folder: &Path) -> Result<usize> {
        let n_files = Self::count(folder);
        let folder = folder.join(FOLDER);
        match fs::remove_dir_all(&folder) {
            Err(error) if error.kind() != ErrorKind::NotFound => Err(Error::io(folder.display(), error)),
            _ => Ok(n_files),
        }
    }

    /// Returns the file for another model on the same device.
    pub(crate) fn beside(&self, model: String, max_streams: usize) -> Self {
        let key = Key { model, max_streams, ..self.key.clone() };
        Self { path: self.path.with_file_name(key.file_name()), key }
    }

    fn new(folder: &Path, key: Key) -> Self {
        Self { path: folder.join(FOLDER).join(key.file_name()), key }
    }

    fn read(&self) -> Option<Content> {
        let is_small = fs::metadata(&self.path).is_ok_and(|file| file.len() <= MAX_BYTES);
        let text = is_small.then(|| fs::read_to_string(&self.path).ok()).flatten()?;
        serde_json::from_str(&text).ok().filter(|content: &Content| content.key == self.key)
    }

    /// Stores a measurement.
    pub(in super::super) fn store(&self, measurement: Measurement) {
        self.write(measurement, 0);
    }

    /// Writes the measurement; a folder that cannot be written means no cache, as for kernels.
    fn write(&self, measurement: Measurement, disputes: u32) {
        let content = Content { key: self.key.clone(), measurement, disputes };
        let Some(folder) = self.path.parent() else { return };
        if let (Ok(()), Ok(text)) = (output::create_directory(folder), serde_json::to_string(&content)) {
            let _ = output::write(&self.path, text.as_bytes(), Existing::Replace);
        }
    }

    /// Compares a measurement with the cached one, stores the better one and returns it; also a note if they are far
    /// apart.
    pub(crate) fn settle(&self, measured: Measurement) -> (CapacityReport, Option<String>) {
        let own = CapacityReport::from(measured);
        let Some(Content { measurement: cached, disputes, .. }) = self.read() else {
            self.store(measured);
            return (own, None);
        };
        let [now, then] = [measured, cached].map(|measurement| measurement.capacity.streams);
        // Capacities are whole numbers, so a difference of one stream counts as none.
        let is_far = now.abs_diff(then) > 1 && now.abs_diff(then) as f64 > FAR * now.max(then) as f64;
        let is_cached = cached.error <= measured.error && !(is_far && disputes >= MAX_DISPUTES);
        match is_cached {
            true => self.write(cached, if is_far { disputes + 1 } else { 0 }),
            false => self.store(measured),
        }
        let sized =
            if is_cached { CapacityReport { capacity: cached.capacity, source: Source::Cached, ..own } } else { own };
        let which =
            if is_cached { "the earlier one is taken, because it was steadier" } else { "the new one is taken" };
        let note = format!("the capacity is {now}, and was {then} at an earlier start: {which}");
        (sized, is_far.then_some(note))
    }
}

#[cfg(test)]
mod tests {
    use super::super::Capacity;
    use super::*;

    fn measurement(streams: usize, error: f64) -> Measurement {
        Measurement { capacity: Capacity { streams, step_frames: 4 }, n_rounds: 5, error }
    }

    fn cache(folder: &Path, version: &str) -> Cache {
        let (model, device, version) = ("0123456789abcdef01".to_owned(), "cuda:0".to_owned(), version.to_owned());
        Cache::new(folder, Key { model, device, threads: 2, max_streams: 64, version })
    }

    #[test]
    fn the_better_founded_capacity_is_taken() {
        let folder = tempfile::tempdir().unwrap();
        let cache = cache(folder.path(), "1");
        let settle = |streams, error| {
            let (sized, note) = cache.settle(measurement(streams, error));
            (sized.capacity.streams, sized.source, note.is_some())
        };
        assert_eq!(settle(20, 0.03), (20, Source::Measured, false));
        assert_eq!(settle(19, 0.04), (20, Source::Cached, false));
        assert_eq!(settle(8, 0.04), (20, Source::Cached, true));
        assert_eq!(settle(21, 0.01), (21, Source::Measured, false));
        assert_eq!(settle(40, 0.001), (40, Source::Measured, true));
    }

    #[test]
    fn a_capacity_that_is_never_confirmed_is_given_up() {
        let folder = tempfile::tempdir().unwrap();
        let cache = cache(folder.path(), "1");
        cache.settle(measurement(30, 0.0));
        let streams: Vec<usize> = (0..4).map(|_| cache.settle(measurement(10, 0.04)).0.capacity.streams).collect();
        assert_eq!(streams, [30, 30, 10, 10]);
    }

    #[test]
    fn another_model_has_a_file_of_its_own() {
        let folder = tempfile::tempdir().unwrap();
        let cache = cache(folder.path(), "1");
        cache.settle(measurement(30, 0.0));
        let other = cache.beside("fedcba9876543210".to_owned(), 8);
        assert_eq!(other.settle(measurement(5, 0.04)).0.capacity.streams, 5);
        assert_eq!((Cache::count(folder.path()), cache.read().unwrap().measurement), (2, measurement(30, 0.0)));
    }

    #[test]
    fn another_version_and_a_broken_file_count_for_nothing() {
        let folder = tempfile::tempdir().unwrap();
        cache(folder.path(), "1").settle(measurement(30, 0.0));
        let other = cache(folder.path(), "2");
        assert_eq!(other.settle(measurement(10, 0.04)).0.capacity.streams, 10);
        fs::write(&other.path, "{").unwrap();
        assert_eq!(other.settle(measurement(11, 0.04)).0.capacity.streams, 11);
        assert_eq!(other.settle(measurement(11, 0.05)).0.source, Source::Cached);
    }
}
