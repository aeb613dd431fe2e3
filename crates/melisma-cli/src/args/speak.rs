//! Flags of `speak`.

use std::convert::Infallible;
use std::path::{Path, PathBuf};

use clap::Args;
use clap::builder::PossibleValuesParser;
use melisma::speak::BUILTIN;
use melisma::synth;

use super::SAMPLE_FORMATS;

/// Arguments of `speak`.
#[derive(Debug, Args)]
pub struct SpeakArgs {
    /// The text, or - for a pipe
    #[arg(value_name = "TEXT", required_unless_present_any = ["file", "texts"])]
    pub text: Option<String>,
    /// Speak a text file, or - for a pipe
    #[arg(long, value_name = "FILE", conflicts_with = "text")]
    pub file: Option<PathBuf>,
    /// Speak many texts in one batch: JSON lines with the key text and, where wanted, voice, seed and name; the same
    /// command again resumes
    #[arg(long = "list", value_name = "FILE.jsonl", conflicts_with_all = ["text", "file"])]
    pub texts: Option<PathBuf>,
    /// A .wav, .flac, .mp3 or .opus file, or - for a pipe of WAV; with --list a folder of audio, or a .safetensors, .h5
    /// or .jsonl file of tokens
    #[arg(short, long, value_name = "OUT", required_unless_present = "print_words")]
    output: Option<PathBuf>,
    /// The language model: builtin:voice, or a folder with config.json, weights, tokenizer.json, and speak.yaml unless it
    /// is Orpheus
    #[arg(long, value_name = "MODEL", default_value = BUILTIN)]
    pub voice_model: PathBuf,
    /// Its codec: builtin:solo24, builtin:mini24, a folder with config.json and weights, or a file of weights beside its config.json
    /// [default: builtin:solo24 for builtin:voice, else builtin:mini24]
    #[arg(long, value_name = "MODEL")]
    pub model: Option<String>,
    /// The voice [default: the model's first]
    #[arg(long, value_name = "VOICE")]
    pub voice: Option<String>,
    /// Seed, any number or text; another one gives another reading of the same text
    #[arg(long, value_name = "N", default_value_t = 0, allow_hyphen_values = true, value_parser = seed)]
    pub seed: u64,
    /// Speed at the same pitch, 0.25 to 4
    #[arg(long, value_name = "S", default_value_t = 1.0)]
    pub speed: f64,
    /// Also write the tokens: .txt, .json, .npy or .safetensors
    #[arg(long = "tokens", value_name = "OUT.txt", conflicts_with = "texts")]
    pub tokens_out: Option<PathBuf>,
    /// Precision of the language model on a GPU: fp32 refuses weights that are not bf16, bf16 rounds weights, activations
    /// and cache, which is faster [default: fp32, or the setting]
    #[arg(long, value_name = "FORMAT", value_parser = PossibleValuesParser::new(["fp32", "bf16"]))]
    pub precision: Option<String>,
    /// Read numbers, dates, abbreviations and the like out in words before the model sees the text: on or off [default:
    /// as the model's speak.yaml says, or the setting]
    #[arg(
        long,
        alias = "normalize",
        value_name = "HOW",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "on",
        value_parser = PossibleValuesParser::new(super::SWITCH),
        hide_possible_values = true
    )]
    pub normalise: Option<String>,
    /// Print the text as it is read, on one line, and speak nothing
    #[arg(long, conflicts_with_all = ["output", "texts", "tokens_out"])]
    pub print_words: bool,
    /// Noise in the codec: off, or seed:N
    #[arg(long, value_name = "NOISE", default_value = "seed:0")]
    pub noise: String,
    /// Sample format; FLAC takes s16 and s24
    #[arg(long, value_name = "FORMAT", default_value = "s16", value_parser = PossibleValuesParser::new(SAMPLE_FORMATS))]
    pub sample_format: String,
    #[command(flatten)]
    pub list: ListArgs,
    #[command(flatten)]
    pub sampler: SamplerArgs,
}

impl SpeakArgs {
    /// Returns the output; empty only where nothing is spoken.
    pub fn output(&self) -> &Path {
        self.output.as_deref().unwrap_or(Path::new(""))
    }
}

/// Returns the seed that `synth` has for the same number or text.
fn seed(text: &str) -> Result<u64, Infallible> {
    Ok(synth::seed(text))
}

/// What is done with a list.
#[derive(Debug, Args)]
#[command(next_help_heading = "Lists")]
pub struct ListArgs {
    /// What a .jsonl file has in each line: codes, or orpheus for the ids of its vocabulary
    #[arg(long, value_name = "FORMAT", default_value = "codes", requires = "texts",
        value_parser = PossibleValuesParser::new(["codes", "orpheus"]))]
    pub format: String,
    /// Leave out frames that start like the frame before, as scripts that fine-tune Orpheus do
    #[arg(long, requires = "texts")]
    pub drop_repeats: bool,
    /// Speak part I of N, counted from 1, on one of N machines
    #[arg(long, value_name = "I/N", requires = "texts")]
    pub shard: Option<String>,
}

/// How tokens are drawn. What is left out is the model's own default.
#[derive(Debug, Args)]
#[command(next_help_heading = "Sampler, in this order")]
pub struct SamplerArgs {
    /// Make tokens of the recent past less likely; 1 is off
    #[arg(long, value_name = "X")]
    pub repetition_penalty: Option<f32>,
    /// The recent past, in tokens [default: prompt and speech]
    #[arg(long, value_name = "N")]
    pub penalty_window: Option<usize>,
    /// Above 1 evens the probabilities out; 0 takes the most likely token
    #[arg(long, value_name = "X")]
    pub temperature: Option<f32>,
    /// Draw from the N most likely tokens; 0 is off
    #[arg(long, value_name = "N")]
    pub top_k: Option<usize>,
    /// Draw from this share of the probability, most likely tokens first; 1 is off
    #[arg(long, value_name = "P")]
    pub top_p: Option<f32>,
    /// Leave out tokens below this share of the most likely one's probability; 0 is off
    #[arg(long, value_name = "P")]
    pub min_p: Option<f32>,
    /// Draw from all tokens, not only from those of the frame's current slot; tokens out of order are left out
    #[arg(long)]
    pub free: bool,
}
