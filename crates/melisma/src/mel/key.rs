//! The keys of a configuration: what each means and which values it takes.

use std::fmt;

use melisma_kernels::signal::mel::{MAX_FFT, MAX_FILTERS};
use serde_json::Value;

use super::config::Config;
use crate::{Error, Remedy, Result};

/// A key of a configuration.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub struct Key {
    /// Its name, as in [`Config`].
    pub name: &'static str,
    /// What it decides.
    pub meaning: &'static str,
    /// The values that it takes.
    pub allowed: Allowed,
}

/// The values that a key takes.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub enum Allowed {
    /// A number between two others.
    Between(f64, f64),
    /// A number that another key limits.
    UpTo(f64, &'static str),
    /// As [`Allowed::Between`], or `none`.
    BetweenOrNone(f64, f64),
    /// As [`Allowed::UpTo`], or `none`.
    UpToOrNone(f64, &'static str),
    /// One of these words.
    OneOf(&'static [&'static str]),
}

impl fmt::Display for Allowed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Between(least, most) => write!(f, "{} to {}", number(*least), number(*most)),
            Self::UpTo(least, most) => write!(f, "{} to {most}", number(*least)),
            Self::BetweenOrNone(least, most) => write!(f, "{} to {}, or none", number(*least), number(*most)),
            Self::UpToOrNone(least, most) => write!(f, "{} to {most}, or none", number(*least)),
            Self::OneOf(words) => f.write_str(&words.join(", ")),
        }
    }
}

fn number(value: f64) -> String {
    let is_plain = value == 0.0 || (1e-3..1e9).contains(&value.abs());
    if is_plain { value.to_string() } else { format!("{value:.2e}").replace(".00e", "e") }
}

use Allowed::{Between, BetweenOrNone, OneOf, UpTo, UpToOrNone};

/// Every key, in the order in which they act.
pub const KEYS: &[Key] = &[
    key("sample_rate", "Hz; audio of another rate is resampled", Between(1.0, 3_072_000.0)),
    key("n_fft", "points of the transform", Between(1.0, MAX_FFT as f64)),
    key("win_length", "samples of the window", UpTo(1.0, "n_fft")),
    key("hop_length", "samples from frame to frame; also called hop", Between(1.0, MAX_FFT as f64)),
    key("window", "window function", OneOf(&["hann", "hamming", "povey", "rectangular"])),
    key("framing", "where frames lie", OneOf(&["center", "center-drop-last", "same", "snip", "hop-center"])),
    key("padding", "what lies beyond the ends", OneOf(&["reflect", "constant", "mirror"])),
    key("remove_dc", "subtract the mean of each frame", OneOf(&["true", "false"])),
    key("preemphasis", "factor of the difference filter; 0 for none", Between(0.0, 1.0)),
    key("input_scale", "factor of all samples; full scale is 1 before it", Between(1e-12, 1e12)),
    key("power", "1 for magnitudes, 2 for powers", Between(1.0, 2.0)),
    key("epsilon", "added to the power below the root of a magnitude", Between(0.0, 1.0)),
    key("n_mels", "filters", Between(1.0, MAX_FILTERS as f64)),
    key("f_min", "Hz at which the lowest filter begins", UpTo(0.0, "f_max")),
    key("f_max", "Hz at which the highest filter ends", UpToOrNone(0.0, "sample_rate / 2")),
    key("mel_scale", "mel scale", OneOf(&["htk", "slaney", "kaldi"])),
    key("norm", "scale of the filters: height 1, or equal area", OneOf(&["none", "slaney"])),
    key("log", "logarithm", OneOf(&["none", "ln", "log10"])),
    key("floor", "least value before the logarithm", Between(f32::MIN_POSITIVE as f64, 1e30)),
    key("multiplier", "factor of the logarithm; also called db_mult", Between(-1e6, 1e6)),
    key("offset", "added to the result", Between(-1e6, 1e6)),
    key("range", "how far below its largest value a result reaches; also called top_db", BetweenOrNone(0.0, 1e6)),
    key("dtype", "element type of results", OneOf(&["f16", "f32"])),
];

const fn key(name: &'static str, meaning: &'static str, allowed: Allowed) -> Key {
    Key { name, meaning, allowed }
}

impl Key {
    /// Returns its value in `config`, as [`Config::set`] takes it.
    pub fn value(&self, config: &Config) -> String {
        match self.json(config) {
            Value::Null => "none".to_owned(),
            Value::String(text) => text,
            Value::Number(value) => value.as_f64().map_or_else(|| value.to_string(), number),
            other => other.to_string(),
        }
    }

    fn json(&self, config: &Config) -> Value {
        serde_json::to_value(config).ok().and_then(|all| all.get(self.name).cloned()).unwrap_or_default()
    }

    /// Checks that its value in `config` is one that it takes.
    pub(super) fn check(&self, config: &Config) -> Result<()> {
        let (least, most, is_optional) = match self.allowed {
            Between(least, most) => (least, most, false),
            BetweenOrNone(least, most) => (least, most, true),
            UpTo(least, _) | UpToOrNone(least, _) => {
                let most = match self.name {
                    "win_length" => config.n_fft as f64,
                    "f_min" => config.top_hz(),
                    _ => f64::from(config.sample_rate) / 2.0,
                };
                (least, most, self.name == "f_max")
            }
            OneOf(_) => return Ok(()),
        };
        let value = self.json(config);
        if value.is_null() && is_optional {
            return Ok(());
        }
        let name = self.name;
        // JSON has no NaN.
        let value = value.as_f64().unwrap_or(f64::NAN);
        if (least..=most).contains(&value) {
            return Ok(());
        }
        Err(Error::invalid(format!("{name} is {value}; it must be between {least} and {most}"))
            .with_hint(Remedy::change_mel(&[name]))
            .or_hint(Remedy::ExplainMel))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_keys_are_those_of_the_configuration() {
        let config = Config::preset("builder").unwrap();
        let Value::Object(all) = serde_json::to_value(&config).unwrap() else { panic!("no object") };
        let mut names: Vec<&str> = KEYS.iter().map(|key| key.name).chain(["preset"]).collect();
        names.sort_unstable();
        let mut found: Vec<&str> = all.keys().map(String::as_str).collect();
        found.sort_unstable();
        assert_eq!(names, found);
    }

    #[test]
    fn every_allowed_value_is_taken_and_others_are_not() {
        for key in KEYS {
            let set = |text: &str| {
                let mut config = Config::preset("torchaudio").unwrap();
                config.set(&format!("{}={text}", key.name)).and_then(|()| key.check(&config))
            };
            match key.allowed {
                OneOf(words) => {
                    words.iter().for_each(|word| set(word).unwrap());
                    assert!(set("other").is_err(), "{}", key.name);
                }
                Between(least, most) | BetweenOrNone(least, most) => {
                    [least, most].iter().for_each(|value| set(&value.to_string()).unwrap());
                    assert!(set(&(most * 1.5 + 1.0).to_string()).is_err(), "{}", key.name);
                    assert!(set(&(least - 1.0).to_string()).is_err(), "{}", key.name);
                }
                UpTo(least, _) | UpToOrNone(least, _) => {
                    set(&least.to_string()).unwrap();
                    assert!(set("100000").is_err(), "{}", key.name);
                }
            }
            assert_eq!(set("none").is_ok(), key.allowed.to_string().contains("none"), "{}", key.name);
        }
    }

    #[test]
    fn values_and_bounds_are_short() {
        let config = Config::preset("kaldi-fbank").unwrap();
        let of = |name: &str| KEYS.iter().find(|key| key.name == name).unwrap();
        assert_eq!((of("floor").value(&config).as_str(), of("f_max").value(&config).as_str()), ("1.19e-7", "none"));
        assert_eq!((of("window").value(&config).as_str(), of("n_fft").value(&config).as_str()), ("povey", "512"));
        assert_eq!(of("input_scale").allowed.to_string(), "1e-12 to 1e12");
    }
}
