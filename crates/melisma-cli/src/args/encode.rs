//! Flags of `melisma encode`.

use std::path::PathBuf;

use clap::Args;
use clap::builder::PossibleValuesParser;
use melisma::audio::Channel;

use super::corpus::CorpusArgs;
use super::{MAX_CHUNK, TOKEN_FORMATS};

/// Arguments of `encode`.
#[derive(Debug, Args)]
pub struct EncodeArgs {
    /// An audio file, or - for a pipe; or a corpus: folders, audio files, or text files with one path per line
    #[arg(value_name = "IN", required_unless_present = "path_list")]
    pub inputs: Vec<PathBuf>,
    /// The token file, or - for a pipe; for a corpus a .safetensors, .h5 or .jsonl file, or a folder of .npy files
    #[arg(short, long, value_name = "TOKENS")]
    pub output: PathBuf,
    /// builtin:mini24, a folder with config.json and weights, or a file of weights beside its config.json
    #[arg(long, value_name = "MODEL", default_value = "builtin:mini24")]
    pub model: String,
    /// Token format; auto chooses it by the suffix
    #[arg(long, value_name = "FORMAT", default_value = "auto", value_parser = PossibleValuesParser::new(TOKEN_FORMATS))]
    pub format: String,
    /// Channel to encode: mix, left, right, or a number from 1
    #[arg(long, value_name = "CHANNEL", default_value_t = Channel::Mix, value_parser = channel)]
    pub channel: Channel,
    /// Encode a stream this many frames at a time
    #[arg(long, value_name = "FRAMES", value_parser = clap::value_parser!(u32).range(1..=MAX_CHUNK))]
    pub chunk: Option<u32>,
    /// Decode the tokens and report how close the audio is to the original
    #[arg(long)]
    pub verify_audio: bool,
    /// Fail with exit code 3 if the decoded audio has less signal-to-noise; the tokens are kept
    #[arg(long, value_name = "DB", requires = "verify_audio", allow_negative_numbers = true, value_parser = finite)]
    pub min_snr: Option<f64>,
    #[command(flatten)]
    pub corpus: CorpusArgs,
}

fn channel(name: &str) -> Result<Channel, String> {
    Channel::from_name(name).ok_or_else(|| "use mix, left, right, or a number from 1".to_owned())
}

fn finite(text: &str) -> Result<f64, String> {
    let number = text.parse().ok().filter(|number: &f64| number.is_finite());
    number.ok_or_else(|| "use a number of decibels, as in 10 or -3.5".to_owned())
}
