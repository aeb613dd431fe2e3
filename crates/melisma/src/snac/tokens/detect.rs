//! Recognises the format by the first bytes.

use super::scan::{integer, is_separator};

/// The detector looks at no more than this.
pub const MAX_LEN: usize = 4096;

/// The format that was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Detected {
    /// Text with tags, and anything that matches no other format.
    Tags,
    /// Integers.
    Words,
    /// A list of codes.
    File,
}

/// Decides as soon as the beginning allows it.
pub fn detect(seen: &[u8]) -> Option<Detected> {
    if is_binary(seen) {
        return Some(Detected::File);
    }
    if seen.windows(14).any(|window| window == b"<custom_token_") {
        return Some(Detected::Tags);
    }
    let text = seen.trim_ascii_start();
    if let Some(rest) = text.strip_prefix(b"[")
        && matches!(rest.trim_ascii_start().first(), Some(b'[' | b']'))
    {
        return Some(Detected::File);
    }
    // The first word that has an end decides between integers and anything else.
    let start = text.iter().position(|&byte| !is_separator(byte));
    let word = start.and_then(|start| {
        let end = text[start..].iter().position(|&byte| is_separator(byte))?;
        Some(&text[start..start + end])
    });
    if word.and_then(integer).is_some() {
        return Some(Detected::Words);
    }
    (seen.len() >= MAX_LEN).then(|| at_end(seen))
}

/// Decides at the end of the input.
pub fn at_end(seen: &[u8]) -> Detected {
    let text = seen.trim_ascii_start();
    let first = text.split(|&byte| is_separator(byte)).find(|word| !word.is_empty());
    if is_binary(seen) || text.starts_with(b"[[") {
        Detected::File
    } else if first.and_then(integer).is_some() {
        Detected::Words
    } else if text.starts_with(b"{") && text.windows(7).any(|window| window == b"\"codes\"") {
        Detected::File
    } else {
        Detected::Tags
    }
}

/// Returns whether it is npy, which begins with a magic, or safetensors, which begins with a
/// little-endian length whose upper bytes are zero, and a brace.
fn is_binary(seen: &[u8]) -> bool {
    seen.starts_with(crate::format::npy::MAGIC) || (seen.get(5..9) == Some(b"\0\0\0{"))
}
