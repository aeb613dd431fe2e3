//! The built-in models: small networks of our own whose files are part of the program.
#![forbid(unsafe_code)]

/// `mini24`, a small SNAC model for speech and music at 24 kHz.
pub mod mini24 {
    /// Its configuration, the `config.json` of a SNAC model.
    pub const CONFIG: &[u8] = include_bytes!("../mini24/config.json");
    /// 5.6 s of speech and a chord that the model was not trained on, a WAV file.
    pub const SAMPLE: &[u8] = include_bytes!("../mini24/sample.wav");

    // A static, because every use of a constant may become a copy in the program.
    static WEIGHTS: [u8; include_bytes!("../mini24/model.safetensors").len()] =
        *include_bytes!("../mini24/model.safetensors");

    /// Returns its weights, a safetensors file.
    pub fn weights() -> &'static [u8] {
        &WEIGHTS
    }
}
