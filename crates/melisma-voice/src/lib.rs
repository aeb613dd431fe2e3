//! The built-in voice: a small language model that speaks English, and the codec that it was trained with.
//!
//! # Why three packages?
//! A registry takes packages of 10 MB. The voice has two shards of nearly that size, the table of its tokens and its
//! layers, each in a package of its own; this one has everything else.
#![forbid(unsafe_code)]

/// The language model, a `LlamaForCausalLM` with the tokens of [`solo24`].
pub mod voice {
    /// Its shape, a `config.json` of Hugging Face.
    pub const CONFIG: &str = include_str!("../voice/config.json");
    /// Its tokenizer, a `tokenizer.json` of Hugging Face.
    pub const TOKENIZER: &str = include_str!("../voice/tokenizer.json");
    /// The format of its prompts and speech, and the hash of its codec.
    pub const SPEAK: &str = include_str!("../voice/speak.yaml");

    /// Returns its weights, packed safetensors files.
    pub fn shards() -> [&'static [u8]; 2] {
        [melisma_voice_tokens::weights(), melisma_voice_layers::weights()]
    }
}

/// The codec `solo24`, a SNAC model at 24 kHz for this one voice. It has no encoder.
pub mod solo24 {
    /// Its configuration, the `config.json` of a SNAC model.
    pub const CONFIG: &[u8] = include_bytes!("../solo24/config.json");

    // A static, because every use of a constant may become a copy in the program.
    static WEIGHTS: [u8; include_bytes!("../solo24/model.packed.safetensors").len()] =
        *include_bytes!("../solo24/model.packed.safetensors");

    /// Returns its weights, a packed safetensors file.
    pub fn weights() -> &'static [u8] {
        &WEIGHTS
    }
}
