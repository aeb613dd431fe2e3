//! The table of tokens of the built-in voice. `melisma-voice` says what it belongs to.
#![forbid(unsafe_code)]

// A static, because every use of a constant may become a copy in the program.
static WEIGHTS: [u8; include_bytes!("../tokens.packed.safetensors").len()] =
    *include_bytes!("../tokens.packed.safetensors");

/// Returns the table, a packed safetensors file.
pub fn weights() -> &'static [u8] {
    &WEIGHTS
}
