//! The last blocks of a live sound, for debugging.
//!
//! The rendering thread only stores numbers: no lock, no allocation, no system call. Another thread periodically writes the
//! blocks to `capture.wav` and `capture.json`. It leaves out a block that was overwritten while it was read.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use serde_json::json;

use super::event::check_rate;
use crate::audio::{Clip, wav};
use crate::output::{self, Existing};
use crate::runtime::thread;
use crate::{Error, Result};

/// Blocks of a capture.
const MAX_BLOCKS: u64 = 100;
/// Blocks in the ring; the additional ones can be written while a capture is read.
const SLOTS: u64 = 128;
/// How often they are written.
const PAUSE: Duration = Duration::from_millis(500);

/// Keeps the last 100 blocks. Dropped or finished, it writes them a last time.
#[derive(Debug)]
pub struct Capture {
    ring: Arc<Ring>,
    /// Samples of the block that is not full yet.
    filled: usize,
    writer: Option<JoinHandle<Result<()>>>,
}

#[derive(Debug)]
struct Ring {
    folder: PathBuf,
    sample_rate: u32,
    block_len: usize,
    /// `[SLOTS, block_len, 2]`, the bits of floats.
    samples: Vec<AtomicU32>,
    /// Blocks that were begun, and those that are complete.
    begun: AtomicU64,
    complete: AtomicU64,
    is_over: AtomicBool,
}

impl Capture {
    /// Captures blocks of 10 ms into `folder`, which is created; files of an earlier capture are replaced.
    ///
    /// # Errors
    /// The rate is not 8 to 192 kHz, the folder cannot be created, or the thread cannot be started.
    pub fn start(folder: impl AsRef<Path>, sample_rate: u32) -> Result<Self> {
        let folder = folder.as_ref();
        check_rate(sample_rate)?;
        std::fs::create_dir_all(folder).map_err(|error| output::failed(folder, error))?;
        let block_len = (sample_rate / 100).max(1) as usize;
        let n = SLOTS as usize * block_len * 2;
        let ring = Arc::new(Ring {
            folder: folder.to_owned(),
            sample_rate,
            block_len,
            samples: (0..n).map(|_| AtomicU32::new(0)).collect(),
            begun: AtomicU64::new(1),
            complete: AtomicU64::new(0),
            is_over: AtomicBool::new(false),
        });
        let shared = ring.clone();
        let writer = thread::start("capture", move || shared.watch())?;
        Ok(Self { ring, filled: 0, writer: Some(writer) })
    }

    /// Keeps the next samples; blocks may have any length.
    pub fn push(&mut self, left: &[f32], right: &[f32]) {
        let ring = &*self.ring;
        let mut at = ring.complete.load(Ordering::Relaxed);
        let n = left.len().min(right.len());
        let mut done = 0;
        while done < n {
            let part = (n - done).min(ring.block_len - self.filled);
            let slot = ((at % SLOTS) as usize * ring.block_len + self.filled) * 2;
            let frames = left[done..done + part].iter().zip(&right[done..done + part]);
            for (place, (left, right)) in ring.samples[slot..slot + 2 * part].chunks_exact(2).zip(frames) {
                place[0].store(left.to_bits(), Ordering::Relaxed);
                place[1].store(right.to_bits(), Ordering::Relaxed);
            }
            done += part;
            self.filled += part;
            if self.filled == ring.block_len {
                self.filled = 0;
                at += 1;
                // Whoever sees a sample of the next block also sees that it was begun.
                ring.complete.store(at, Ordering::Release);
                ring.begun.store(at + 1, Ordering::SeqCst);
                std::sync::atomic::fence(Ordering::SeqCst);
            }
        }
    }

    /// Writes the blocks and ends the thread.
    ///
    /// # Errors
    /// The files could not be written.
    pub fn finish(mut self) -> Result<()> {
        self.end()
    }

    fn end(&mut self) -> Result<()> {
        self.ring.is_over.store(true, Ordering::Release);
        let Some(writer) = self.writer.take() else { return Ok(()) };
        writer.thread().unpark();
        writer.join().unwrap_or_else(|_| Err(Error::invalid("the thread that writes captures failed")))
    }
}

impl Drop for Capture {
    fn drop(&mut self) {
        // A drop cannot report.
        let _ = self.end();
    }
}

impl Ring {
    fn watch(&self) -> Result<()> {
        let mut written = 0;
        loop {
            let is_over = self.is_over.load(Ordering::Acquire);
            let complete = self.complete.load(Ordering::Acquire);
            if complete > written {
                self.write(complete)?;
                written = complete;
            }
            if is_over {
                return Ok(());
            }
            std::thread::park_timeout(PAUSE);
        }
    }

    fn write(&self, complete: u64) -> Result<()> {
        let mut first = complete.saturating_sub(MAX_BLOCKS);
        let block = 2 * self.block_len;
        let mut samples = Vec::with_capacity((complete - first) as usize * block);
        for at in first..complete {
            let slot = (at % SLOTS) as usize * block;
            let bits = self.samples[slot..slot + block].iter().map(|bits| bits.load(Ordering::Relaxed));
            samples.extend(bits.map(f32::from_bits));
        }
        std::sync::atomic::fence(Ordering::SeqCst);
        // Blocks whose places were begun anew meanwhile.
        let lost = self.begun.load(Ordering::SeqCst).saturating_sub(SLOTS).saturating_sub(first).min(complete - first);
        samples.drain(..lost as usize * block);
        first += lost;
        let peak = samples.iter().fold(0f32, |peak, sample| peak.max(sample.abs()));
        let n_wrong = samples.iter().filter(|sample| !sample.is_finite()).count();
        let clip = Clip { sample_rate: self.sample_rate, n_channels: 2, samples };
        let bytes = wav::encode(&clip, wav::SampleFormat::F32)?;
        output::write(&self.folder.join("capture.wav"), &bytes, Existing::Replace)?;
        let facts = json!({
            "first_sample": first * self.block_len as u64,
            "blocks": complete - first,
            "block_samples": self.block_len,
            "sample_rate_hz": self.sample_rate,
            "peak": peak,
            "not_finite": n_wrong,
        });
        output::write(&self.folder.join("capture.json"), format!("{facts:#}\n").as_bytes(), Existing::Replace)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_hundred_blocks_are_there() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("deep/capture");
        let mut capture = Capture::start(&path, 8000).unwrap();
        let sample = |i: u32| i as f32 / 1e6;
        // In blocks that fit nothing, and with a rest.
        let samples: Vec<f32> = (0..80 * 333 + 7).map(sample).collect();
        for part in samples.chunks(37) {
            capture.push(part, part);
        }
        capture.finish().unwrap();
        let clip = wav::decode(&std::fs::read(path.join("capture.wav")).unwrap()).unwrap().to_clip();
        let left: Vec<f32> = clip.samples.chunks(2).map(|frame| frame[0]).collect();
        assert_eq!(left, samples[80 * 233..80 * 333]);
        let facts: serde_json::Value =
            serde_json::from_slice(&std::fs::read(path.join("capture.json")).unwrap()).unwrap();
        assert_eq!((facts["first_sample"].as_u64(), facts["blocks"].as_u64()), (Some(80 * 233), Some(100)));
    }

    #[test]
    fn few_blocks_and_none() {
        let folder = tempfile::tempdir().unwrap();
        let mut capture = Capture::start(folder.path(), 48_000).unwrap();
        capture.push(&[0.5; 480], &[f32::NAN; 480]);
        drop(capture);
        let facts: serde_json::Value =
            serde_json::from_slice(&std::fs::read(folder.path().join("capture.json")).unwrap()).unwrap();
        assert_eq!((facts["blocks"].as_u64(), facts["not_finite"].as_u64()), (Some(1), Some(480)));
        Capture::start(folder.path(), 48_000).unwrap().finish().unwrap();
        assert!(Capture::start(Path::new("/dev/null/x"), 48_000).is_err());
    }
}
