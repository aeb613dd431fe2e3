//! Sections: the settings of one crate.
//!
//! All programs of a user share one `melisma.yaml`. Each crate declares the keys that it reads with
//! [`section!`](crate::section) and takes them from the same [`Layers`](super::Layers).

use super::{Config, Entry, Origin, Raw};
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

    /// Every key with its value and origin.
    fn entries(&self) -> Vec<Entry<'_>>;
}

/// Keys of the command line and the server. The library reads none of them, but it must tell them
/// from typing errors in the file that all share.
pub(super) const FRONT_KEYS: [&str; 14] = [
    "trace",
    "profile_table",
    "profile_sort",
    "profile_rows",
    "profile_kernels",
    "quiet",
    "verbose",
    "upstream.api",
    "upstream.model",
    "upstream.template",
    "upstream.voices",
    "upstream.request",
    "upstream.stop",
    "upstream.max_tokens",
];

/// Every key of the file, those of nested sections last.
pub(super) fn known_keys() -> Vec<&'static str> {
    let mut keys: Vec<&str> = Config::KEYS.iter().copied().chain(FRONT_KEYS).collect();
    keys.sort_by_key(|key| key.contains('.'));
    keys
}

/// Declares a [`Section`]: a struct with one [`Setting`](crate::config::Setting) per key, after
/// fields that are no settings.
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
