//! Temporary audio files to measure on.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use melisma::audio::{Clip, wav};
use melisma::dataset::Inputs;
use melisma::random::Lcg32;
use melisma::{Error, Result};

use crate::folder::Folder;

pub(crate) const RATE: u32 = 22_050;
/// Files with different content; further files repeat them.
const DIFFERENT: usize = 64;

/// The folder of the files, below the corpus's own.
const PLACE: &str = "files";

/// Where files lie, unless `MELISMA_BENCH_FOLDER` says so.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Disk {
    /// In the folder for temporary files.
    Temporary,
    /// In shared memory, if there is any.
    Shared,
}

pub(crate) struct Corpus {
    folder: Arc<Folder>,
    pub(crate) inputs: Inputs,
}

impl Corpus {
    /// Writes `n_files` WAV files of ten seconds each.
    pub(crate) fn new(n_files: usize, disk: Disk) -> Result<Self> {
        let clip = |index: usize| {
            let mut random = Lcg32::new(index as u32 + 1);
            let samples = (0..RATE * 10).map(|_| random.signed() / 4.0).collect();
            wav::encode(&Clip::mono(RATE, samples), wav::SampleFormat::S16)
        };
        let clips: Vec<Vec<u8>> = (0..n_files.min(DIFFERENT)).map(clip).collect::<Result<_>>()?;
        Self::of(n_files, disk, |index| &clips[index % clips.len()])
    }

    /// Writes `n_files` files with the bytes that `content` returns.
    pub(crate) fn of<'a>(n_files: usize, disk: Disk, content: impl Fn(usize) -> &'a [u8] + Sync) -> Result<Self> {
        let base = match (std::env::var_os("MELISMA_BENCH_FOLDER"), disk) {
            (Some(folder), _) => PathBuf::from(folder),
            (None, Disk::Shared) if Path::new("/dev/shm").is_dir() => PathBuf::from("/dev/shm"),
            (None, Disk::Temporary | Disk::Shared) => std::env::temp_dir(),
        };
        let folder = Arc::new(Folder::create_in(&base, &n_files.to_string())?);
        let place = folder.0.join(PLACE);
        std::fs::create_dir(&place).map_err(|error| Error::io(place.display(), error))?;
        let n_threads = melisma::runtime::device::available_threads();
        let write = |thread: usize| {
            (thread..n_files).step_by(n_threads).try_for_each(|index| {
                let path = place.join(format!("{index:06}.wav"));
                std::fs::write(&path, content(index)).map_err(|error| Error::io(path.display(), error))
            })
        };
        std::thread::scope(|scope| {
            let writers: Vec<_> = (0..n_threads)
                .map(|thread| {
                    scope.spawn({
                        let write = &write;
                        move || write(thread)
                    })
                })
                .collect();
            writers.into_iter().try_for_each(|writer| writer.join().unwrap_or(Ok(())))
        })?;
        Ok(Self { folder, inputs: Inputs::find(&[place])? })
    }

    /// Returns the first `n` files.
    pub(crate) fn first(&self, n: usize) -> Self {
        let mut inputs = Inputs::default();
        inputs.files = self.inputs.files.iter().take(n).cloned().collect();
        Self { folder: self.folder.clone(), inputs }
    }

    pub(crate) fn folder(&self) -> &Path {
        &self.folder.0
    }

    /// Returns the path of the files, for other programs.
    pub(crate) fn path(&self) -> String {
        self.folder.0.join(PLACE).display().to_string()
    }

    /// Returns the bytes of samples in a file.
    pub(crate) fn sample_bytes(&self) -> f64 {
        f64::from(RATE) * 10.0 * 2.0
    }
}
