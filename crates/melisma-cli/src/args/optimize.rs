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
    /// The shape of an input, or an .npy file with its values; optional where the model fixes the shape
    #[arg(long, value_name = "NAME=SHAPE")]
    pub input: Vec<String>,
    #[command(flatten)]
    pub requirements: RequirementArgs,
    /// A folder with NAME.npy for each input, or with folders of them, to measure accuracy with
    #[arg(long, value_name = "DIR")]
    pub calibrate: Option<PathBuf>,
    /// Measure again and replace the cached engine
    #[arg(long)]
    pub remeasure: bool,
}

/// What an engine must satisfy; the same for `optimize` and `run`.
#[derive(Debug, Args)]
pub struct RequirementArgs {
    /// The lowest precision that an engine may use where that is faster [default: fp32, or the setting]
    #[arg(long, value_name = "PRECISION", value_parser = PossibleValuesParser::new(["fp32", "fp16", "int8", "auto"]))]
    pub precision: Option<String>,
    /// The largest error, relative to an output's largest value [default: 1e-3, or the setting]
    #[arg(long, value_name = "T", allow_negative_numbers = true)]
    pub tolerance: Option<f64>,
    /// auto, or an engine by name: rten, melisma-chain, melisma-mixed, melisma (whichever of these
    /// two fits the model), onnxruntime, onnxruntime-cuda or onnxruntime-tensorrt
    #[arg(long, value_name = "ENGINE", default_value = "auto")]
    pub engine: String,
    /// What the best engine is best at: the median or the 99th percentile of its runs, its memory, or
    /// its first result [default: p50; memory under --profile training]
    #[arg(long, value_name = "FIGURE", value_parser = PossibleValuesParser::new(["p50", "p99", "memory", "first"]))]
    pub objective: Option<String>,
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
    /// Show every cached engine: its model, input shapes, uses, and why it was made
    #[command(after_help = "\
Examples:
  melisma cache list
  melisma cache list --json")]
    List,
    /// Check every cached engine; damaged ones are set aside
    #[command(after_help = "\
Examples:
  melisma cache verify
  melisma cache verify --json")]
    Verify,
    /// Remove every cached engine, compiled kernel and measured capacity
    #[command(after_help = "\
Examples:
  melisma cache clear
  melisma cache clear --json")]
    Clear,
}
