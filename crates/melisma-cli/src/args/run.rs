//! Arguments of `run`.

use std::path::PathBuf;

use clap::Args;

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
    /// The folder for one .npy file per output
    #[arg(short, long, value_name = "OUTDIR")]
    pub output: PathBuf,
}
