//! What is to be built.

use std::path::{Path, PathBuf};

use super::feature::Feature;
use crate::dataset::input::Inputs;
use crate::dataset::store::Kind;
use crate::dataset::store::lines::Lines;
use crate::dataset::technique::Techniques;
use crate::output::Existing;
use crate::runtime::device::host_threads;
use crate::{Context, Result};

/// A dataset to be built: what from, what of, and where to.
///
/// ```
/// use std::time::Duration;
///
/// use melisma::dataset::{Inputs, Options, Request};
/// use melisma::mel::Config;
/// # use melisma::audio::{Clip, wav};
/// # let folder = tempfile::tempdir().unwrap();
/// # let (clips, output) = (folder.path().join("clips"), folder.path().join("train.h5"));
/// # std::fs::create_dir(&clips).unwrap();
/// # let clip = Clip::mono(16_000, vec![0.1; 48_000]);
/// # std::fs::write(clips.join("a.wav"), wav::encode(&clip, wav::SampleFormat::S16)?).unwrap();
///
/// let inputs = Inputs::find(&[clips])?;
/// let options = Options::new(Config::preset("whisper-80")?, Duration::from_secs(1))?;
/// let outcome = Request::new(&inputs, output, options)?.build()?;
/// assert_eq!((outcome.files_ok, outcome.segments), (1, 3));
/// # Ok::<(), melisma::Error>(())
/// ```
#[derive(Debug)]
pub struct Request<'a> {
    pub(in crate::dataset) inputs: &'a Inputs,
    pub(in crate::dataset) output: PathBuf,
    pub(in crate::dataset) feature: Feature,
    pub(in crate::dataset) context: Context,
    pub(in crate::dataset) shard: (usize, usize),
    store: Option<Kind>,
    pub(in crate::dataset) lines: Option<Lines>,
    pub(in crate::dataset) existing: Existing,
    pub(in crate::dataset) max_failures: Option<usize>,
    pub(in crate::dataset) threads: usize,
    pub(in crate::dataset) techniques: Techniques,
}

impl<'a> Request<'a> {
    /// Requests all of `inputs` in `output`, in the format that its name says, on the CPU. An existing output is
    /// refused, and files that fail are listed and left out.
    ///
    /// # Errors
    /// Those of [`Context::cpu`].
    pub fn new(inputs: &'a Inputs, output: impl Into<PathBuf>, feature: impl Into<Feature>) -> Result<Self> {
        Ok(Self::new_in(&Context::cpu()?, inputs, output, feature))
    }

    /// Works like [`Request::new`], in `context`.
    pub fn new_in(
        context: &Context,
        inputs: &'a Inputs,
        output: impl Into<PathBuf>,
        feature: impl Into<Feature>,
    ) -> Self {
        Self {
            inputs,
            output: output.into(),
            feature: feature.into(),
            shard: (0, 1),
            store: None,
            lines: None,
            existing: Existing::Refuse,
            max_failures: None,
            threads: host_threads(context.device()),
            techniques: Techniques::default(),
            context: context.clone(),
        }
    }

    /// Builds only the part `index` of `n` parts, counted from 0. Messages,
    /// [`Merged::missing`](crate::dataset::Merged::missing) and the command line count from 1.
    #[must_use]
    pub fn with_shard(mut self, index: usize, n: usize) -> Self {
        self.shard = (index, n);
        self
    }

    setters! {
        /// Sets the format of the dataset, whatever its name says.
        pub fn with_store(store: Kind);
        /// Sets a text file with one line for each row of tokens; the store is then the format of unfinished work.
        pub fn with_lines(lines: Lines);
        /// Sets whether an existing dataset, or an unfinished build of another plan, may be replaced.
        pub fn with_existing(existing: Existing);
    }

    /// Sets whether the build stops at the first file that fails.
    #[must_use]
    pub fn with_stop_on_failure(mut self, stops: bool) -> Self {
        self.max_failures = stops.then_some(0);
        self
    }

    /// Sets how many files may fail before the build stops; `None` for any number. Files that a filter leaves out do
    /// not count.
    #[must_use]
    pub fn with_max_failures(mut self, most: Option<usize>) -> Self {
        self.max_failures = most;
        self
    }

    setters! {
        /// Sets threads that read and write, 1 to 1024. On the CPU they also compute.
        pub fn with_threads(threads: usize);
        /// Sets how the work is done; the values do not depend on it.
        #[cfg(any(feature = "bench", feature = "front"))]
        #[doc(hidden)]
        pub fn with_techniques(techniques: Techniques);
    }

    /// Returns what the rows hold.
    pub fn feature(&self) -> &Feature {
        &self.feature
    }

    /// Returns where the dataset goes.
    pub fn output(&self) -> &Path {
        &self.output
    }

    pub(in crate::dataset) fn store(&self) -> Result<Kind> {
        self.store.map_or_else(|| Kind::choose(None, &self.output), Ok)
    }
}
