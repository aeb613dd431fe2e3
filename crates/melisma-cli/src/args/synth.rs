//! Flags of `synth`.

use std::path::PathBuf;

use clap::Args;
use clap::builder::PossibleValuesParser;

use super::SAMPLE_FORMATS;

/// Arguments of `synth`.
#[derive(Debug, Args)]
pub struct SynthArgs {
    /// A .mid or .json file, - for a pipe of one, or preset:focus, preset:meditation, preset:sleep or preset:bright
    #[arg(value_name = "SCORE")]
    pub score: String,
    /// A .wav, .flac, .mp3 or .opus file, - for a pipe of WAV; a folder with --clips
    #[arg(short, long, value_name = "OUT")]
    pub output: PathBuf,
    /// Length in seconds, with a fade-out if the music goes on [default: 60 for presets, else the whole score]
    #[arg(long, value_name = "S", allow_hyphen_values = true)]
    pub seconds: Option<f64>,
    /// Seed of a preset's piece: any number or text [default: 0]
    #[arg(long, value_name = "N", allow_hyphen_values = true)]
    pub seed: Option<String>,
    /// Sample rate
    #[arg(long, value_name = "HZ", default_value_t = 48_000, value_parser = clap::value_parser!(u32).range(8_000..=192_000))]
    pub rate: u32,
    /// Also write each instrument to a file in this folder
    #[arg(long, value_name = "DIR")]
    pub stems: Option<PathBuf>,
    /// Also write the notes to a MIDI file
    #[arg(long, value_name = "OUT.mid")]
    pub midi: Option<PathBuf>,
    /// The loudness of the result in LUFS, or off
    #[arg(long, value_name = "LUFS", default_value = "-18", allow_hyphen_values = true)]
    pub loudness: String,
    /// Sample format; FLAC supports s16 and s24
    #[arg(long, value_name = "FORMAT", default_value = "s16", value_parser = PossibleValuesParser::new(SAMPLE_FORMATS))]
    pub sample_format: String,
    /// Render this many clips of a preset, from --seed on, each in another key, tempo and timbre, with its notes and
    /// parameters; run the same command again to resume
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub clips: Option<u32>,
    /// Render part I of N of the clips, counted from 1
    #[arg(long, value_name = "I/N", requires = "clips")]
    pub shard: Option<String>,
    /// Play a preset as `serve` streams it: on and on, cut at --seconds, at its own loudness
    #[arg(long, conflicts_with_all = ["stems", "midi", "clips", "debug_capture"])]
    pub endless: bool,
    /// Keep the last 100 blocks of 10 ms in this folder while rendering
    #[arg(long, value_name = "DIR")]
    pub debug_capture: Option<PathBuf>,
}
