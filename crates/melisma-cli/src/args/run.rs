//! Arguments of `run`.

use std::path::PathBuf;

use clap::Args;
use clap::builder::RangedU64ValueParser;

use super::optimize::RequirementArgs;

/// Arguments of `run`.
#[derive(Debug, Args)]
pub struct RunArgs {
    /// The model
    #[arg(value_name = "MODEL.onnx")]
    pub model: PathBuf,
    /// An input's array; once for each input
    #[arg(long, value_name = "NAME=FILE.npy")]
    pub input: Vec<String>,
    #[command(flatten)]
    pub requirements: RequirementArgs,
    /// Run N times more after the first, and print the times
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = RangedU64ValueParser::<usize>::new().range(..=1_000_000))]
    pub repeat: usize,
    /// The folder for one .npy file per output
    #[arg(short, long, value_name = "OUTDIR")]
    pub output: PathBuf,
}
