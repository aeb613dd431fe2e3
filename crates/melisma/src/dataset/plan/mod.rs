//! Fixes every row of a dataset before the first sample is read.

mod feature;
mod length;
mod mel;
mod prepare;
mod request;
mod tokens;

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use melisma_kernels::lock::Mutex;

pub use feature::Feature;
pub use length::Lengths;
pub use mel::{Options, Tail};
pub use prepare::{Preparation, Trim};
pub use request::Request;
pub use tokens::{Check, Tokens, Untexted};

use self::prepare::{Prepared, Unfit};
use super::counters::Counters;
use super::failure::{Action, Failure, RowFailure, TEXT_STAGE};
use super::input::{Input, Inputs, Text};
use super::row::Row;
use crate::audio::{Channel, Facts, Reads, Source};
use crate::runtime::thread;
use crate::{Error, ErrorKind, Remedy, Result};

/// The most rows of a dataset.
const MAX_ROWS: u64 = u32::MAX as u64;
/// Files that are inspected before any of them is planned.
const BAND: usize = 4096;

/// A file that has rows.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct File {
    /// Its index among all inputs.
    pub index: u32,
    /// Samples per channel in the file.
    pub n_original: u64,
    /// Whether it can be read from any position.
    pub can_seek: bool,
    /// The first sample that is used, at the configured rate.
    pub first_sample: u64,
    /// Its first row.
    pub first_row: u32,
    /// The number of its rows.
    pub n_rows: u32,
}

/// All rows of a dataset.
#[derive(Debug)]
#[non_exhaustive]
pub struct Plan {
    /// What the rows hold.
    pub feature: Feature,
    /// All inputs; the plan has a part of them.
    inputs: Arc<[Input]>,
    /// The files that have rows, in order.
    pub files: Vec<File>,
    /// The rows, in order.
    pub rows: Vec<Row>,
    /// The texts of the files, if the feature has any, each with what is kept beside it.
    pub(super) texts: Vec<Text>,
    /// What the samples of each file are multiplied with, if that is not 1.
    gains: Vec<f32>,
    /// The files that were rejected, and those without a text or the loudness that was asked for.
    pub refused: Vec<RowFailure>,
    /// Files that were inspected.
    pub n_inputs: usize,
    /// Seconds of audio in the files that have rows.
    pub audio_seconds: f64,
    /// Files whose headers were repaired.
    pub n_repaired: usize,
    /// Files with another sample rate, which are resampled.
    pub n_resampled: usize,
    /// Files with several channels, which are mixed down to one.
    pub n_mixed: usize,
    /// A hash over the sizes and times of the files, so that a build does not resume after a file
    /// changed.
    pub fingerprint: String,
}

/// How files are inspected.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct Scan<'a> {
    /// The number of threads.
    pub threads: usize,
    /// Those of the build, which may be stopped.
    pub counters: &'a Counters,
}

impl<'a> Scan<'a> {
    /// Returns one thread, which `counters` can stop.
    pub fn new(counters: &'a Counters) -> Self {
        Self { threads: 1, counters }
    }

    setters! {
        /// Sets the number of threads.
        pub fn with_threads(threads: usize);
    }
}

/// The result of inspecting one file.
struct Inspected {
    facts: Result<(Facts, bool, std::result::Result<Prepared, Unfit>)>,
    texts: Result<Vec<Text>>,
    stamp: [u64; 3],
}

impl Plan {
    /// Reads the headers of the files `part` of `inputs`.
    ///
    /// # Errors
    /// There are more rows than a dataset can have, or the build was stopped. Files that cannot be used are listed in
    /// [`Plan::refused`].
    pub fn new(feature: Feature, inputs: &Inputs, part: Range<usize>, scan: Scan<'_>) -> Result<Self> {
        let inputs = Arc::clone(&inputs.files);
        let end = part.end.min(inputs.len());
        let part = part.start.min(end)..end;
        let mut plan = Self {
            feature,
            inputs: Arc::clone(&inputs),
            files: Vec::with_capacity(part.len()),
            rows: Vec::with_capacity(part.len()),
            texts: Vec::new(),
            gains: Vec::new(),
            refused: Vec::new(),
            n_inputs: part.len(),
            audio_seconds: 0.0,
            n_repaired: 0,
            n_resampled: 0,
            n_mixed: 0,
            fingerprint: String::new(),
        };
        let mut hash = blake3::Hasher::new();
        let mut index = part.start;
        for band in inputs[part].chunks(BAND) {
            for (input, inspected) in band.iter().zip(inspect_all(&plan.feature, band, scan)?) {
                hash.update(input.path().as_os_str().as_encoded_bytes());
                hash.update(&inspected.stamp.map(u64::to_le_bytes).concat());
                plan.add(input, u32::try_from(index).map_err(|_| too_many())?, inspected)?;
                index += 1;
            }
        }
        plan.fingerprint = hash.finalize().to_hex().to_string();
        Ok(plan)
    }

    fn add(&mut self, input: &Input, index: u32, inspected: Inspected) -> Result<()> {
        let (facts, can_seek, prepared) = match inspected.facts {
            Ok(found) => found,
            Err(error) => {
                self.refuse(input, index, ("scan", &error), Action::Skipped);
                return Ok(());
            }
        };
        let prepared = match prepared {
            Ok(prepared) => prepared,
            Err((code, error)) => {
                let failure = Failure::unfit(input.name().into_owned(), code, &error);
                self.refused.push(RowFailure { file: index, row: 0, failure });
                return Ok(());
            }
        };
        if let Err(error) = &inspected.texts
            && error.kind() != ErrorKind::InvalidArgument
            && self.feature.requires_text()
        {
            // Another file has no text; this one has a text that cannot be read.
            self.refuse(input, index, ("scan", error), Action::Skipped);
            return Ok(());
        }
        let part @ (first_sample, n_samples) = (prepared.first, prepared.n_samples);
        if let Some((code, error)) = self.feature.leave_out(n_samples, &inspected.texts) {
            let failure = Failure::left_out(input.name().into_owned(), code, &error);
            self.refused.push(RowFailure { file: index, row: 0, failure });
            return Ok(());
        }
        let n_rows = match self.feature.n_rows(n_samples) {
            Ok(n_rows) => n_rows,
            Err(error) if error.kind() == ErrorKind::InvalidArgument => {
                let failure = Failure::too_short(input.name().into_owned(), &error);
                self.refused.push(RowFailure { file: index, row: 0, failure });
                return Ok(());
            }
            Err(error) => {
                self.refuse(input, index, ("scan", &error), Action::Skipped);
                return Ok(());
            }
        };
        if self.rows.len() as u64 + n_rows > MAX_ROWS {
            return Err(too_many());
        }
        let (file, first_row) = (self.files.len() as u32, self.rows.len() as u32);
        match &self.feature {
            Feature::Mel(options) => self.rows.extend((0..n_rows).map(|segment| options.row(file, segment, part))),
            Feature::Tokens(tokens) => {
                let first_frame = self.rows.last().map_or(0, Row::next_frame);
                self.rows.push(tokens.row(file, first_frame, n_samples));
                match &inspected.texts {
                    Ok(texts) => self.texts.extend(texts),
                    Err(_) => self.texts.extend(vec![Text::NONE; 1 + tokens.texts.kept().len()]),
                }
            }
        }
        if let Err(error) = &inspected.texts {
            self.refuse(input, index, (TEXT_STAGE, error), Action::NoText);
        }
        if let Some(message) = prepared.limited {
            let failure = Failure::limited(input.name().into_owned(), message);
            self.refused.push(RowFailure { file: index, row: first_row, failure });
        }
        if self.feature.preparation().loudness.is_some() {
            self.gains.push(prepared.gain);
        }
        let rate = self.feature.sample_rate();
        self.audio_seconds += n_samples as f64 / f64::from(rate);
        self.n_repaired += usize::from(facts.note.is_some());
        self.n_resampled += usize::from(facts.sample_rate != rate);
        self.n_mixed += usize::from(facts.n_channels > 1 && self.feature.target().channel == Channel::Mix);
        let (n_original, n_rows) = (facts.n_original, n_rows as u32);
        self.files.push(File { index, n_original, can_seek, first_sample, first_row, n_rows });
        Ok(())
    }

    fn refuse(&mut self, input: &Input, index: u32, (stage, error): (&str, &Error), action: Action) {
        let failure = Failure::new(input.name().into_owned(), stage, error, action);
        self.refused.push(RowFailure { file: index, row: 0, failure });
    }

    /// Returns the file of a row.
    pub fn file(&self, row: &Row) -> &File {
        &self.files[row.file as usize]
    }

    /// Returns the name and path of a file.
    pub fn input(&self, file: &File) -> &Input {
        &self.inputs[file.index as usize]
    }

    /// Returns the input that a row is made from.
    pub(super) fn input_of(&self, row: &Row) -> &Input {
        self.input(self.file(row))
    }

    /// Opens the file of a row, to read the samples that the row is made from.
    pub(super) fn open(&self, row: &Row, reads: Reads) -> Result<Source> {
        let file = self.file(row);
        let mut source = Source::reopen(self.input(file).path(), self.feature.target(), file.n_original, reads)?;
        if let Some(&gain) = self.gains.get(row.file as usize) {
            source.amplify(gain);
        }
        Ok(source)
    }

    /// Returns the bytes of the plan and its inputs in memory.
    pub fn bytes(&self) -> u64 {
        let inputs: usize = self.inputs.iter().map(|input| size_of::<Input>() + input.path().as_os_str().len()).sum();
        // One more byte per row records whether it is done.
        let rows = self.rows.len() * (size_of::<Row>() + 1) + self.texts.len() * size_of::<Text>();
        (inputs + self.files.len() * size_of::<File>() + self.gains.len() * size_of::<f32>() + rows) as u64
    }

    /// Returns all frames of tokens.
    pub(super) fn n_frames(&self) -> u64 {
        self.rows.last().map_or(0, Row::next_frame)
    }
}

fn inspect_all(feature: &Feature, inputs: &[Input], Scan { threads, counters }: Scan<'_>) -> Result<Vec<Inspected>> {
    let next = AtomicUsize::new(0);
    let found: Mutex<Vec<Option<Inspected>>> = Mutex::new(inputs.iter().map(|_| None).collect());
    let share = || {
        loop {
            let first = next.fetch_add(64, Relaxed);
            let Some(some) = inputs.get(first..).filter(|some| !some.is_empty()) else { return };
            let some = &some[..some.len().min(64)];
            let go_on = |_: &&Input| counters.check_stop().is_ok();
            let inspected: Vec<Inspected> =
                some.iter().take_while(go_on).map(|input| inspect(input, feature, counters)).collect();
            let mut found = found.lock();
            found[first..].iter_mut().zip(inspected).for_each(|(place, inspected)| *place = Some(inspected));
        }
    };
    thread::team((0..threads.clamp(1, inputs.len().max(1))).map(|_| share), || ())?;
    counters.check_stop()?;
    Ok(found.into_inner().into_iter().flatten().collect())
}

fn inspect(input: &Input, feature: &Feature, counters: &Counters) -> Inspected {
    use std::os::unix::fs::MetadataExt;
    let stamp = std::fs::metadata(input.path())
        .map_or([0; 3], |data| [data.len(), data.mtime() as u64, data.mtime_nsec() as u64]);
    let facts = Source::open(input.path(), feature.target()).and_then(|mut source| {
        let (facts, can_seek) = (source.facts().clone(), source.can_seek());
        let prepared = match feature.preparation() {
            none if none.is_none() => Ok(Prepared::whole(facts.n_samples)),
            preparation => preparation.prepare(&mut source, (feature.sample_rate(), counters))?,
        };
        Ok((facts, can_seek, prepared))
    });
    let texts = match feature {
        Feature::Mel(_) => Ok(Vec::new()),
        Feature::Tokens(tokens) => tokens.texts.find(input),
    };
    Inspected { facts, texts, stamp }
}

fn too_many() -> Error {
    Error::new(ErrorKind::Unsupported, format!("more than {MAX_ROWS} rows"))
        .with_hint(Remedy::UseShards)
        .or_hint("use longer segments")
}
