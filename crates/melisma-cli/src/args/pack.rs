//! Arguments of `pack` and `unpack`.

use std::path::PathBuf;

use clap::Args;
use clap::builder::PossibleValuesParser;

/// Arguments of `pack`.
#[derive(Debug, Args)]
pub struct PackArgs {
    /// The file: .safetensors, its shards' index, or a checkpoint of PyTorch; with -t and -l a packed one
    #[arg(value_name = "FILE")]
    pub input: PathBuf,
    /// Where the packed file goes; - is a pipe [default: NAME.packed.safetensors]
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// The side of tiles; without, 512, and for elements of four bytes and more what gives the smallest file
    #[arg(long, value_name = "N", value_parser = PossibleValuesParser::new(["256", "512", "1024"]))]
    pub tile_size: Option<String>,
    /// Add an index with which GPUs decode small models faster
    #[arg(long)]
    pub gpu_index: bool,
    /// Store only what differs from this file
    #[arg(long, value_name = "BASE")]
    pub delta: Option<PathBuf>,
    /// Remove the source once its replacement is verified
    #[arg(long, conflicts_with = "keep")]
    pub rm: bool,
    /// Keep the source, as is done anyway
    #[arg(short, long)]
    pub keep: bool,
    /// Check every hash of a packed file by decoding it
    #[arg(short, long, conflicts_with_all = ["list", "output", "rm"])]
    pub test: bool,
    /// List the tensors of a packed file
    #[arg(short, long, conflicts_with_all = ["output", "rm"])]
    pub list: bool,
}

/// Arguments of `unpack`.
#[derive(Debug, Args)]
pub struct UnpackArgs {
    /// The packed file
    #[arg(value_name = "FILE")]
    pub input: PathBuf,
    /// Where the result goes; - is a pipe [default: the name without .packed]
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Only this tensor, as a file of its own
    #[arg(long, value_name = "NAME", requires = "output")]
    pub tensor: Option<String>,
    /// Only this tile of the tensor, by row and column
    #[arg(long, value_name = "R,C", requires = "tensor")]
    pub tile: Option<String>,
    /// The file that a delta was made against
    #[arg(long, value_name = "BASE")]
    pub delta: Option<PathBuf>,
    /// Remove the packed file once the result is complete
    #[arg(long, conflicts_with_all = ["keep", "tensor"])]
    pub rm: bool,
    /// Keep the packed file, as is done anyway
    #[arg(short, long)]
    pub keep: bool,
}
