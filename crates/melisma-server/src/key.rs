//! Keys, of this server and of its upstream: one check, wherever they come from.

use std::env::{self, VarError};

use melisma::{Error, Result};

/// The most bytes of a key: a longer one would not fit into a request's headers.
pub const MAX_BYTES: usize = 4096;

/// Returns the key in `text`, without the space around it. `origin` names the file, variable or argument.
///
/// # Errors
/// It is empty, too long, or not visible ASCII characters.
pub fn check(origin: &str, text: &str) -> Result<String> {
    let key = text.trim();
    let wrong =
        |why: &str| Err(Error::invalid(format!("{origin}: {why}")).with_hint("make a key with `openssl rand -hex 32`"));
    match key {
        "" => wrong("the key is empty"),
        _ if key.len() > MAX_BYTES => wrong(&format!("the key has {} bytes; at most {MAX_BYTES}", key.len())),
        _ if key.bytes().all(|byte| byte.is_ascii_graphic()) => Ok(key.to_owned()),
        _ => wrong("a key is visible ASCII characters without spaces"),
    }
}

/// Returns the key in the environment variable, if it is set.
///
/// # Errors
/// Those of [`check`].
pub fn of_environment(variable: &str) -> Result<Option<String>> {
    match env::var(variable) {
        Ok(text) => check(variable, &text).map(Some),
        Err(VarError::NotPresent) => Ok(None),
        Err(VarError::NotUnicode(text)) => check(variable, &text.to_string_lossy()).map(Some),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_some_visible_characters() {
        assert_eq!(check("a", " wh&t-a/key?\r\n").unwrap(), "wh&t-a/key?");
        assert!(check("a", &"k".repeat(MAX_BYTES)).is_ok());
        for (text, said) in [
            ("", "file: the key is empty"),
            (" \n", "file: the key is empty"),
            ("two words", "without spaces"),
            ("nul\0", "visible ASCII"),
            ("schlüssel", "visible ASCII"),
            (&"k".repeat(MAX_BYTES + 1), "has 4097 bytes; at most 4096"),
        ] {
            let error = check("file", text).unwrap_err().to_string();
            assert!(error.contains(said), "{text:.20}: {error}");
        }
    }
}
