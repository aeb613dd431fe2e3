//! Fixes every row of a dataset before the first sample is read.

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::failure::{Action, Failure, RowFailure};
use super::input::Input;
use super::row::Row;
use crate::audio::Source;
use crate::mel::{Config, Log, OutputPrecision};
use crate::text::count;
use crate::{Error, Kind, Remedy, Result};

/// The most rows of a dataset.
const MAX_ROWS: u64 = u32::MAX as u64;
/// The most samples of a segment.
const MAX_SEGMENT: u64 = 1 << 31;

/// Files that are inspected before any of them is planned.
const BAND: usize = 4096;

/// What happens to the end of a file that does not fill a segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Tail {
    /// It is padded with silence.
    Pad,
    /// It is dropped.
    Drop,
}

/// The settings that determine the values of a dataset.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Options {
    /// How spectrograms are computed.
    pub mel: Config,
    /// Samples of a segment, at the configured rate.
    pub segment_samples: usize,
    /// Samples from one segment's start to the next.
    pub segment_hop_samples: usize,
    /// What happens to the end of a file that does not fill a segment.
    pub tail: Tail,
}

impl Options {
    /// Segments of length `segment`, `hop` apart, in FP16 for logarithmic presets and FP32 for
    /// linear ones.
    ///
    /// # Errors
    /// A length rounds to zero samples, or a segment is too short for a frame.
    pub fn new(mel: Config, segment: Duration, hop: Duration, tail: Tail) -> Result<Self> {
        let samples = |what: &str, time: Duration| {
            let n = (time.as_secs_f64() * f64::from(mel.sample_rate)).round();
            if n < 1.0 || n > MAX_SEGMENT as f64 {
                return Err(Error::invalid(format!(
                    "{what} of {time:?} is {n} samples; 1 to {MAX_SEGMENT} are possible"
                )));
            }
            Ok(n as usize)
        };
        let (segment_samples, segment_hop_samples) = (samples("a segment", segment)?, samples("a segment hop", hop)?);
        mel.kernel()?;
        if mel.n_frames(segment_samples)? == 0 {
            return Err(Error::invalid(format!(
                "a segment of {} has no frame",
                count(segment_samples as u64, "sample")
            )));
        }
        let dtype = if mel.log == Log::None { OutputPrecision::F32 } else { OutputPrecision::F16 };
        let mel = Config { dtype, ..mel };
        Ok(Self { mel, segment_samples, segment_hop_samples, tail })
    }

    /// Frames in a row.
    pub fn n_frames(&self) -> usize {
        self.mel.n_frames(self.segment_samples).unwrap_or(0)
    }

    fn segments(&self, n_samples: u64) -> u64 {
        let (len, hop) = (self.segment_samples as u64, self.segment_hop_samples as u64);
        match self.tail {
            Tail::Pad => n_samples.saturating_sub(len).div_ceil(hop) + u64::from(n_samples > 0),
            Tail::Drop => n_samples.checked_sub(len).map_or(0, |rest| rest / hop + 1),
        }
    }

    fn valid_frames(&self, n_samples: usize) -> u32 {
        let all = self.n_frames();
        let valid =
            if n_samples >= self.segment_samples { all } else { self.mel.n_frames(n_samples).unwrap_or(1).min(all) };
        valid as u32
    }
}

/// A file that has rows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct File {
    /// Its name and path.
    pub input: Arc<Input>,
    /// Its index among all inputs.
    pub index: u32,
    /// Samples per channel in the file.
    pub n_original: u64,
    /// Whether it can be read from any position.
    pub can_seek: bool,
    /// Its first row.
    pub first_row: u32,
    /// The number of its rows.
    pub n_rows: u32,
}

/// All rows of a dataset.
#[derive(Debug)]
pub struct Plan {
    /// The settings that determine the values.
    pub options: Options,
    /// The files that have rows, in order.
    pub files: Vec<File>,
    /// The rows, in order.
    pub rows: Vec<Row>,
    /// The files that were rejected.
    pub refused: Vec<RowFailure>,
    /// Files that were inspected.
    pub n_inputs: usize,
    /// Seconds of audio in the files that have rows.
    pub audio_seconds: f64,
    /// Files whose headers were repaired.
    pub n_repaired: usize,
    /// Files with another sample rate, which are resampled.
    pub n_resampled: usize,
    /// A hash over the sizes and times of the files, so that a build does not resume after a file
    /// changed.
    pub fingerprint: String,
}

/// The result of inspecting one file.
struct Looked {
    facts: Result<(crate::audio::Facts, bool)>,
    stamp: [u64; 3],
}

impl Plan {
    /// Reads the headers of `inputs` on `threads` threads. `first_index` is the index of the first
    /// one among all inputs.
    ///
    /// # Errors
    /// There are more rows than a dataset can have. Files that cannot be used are listed in
    /// [`Plan::refused`].
    pub fn new(options: Options, inputs: &[Arc<Input>], first_index: usize, threads: usize) -> Result<Self> {
        let mut plan = Self {
            options,
            files: Vec::new(),
            rows: Vec::new(),
            refused: Vec::new(),
            n_inputs: inputs.len(),
            audio_seconds: 0.0,
            n_repaired: 0,
            n_resampled: 0,
            fingerprint: String::new(),
        };
        let mut hash = blake3::Hasher::new();
        let rate = plan.options.mel.sample_rate;
        let bands = inputs.chunks(BAND).flat_map(|band| band.iter().zip(look(rate, band, threads)));
        for ((input, looked), index) in bands.zip(first_index..) {
            hash.update(input.path.as_os_str().as_encoded_bytes());
            hash.update(&looked.stamp.map(u64::to_le_bytes).concat());
            let index = u32::try_from(index).map_err(|_| too_many())?;
            match looked.facts {
                Ok((facts, can_seek)) => plan.add(input, index, &facts, can_seek)?,
                Err(error) => plan.refuse(input, index, &error),
            }
        }
        plan.fingerprint = hash.finalize().to_hex().to_string();
        Ok(plan)
    }

    fn add(&mut self, input: &Arc<Input>, index: u32, facts: &crate::audio::Facts, can_seek: bool) -> Result<()> {
        let options = &self.options;
        let n_rows = options.segments(facts.n_samples);
        if self.rows.len() as u64 + n_rows > MAX_ROWS {
            return Err(too_many());
        }
        if n_rows == 0 {
            let error = Error::invalid(format!("{}: shorter than one segment", count(facts.n_samples, "sample")));
            self.refuse(input, index, &error);
            return Ok(());
        }
        let first_row = self.rows.len() as u32;
        for segment in 0..n_rows {
            let start = segment * options.segment_hop_samples as u64;
            let n_samples = (facts.n_samples - start).min(options.segment_samples as u64) as u32;
            let valid_frames = options.valid_frames(n_samples as usize);
            self.rows.push(Row { file: self.files.len() as u32, start, n_samples, valid_frames });
        }
        self.audio_seconds += facts.n_samples as f64 / f64::from(options.mel.sample_rate);
        self.n_repaired += usize::from(facts.note.is_some());
        self.n_resampled += usize::from(facts.sample_rate != options.mel.sample_rate);
        let (input, n_original, n_rows) = (Arc::clone(input), facts.n_original, n_rows as u32);
        self.files.push(File { input, index, n_original, can_seek, first_row, n_rows });
        Ok(())
    }

    fn refuse(&mut self, input: &Input, index: u32, error: &Error) {
        let failure = Failure::new(input.name.to_string(), "scan", error, Action::Skipped);
        self.refused.push(RowFailure { file: index, row: 0, failure });
    }

    /// The file of a row.
    pub fn file(&self, row: &Row) -> &File {
        &self.files[row.file as usize]
    }

    /// Bytes of the plan in memory.
    pub fn bytes(&self) -> u64 {
        let names: usize =
            self.files.iter().map(|file| 2 * file.input.name.len() + file.input.path.as_os_str().len()).sum();
        // One more byte per row records whether it is done.
        (names + self.files.len() * size_of::<File>() + self.rows.len() * (size_of::<Row>() + 1)) as u64
    }

    /// Bytes of a row of `mel`.
    pub fn row_bytes(&self) -> usize {
        self.options.mel.n_mels * self.options.n_frames() * self.options.mel.dtype.bytes()
    }
}

fn look(rate: u32, inputs: &[Arc<Input>], threads: usize) -> Vec<Looked> {
    let next = AtomicUsize::new(0);
    let found: Mutex<Vec<Option<Looked>>> = Mutex::new(inputs.iter().map(|_| None).collect());
    std::thread::scope(|scope| {
        for _ in 0..threads.clamp(1, inputs.len().max(1)) {
            scope.spawn(|| {
                loop {
                    let first = next.fetch_add(64, Relaxed);
                    let Some(some) = inputs.get(first..).filter(|some| !some.is_empty()) else { return };
                    let some = &some[..some.len().min(64)];
                    let looked: Vec<Looked> = some.iter().map(|input| look_at(input, rate)).collect();
                    let mut found = found.lock().unwrap_or_else(PoisonError::into_inner);
                    found[first..].iter_mut().zip(looked).for_each(|(place, looked)| *place = Some(looked));
                }
            });
        }
    });
    found.into_inner().unwrap_or_else(PoisonError::into_inner).into_iter().flatten().collect()
}

fn look_at(input: &Input, rate: u32) -> Looked {
    use std::os::unix::fs::MetadataExt;
    let stamp = std::fs::metadata(&input.path)
        .map_or([0; 3], |data| [data.len(), data.mtime() as u64, data.mtime_nsec() as u64]);
    let facts = Source::open(&input.path, rate);
    Looked { facts: facts.map(|source| (source.facts().clone(), source.can_seek())), stamp }
}

fn too_many() -> Error {
    Error::new(Kind::Unsupported, format!("more than {MAX_ROWS} rows"))
        .with_hint(Remedy::UseShards)
        .or_hint("use longer segments")
}
