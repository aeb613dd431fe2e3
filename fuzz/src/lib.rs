//! Melisma's parsers of untrusted bytes. Whatever the bytes are, a parser returns: it neither panics nor hangs, and it
//! allocates nothing that the bytes only claim to need.
//!
//! `cargo fuzz run NAME` drives one target with libFuzzer; `cargo run --no-default-features --bin mutate` drives all of them
//! on a stable compiler.
#![forbid(unsafe_code)]

pub mod mutation;
mod seed;
mod target;

pub use target::*;

/// One parser.
pub struct Target {
    /// The name of the target, and of its file in `fuzz_targets`.
    pub name: &'static str,
    /// Parses the bytes.
    pub run: fn(&[u8]),
    /// Inputs that the parser accepts.
    pub seeds: fn() -> Vec<Vec<u8>>,
}

/// Every parser.
pub const TARGETS: &[Target] = &[
    Target { name: "npy", run: npy, seeds: seed::npy },
    Target { name: "safetensors", run: safetensors, seeds: seed::safetensors },
    Target { name: "checkpoint", run: checkpoint, seeds: seed::checkpoint },
    Target { name: "packed", run: packed, seeds: seed::packed },
    Target { name: "array", run: array, seeds: seed::array },
    Target { name: "onnx", run: onnx, seeds: seed::onnx },
    Target { name: "wav", run: wav, seeds: seed::wav },
    Target { name: "audio", run: audio, seeds: seed::audio },
    Target { name: "midi", run: midi, seeds: seed::midi },
    Target { name: "soundfont", run: soundfont, seeds: seed::soundfont },
    Target { name: "preset", run: preset, seeds: seed::preset },
    Target { name: "score", run: score, seeds: seed::score },
    Target { name: "tokens", run: tokens, seeds: seed::tokens },
    Target { name: "codec", run: codec, seeds: seed::codec },
    Target { name: "llama", run: llama, seeds: seed::llama },
    Target { name: "tokenizer", run: tokenizer, seeds: seed::tokenizer },
    Target { name: "voice", run: voice, seeds: seed::voice },
    Target { name: "list", run: list, seeds: seed::list },
    Target { name: "normalise", run: normalise, seeds: seed::normalise },
    Target { name: "dataset", run: dataset, seeds: seed::dataset },
    Target { name: "journal", run: journal, seeds: seed::journal },
    Target { name: "metadata", run: metadata, seeds: seed::metadata },
    Target { name: "settings", run: settings, seeds: seed::settings },
    Target { name: "record", run: record, seeds: seed::record },
    Target { name: "websocket", run: websocket, seeds: seed::websocket },
    Target { name: "request", run: request, seeds: seed::request },
    Target { name: "upstream", run: upstream, seeds: seed::upstream },
];
