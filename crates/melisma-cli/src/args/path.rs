//! Which arguments name files that a command reads, and which name files that it writes.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};

use clap::ArgMatches;
use melisma::Result;
use melisma::config::Config;
use melisma::output::{protect, refuse_input};
use melisma::synth::Style;

use crate::input::is_pipe;
use crate::settings::Settings;

/// Arguments whose values are files, folders, `NAME=FILE` or `preset:FILE` to read.
const INPUTS: [&str; 24] = [
    "api_key_file",
    "calibrate",
    "config",
    "delta",
    "file",
    "from",
    "input",
    "inputs",
    "machine",
    "metadata",
    "model",
    "new",
    "old",
    "path",
    "path_list",
    "root",
    "score",
    "shards",
    "soundfont",
    "spec",
    "texts",
    "tokens",
    "upstream_key_file",
    "voice_model",
];
/// Arguments whose values are files or folders to write.
const OUTPUTS: [&str; 7] = ["debug_capture", "midi", "output", "picture", "stems", "tokens_out", "trace"];

/// The paths of a command line.
#[derive(Debug, Default)]
pub struct Paths {
    inputs: Vec<PathBuf>,
    outputs: Vec<PathBuf>,
}

impl Paths {
    pub fn of(matches: &ArgMatches) -> Self {
        let mut paths = Self::default();
        let mut level = Some(matches);
        while let Some(matches) = level {
            let values = |id: &str| {
                let values = matches.try_get_raw(id).ok().flatten().into_iter().flatten();
                values.filter(|value| !is_pipe(Path::new(value)))
            };
            paths.inputs.extend(INPUTS.into_iter().flat_map(|id| values(id).flat_map(move |value| files(id, value))));
            paths.outputs.extend(OUTPUTS.into_iter().flat_map(values).map(PathBuf::from));
            level = matches.subcommand().map(|(_, matches)| matches);
        }
        paths
    }

    /// Protects the inputs, and rejects an output that is also an input before anything is written.
    pub fn protect(&self, config: &Config, settings: &Settings) -> Result<()> {
        self.inputs.iter().chain(&config.file).for_each(|path| protect(path));
        self.outputs.iter().chain(&settings.trace.value).try_for_each(|path| refuse_input(path))
    }
}

/// Returns the files that `value` of the argument `id` refers to.
fn files(id: &str, value: &OsStr) -> Vec<PathBuf> {
    let path = Path::new(value);
    let text = value.to_str();
    let after_name = text.and_then(|text| text.split_once('=')).map(|(_, path)| PathBuf::from(path));
    let preset = text.and_then(|text| text.strip_prefix("preset:")).map(PathBuf::from);
    // Other presets are built in.
    let preset = preset.filter(|path| id == "score" && Style::is_file(path));
    let mut files: Vec<PathBuf> = [path.to_owned()].into_iter().chain(after_name).chain(preset).collect();
    if id == "model" {
        files.push(path.with_file_name("config.json"));
    }
    // The dataset walks folders of audio files itself.
    if path.is_dir() && !matches!(id, "inputs" | "root") {
        let inside = entries(path);
        files.extend(inside.iter().flat_map(|path| entries(path)));
        files.extend(inside);
    }
    files
}

/// Returns the files of a model, a dataset or calibration data in `folder`, and the folders.
fn entries(folder: &Path) -> Vec<PathBuf> {
    let is_read = |path: &PathBuf| {
        let suffix = path.extension().unwrap_or_default();
        let is_named =
            ["config.json", "dataset.json", "speak.yaml", "tokenizer.json"].iter().any(|name| path.ends_with(name));
        path.is_dir() || is_named || ["bin", "npy", "safetensors"].iter().any(|read| suffix == *read)
    };
    fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path()).filter(is_read).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::Cli;
    use clap::CommandFactory;

    /// Arguments whose values are not paths.
    const VALUES: &[&str] = &[
        "allow_host",
        "allow_origin",
        "autosize_gpu_batch",
        "brightness",
        "buffers_in_flight",
        "channel",
        "chunk",
        "clips",
        "delay",
        "device",
        "dtype",
        "engine",
        "format",
        "gain",
        "host",
        "hours",
        "input_bytes",
        "intensity",
        "job",
        "keep_column",
        "key",
        "loudness",
        "machines",
        "max_failures",
        "max_seconds",
        "max_streams",
        "memory_limit",
        "min_p",
        "min_seconds",
        "min_snr",
        "mode",
        "motion",
        "network",
        "noise",
        "normalise",
        "objective",
        "on_error",
        "path_column",
        "penalty_window",
        "port",
        "precision",
        "preset",
        "profile",
        "profile_rows",
        "profile_sort",
        "queue",
        "rate",
        "repeat",
        "repetition_penalty",
        "reverb",
        "rooms",
        "sample_format",
        "seconds",
        "seed",
        "segment",
        "segment_hop",
        "segments_per_buffer",
        "set",
        "shard",
        "shell",
        "size",
        "speaker_column",
        "speakers",
        "speed",
        "stems_by",
        "storage",
        "store",
        "streams",
        "technique",
        "temperature",
        "tempo",
        "tensor",
        "text",
        "text_column",
        "threads",
        "tile",
        "tile_size",
        "tolerance",
        "top_k",
        "top_p",
        "trim_margin",
        "trim_threshold",
        "upstream",
        "voice",
        "voices",
        "within",
    ];

    fn check(command: &clap::Command) {
        for arg in command.get_arguments().filter(|arg| arg.get_action().takes_values()) {
            let id = arg.get_id().as_str();
            let is_path = INPUTS.contains(&id) || OUTPUTS.contains(&id);
            let place = format!("`{id}` of `{}`", command.get_name());
            assert!(is_path != VALUES.contains(&id), "{place}: an input, an output, or no path? Say so in this file");
            let is_typed = arg.get_value_parser().type_id() == std::any::TypeId::of::<PathBuf>();
            assert!(is_path || !is_typed, "{place} is a path");
        }
        command.get_subcommands().for_each(check);
    }

    #[test]
    fn every_argument_is_an_input_an_output_or_no_path() {
        assert!(INPUTS.iter().all(|id| !OUTPUTS.contains(id)));
        check(&Cli::command());
    }

    #[test]
    fn paths_are_found_at_every_level() {
        let line = "melisma --config c.yaml optimize m.onnx --input x=a.npy --calibrate cal --trace t.json";
        let paths = Paths::of(&Cli::command().get_matches_from(line.split(' ')));
        for name in ["c.yaml", "m.onnx", "a.npy", "cal"] {
            assert!(paths.inputs.iter().any(|path| path == Path::new(name)), "{name}: {paths:?}");
        }
        assert!(paths.outputs.iter().all(|path| path == Path::new("t.json")) && !paths.outputs.is_empty(), "{paths:?}");
        let paths = Paths::of(&Cli::command().get_matches_from("melisma synth preset:a.yaml -o a.wav".split(' ')));
        assert!(paths.inputs.iter().any(|path| path == Path::new("a.yaml")), "{paths:?}");
        let paths = Paths::of(&Cli::command().get_matches_from("melisma synth preset:focus -o focus".split(' ')));
        assert!(paths.inputs.iter().all(|path| path != Path::new("focus")), "{paths:?}");
    }
}
