//! The layers of the built-in voice. `melisma-voice` says what it belongs to.
#![forbid(unsafe_code)]

// A static, because every use of a constant may become a copy in the program.
static WEIGHTS: [u8; include_bytes!("../layers.packed.safetensors").len()] =
    *include_bytes!("../layers.packed.safetensors");

/// Returns the layers, a packed safetensors file.
pub fn weights() -> &'static [u8] {
    &WEIGHTS
}
