//! Flags of `synth`.

use std::path::{Path, PathBuf};

use clap::builder::PossibleValuesParser;
use clap::{Args, ValueEnum};
use melisma::synth::Variation;
use melisma::{Error, Result};

use super::SAMPLE_FORMATS;

/// Arguments of `synth`.
#[derive(Debug, Args)]
pub struct SynthArgs {
    /// A .mid or .json file, - for a pipe of one, or preset:focus, preset:meditation, preset:sleep, preset:bright or
    /// preset:FILE.yaml; with --list a folder of presets or one of them
    #[arg(value_name = "SCORE", required_unless_present = "list")]
    score: Option<String>,
    /// A .wav, .flac, .mp3 or .opus file, - for a pipe of WAV; a folder with --clips
    #[arg(short, long, value_name = "OUT", required_unless_present_any = ["list", "print_preset"])]
    output: Option<PathBuf>,
    /// List the presets, with those of the folder SCORE
    #[arg(long)]
    pub list: bool,
    /// Print a preset with its changes as YAML, to be edited and played as preset:FILE.yaml
    #[arg(long, conflicts_with_all = ["list", "output"])]
    pub print_preset: bool,
    /// Play with this SoundFont (.sf2) instead of Melisma's instruments
    #[arg(long, value_name = "FILE.sf2", conflicts_with = "endless")]
    pub soundfont: Option<PathBuf>,
    /// Length in seconds, with a fade-out if the music goes on [default: 60 for presets, else the whole score]
    #[arg(long, value_name = "S", allow_hyphen_values = true, value_parser = seconds)]
    pub seconds: Option<f64>,
    /// Seed of a preset's piece: any number or text [default: 0]
    #[arg(long, value_name = "N", allow_hyphen_values = true)]
    pub seed: Option<String>,
    /// Sample rate
    #[arg(long, value_name = "HZ", default_value_t = 48_000, value_parser = clap::value_parser!(u32).range(8_000..=192_000))]
    pub rate: u32,
    /// Also write each instrument, or each track, to a file in this folder
    #[arg(long, value_name = "DIR")]
    pub stems: Option<PathBuf>,
    /// What has a stem of its own: each instrument, or each track of a MIDI file
    #[arg(long, value_name = "WHAT", value_enum, default_value_t, requires = "stems")]
    pub stems_by: StemsBy,
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
    /// Play a preset as `serve` streams it, at its own loudness: into a pipe without an end, or cut at --seconds
    #[arg(long, conflicts_with_all = ["stems", "midi", "clips", "debug_capture"])]
    pub endless: bool,
    /// Keep the last 100 blocks of 10 ms in this folder while rendering
    #[arg(long, value_name = "DIR")]
    pub debug_capture: Option<PathBuf>,
    // The last field, because its heading also holds for the flags after it.
    #[command(flatten)]
    pub variation: VariationArgs,
}

impl SynthArgs {
    /// Returns the score as given; empty only with `--list`.
    pub fn score(&self) -> &str {
        self.score.as_deref().unwrap_or_default()
    }

    /// Returns the output; empty only where nothing is rendered.
    pub fn output(&self) -> &Path {
        self.output.as_deref().unwrap_or(Path::new(""))
    }
}

fn seconds(text: &str) -> Result<f64, &'static str> {
    text.parse().map_err(|_| "expected seconds, as in 90 or 2.5")
}

/// What has a stem of its own.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub enum StemsBy {
    #[default]
    Instrument,
    Track,
}

/// Flags that change a preset.
#[derive(Debug, Args)]
#[command(next_help_heading = "Changes to a preset")]
pub struct VariationArgs {
    /// Key: C, C# or Db to B
    #[arg(long, value_name = "KEY")]
    pub key: Option<String>,
    /// Scale: aeolian or minor, dorian, lydian or phrygian
    #[arg(long, value_name = "MODE")]
    pub mode: Option<String>,
    /// Tempo, 30 to 180 beats per minute
    #[arg(long, value_name = "BPM", allow_hyphen_values = true)]
    pub tempo: Option<String>,
    /// Density and loudness of the notes, 0 to 1; 0.5 is the preset
    #[arg(long, value_name = "X", allow_hyphen_values = true)]
    pub intensity: Option<String>,
    /// Voices beside chords and bass: some of melody,arpeggio,drums,swells
    #[arg(long, value_name = "LIST")]
    pub voices: Option<String>,
    /// Gain, 0 to 1
    #[arg(long, value_name = "X", allow_hyphen_values = true)]
    pub gain: Option<String>,
    /// Cutoff of the pads' filter as a factor, 0.1 to 10
    #[arg(long, value_name = "X", allow_hyphen_values = true)]
    pub brightness: Option<String>,
    /// Depth of the pads' slow motion, 0 to 1
    #[arg(long, value_name = "X", allow_hyphen_values = true)]
    pub motion: Option<String>,
    /// Share of the reverb, 0 to 1
    #[arg(long, value_name = "X", allow_hyphen_values = true)]
    pub reverb: Option<String>,
    /// Share of the delay, 0 to 1
    #[arg(long, value_name = "X", allow_hyphen_values = true)]
    pub delay: Option<String>,
}

impl VariationArgs {
    /// Reads the flags that are given.
    pub fn read(&self) -> Result<Variation> {
        let Self { key, mode, tempo, intensity, voices, gain, brightness, motion, reverb, delay } = self;
        let values = [key, mode, tempo, intensity, voices, gain, brightness, motion, reverb, delay];
        let mut variation = Variation::default();
        for (name, value) in Variation::NAMES.into_iter().zip(values) {
            let set = value.as_deref().map_or(Ok(()), |value| variation.set(name, value));
            set.map_err(|error| {
                let message = error.to_string().replacen(&format!("{name}="), &format!("--{name} "), 1);
                Error::new(error.kind(), message).with_hint(format!("`melisma synth --help` explains --{name}"))
            })?;
        }
        Ok(variation)
    }
}
