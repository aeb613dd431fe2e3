//! The trace of a command, written when it ends or is interrupted.

use std::path::PathBuf;
use std::sync::Arc;

use melisma::Result;
use melisma::config::{Origin, Setting};
use melisma::lock::Mutex;
use melisma::output::{self, Existing, OutputFile};
use melisma::trace::Collector;

/// The trace file; whichever thread ends the command first takes it.
#[derive(Clone)]
pub struct TraceFile {
    collector: Collector,
    file: Arc<Mutex<Option<OutputFile>>>,
}

impl TraceFile {
    /// Returns a trace that is not written.
    pub fn none(collector: &Collector) -> Self {
        Self { collector: collector.clone(), file: Arc::default() }
    }

    /// Opens the file of `setting`, so that a bad path fails before any work. A trace named on the
    /// command line replaces a file only if `existing` allows it. A trace named in the
    /// configuration file or the environment applies to every run, so each run replaces the
    /// previous trace.
    pub fn open(collector: &Collector, setting: &Setting<Option<PathBuf>>, existing: Existing) -> Result<Self> {
        let existing = match setting.origin {
            Origin::File { .. } | Origin::Env(_) => Existing::Replace,
            _ => existing,
        };
        let file = setting.value.as_ref().map(|path| OutputFile::create(path, existing)).transpose()?;
        Ok(Self { collector: collector.clone(), file: Arc::new(Mutex::new(file)) })
    }

    /// Writes the trace once.
    pub fn write(&self) -> Result<()> {
        // Held to the end, so that the main thread and the signal thread wait for each other until
        // the file is complete.
        let mut waiting = self.file.lock();
        let Some(mut file) = waiting.take() else { return Ok(()) };
        let path = file.path().to_owned();
        self.collector.write_chrome(&mut file).map_err(|error| output::failed(&path, error))?;
        file.commit()
    }
}
