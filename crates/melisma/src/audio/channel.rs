//! Which channel of a recording becomes its one channel.

use std::fmt;

use crate::text::count;
use crate::{Error, Result};

/// The channel that is read from a recording.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Channel {
    /// The mean of all channels.
    #[default]
    Mix,
    /// One channel, counted from 0.
    One(usize),
}

impl Channel {
    /// Returns the channel called `name`: `mix`, `left`, `right`, or a number counted from 1, as
    /// `Display` writes it. Left is channel 1, right is channel 2.
    pub fn from_name(name: &str) -> Option<Self> {
        match name {
            "mix" => Some(Self::Mix),
            "left" => Some(Self::One(0)),
            "right" => Some(Self::One(1)),
            number => number.parse::<usize>().ok()?.checked_sub(1).map(Self::One),
        }
    }

    /// Checks that a recording of `n_channels` channels has this one.
    ///
    /// # Errors
    /// `InvalidArgument` for `One(n)` with `n >= n_channels`.
    pub fn check(self, n_channels: usize) -> Result<()> {
        match self {
            Self::One(index) if index >= n_channels => {
                let there = count(n_channels as u64, "channel");
                Err(Error::invalid(format!("channel {self} is not there: the recording has {there}")))
            }
            _ => Ok(()),
        }
    }

    /// Returns words for the user about a conversion of `n_channels` channels, if there is any.
    pub fn note(self, n_channels: usize) -> Option<String> {
        match self {
            _ if n_channels <= 1 => None,
            Self::Mix => Some(format!("{n_channels} channels were mixed down to one")),
            Self::One(_) => Some(format!("only channel {self} of {n_channels} was read")),
        }
    }

    /// Returns one sample of each frame of `interleaved`, which has `n_channels` channels.
    pub(crate) fn pick(self, interleaved: &[f32], n_channels: usize) -> impl Iterator<Item = f32> {
        let scale = 1.0 / n_channels as f32;
        interleaved.chunks_exact(n_channels.max(1)).map(move |frame| match self {
            Self::Mix if n_channels > 1 => frame.iter().sum::<f32>() * scale,
            Self::Mix => frame[0],
            Self::One(index) => frame[index],
        })
    }
}

/// `mix`, or a number counted from 1.
impl fmt::Display for Channel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Mix => write!(f, "mix"),
            Self::One(index) => write!(f, "{}", index.saturating_add(1)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_count_from_one() {
        for (name, channel) in [
            ("mix", Some(Channel::Mix)),
            ("left", Some(Channel::One(0))),
            ("right", Some(Channel::One(1))),
            ("1", Some(Channel::One(0))),
            ("8", Some(Channel::One(7))),
            ("0", None),
            ("-1", None),
            ("Left", None),
            ("", None),
        ] {
            assert_eq!(Channel::from_name(name), channel, "{name}");
        }
        for channel in [Channel::Mix, Channel::One(0), Channel::One(6)] {
            assert_eq!(Channel::from_name(&channel.to_string()), Some(channel));
        }
    }

    #[test]
    fn channels_beyond_the_last_are_refused() {
        assert!(Channel::Mix.check(1).is_ok() && Channel::One(1).check(2).is_ok());
        let error = Channel::One(1).check(1).unwrap_err();
        assert_eq!(error.to_string(), "channel 2 is not there: the recording has 1 channel");
        assert!(Channel::One(8).check(8).is_err());
    }

    #[test]
    fn a_channel_or_the_mean_is_picked() {
        let frames = [1.0, 0.0, -0.5, 0.5];
        let picked = |channel: Channel| channel.pick(&frames, 2).collect::<Vec<_>>();
        assert_eq!(picked(Channel::Mix), [0.5, 0.0]);
        assert_eq!(picked(Channel::One(0)), [1.0, -0.5]);
        assert_eq!(picked(Channel::One(1)), [0.0, 0.5]);
    }
}
