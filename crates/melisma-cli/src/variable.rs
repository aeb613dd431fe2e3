//! The environment variables that the program reads, and those that look like them.

use clap::CommandFactory;
use melisma::config::{Config, Environment, Section, nearest, variable};
use melisma::speak;
use melisma_server::upstream;

use crate::args::Cli;
use crate::settings::Settings;

const PREFIX: &str = "MELISMA_";
/// Prefixes of variables for tests and benchmarks.
const INTERNAL: [&str; 3] = ["MELISMA_BENCH_", "MELISMA_SHIM_", "MELISMA_TEST_"];
/// Variables that mirror neither a setting nor an option.
const OTHERS: [&str; 11] = [
    "MELISMA_API_KEY",
    "MELISMA_COMMIT",
    "MELISMA_CONFIG",
    "MELISMA_CUDA_PATH",
    "MELISMA_ISA",
    "MELISMA_NVTX",
    "MELISMA_ONNXRUNTIME",
    "MELISMA_PYTHON",
    "MELISMA_SHIM",
    "MELISMA_SOUNDFONT",
    "MELISMA_UPSTREAM_KEY",
];

/// Returns the variables with our prefix that nothing reads, each with the known name that was probably meant.
pub fn misspelt(environment: &Environment) -> Vec<(&str, String)> {
    let known = known();
    // The common prefix is removed, because it would make all names look similar.
    let bare = |name: &str| name.strip_prefix(PREFIX).map(str::to_lowercase);
    let words: Vec<String> = known.iter().filter_map(|name| bare(name)).collect();
    let is_known =
        |name: &str| known.iter().any(|known| known == name) || INTERNAL.iter().any(|prefix| name.starts_with(prefix));
    let meant =
        |name| Some(format!("{PREFIX}{}", nearest(&bare(name)?, words.iter().map(String::as_str))?.to_uppercase()));
    environment.names().filter(|name| !is_known(name)).filter_map(|name| Some((name, meant(name)?))).collect()
}

fn known() -> Vec<String> {
    let keys =
        [Config::KEYS, Settings::KEYS, melisma_server::Config::KEYS, upstream::Config::KEYS, speak::Config::KEYS];
    let mut known: Vec<String> = keys.into_iter().flatten().map(|key| variable(key)).collect();
    known.extend(OTHERS.map(str::to_owned));
    add_options(&Cli::command(), &mut known);
    known
}

fn add_options(command: &clap::Command, known: &mut Vec<String>) {
    let names = command.get_arguments().filter_map(|arg| arg.get_env()?.to_str());
    known.extend(names.map(str::to_owned));
    command.get_subcommands().for_each(|command| add_options(command, known));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn misspelt_variables_are_found() {
        let environment = Environment::of([
            ("MELISMA_THREDS", "4"),
            ("MELISMA_TENSOR_OPTIMIZATION_CHUNK_SIZE", "7"),
            ("MELISMA_THREADS", "4"),
            ("MELISMA_QUIET", "1"),
            ("MELISMA_UPSTREAM_API", "chat"),
            ("MELISMA_SPEAK_VOICES", "ann"),
            ("MELISMA_ALLOW_HOST", "a"),
            ("MELISMA_ISA", "scalar"),
            ("MELISMA_HOMEPAGE_OF_THE_PROJECT", "x"),
            ("MELISM_THREADS", "4"),
        ]);
        let long = "MELISMA_TENSOR_OPTIMIZATIONS_CHUNK_SIZE".to_owned();
        let expected =
            [("MELISMA_TENSOR_OPTIMIZATION_CHUNK_SIZE", long), ("MELISMA_THREDS", "MELISMA_THREADS".to_owned())];
        assert_eq!(misspelt(&environment), expected);
    }
}
