//! Sections: the settings of one crate.
//!
//! All programs of a user share one `melisma.yaml`. Each crate declares the keys that it reads with
//! [`section!`](crate::section) and takes them from the same [`Layers`](super::Layers).

use serde_json::Value;

use super::{Config, Field, Origin, Raw, Setting};
use crate::Result;

/// The settings of one crate.
pub trait Section: Default {
    /// Its keys, in the order of `--print-config`.
    const KEYS: &'static [&'static str];

    /// Sets `key`, one of [`KEYS`](Self::KEYS); the error names neither the key nor its origin.
    ///
    /// # Errors
    /// The value has the wrong type or range.
    fn set(&mut self, key: &str, raw: &Raw, origin: Origin) -> Result<()>;

    /// Returns every key with its value and origin.
    fn entries(&self) -> Vec<Entry<'_>>;
}

/// A key with its value and origin, ready to print.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Entry<'a> {
    /// The key; keys of a section are written `section.key`.
    pub key: &'static str,
    /// The value as written in the file.
    pub value: String,
    /// The value as JSON, with sizes in bytes.
    pub json: Value,
    /// Its origin.
    pub origin: &'a Origin,
}

impl<'a> Entry<'a> {
    /// Returns the entry of `key`.
    pub fn new<T: Field>(key: &'static str, setting: &'a Setting<T>) -> Self {
        Self { key, value: setting.value.show(), json: setting.value.json(), origin: &setting.origin }
    }
}

/// Keys of the command line and the server. The library reads none of them, but it must tell them
/// from typing errors in the file that all share.
pub(super) const FRONT_KEYS: [&str; 18] = [
    "trace",
    "profile_table",
    "profile_sort",
    "profile_rows",
    "profile_kernels",
    "quiet",
    "verbose",
    "serve.queue",
    "serve.speakers",
    "serve.streams",
    "upstream.api",
    "upstream.model",
    "upstream.template",
    "upstream.voices",
    "upstream.request",
    "upstream.stop",
    "upstream.max_tokens",
    "upstream.normalise",
];

/// Keys of the room `speak`, which fronts ask for; the library may be built without the room.
const SPEAK_KEYS: [&str; 14] = [
    "speak.voices",
    "speak.prompt",
    "speak.before",
    "speak.after",
    "speak.speech",
    "speak.end",
    "speak.codec",
    "speak.temperature",
    "speak.top_k",
    "speak.top_p",
    "speak.min_p",
    "speak.repetition_penalty",
    "speak.penalty_window",
    "speak.normalise",
];

/// Returns every key of the file, those of nested sections last.
pub(super) fn known_keys() -> Vec<&'static str> {
    let mut keys: Vec<&str> = Config::KEYS.iter().copied().chain(FRONT_KEYS).chain(SPEAK_KEYS).collect();
    keys.sort_by_key(|key| key.contains('.'));
    keys
}

/// Declares a [`Section`]: a struct with one [`Setting`](crate::config::Setting) per key, after
/// its other fields.
#[doc(hidden)]
#[macro_export]
macro_rules! section {
    (
        $(#[$meta:meta])* $name:ident { $($(#[$plain_meta:meta])* $plain:ident : $plain_type:ty,)* }
        $($key:literal $field:ident : $type:ty = $default:expr, $doc:literal;)+
    ) => {
        $(#[$meta])*
        #[derive(Debug, Clone, PartialEq, Eq)]
        #[non_exhaustive]
        pub struct $name {
            $($(#[$plain_meta])* pub $plain: $plain_type,)*
            $(#[doc = $doc] pub $field: $crate::config::Setting<$type>,)+
        }

        impl Default for $name {
            fn default() -> Self {
                Self {
                    $($plain: Default::default(),)*
                    $($field: $crate::config::Setting::unset($default),)+
                }
            }
        }

        impl $crate::config::Section for $name {
            const KEYS: &'static [&'static str] = &[$($key),+];

            fn set(
                &mut self,
                key: &str,
                raw: &$crate::config::Raw,
                origin: $crate::config::Origin,
            ) -> $crate::Result<()> {
                match key {
                    $($key => self.$field = $crate::config::Setting::parse(raw, origin)?,)+
                    _ => return Err($crate::Error::invalid(format!("the key `{key}` does not exist"))),
                }
                Ok(())
            }

            fn entries(&self) -> Vec<$crate::config::Entry<'_>> {
                vec![$($crate::config::Entry::new($key, &self.$field)),+]
            }
        }
    };
}
