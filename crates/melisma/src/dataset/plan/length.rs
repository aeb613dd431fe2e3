//! Which files are used, by their length.

use serde::{Deserialize, Serialize};

use crate::{Error, Result};

/// The lengths of the files that are used, in seconds. Others are listed and left out.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Lengths {
    /// The least.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min_seconds: Option<f64>,
    /// The most.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_seconds: Option<f64>,
}

impl Lengths {
    /// Takes files of at least `min_seconds` and at most `max_seconds`, where these are given.
    ///
    /// # Errors
    /// A length is negative or not a number, or the least is more than the most.
    pub fn new(min_seconds: Option<f64>, max_seconds: Option<f64>) -> Result<Self> {
        let wrong = |seconds: &f64| !(seconds.is_finite() && *seconds >= 0.0);
        if let Some(seconds) = min_seconds.into_iter().chain(max_seconds).find(wrong) {
            return Err(Error::invalid(format!("a file cannot have {seconds} seconds")).with_hint("use 0 or more"));
        }
        match (min_seconds, max_seconds) {
            (Some(least), Some(most)) if least > most => {
                let message = format!("no file has at least {least} and at most {most} seconds");
                Err(Error::invalid(message).with_hint("swap the two"))
            }
            _ => Ok(Self { min_seconds, max_seconds }),
        }
    }

    /// Returns whether files of all lengths are used.
    pub fn is_any(&self) -> bool {
        *self == Self::default()
    }

    /// Returns why a file of this length is left out: the code of its failure, and a message.
    pub(super) fn refuse(&self, seconds: f64) -> Option<(&'static str, Error)> {
        let error = |limit: f64, word: &str| Error::invalid(format!("{seconds:.3} s; the {word} is {limit} s"));
        match (self.min_seconds, self.max_seconds) {
            (Some(least), _) if seconds < least => Some(("too-short", error(least, "least"))),
            (_, Some(most)) if seconds > most => Some(("too-long", error(most, "most"))),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_within_both_limits_are_used() {
        let lengths = Lengths::new(Some(1.0), Some(2.0)).unwrap();
        let code = |seconds: f64| lengths.refuse(seconds).map(|(code, error)| (code, error.to_string()));
        assert_eq!((code(1.0), code(2.0)), (None, None));
        assert_eq!(code(0.5), Some(("too-short", "0.500 s; the least is 1 s".to_owned())));
        assert_eq!(code(2.0625), Some(("too-long", "2.062 s; the most is 2 s".to_owned())));
        assert!(Lengths::new(None, None).unwrap().is_any() && Lengths::default().refuse(1e9).is_none());
        for (least, most) in [(Some(2.0), Some(1.0)), (Some(-1.0), None), (None, Some(f64::NAN)), (None, Some(-0.5))] {
            assert!(Lengths::new(least, most).is_err());
        }
    }
}
