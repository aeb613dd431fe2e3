//! Arguments of `pack` and `unpack`.

use std::path::PathBuf;

use clap::Args;
use clap::builder::PossibleValuesParser;

/// Arguments of `pack`.
#[derive(Debug, Args)]
pub struct PackArgs {
    /// The file: .safetensors, the index of shards, or a PyTorch checkpoint; with -t and -l a packed one
    #[arg(value_name = "FILE")]
    pub input: PathBuf,
    /// Where the packed file goes; - is a pipe [default: NAME.packed.safetensors]
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Tile size [default: 512, or for elements of four bytes and more the one that gives the smallest file]
    #[arg(long, value_name = "N", value_parser = PossibleValuesParser::new(["256", "512", "1024"]))]
    pub tile_size: Option<String>,
    /// Add an index that lets GPUs decode small models faster
    #[arg(long)]
    pub gpu_index: bool,
    /// Store only what differs from this file; with -t, the file that the delta was made against
    #[arg(long, value_name = "BASE")]
    pub delta: Option<PathBuf>,
    /// Pack part I of N of the files that an index names, counted from 1; files that are packed already are skipped, and
    /// the run that completes them writes the index
    #[arg(long, value_name = "I/N", conflicts_with_all = ["output", "rm", "delta"])]
    pub shard: Option<String>,
    /// Remove the source once its replacement is verified
    #[arg(long, conflicts_with = "keep")]
    pub rm: bool,
    /// Keep the source (default)
    #[arg(short, long)]
    pub keep: bool,
    /// Check every hash of a packed file, or of the shards of a packed index, by decoding it
    #[arg(short, long, conflicts_with_all = ["list", "output", "rm", "tile_size", "gpu_index", "shard"])]
    pub test: bool,
    /// List the tensors of a packed file, or of the shards of a packed index
    #[arg(short, long, conflicts_with_all = ["output", "rm", "tile_size", "gpu_index", "delta", "shard"])]
    pub list: bool,
}

/// Arguments of `unpack`.
#[derive(Debug, Args)]
pub struct UnpackArgs {
    /// The packed file, or the packed index of shards
    #[arg(value_name = "FILE")]
    pub input: PathBuf,
    /// Where the result goes; - is a pipe [default: the name without .packed]
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Unpack only this tensor
    #[arg(long, value_name = "NAME", requires = "output")]
    pub tensor: Option<String>,
    /// Unpack only this tile of the tensor, by row and column
    #[arg(long, value_name = "R,C", requires = "tensor")]
    pub tile: Option<String>,
    /// The file that a delta was made against
    #[arg(long, value_name = "BASE")]
    pub delta: Option<PathBuf>,
    /// Remove the packed file once the result is complete
    #[arg(long, conflicts_with_all = ["keep", "tensor"])]
    pub rm: bool,
    /// Keep the packed file (default)
    #[arg(short, long)]
    pub keep: bool,
}
