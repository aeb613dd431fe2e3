//! `config.json`: the shape of a SNAC model.

use serde_json::{Map, Value};

use crate::{Error, Result};

/// Keys of `config.json`, checked: every product that later code forms from them is small.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Config {
    /// Samples per second.
    pub sampling_rate: u32,
    /// Channels after the encoder's first convolution; doubled by every rate.
    pub encoder_dim: usize,
    /// Downsampling factors, first to last.
    pub encoder_rates: Vec<usize>,
    /// Channels before the decoder's first block; halved by every rate.
    pub decoder_dim: usize,
    /// Upsampling factors, first to last; their product is the encoder's.
    pub decoder_rates: Vec<usize>,
    /// Latents in an attention window; `None` without attention.
    pub attn_window_size: Option<usize>,
    /// Codes in a codebook.
    pub codebook_size: usize,
    /// Width of a code vector.
    pub codebook_dim: usize,
    /// Latents per code, one for each level; each divides the first.
    pub vq_strides: Vec<usize>,
    /// Whether decoder blocks add noise.
    pub noise: bool,
    /// Whether the wide convolutions work on each channel alone.
    pub depthwise: bool,
}

/// The most numbers in a list.
const MAX_LAYERS: usize = 8;
/// Width of an attention head.
pub(super) const HEAD_DIM: usize = 64;

impl Config {
    /// Reads `config.json`.
    ///
    /// # Errors
    /// `Corrupt` when it is not a JSON object, or a key is missing or has an impossible value; the message names the key.
    pub fn from_json(text: &[u8]) -> Result<Self> {
        let value: Value = serde_json::from_slice(text)
            .map_err(|error| Error::corrupt(format!("config.json: {error}")).with_source(error))?;
        let Value::Object(keys) = value else { return Err(wrong("not a JSON object")) };
        let keys = Keys(keys);
        let config = Self {
            sampling_rate: keys.integer("sampling_rate", 1..=1_000_000)? as u32,
            encoder_dim: keys.integer("encoder_dim", 1..=1024)?,
            encoder_rates: keys.integers("encoder_rates", 1..=64)?,
            decoder_dim: keys.integer("decoder_dim", 1..=8192)?,
            decoder_rates: keys.integers("decoder_rates", 1..=64)?,
            attn_window_size: match keys.get("attn_window_size")? {
                Value::Null => None,
                _ => Some(keys.integer("attn_window_size", 1..=1024)?),
            },
            codebook_size: keys.integer("codebook_size", 1..=65_536)?,
            codebook_dim: keys.integer("codebook_dim", 1..=1024)?,
            vq_strides: keys.integers("vq_strides", 1..=64)?,
            noise: keys.boolean("noise")?,
            depthwise: keys.boolean("depthwise")?,
        };
        config.check()?;
        if let Some(Value::Number(given)) = keys.0.get("latent_dim")
            && given.as_u64() != Some(config.latent_dim() as u64)
        {
            return Err(wrong(format!("latent_dim is {given}, but the encoder makes {}", config.latent_dim())));
        }
        Ok(config)
    }

    /// Checks that models of this shape can exist.
    pub(super) fn check(&self) -> Result<()> {
        for (name, value, most) in [
            ("sampling_rate", self.sampling_rate as usize, 1_000_000),
            ("encoder_dim", self.encoder_dim, 1024),
            ("decoder_dim", self.decoder_dim, 8192),
            ("attn_window_size", self.attn_window_size.unwrap_or(1), 1024),
            ("codebook_dim", self.codebook_dim, 1024),
        ] {
            if !(1..=most).contains(&value) {
                return Err(wrong(format!("{name} is {value}; 1 to {most} is possible")));
            }
        }
        for (name, rates) in [("encoder_rates", &self.encoder_rates), ("decoder_rates", &self.decoder_rates)] {
            check_list(name, rates)?;
        }
        self.check_codes()?;
        let hops = [&self.encoder_rates, &self.decoder_rates].map(|rates| product(rates));
        if hops[0] != hops[1] {
            return Err(wrong(format!("encoder_rates make {} samples per latent, decoder_rates {}", hops[0], hops[1])));
        }
        if hops[0] > 1 << 16 || self.latent_dim() > 1 << 14 {
            return Err(wrong(format!(
                "{} samples per latent of {} channels are too many",
                hops[0],
                self.latent_dim()
            )));
        }
        if self.decoder_dim >> self.decoder_rates.len() << self.decoder_rates.len() != self.decoder_dim {
            let n = self.decoder_rates.len();
            return Err(wrong(format!("decoder_dim {} cannot be halved {n} times", self.decoder_dim)));
        }
        if self.attn_window_size.is_some() {
            for (name, dim) in [("latent_dim", self.latent_dim()), ("decoder_dim", self.decoder_dim)] {
                if dim % HEAD_DIM != 0 {
                    return Err(wrong(format!("{name} is {dim}; attention needs a multiple of {HEAD_DIM}")));
                }
            }
        }
        Ok(())
    }

    /// Checks that codes of this shape can exist.
    pub(super) fn check_codes(&self) -> Result<()> {
        if !(1..=65_536).contains(&self.codebook_size) {
            return Err(wrong(format!("codebook_size is {}; 1 to 65536 is possible", self.codebook_size)));
        }
        check_list("vq_strides", &self.vq_strides)?;
        if let Some(stride) = self.vq_strides.iter().find(|&&stride| !self.vq_strides[0].is_multiple_of(stride)) {
            return Err(wrong(format!("vq_strides: {stride} does not divide the first, {}", self.vq_strides[0])));
        }
        Ok(())
    }

    /// Returns the number of channels of a latent.
    pub fn latent_dim(&self) -> usize {
        self.encoder_rates.iter().fold(self.encoder_dim, |dim, _| dim.saturating_mul(2))
    }

    /// Returns the number of samples per latent.
    pub fn hop_len(&self) -> usize {
        product(&self.decoder_rates)
    }

    /// Returns the latents per frame: the least number that has whole codes on every level.
    pub fn frame_latents(&self) -> usize {
        self.vq_strides.first().copied().unwrap_or(1)
    }

    /// Returns the number of samples per frame.
    pub fn frame_len(&self) -> usize {
        self.frame_latents().saturating_mul(self.hop_len())
    }

    /// Returns the unit of a clip's length: its end is padded with silence to a multiple of this many samples,
    /// which are whole frames and whole attention windows.
    pub fn padded_len(&self) -> usize {
        self.hop_len().saturating_mul(lcm(self.frame_latents(), self.attn_window_size.unwrap_or(1)))
    }

    /// Returns the number of codes per frame on each level.
    pub fn frame_codes(&self) -> impl Iterator<Item = usize> {
        level_codes(&self.vq_strides)
    }

    /// Returns the number of codes per frame, all levels together.
    pub fn n_slots(&self) -> usize {
        self.frame_codes().fold(0, usize::saturating_add)
    }

    /// Returns the published 24 kHz model.
    pub fn snac_24khz() -> Self {
        Self {
            sampling_rate: 24_000,
            encoder_dim: 48,
            encoder_rates: vec![2, 4, 8, 8],
            decoder_dim: 1024,
            decoder_rates: vec![8, 8, 4, 2],
            attn_window_size: None,
            codebook_size: 4096,
            codebook_dim: 8,
            vq_strides: vec![4, 2, 1],
            noise: true,
            depthwise: true,
        }
    }

    /// Returns the published 32 kHz model.
    pub fn snac_32khz() -> Self {
        Self {
            sampling_rate: 32_000,
            encoder_dim: 64,
            encoder_rates: vec![2, 3, 8, 8],
            decoder_dim: 1536,
            decoder_rates: vec![8, 8, 3, 2],
            attn_window_size: Some(32),
            vq_strides: vec![8, 4, 2, 1],
            ..Self::snac_24khz()
        }
    }

    /// Returns the published 44.1 kHz model.
    pub fn snac_44khz() -> Self {
        Self { sampling_rate: 44_100, ..Self::snac_32khz() }
    }
}

/// Returns the number of codes per frame on each level of a model with `vq_strides`.
pub(super) fn level_codes(vq_strides: &[usize]) -> impl Iterator<Item = usize> {
    let frame_latents = vq_strides.first().copied().unwrap_or(1);
    vq_strides.iter().map(move |stride| frame_latents / (*stride).max(1))
}

fn lcm(a: usize, b: usize) -> usize {
    let gcd = |mut a: usize, mut b: usize| {
        while b != 0 {
            (a, b) = (b, a % b);
        }
        a
    };
    (a / gcd(a, b).max(1)).saturating_mul(b)
}

fn product(rates: &[usize]) -> usize {
    rates.iter().fold(1, |product: usize, rate| product.saturating_mul(*rate))
}

fn check_list(name: &str, values: &[usize]) -> Result<()> {
    if values.is_empty() || values.len() > MAX_LAYERS || values.iter().any(|value| !(1..=64).contains(value)) {
        return Err(wrong(format!("{name} is {values:?}; 1 to {MAX_LAYERS} numbers from 1 to 64 are possible")));
    }
    Ok(())
}

struct Keys(Map<String, Value>);

impl Keys {
    fn get(&self, key: &str) -> Result<&Value> {
        self.0.get(key).ok_or_else(|| wrong(format!("the key {key} is missing")))
    }

    fn integer(&self, key: &str, range: std::ops::RangeInclusive<usize>) -> Result<usize> {
        integer(key, self.get(key)?, &range)
    }

    fn integers(&self, key: &str, range: std::ops::RangeInclusive<usize>) -> Result<Vec<usize>> {
        match self.get(key)? {
            Value::Array(values) if (1..=MAX_LAYERS).contains(&values.len()) => {
                values.iter().map(|value| integer(key, value, &range)).collect()
            }
            other => Err(wrong(format!("{key} is {other}, expected a list of 1 to {MAX_LAYERS} integers"))),
        }
    }

    fn boolean(&self, key: &str) -> Result<bool> {
        let value = self.get(key)?;
        value.as_bool().ok_or_else(|| wrong(format!("{key} is {value}, expected true or false")))
    }
}

fn integer(key: &str, value: &Value, range: &std::ops::RangeInclusive<usize>) -> Result<usize> {
    let integer = value.as_u64().and_then(|value| usize::try_from(value).ok()).filter(|value| range.contains(value));
    integer.ok_or_else(|| wrong(format!("{key} is {value}, expected {} to {}", range.start(), range.end())))
}

fn wrong(message: impl std::fmt::Display) -> Error {
    Error::corrupt(format!("config.json: {message}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = r#"{"sampling_rate": 24000, "encoder_dim": 48, "encoder_rates": [2, 4, 8, 8],
        "decoder_dim": 1024, "decoder_rates": [8, 8, 4, 2], "attn_window_size": null, "codebook_size": 4096, "codebook_dim": 8,
        "vq_strides": [4, 2, 1], "noise": true, "depthwise": true}"#;

    #[test]
    fn the_published_file_is_read() {
        let config = Config::from_json(GOOD.as_bytes()).unwrap();
        assert_eq!(config, Config::snac_24khz());
        assert_eq!((config.latent_dim(), config.hop_len(), config.frame_len()), (768, 512, 2048));
        assert_eq!(config.frame_codes().collect::<Vec<_>>(), [1, 2, 4]);
        for config in [Config::snac_24khz(), Config::snac_32khz(), Config::snac_44khz()] {
            config.check().unwrap();
        }
    }

    #[test]
    fn every_missing_key_is_named() {
        let Value::Object(keys) = serde_json::from_str(GOOD).unwrap() else { unreachable!() };
        for key in keys.keys() {
            let mut fewer = keys.clone();
            fewer.remove(key);
            let error = Config::from_json(Value::Object(fewer).to_string().as_bytes()).unwrap_err();
            assert!(error.to_string().contains(&format!("the key {key} is missing")), "{error}");
            let mut other = keys.clone();
            other.insert(key.clone(), Value::from("x"));
            let error = Config::from_json(Value::Object(other).to_string().as_bytes()).unwrap_err();
            assert!(error.to_string().contains(&format!("{key} is \"x\"")), "{error}");
        }
    }

    #[test]
    fn contradictions_are_named() {
        for (from, to, expected) in [
            ("[8, 8, 4, 2]", "[8, 8, 4, 3]", "512 samples per latent, decoder_rates 768"),
            ("1024", "1000", "cannot be halved"),
            ("[4, 2, 1]", "[4, 3, 1]", "3 does not divide"),
            ("null", "32, \"latent_dim\": 5", "latent_dim is 5"),
            ("[4, 2, 1]", "[]", "vq_strides is []"),
            ("[2, 4, 8, 8]", "[64, 64, 64, 64]", "16777216 samples"),
            ("4096", "-1", "codebook_size is -1"),
        ] {
            let error = Config::from_json(GOOD.replacen(from, to, 1).as_bytes()).unwrap_err();
            assert!(error.to_string().contains(expected), "{error}, expected {expected}");
        }
        assert!(Config::from_json(b"[]").is_err());
        assert!(Config::from_json(b"").is_err());
    }
}
