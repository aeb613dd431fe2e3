//! Flags of `melisma dataset`.

use std::path::PathBuf;

use clap::builder::{BoolishValueParser, PossibleValuesParser};
use clap::{ArgGroup, Args, Subcommand};

use super::MelSettings;
use super::input::InputArgs;

/// Arguments of `dataset`.
#[derive(Debug, Args)]
pub struct DatasetArgs {
    #[command(subcommand)]
    pub command: DatasetCommand,
}

/// Commands below `dataset`.
#[derive(Debug, Subcommand)]
pub enum DatasetCommand {
    /// Build a dataset, or resume an interrupted build
    #[command(after_help = "\
Examples:
  melisma dataset build wavs/ -o train.h5
  melisma dataset build list.txt -o train.safetensors --preset whisper-80 --segment 30s --shard 1/8")]
    Build(Box<BuildArgs>),
    /// Show what a dataset holds
    #[command(after_help = "\
Examples:
  melisma dataset info train.h5
  melisma dataset info --json train.safetensors")]
    Info {
        /// A dataset
        path: PathBuf,
    },
    /// Check every column of every row against its recorded hash
    #[command(after_help = "\
Examples:
  melisma dataset verify --json train.h5
  melisma dataset verify train.h5 --repair --from wavs/")]
    Verify {
        /// A dataset, or a .jsonl file of tokens
        path: PathBuf,
        #[command(flatten)]
        repair: RepairArgs,
    },
    /// Merge shards into one dataset
    #[command(after_help = "\
Examples:
  melisma dataset merge part-*.safetensors -o train.h5
  melisma dataset merge part-*.safetensors -o train.jsonl --format orpheus --drop-repeats")]
    Merge(MergeArgs),
    /// Predict time, machines, network and storage of a large job from measured records
    #[command(after_help = "\
Examples:
  melisma dataset plan --hours 1000000 --machine bench/record/nvidia-h200/dataset.json --within 24h
  melisma dataset plan --job tokens --hours 5000 --machine snac-encode.json --machines 8 --network 1.25GB
  melisma dataset plan --job pack --size 1.4TB --machine pack.json --storage 2GB")]
    Plan(PlanArgs),
}

/// What damaged rows are rebuilt from.
#[derive(Debug, Args)]
#[command(next_help_heading = "Repair")]
#[command(group = ArgGroup::new("originals").args(["from", "path_list"]).multiple(true))]
pub struct RepairArgs {
    /// Rebuild damaged rows from the original audio, with the bytes that they had; other settings are those of the
    /// dataset
    #[arg(long, requires = "originals")]
    pub repair: bool,
    /// What it was built from: folders, audio files, or text files with one path per line; repeatable
    #[arg(long, value_name = "DIR|LIST", requires = "repair")]
    pub from: Vec<PathBuf>,
    /// A text file with one path per line, whatever its name, or - for stdin
    #[arg(id = "path_list", long = "list", value_name = "FILE", requires = "repair")]
    pub list: Option<PathBuf>,
    /// Where relative paths in lists begin [default: the folder of the list]
    #[arg(long, value_name = "DIR", requires = "repair")]
    pub root: Option<PathBuf>,
    /// The codec of tokens
    #[arg(long, value_name = "MODEL", default_value = "builtin:mini24")]
    pub model: String,
    /// The table with the texts of tokens
    #[arg(long, value_name = "FILE", requires_all = ["repair", "text_column"])]
    pub metadata: Option<PathBuf>,
    /// The column with the texts
    #[arg(long, value_name = "N|NAME", requires = "metadata")]
    pub text_column: Option<String>,
    /// The column with the file names [default: path, or the first]
    #[arg(long, value_name = "N|NAME", requires = "metadata")]
    pub path_column: Option<String>,
    /// The column with the speakers
    #[arg(long, value_name = "N|NAME", requires = "metadata")]
    pub speaker_column: Option<String>,
}

/// Arguments of `dataset merge`.
#[derive(Debug, Args)]
pub struct MergeArgs {
    /// The shards, in any order
    #[arg(required = true, value_name = "SHARD")]
    pub shards: Vec<PathBuf>,
    /// The merged dataset; with .jsonl, a file with a line for each row of tokens
    #[arg(short, long, value_name = "OUT")]
    pub output: PathBuf,
    /// hdf5, safetensors or npy [default: by the output's suffix]
    #[arg(long, value_name = "KIND")]
    pub store: Option<String>,
    /// What a line of .jsonl holds: codes, or the ids of Orpheus [default: as in the shards, or codes]
    #[arg(long, value_name = "FORMAT", conflicts_with = "store", value_parser = PossibleValuesParser::new(["codes", "orpheus"]))]
    pub format: Option<String>,
    /// Drop frames whose first code repeats that of the frame before; .jsonl only
    #[arg(long, conflicts_with = "store")]
    pub drop_repeats: bool,
    /// Merge although shards of the whole are missing; the result has no rows of their files, and the attribute
    /// missing_shards names them
    #[arg(long)]
    pub allow_missing: bool,
}

/// Arguments of `dataset plan`.
#[derive(Debug, Args)]
pub struct PlanArgs {
    /// Hours of audio
    #[arg(long, value_name = "H", required_unless_present = "size", value_parser = hours, allow_negative_numbers = true)]
    pub hours: Option<f64>,
    /// Bytes of weights, for --job pack
    #[arg(long, value_name = "SIZE", conflicts_with = "hours")]
    pub size: Option<String>,
    /// A record of one machine that `melisma bench -o` wrote; repeatable
    #[arg(long, value_name = "FILE", required = true)]
    pub machine: Vec<PathBuf>,
    /// mel, tokens of a 24 kHz model, or pack
    #[arg(long, value_name = "JOB", default_value = "mel", value_parser = PossibleValuesParser::new(["mel", "tokens", "pack"]))]
    pub job: String,
    /// Machines of this kind [default: 1, or as many as --within needs]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=1_048_576))]
    pub machines: Option<u64>,
    /// Time until the job must be done
    #[arg(long, value_name = "TIME")]
    pub within: Option<String>,
    /// Bytes per second to and from one machine [default: no limit]
    #[arg(long, value_name = "SIZE")]
    pub network: Option<String>,
    /// Bytes per second of the shared storage [default: no limit]
    #[arg(long, value_name = "SIZE")]
    pub storage: Option<String>,
    /// Bytes of all recordings [default: 16-bit mono at the rate that was measured]
    #[arg(long, value_name = "SIZE")]
    pub input_bytes: Option<String>,
}

fn hours(text: &str) -> Result<f64, String> {
    let hours = text.parse().ok().filter(|hours: &f64| *hours > 0.0 && *hours <= 1e12);
    hours.ok_or_else(|| "use a number of hours above 0, at most 1e12".to_owned())
}

/// Arguments of `dataset build`.
#[derive(Debug, Args)]
pub struct BuildArgs {
    /// Folders, audio files, or text files with one path per line
    #[arg(value_name = "DIR|LIST", required_unless_present_any = ["test_gpu_pipeline", "path_list"])]
    pub inputs: Vec<PathBuf>,
    /// Where the dataset goes
    #[arg(short, long, value_name = "OUT", required_unless_present = "test_gpu_pipeline")]
    pub output: Option<PathBuf>,
    #[command(flatten)]
    pub mel: MelSettings,
    /// The length of a row
    #[arg(long, value_name = "TIME", default_value = "10s")]
    pub segment: String,
    /// Distance between the starts of segments [default: the segment length]
    #[arg(long, value_name = "TIME")]
    pub segment_hop: Option<String>,
    /// Pad the last segment of a file with silence (default)
    #[arg(long)]
    pub pad: bool,
    /// Drop the last segment of a file if it is incomplete
    #[arg(long, conflicts_with = "pad")]
    pub drop_tail: bool,
    /// f16 or f32 [default: f16 for logarithmic presets, f32 for linear ones]
    #[arg(long, value_name = "TYPE", value_parser = PossibleValuesParser::new(["f16", "f32"]))]
    pub dtype: Option<String>,
    /// hdf5, safetensors or npy [default: by the output's suffix]
    #[arg(long, value_name = "KIND")]
    pub store: Option<String>,
    #[command(flatten)]
    pub files: InputArgs,
    /// Build part I of N, counted from 1
    #[arg(long, value_name = "I/N")]
    pub shard: Option<String>,
    /// skip: list files that fail and go on; fail: stop at the first
    #[arg(long, value_name = "POLICY", default_value = "skip", value_parser = PossibleValuesParser::new(["skip", "fail"]))]
    pub on_error: String,
    /// Buffers in flight per thread on a GPU [default: 1]
    #[arg(
        long,
        visible_alias = "num-mega-buffers",
        value_name = "N",
        allow_negative_numbers = true,
        value_parser = clap::value_parser!(u16).range(1..=1024)
    )]
    pub buffers_in_flight: Option<u16>,
    /// Segments per buffer [default: by bytes]
    #[arg(
        long,
        visible_alias = "seg-microbatch-segments",
        value_name = "N",
        allow_negative_numbers = true,
        value_parser = clap::value_parser!(u32).range(1..=1_048_576)
    )]
    pub segments_per_buffer: Option<u32>,
    /// Fit buffers to the free memory of a GPU [default: true]
    #[arg(long, value_name = "BOOL", value_parser = BoolishValueParser::new())]
    pub autosize_gpu_batch: Option<bool>,
    /// Change how the work is done, not its result: pinned=off, conversion=per-file, streams=one, reads=mapped,
    /// writes=direct and others; repeatable
    #[arg(long, value_name = "KEY=VALUE")]
    pub technique: Vec<String>,
    /// Send generated audio through the pipeline, write nothing, and show what limited it
    #[arg(long, conflicts_with_all = ["inputs", "path_list", "output", "store", "shard", "on_error"])]
    pub test_gpu_pipeline: bool,
}
