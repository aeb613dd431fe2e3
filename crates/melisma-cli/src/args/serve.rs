//! Arguments of `serve`.

use std::path::PathBuf;

use clap::Args;
use clap::builder::PossibleValuesParser;

/// Arguments of `serve`.
#[derive(Debug, Args)]
pub struct ServeArgs {
    /// Address to listen on; an address that other machines can reach needs an API key
    #[arg(long, value_name = "HOST", default_value = "127.0.0.1", env = "MELISMA_HOST", hide_env = true)]
    pub host: String,
    /// Port to listen on; 0 takes a free one
    #[arg(long, value_name = "PORT", default_value_t = 8431, env = "MELISMA_PORT", hide_env = true)]
    pub port: u16,
    /// File with the API key that clients must send, or with a line NAME: KEY [streams=N] [until=DATE] [scope=metrics]
    /// for each client; MELISMA_API_KEY may hold a key itself
    #[arg(long, value_name = "FILE", env = "MELISMA_API_KEY_FILE", hide_env = true)]
    pub api_key_file: Option<PathBuf>,
    /// builtin:mini24, a folder with config.json and weights, or a file of weights beside its config.json
    /// [default: builtin:mini24]
    #[arg(long, value_name = "MODEL", env = "MELISMA_MODEL", hide_env = true)]
    pub model: Option<String>,
    /// Language model that speaks in this server: builtin:voice, or a folder as `melisma speak` takes it. NAME is what
    /// clients call it [default: voice, or the folder's name]. Repeatable, the first is the default; none for no speech
    /// [default: builtin:voice, or none with --upstream]
    #[arg(long, value_name = "[NAME=]MODEL", env = "MELISMA_VOICE_MODEL", hide_env = true, value_delimiter = ',')]
    pub voice_model: Vec<String>,
    /// Texts that each voice model speaks at a time, 1 to 4096, or auto: as many as are heard without a gap and have
    /// memory [default: auto]
    #[arg(long, value_name = "N")]
    pub speakers: Option<String>,
    /// Read numbers, dates, abbreviations and the like out in words before any language model sees a text: on or off
    /// [default: as each voice model's speak.yaml says, off for the upstream, or the settings]
    #[arg(
        long,
        value_name = "HOW",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "on",
        value_parser = PossibleValuesParser::new(super::SWITCH),
        hide_possible_values = true
    )]
    pub normalise: Option<String>,
    /// Language model that speaks in tokens, as in http://127.0.0.1:8000, for /v1/audio/speech; needs --model
    #[arg(long, value_name = "URL", env = "MELISMA_UPSTREAM", hide_env = true)]
    pub upstream: Option<String>,
    /// File with the key that the upstream needs; MELISMA_UPSTREAM_KEY may hold the key itself
    #[arg(long, value_name = "FILE", env = "MELISMA_UPSTREAM_KEY_FILE", hide_env = true, requires = "upstream")]
    pub upstream_key_file: Option<PathBuf>,
    /// Streams at a time [default: measured, as many as the device keeps up with]; 1 to 65536, or auto
    #[arg(long, value_name = "N")]
    pub streams: Option<String>,
    /// Longest wait for a free stream, 0s to 30s; 0s refuses at once [default: 5s]
    #[arg(long, value_name = "TIME")]
    pub queue: Option<String>,
    /// Most streams at a time [default: 64 on a CPU, 2048 on a GPU]; fewer if the device cannot keep up
    #[arg(
        long,
        value_name = "N",
        value_parser = clap::value_parser!(u32).range(1..=65_536),
        env = "MELISMA_MAX_STREAMS",
        hide_env = true
    )]
    pub max_streams: Option<u32>,
    /// Further name of this server, NAME or NAME:PORT, as clients write it; repeatable
    #[arg(long, value_name = "NAME", env = "MELISMA_ALLOW_HOST", hide_env = true, value_delimiter = ',')]
    pub allow_host: Vec<String>,
    /// Web page that may use this server, as in https://example.com; repeatable
    #[arg(long, value_name = "ORIGIN", env = "MELISMA_ALLOW_ORIGIN", hide_env = true, value_delimiter = ',')]
    pub allow_origin: Vec<String>,
}

impl ServeArgs {
    /// Returns the arguments that are settings: key, flag and text.
    pub fn settings(&self) -> impl Iterator<Item = (&'static str, &'static str, String)> {
        let texts = [
            ("serve.queue", "--queue", &self.queue),
            ("serve.speakers", "--speakers", &self.speakers),
            ("serve.streams", "--streams", &self.streams),
            ("speak.normalise", "--normalise", &self.normalise),
            ("upstream.normalise", "--normalise", &self.normalise),
        ];
        texts.into_iter().filter_map(|(key, flag, text)| Some((key, flag, text.clone()?)))
    }
}
