//! Changes of single keys: `key=value`.

use serde_json::Value;

use super::config::Config;
use super::key::KEYS;
use super::unknown::unknown;
use crate::{Error, Result};

/// Other names of keys, as other programs call them.
const ALIASES: [(&str, &str); 3] = [("db_mult", "multiplier"), ("top_db", "range"), ("hop", "hop_length")];

impl Config {
    /// Changes one value: `n_mels=128`, `f_max=none`, `log=log10`. A window that was as long as the transform stays so when
    /// `n_fft` changes.
    ///
    /// # Errors
    /// The key does not exist, or the value is not of its type or beyond its bounds.
    pub fn set(&mut self, assignment: &str) -> Result<()> {
        let (key, text) = assignment.split_once('=').ok_or_else(|| {
            Error::invalid(format!("`{assignment}` is not key=value")).with_hint("for example n_mels=128")
        })?;
        let (key, text) = (key.trim(), text.trim());
        let key = ALIASES.iter().find(|(alias, _)| *alias == key).map_or(key, |(_, key)| key);
        let mut all = serde_json::to_value(&*self).map_err(|error| Error::invalid(error.to_string()))?;
        let Some(values) = all.as_object_mut() else { return Ok(()) };
        if key == "preset" || !values.contains_key(key) {
            let names = KEYS.iter().map(|key| key.name).chain(ALIASES.iter().map(|(alias, _)| *alias));
            return Err(unknown("key", key, &names.collect::<Vec<_>>()));
        }
        let is_whole = values.insert(key.to_owned(), value(key, text)).is_some_and(|before| before.is_u64());
        if key == "n_fft" && self.win_length == self.n_fft {
            values.insert("win_length".to_owned(), value(key, text));
        }
        *self = serde_json::from_value(all).map_err(|error| {
            let Some(known) = KEYS.iter().find(|known| known.name == key) else {
                return Error::invalid(format!("`{text}` is not a value of {key}: {error}"));
            };
            let whole = if is_whole { "whole numbers, " } else { "" };
            Error::invalid(format!("`{text}` is not a value of {key}: it takes {whole}{}", known.allowed))
                .with_hint(format!("the preset has {}", known.value(self)))
        })?;
        Ok(())
    }
}

fn value(key: &str, text: &str) -> Value {
    match serde_json::from_str::<Value>(text) {
        Ok(number @ Value::Number(_)) => number,
        Ok(switch @ Value::Bool(_)) => switch,
        _ if text == "none" && matches!(key, "f_max" | "range") => Value::Null,
        _ => Value::String(text.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Log, MelScale};
    use super::*;

    #[test]
    fn sets_every_type() {
        let mut config = Config::preset("torchaudio").unwrap();
        for assignment in ["n_fft=512", "log=log10", "db_mult=20.0", "f_max=7600", "remove_dc=true", "mel_scale=slaney"]
        {
            config.set(assignment).unwrap();
        }
        assert_eq!((config.n_fft, config.win_length, config.log), (512, 512, Log::Log10));
        assert_eq!((config.multiplier, config.f_max, config.remove_dc), (20.0, Some(7600.0), true));
        assert_eq!(config.mel_scale, MelScale::Slaney);
        config.set("f_max=none").unwrap();
        assert_eq!(config.f_max, None);
    }

    #[test]
    fn refuses_what_does_not_fit() {
        let mut config = Config::preset("torchaudio").unwrap();
        let before = config.clone();
        for (assignment, message) in [
            ("n_mels", "not key=value"),
            ("n_mel=80", "unknown key `n_mel`"),
            ("preset=builder", "unknown key `preset`"),
            ("n_mels=-1", "not a value of n_mels"),
            ("n_mels=8.5", "not a value of n_mels"),
            ("log=log2", "not a value of log"),
            ("power=300", "not a value of power"),
            ("power=1.5", "`1.5` is not a value of power: it takes whole numbers, 1 to 2"),
        ] {
            let error = config.set(assignment).unwrap_err();
            assert!(error.to_string().contains(message) && error.hint().is_some(), "{error}");
        }
        assert_eq!(config, before);
        config.set("f_min=9000").unwrap();
        assert!(config.kernel().unwrap_err().to_string().contains("f_min is 9000"));
    }
}
