//! What packing and unpacking share: the device with its threads and memory, open files, and
//! printed summaries.

use std::fs::File;
use std::path::Path;

use indicatif::{ProgressBar, ProgressStyle};
use melisma::pack::Archive;
use melisma::runtime::device::{Device, DeviceRequest};
use melisma::runtime::memory::Budget;
use melisma::{Error, Result};

use crate::session::Session;

/// Where packed files are decoded: threads and memory of the host, and perhaps a GPU.
pub struct Resources<'a> {
    pub device: &'a Device,
    pub threads: usize,
    pub budget: &'a Budget,
}

impl<'a> Resources<'a> {
    /// Creates the requested device. The default is the CPU: decoded bytes go to a file, and starting a GPU
    /// and copying them back takes longer than decoding with the CPU's threads.
    pub fn of(session: &'a Session) -> Result<Self> {
        let context = session.context_on(match session.config.device.value {
            DeviceRequest::Auto => DeviceRequest::Cpu,
            asked => asked,
        })?;
        let threads = session.config.threads.value.count();
        Ok(Self { device: context.device(), threads, budget: context.budget() })
    }

    /// Returns the CPU, for work that GPUs do not support.
    pub fn of_cpu(session: &'a Session) -> Result<Self> {
        if let DeviceRequest::Cuda(ordinal) = session.config.device.value {
            return Err(Error::unsupported(format!("cuda:{ordinal}: files are packed and listed by the CPU"))
                .with_hint("use --device cpu or auto; `pack -t` and `unpack` run on a GPU"));
        }
        Self::of(session)
    }

    /// Opens a packed file for decoding here.
    pub fn archive<'f>(&self, file: &'f File, path: &Path, base: Option<&'f File>) -> Result<Archive<'f>> {
        let archive = Archive::open(file, self.budget).map_err(|error| error.at(path.display()))?.on(self.device);
        match base {
            Some(base) => archive.with_base(base).map_err(|error| error.at(path.display())),
            None => Ok(archive),
        }
    }
}

/// Prints a summary; the text only if the user wants it.
pub fn print(session: &Session, device: &Device, text: String, json: serde_json::Value) -> Result<()> {
    if session.settings.quiet.value && !session.wants_json() {
        return Ok(());
    }
    session.print(device, || text, json)
}

pub fn length(file: &File) -> u64 {
    file.metadata().map_or(0, |data| data.len())
}

pub fn bar(session: &Session, len: u64) -> ProgressBar {
    let bar = if session.has_audience() { ProgressBar::new(len) } else { ProgressBar::hidden() };
    if let Ok(style) = ProgressStyle::with_template("{bar:30} {bytes}/{total_bytes} {bytes_per_sec} {eta}") {
        bar.set_style(style);
    }
    bar
}
