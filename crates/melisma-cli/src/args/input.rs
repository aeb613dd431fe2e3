//! Flags of commands that read many audio files.

use std::path::PathBuf;

use clap::Args;

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
            || self.max_failures.is_some()
    }
}

fn seconds(text: &str) -> Result<f64, String> {
    let seconds = text.parse().ok().filter(|seconds: &f64| seconds.is_finite() && *seconds >= 0.0);
    seconds.ok_or_else(|| "use a number of seconds, as in 0.5 or 30".to_owned())
}
