//! Flags of commands that read many audio files.

use std::path::PathBuf;

use clap::Args;
use melisma::Result;
use melisma::dataset::{Preparation, Trim};

/// Which audio files are used.
#[derive(Debug, Args)]
pub struct InputArgs {
    /// A text file with one path per line, whatever its name, or - for stdin
    #[arg(id = "path_list", long = "list", value_name = "FILE")]
    pub list: Option<PathBuf>,
    /// Where relative paths in lists begin [default: the folder of the list]
    #[arg(long, value_name = "DIR")]
    pub root: Option<PathBuf>,
    /// Leave out shorter files
    #[arg(long, value_name = "S", allow_negative_numbers = true, value_parser = seconds)]
    pub min_seconds: Option<f64>,
    /// Leave out longer files
    #[arg(long, value_name = "S", allow_negative_numbers = true, value_parser = seconds)]
    pub max_seconds: Option<f64>,
    /// Leave out silence at both ends of files
    #[arg(long)]
    pub trim: bool,
    /// Power below which 10 ms count as silence, in dB of full scale [default: -50]
    #[arg(long, value_name = "DB", allow_negative_numbers = true, requires = "trim")]
    pub trim_threshold: Option<f64>,
    /// Silence to leave at each end [default: 0.1]
    #[arg(long, value_name = "S", allow_negative_numbers = true, requires = "trim")]
    pub trim_margin: Option<f64>,
    /// Give each file this loudness, as far as a true peak of -1 dBTP allows [default: its own]
    #[arg(long, value_name = "LUFS", allow_negative_numbers = true)]
    pub loudness: Option<f64>,
    /// Stop when more than N files have failed
    #[arg(long, value_name = "N", conflicts_with = "on_error")]
    pub max_failures: Option<usize>,
}

impl InputArgs {
    /// Returns whether any of these flags was given.
    pub fn is_used(&self) -> bool {
        self.list.is_some()
            || self.root.is_some()
            || self.min_seconds.is_some()
            || self.max_seconds.is_some()
            || self.trim
            || self.loudness.is_some()
            || self.max_failures.is_some()
    }

    /// Returns what is done with the audio of a file before rows are made of it.
    pub fn preparation(&self) -> Result<Preparation> {
        let own = Trim::default();
        let trim = own
            .with_threshold_db(self.trim_threshold.unwrap_or(own.threshold_db))
            .with_margin_seconds(self.trim_margin.unwrap_or(own.margin_seconds));
        Preparation::new(self.trim.then_some(trim), self.loudness)
    }
}

fn seconds(text: &str) -> std::result::Result<f64, String> {
    let seconds = text.parse().ok().filter(|seconds: &f64| seconds.is_finite() && *seconds >= 0.0);
    seconds.ok_or_else(|| "use a number of seconds, as in 0.5 or 30".to_owned())
}
