//! Flags and commands. Values that are settings stay text here: `melisma::config` parses them, as
//! it parses the file and the environment.
//! More than 400 lines because it holds every command and flag with its help, in help order.

mod corpus;
mod dataset;
mod encode;
mod groups;
mod input;
mod optimize;
mod pack;
mod path;
mod run;
mod serve;
mod speak;
mod synth;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::builder::{BoolishValueParser, PossibleValuesParser};
use clap::{Arg, ArgAction, Args, CommandFactory, FromArgMatches, Parser, Subcommand};

use crate::{build, failure};
pub use dataset::{BuildArgs, DatasetArgs, DatasetCommand, MergeArgs, PlanArgs, RepairArgs};
pub use encode::EncodeArgs;
use groups::grouped;
pub use input::InputArgs;
pub use optimize::{CacheArgs, CacheCommand, OptimizeArgs, RequirementArgs};
pub use pack::{PackArgs, UnpackArgs};
pub use path::Paths;
pub use run::RunArgs;
pub use serve::ServeArgs;
pub use speak::SpeakArgs;
pub use synth::{StemsBy, SynthArgs};

const PROFILES: [&str; 3] = ["emergency", "field", "training"];
const COLUMNS: [&str; 8] = ["self", "total", "calls", "name", "p99", "device", "bytes", "allocated"];
const TOKEN_FORMATS: [&str; 4] = ["auto", "orpheus", "ids", "codes"];
const SAMPLE_FORMATS: [&str; 3] = ["s16", "s24", "f32"];
const SWITCH: [&str; 2] = ["on", "off"];
/// More frames at a time would only cost memory.
const MAX_CHUNK: i64 = 65_536;

/// A tensor engine for audio AI: texts, codec tokens, scores, audio, datasets, weights and ONNX models.
#[derive(Debug, Parser)]
#[command(
    name = "melisma",
    version = build::TEXT.as_str(),
    max_term_width = 110,
    after_help = "\
MELISMA_MEMORY_LIMIT sets --memory-limit, and so on for every global option except --force. Settings are also read \
from ~/.config/melisma/melisma.yaml ($XDG_CONFIG_HOME/melisma/melisma.yaml).

Examples:
  melisma demo
  melisma doctor --json"
)]
pub struct Cli {
    #[command(flatten)]
    pub globals: Globals,
    #[command(subcommand)]
    pub command: Option<Command>,
    #[arg(skip)]
    pub paths: Paths,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run every part on built-in material and write a report
    #[command(after_help = "\
Examples:
  melisma demo --open
  melisma demo -o /tmp/demo --device cpu --force")]
    Demo(DemoArgs),
    /// Speak text with the built-in voice, or with a language model and its codec
    #[command(after_help = "\
The language model is LlamaForCausalLM in Orpheus' token format, or in that of a speak.yaml beside it \
(docs/speak.md). Audio leaves as soon as it is final. The same text, voice, settings and seed give the same tokens \
for any number of threads, alone or in a list.

Examples:
  melisma speak \"Good morning!\" -o morning.wav
  melisma speak --file text.txt -o - --voice-model orpheus/ --model snac_24khz/ --voice tara | aplay")]
    Speak(SpeakArgs),
    /// Decode codec tokens to audio, from files or live pipes
    #[command(after_help = "\
TOKENS is text with <custom_token_N> in it, vocabulary ids, or lists of codes (JSON, .npy, .safetensors). Audio \
leaves as soon as it is final, and is the same for every --chunk and every pace of a pipe.

Examples:
  melisma decode tokens.txt -o speech.mp3 --model snac_24khz/
  melisma decode - -o - --model snac_24khz/ < tokens.fifo | aplay")]
    Decode(DecodeArgs),
    /// Encode audio as codec tokens, from files or live pipes
    #[command(after_help = "\
IN is WAV, FLAC, MP3, Ogg Vorbis, Opus, WebM, M4A, AIFF or CAF of any rate and number of channels; pipes may be \
live. The suffix of the output chooses the format: .txt is text with tokens; .json, .npy and .safetensors are \
lists of codes. Text leaves as soon as no later sample can change it, and is the same for every --chunk and every \
pace of a pipe.

Examples:
  melisma encode speech.flac -o tokens.safetensors --model snac_24khz/ --verify-audio
  melisma encode wavs/ -o train.jsonl --model snac_24khz/ --format orpheus --drop-repeats
  arecord -f S16_LE -r 48000 -c 2 | melisma encode - -o - --model snac_24khz/ > tokens.fifo")]
    Encode(EncodeArgs),
    /// Render a score or generated music to audio
    #[command(after_help = "\
A .json score is described by docs/score.schema.json. The same score or seed gives the same bytes for any number of \
threads. With --clips the folder goes straight into `melisma dataset build`.

Examples:
  melisma synth song.mid -o song.wav --stems stems/ --stems-by track
  melisma synth preset:focus -o focus.flac --seconds 300 --seed 7 --midi focus.mid")]
    Synth(SynthArgs),
    /// Measure this machine, or compare two records
    #[command(
        args_conflicts_with_subcommands = true,
        after_help = "\
Examples:
  melisma bench runtime -o today.json
  melisma bench compare yesterday.json today.json"
    )]
    Bench(BenchArgs),
    /// Compute spectrograms of audio files
    #[command(after_help = "\
Examples:
  melisma mel --list --preset whisper-80
  melisma mel song.wav -o song.png --set n_mels=128 --set f_max=16000 --set sample_rate=44100")]
    Mel(MelArgs),
    /// Build and check training tensors from folders of audio files
    #[command(
        subcommand_required = true,
        after_help = "\
Examples:
  melisma dataset build wavs/ -o train.h5
  melisma dataset verify train.h5"
    )]
    Dataset(DatasetArgs),
    /// Compress weights without loss, or test or list a packed file
    #[command(after_help = "\
Examples:
  melisma pack model.safetensors
  melisma pack -l model.packed.safetensors")]
    Pack(PackArgs),
    /// Restore a packed file byte for byte, or one of its tensors
    #[command(after_help = "\
Examples:
  melisma unpack model.packed.safetensors -o model.safetensors
  melisma unpack model.packed.safetensors --tensor encoder.weight --tile 0,3 -o tile.safetensors")]
    Unpack(UnpackArgs),
    /// Find the fastest engine for an ONNX model on this device, and cache it
    #[command(after_help = "\
Each candidate is measured in its own process; the best one within the tolerance and the memory limit is cached. \
The last line compares it with ONNX Runtime's default, or with the embedded engine's where that is not installed. \
With the same model, shapes, settings and machine, the cached engine is found again. `melisma run` uses it.

Examples:
  melisma optimize encoder.onnx --input mel=1x80x3000
  melisma optimize vad.onnx --input x=1x512 --precision auto --tolerance 1e-2 --json")]
    Optimize(OptimizeArgs),
    /// List, verify or clear cached engines and compiled kernels
    #[command(
        subcommand_required = true,
        after_help = "\
Examples:
  melisma cache list
  melisma cache verify"
    )]
    Cache(CacheArgs),
    /// Measure a candidate for `optimize`
    #[command(hide = true)]
    OptimizeWorker {
        /// What to do
        spec: PathBuf,
    },
    /// Run an ONNX model on .npy arrays
    #[command(after_help = "\
Every output becomes OUTDIR/NAME.npy; characters that a file name cannot hold become _. It uses the fastest cached \
engine for these shapes within --precision and --tolerance, else the embedded one in fp32, and says which and why.

Examples:
  melisma run encoder.onnx --input mel=speech.npy -o features/ --repeat 100
  melisma run vad.onnx --input input=audio.npy --input state=zeros.npy --input sr=rate.npy -o out/ --threads 2")]
    Run(RunArgs),
    /// Serve speech, decoding and music to many clients over HTTP and WebSockets
    #[command(after_help = "\
The first line on stderr is the address. SIGTERM finishes the open streams and ends; a second one ends at once. \
SIGHUP reads the file of keys and the voices of the upstream again. A socket that systemd passes on (LISTEN_FDS) \
replaces --host and --port.

docs/protocol.md describes the routes. Every option has an environment twin: --max-streams is MELISMA_MAX_STREAMS. \
--queue, --speakers and --streams are the keys serve.queue, serve.speakers and serve.streams of melisma.yaml, \
MELISMA_SERVE_QUEUE, MELISMA_SERVE_SPEAKERS and MELISMA_SERVE_STREAMS; --normalise is speak.normalise and \
upstream.normalise.

Examples:
  melisma serve --host 0.0.0.0 --api-key-file key.txt
  melisma serve --model snac_24khz/ --voice-model orpheus/")]
    Serve(ServeArgs),
    /// Show the hardware and libraries of this machine, and which of them are used
    #[command(after_help = "\
Examples:
  melisma doctor
  melisma doctor --device cuda:0 --json")]
    Doctor,
    /// Print completions for a shell
    #[command(after_help = "\
Examples:
  melisma completions bash > ~/.local/share/bash-completion/completions/melisma
  melisma completions zsh > ~/.zfunc/_melisma")]
    Completions {
        /// The shell
        shell: clap_complete::Shell,
    },
}

/// Arguments of `demo`.
#[derive(Debug, Args)]
pub struct DemoArgs {
    /// Where report.html and the files of its commands go
    #[arg(short, long, value_name = "DIR", default_value = "melisma-demo")]
    pub output: PathBuf,
    /// Show the report in a browser
    #[arg(long)]
    pub open: bool,
}

/// Arguments of `decode`.
#[derive(Debug, Args)]
pub struct DecodeArgs {
    /// A token file, or - for a pipe
    #[arg(value_name = "TOKENS")]
    pub tokens: PathBuf,
    /// A .wav, .flac, .mp3 or .opus file, or - for a pipe of WAV
    #[arg(short, long, value_name = "OUT.wav")]
    pub output: PathBuf,
    /// builtin:mini24, builtin:solo24, a folder with config.json and weights, or a file of weights beside its config.json
    #[arg(long, value_name = "MODEL", default_value = "builtin:mini24")]
    pub model: String,
    /// Token format; auto detects it from the content
    #[arg(long, value_name = "FORMAT", default_value = "auto", value_parser = PossibleValuesParser::new(TOKEN_FORMATS))]
    pub format: String,
    /// Noise in the decoder: off, or seed:N
    #[arg(long, value_name = "NOISE", default_value = "seed:0")]
    pub noise: String,
    /// Decode a stream this many frames at a time
    #[arg(long, value_name = "FRAMES", value_parser = clap::value_parser!(u32).range(1..=MAX_CHUNK))]
    pub chunk: Option<u32>,
    /// Output an approximate first frame at once instead of waiting until it is final
    #[arg(long)]
    pub early: bool,
    /// Sample format; FLAC takes s16 and s24
    #[arg(long, value_name = "FORMAT", default_value = "s16", value_parser = PossibleValuesParser::new(SAMPLE_FORMATS))]
    pub sample_format: String,
}

/// Arguments of `bench`.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct BenchArgs {
    #[arg(value_name = "ROOM", help = rooms())]
    pub rooms: Vec<String>,
    /// Also write the record to a file
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    #[command(subcommand)]
    pub command: Option<BenchCommand>,
}

fn rooms() -> String {
    format!("Any of {}, or a part of one such as serve/decode; all when left out", melisma_bench::ROOMS.join(", "))
}

/// Commands below `bench`.
#[derive(Debug, Subcommand)]
pub enum BenchCommand {
    /// Print the change per row; a loss beyond 10 % fails
    #[command(after_help = "\
Examples:
  melisma bench compare yesterday.json today.json
  melisma bench compare --json old.json new.json")]
    Compare {
        /// The record to compare with
        old: PathBuf,
        /// The record that must not be worse
        new: PathBuf,
    },
    /// Measure the audio quality of the synthesiser; a missed limit fails
    #[command(after_help = "\
Examples:
  melisma bench sheet
  melisma bench sheet --picture sheet.png --json")]
    Sheet {
        /// Also draw the curves
        #[arg(long, value_name = "FILE.png")]
        picture: Option<PathBuf>,
    },
}

/// How spectrograms are made.
#[derive(Debug, Args)]
pub struct MelSettings {
    /// builder, torchaudio, librosa, librosa-db, whisper-80, whisper-128, kaldi-fbank or hifigan
    #[arg(long, value_name = "NAME", default_value = "builder")]
    pub preset: String,
    /// Change a value of the preset: sample_rate, n_fft, win_length, hop_length, window, framing, padding, remove_dc,
    /// preemphasis, input_scale, power, epsilon, n_mels, f_min, f_max, mel_scale, norm, log, floor, multiplier, offset,
    /// range or dtype, which `melisma mel --list` explains; repeatable
    #[arg(long, value_name = "KEY=VALUE")]
    pub set: Vec<String>,
}

/// Arguments of `mel`.
#[derive(Debug, Args)]
pub struct MelArgs {
    /// Audio files
    #[arg(value_name = "IN", required_unless_present = "list")]
    pub inputs: Vec<PathBuf>,
    /// A .npy, .safetensors or .png file; a folder for the npy files of several inputs
    #[arg(short, long, value_name = "OUT", required_unless_present = "list")]
    pub output: Option<PathBuf>,
    #[command(flatten)]
    pub mel: MelSettings,
    /// List the presets, and the keys of --set with the values of the chosen preset
    #[arg(long, conflicts_with_all = ["inputs", "output"])]
    pub list: bool,
}

/// Flags of every command, before or after its name.
#[derive(Debug, Args)]
#[command(next_help_heading = "Global options")]
pub struct Globals {
    /// auto, cpu, cuda or cuda:N; an explicit device is never replaced by another
    #[arg(long, global = true, value_name = "DEVICE")]
    pub device: Option<String>,
    /// Preset of settings: emergency is the fastest, training takes the least memory and one core; all other settings
    /// override it [default: field]
    #[arg(long, global = true, value_name = "PROFILE", value_parser = PossibleValuesParser::new(PROFILES))]
    pub profile: Option<String>,
    /// Configuration file [default: ~/.config/melisma/melisma.yaml]
    #[arg(long, global = true, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// CPU threads, or auto
    #[arg(long, global = true, value_name = "N")]
    pub threads: Option<String>,
    /// The most memory that Melisma allocates, beside the program itself, e.g. 6GiB or 512MiB
    #[arg(long, global = true, value_name = "SIZE")]
    pub memory_limit: Option<String>,
    /// Write a trace for chrome://tracing or ui.perfetto.dev
    #[arg(long, global = true, value_name = "FILE")]
    pub trace: Option<String>,
    /// Print a table of where the time went
    #[arg(long, global = true)]
    pub profile_table: bool,
    /// Column to sort the table by
    #[arg(long, global = true, value_name = "COLUMN", value_parser = PossibleValuesParser::new(COLUMNS))]
    pub profile_sort: Option<String>,
    /// Rows of the table [default: 20]
    #[arg(long, global = true, value_name = "N")]
    pub profile_rows: Option<String>,
    /// Time the kernels of recorded graphs one by one, which is slower
    #[arg(long, global = true)]
    pub profile_kernels: bool,
    /// Print one JSON object on stdout
    #[arg(long, global = true, env = "MELISMA_JSON", hide_env = true, value_parser = BoolishValueParser::new())]
    pub json: bool,
    /// Print errors only
    #[arg(short, long, global = true, conflicts_with = "verbose")]
    pub quiet: bool,
    /// Print more details
    #[arg(short, long, global = true)]
    pub verbose: bool,
    /// Print every setting and where it came from, and do nothing else
    #[arg(long, global = true, env = "MELISMA_PRINT_CONFIG", hide_env = true, value_parser = BoolishValueParser::new())]
    pub print_config: bool,
    /// Replace existing outputs
    #[arg(short, long, global = true)]
    pub force: bool,
}

impl Globals {
    /// Returns the settings among the flags: key, flag, text.
    pub fn settings(&self) -> Vec<(&'static str, &'static str, String)> {
        let texts = [
            ("device", "--device", &self.device),
            ("profile", "--profile", &self.profile),
            ("threads", "--threads", &self.threads),
            ("memory_limit", "--memory-limit", &self.memory_limit),
            ("trace", "--trace", &self.trace),
            ("profile_sort", "--profile-sort", &self.profile_sort),
            ("profile_rows", "--profile-rows", &self.profile_rows),
        ];
        // -q and -v override a file or variable that sets the other.
        let switches = [
            ("profile_table", "--profile-table", self.profile_table, "true"),
            ("profile_kernels", "--profile-kernels", self.profile_kernels, "true"),
            ("quiet", "--quiet", self.quiet, "true"),
            ("quiet", "--verbose", self.verbose, "false"),
            ("verbose", "--verbose", self.verbose, "true"),
            ("verbose", "--quiet", self.quiet, "false"),
        ];
        let texts = texts.into_iter().filter_map(|(key, flag, text)| Some((key, flag, text.clone()?)));
        let given = switches.into_iter().filter(|(_, _, is_given, _)| *is_given);
        texts.chain(given.map(|(key, flag, _, value)| (key, flag, value.to_owned()))).collect()
    }
}

impl Cli {
    /// Returns the arguments that are settings: key, flag and text.
    pub fn settings(&self) -> Vec<(&'static str, &'static str, String)> {
        let mut settings = self.globals.settings();
        if let Some(Command::Serve(args)) = &self.command {
            settings.extend(args.settings());
        }
        if let Some(Command::Speak(SpeakArgs { normalise: Some(text), .. })) = &self.command {
            settings.push(("speak.normalise", "--normalise", text.clone()));
        }
        settings
    }
}

impl Command {
    /// Returns whether the program started itself as a worker process.
    pub fn is_worker(&self) -> bool {
        matches!(self, Self::OptimizeWorker { .. })
    }

    /// Returns whether the command prints notes about the settings itself, after its first line.
    pub fn notes_later(&self) -> bool {
        matches!(self, Self::Serve(_))
    }
}

/// Parses the command line; prints help, version and usage errors and returns their exit code.
pub fn parse() -> Result<Cli, ExitCode> {
    let matches = grouped(repeatable(Cli::command())).try_get_matches();
    let cli = matches.and_then(|matches| Ok(Cli { paths: Paths::of(&matches), ..Cli::from_arg_matches(&matches)? }));
    cli.map_err(|error| failure::usage(&error, &Cli::command()))
}

/// Lets scripts add flags: switches may repeat, and the last value of a global option wins.
fn repeatable(command: clap::Command) -> clap::Command {
    let repeat = |arg: Arg| {
        let id = arg.get_id().clone();
        let is_switch = matches!(arg.get_action(), ArgAction::SetTrue);
        if is_switch || arg.is_global_set() { arg.overrides_with(id) } else { arg }
    };
    command.mut_args(repeat).mut_subcommands(repeatable)
}
