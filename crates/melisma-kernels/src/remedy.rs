//! Typed remedies for errors: the libraries say what to change, and each front says how.

use std::any::Any;
use std::borrow::Borrow;
use std::fmt;
use std::sync::Arc;

/// One way to fix the cause of an [`Error`](crate::Error), as far as this crate knows.
///
/// `Display` words it without flags or arguments, for programs that call the library.
#[derive(Debug, Clone)]
pub enum Remedy {
    /// Words that every front prints unchanged.
    Words(String),
    /// A higher memory limit, of at least `least` bytes if that is known.
    RaiseMemoryLimit {
        /// Bytes that suffice.
        least: Option<u64>,
    },
    /// A lower memory limit, so that the work is split.
    LowerMemoryLimit,
    /// One of these devices.
    UseDevice(Vec<String>),
    /// The GPUs and libraries that were found.
    ShowDevices,
    /// One that only a crate above knows.
    Other(Arc<dyn Special>),
}

/// A remedy of a crate above; `Display` words it as [`Remedy`] does.
pub trait Special: Any + fmt::Debug + fmt::Display + Send + Sync {
    /// Returns whether it points to more information rather than to a change.
    fn is_reference(&self) -> bool;
}

impl Remedy {
    /// Advises one of these devices.
    pub fn use_device(names: &[&str]) -> Self {
        Self::UseDevice(names.iter().map(|&name| name.to_owned()).collect())
    }

    /// Joins names as `a`, `a or b`, or `a, b or c`.
    pub fn alternatives<S: Borrow<str>>(names: &[S]) -> String {
        match names {
            [] => String::new(),
            [name] => name.borrow().to_owned(),
            [first @ .., last] => format!("{} or {}", first.join(", "), last.borrow()),
        }
    }

    /// Returns whether it points to more information rather than to a change.
    fn is_reference(&self) -> bool {
        match self {
            Self::ShowDevices => true,
            Self::Other(special) => special.is_reference(),
            _ => false,
        }
    }
}

impl From<&str> for Remedy {
    fn from(words: &str) -> Self {
        Self::Words(words.to_owned())
    }
}

impl From<String> for Remedy {
    fn from(words: String) -> Self {
        Self::Words(words)
    }
}

impl fmt::Display for Remedy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Words(words) => f.write_str(words),
            Self::RaiseMemoryLimit { least: None } => f.write_str("raise the memory limit"),
            Self::RaiseMemoryLimit { least: Some(bytes) } => write!(f, "use a memory limit of {bytes} bytes or more"),
            Self::LowerMemoryLimit => f.write_str("lower the memory limit so that the work is split"),
            Self::UseDevice(names) => write!(f, "use the device {}", Self::alternatives(names)),
            Self::ShowDevices => f.write_str("check this machine's GPUs, driver and CUDA libraries"),
            Self::Other(special) => special.fmt(f),
        }
    }
}

/// Returns one line that lists `remedies`, each worded by `word`.
pub(crate) fn line(remedies: &[Remedy], word: impl Fn(&Remedy) -> String) -> Option<String> {
    let mut line = word(remedies.first()?);
    for remedy in &remedies[1..] {
        line += match remedy.is_reference() {
            _ if line.ends_with('?') => " ",
            true => "; ",
            false => ", or ",
        };
        line += &word(remedy);
    }
    Some(line)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn remedies_become_one_line() {
        let words = |remedies: &[Remedy]| line(remedies, Remedy::to_string).unwrap();
        assert_eq!(
            words(&[Remedy::RaiseMemoryLimit { least: None }, "make the input shorter".into()]),
            "raise the memory limit, or make the input shorter"
        );
        assert_eq!(
            words(&["install a driver".into(), Remedy::ShowDevices]),
            "install a driver; check this machine's GPUs, driver and CUDA libraries"
        );
        assert_eq!(words(&["did you mean `x`?".into(), "use y".into()]), "did you mean `x`? use y");
        assert_eq!(line(&[], Remedy::to_string), None);
        assert_eq!(Remedy::use_device(&["cpu", "cuda", "auto"]).to_string(), "use the device cpu, cuda or auto");
    }
}
