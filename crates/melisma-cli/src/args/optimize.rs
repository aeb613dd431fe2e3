//! Arguments of `optimize` and `cache`.

use std::path::PathBuf;

use clap::builder::PossibleValuesParser;
use clap::{Args, Subcommand};

/// Arguments of `optimize`.
#[derive(Debug, Args)]
pub struct OptimizeArgs {
    /// The model
    #[arg(value_name = "MODEL.onnx")]
    pub model: PathBuf,
    /// The shape of an input, or a file with its values; may be left out where the model says it
    #[arg(long, value_name = "NAME=SHAPE")]
    pub input: Vec<String>,
    /// How far precision may be lowered, where that is faster [default: fp32, or what the settings ask for]
    #[arg(long, value_name = "PRECISION", value_parser = PossibleValuesParser::new(["fp32", "fp16", "int8", "auto"]))]
    pub precision: Option<String>,
    /// The largest error, relative to an output's largest value [default: 1e-3, or what the settings ask for]
    #[arg(long, value_name = "T")]
    pub tolerance: Option<f64>,
    /// auto, or an engine by name: rten, melisma, onnxruntime, onnxruntime-cuda or
    /// onnxruntime-tensorrt
    #[arg(long, value_name = "ENGINE", default_value = "auto")]
    pub engine: String,
    /// A folder with NAME.npy for each input, or with folders of them, to measure accuracy with
    #[arg(long, value_name = "DIR")]
    pub calibrate: Option<PathBuf>,
}

/// Arguments of `cache`.
#[derive(Debug, Args)]
pub struct CacheArgs {
    #[command(subcommand)]
    pub command: CacheCommand,
}

/// Commands below `cache`.
#[derive(Debug, Subcommand)]
pub enum CacheCommand {
    /// Show what is kept, how often it was used and why it was made
    #[command(after_help = "\
Examples:
  melisma cache list
  melisma cache list --json")]
    List,
    /// Read and check everything that is kept; what is damaged is set aside
    #[command(after_help = "\
Examples:
  melisma cache verify
  melisma cache verify --json")]
    Verify,
    /// Remove everything that is kept
    #[command(after_help = "\
Examples:
  melisma cache clear
  melisma cache clear --json")]
    Clear,
}
