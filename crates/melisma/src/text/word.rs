//! Enums whose values users write as words.

use crate::{Error, Remedy};

/// Implements `Display` and `FromStr` for an enum with one word per variant; display-only variants
/// cannot be parsed.
macro_rules! words {
    ($type:ident, $noun:literal, { $($variant:ident => $word:literal),+ $(,)? } $(, only shown { $($other:ident => $shown:literal),+ })?) => {
        impl $type {
            /// All variants that can be parsed.
            pub const ALL: &'static [Self] = &[$(Self::$variant),+];
        }

        impl std::fmt::Display for $type {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(match self {
                    $(Self::$variant => $word,)+
                    $($(Self::$other => $shown,)+)?
                })
            }
        }

        impl std::str::FromStr for $type {
            type Err = $crate::Error;

            fn from_str(text: &str) -> $crate::Result<Self> {
                match text {
                    $($word => Ok(Self::$variant),)+
                    _ => Err($crate::text::word::unknown($noun, text, &[$($word),+])),
                }
            }
        }
    };
}
pub(crate) use words;

/// Returns the error for a `text` that is not one of `words`.
pub(crate) fn unknown(noun: &str, text: &str, words: &[&str]) -> Error {
    Error::invalid(format!("unknown {noun} `{text}`")).with_hint(format!("use {}", Remedy::alternatives(words)))
}

#[cfg(test)]
mod tests {
    use crate::config::Profile;

    #[test]
    fn words_are_read_as_they_are_shown() {
        for profile in Profile::ALL {
            assert_eq!(profile.to_string().parse::<Profile>().unwrap(), *profile);
        }
        let error = "fields".parse::<Profile>().unwrap_err();
        assert_eq!(error.to_string(), "unknown profile `fields`");
        assert_eq!(error.hint().unwrap(), "use emergency, field or training");
    }
}
