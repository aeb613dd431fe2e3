//! The section `serve` of `melisma.yaml`.

use std::time::Duration;

use melisma::config::{Field, Raw};
use melisma::text::duration;
use melisma::{Device, Result};
use serde_json::{Value, json};

use crate::batcher::{CapacityCache, Sizing};

pub(crate) const DEFAULT_QUEUE: Duration = Duration::from_secs(5);
/// Shorter than the time after which a connection without a byte is closed.
const MAX_QUEUE: Duration = Duration::from_secs(30);

/// The longest wait for a free stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Wait(pub Duration);

impl Field for Wait {
    fn parse(raw: &Raw) -> Result<Self> {
        let expected = "a time of 0s to 30s";
        let time = duration::parse(raw.word(expected)?).map_err(|_| raw.wrong(expected))?;
        Some(Self(time)).filter(|_| time <= MAX_QUEUE).ok_or_else(|| raw.wrong(expected))
    }

    fn show(&self) -> String {
        format!("{}s", self.0.as_secs_f64())
    }
}

/// A number of streams, or the number that is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Streams(pub Option<usize>);

impl Streams {
    /// The most that a server can be given.
    pub const MAX: usize = 65_536;

    /// Returns the streams that an engine on `device` has slots for, where `most` lowers them.
    pub fn slots(self, device: &Device, most: Option<usize>) -> usize {
        let default = match device {
            Device::Cpu(_) => 64,
            Device::Cuda(_) => 2048,
        };
        match self.0 {
            Some(number) => most.map_or(number, |most| number.min(most)),
            None => most.unwrap_or(default),
        }
    }

    /// Returns how an engine with so many slots is sized.
    pub fn sizing(self, cache: Option<CapacityCache>) -> Sizing {
        match self.0 {
            Some(_) => Sizing::Pinned,
            None => Sizing::Measured { cache },
        }
    }
}

impl Field for Streams {
    fn parse(raw: &Raw) -> Result<Self> {
        let number = match raw {
            Raw::Text(text) | Raw::Word(text) if text == "auto" => return Ok(Self(None)),
            Raw::Integer(number) => usize::try_from(*number).ok(),
            Raw::Word(text) => text.parse().ok(),
            _ => None,
        };
        let number = number.filter(|number| (1..=Self::MAX).contains(number));
        number.map(|number| Self(Some(number))).ok_or_else(|| raw.wrong("auto or 1 to 65536"))
    }

    fn show(&self) -> String {
        self.0.map_or_else(|| "auto".to_owned(), |number| number.to_string())
    }

    fn json(&self) -> Value {
        self.0.map_or_else(|| json!("auto"), |number| json!(number))
    }
}

/// A number of speakers of a voice model, or the number that is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Speakers(pub Option<usize>);

impl Speakers {
    /// The most that a voice model can be given.
    pub const MAX: usize = 4096;
}

impl Field for Speakers {
    fn parse(raw: &Raw) -> Result<Self> {
        let number = Streams::parse(raw).ok().filter(|number| number.0.is_none_or(|number| number <= Self::MAX));
        number.map(|number| Self(number.0)).ok_or_else(|| raw.wrong("auto or 1 to 4096"))
    }

    fn show(&self) -> String {
        Streams(self.0).show()
    }

    fn json(&self) -> Value {
        Streams(self.0).json()
    }
}

melisma::section! {
    /// How many streams a server takes, and how long further ones wait.
    Config {}
    "serve.queue" queue: Wait = Wait(DEFAULT_QUEUE), "The longest wait for a free stream; 0s refuses at once.";
    "serve.speakers" speakers: Speakers = Speakers(None), "Texts that a voice model speaks at a time; auto measures how many.";
    "serve.streams" streams: Streams = Streams(None), "Streams at a time; auto measures how many the device keeps up with.";
}

#[cfg(test)]
mod tests {
    use super::*;

    fn word(text: &str) -> Raw {
        Raw::Word(text.to_owned())
    }

    #[test]
    fn waits_have_a_unit_and_a_limit() {
        for (text, shown) in [("5s", "5s"), ("0s", "0s"), ("250ms", "0.25s"), ("30s", "30s")] {
            assert_eq!(Wait::parse(&word(text)).unwrap().show(), shown);
        }
        for text in ["5", "31s", "soon", "-1s"] {
            let error = Wait::parse(&word(text)).unwrap_err().to_string();
            assert_eq!(error, format!("expected a time of 0s to 30s, found the text `{text}`"));
        }
    }

    #[test]
    fn streams_are_a_number_or_auto() {
        assert_eq!(Streams::parse(&word("auto")).unwrap(), Streams(None));
        assert_eq!(Streams::parse(&word("12")).unwrap(), Streams(Some(12)));
        assert_eq!(Streams::parse(&Raw::Integer(7)).unwrap().show(), "7");
        for raw in [word("0"), word("65537"), word("many"), Raw::Integer(-1), Raw::Bool(true)] {
            assert!(Streams::parse(&raw).is_err(), "{raw:?}");
        }
    }

    #[test]
    fn speakers_are_a_smaller_number_or_auto() {
        assert_eq!(Speakers::parse(&word("auto")).unwrap(), Speakers(None));
        assert_eq!(Speakers::parse(&word("4096")).unwrap().show(), "4096");
        let error = Speakers::parse(&word("4097")).unwrap_err().to_string();
        assert_eq!(error, "expected auto or 1 to 4096, found the text `4097`");
    }
}
