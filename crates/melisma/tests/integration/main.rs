//! The library as its users call it.
#![allow(clippy::unwrap_used, reason = "a failed expectation is the test's own message")]

mod audio_formats;
mod audio_lost;
mod audio_matroska;
mod audio_opus;
mod audio_stream;
mod bad_arguments;
mod codec;
mod dataset_kept;
mod dataset_prepare;
mod dataset_repair;
mod dataset_stop;
mod dataset_techniques;
mod dataset_tokens;
mod encoded;
mod gpu;
mod llama_cuda;
mod llama_golden;
mod mel_golden;
mod pack;
mod pack_bad_input;
mod pack_model;
mod pack_source;
mod process;
#[cfg(feature = "voice")]
mod readme;
mod repository;
mod runtime;
mod snac_bad_input;
mod snac_encode_engine;
mod snac_encode_engine_cuda;
mod snac_encode_golden;
mod snac_engine;
mod snac_engine_cuda;
mod snac_front;
mod snac_golden;
mod snac_stream;
mod synth_engine;
mod synth_golden;
mod synth_live;
mod synth_part;
mod synth_render;
mod synth_soak;
mod synth_stream;
