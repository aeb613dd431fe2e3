//! `config.json`: the shape of a model.

use std::ops::RangeInclusive;

pub use melisma_kernels::language::rotary::Scaling;
use serde_json::{Map, Value};

use crate::{Error, Result};

const ARCHITECTURE: &str = "LlamaForCausalLM";

/// Keys of `config.json`, checked: every product that later code forms from them is small.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Config {
    /// Tokens of the vocabulary.
    pub n_tokens: usize,
    /// Layers.
    pub n_layers: usize,
    /// Channels between the layers.
    pub n_channels: usize,
    /// Channels inside the gated unit.
    pub n_inner: usize,
    /// Query heads, a multiple of the key heads.
    pub n_heads: usize,
    /// Key and value heads.
    pub n_key_heads: usize,
    /// Channels of a head.
    pub head_dim: usize,
    /// Added to the mean square of a norm.
    pub epsilon: f32,
    /// The base of the rotary frequencies.
    pub theta: f64,
    /// How the rotary frequencies are changed.
    pub scaling: Scaling,
    /// The most tokens of a sequence.
    pub context: usize,
    /// Whether the head has the weights of the embedding.
    pub is_tied: bool,
}

impl Config {
    /// Reads `config.json`.
    ///
    /// # Errors
    /// `Corrupt` when it is not a JSON object, or a key is missing or has an impossible value; `Unsupported` when a key
    /// asks for something that this room does not compute. The message names the key.
    pub fn from_json(text: &[u8]) -> Result<Self> {
        let value: Value = serde_json::from_slice(text)
            .map_err(|error| Error::corrupt(format!("config.json: {error}")).with_source(error))?;
        let Value::Object(keys) = value else { return Err(wrong("not a JSON object")) };
        let keys = Keys(keys);
        keys.check_supported()?;
        let n_channels = keys.size("hidden_size", 8..=1 << 16, 8)?;
        let n_heads = keys.size("num_attention_heads", 1..=1024, 1)?;
        let n_key_heads = keys.optional("num_key_value_heads", 1..=1024)?.unwrap_or(n_heads);
        if !n_heads.is_multiple_of(n_key_heads) {
            return Err(wrong(format!("num_key_value_heads {n_key_heads} does not divide {n_heads} heads")));
        }
        let head_dim = match keys.optional("head_dim", 8..=1024)? {
            Some(head_dim) => head_dim,
            None if n_channels.is_multiple_of(n_heads) => n_channels / n_heads,
            None => return Err(wrong(format!("hidden_size {n_channels} does not divide into {n_heads} heads"))),
        };
        if !head_dim.is_multiple_of(8) {
            return Err(wrong(format!("head_dim is {head_dim}, expected a multiple of 8")));
        }
        let (theta, scaling) = keys.rotary()?;
        Ok(Self {
            n_tokens: keys.size("vocab_size", 1..=1 << 24, 1)?,
            n_layers: keys.size("num_hidden_layers", 1..=1024, 1)?,
            n_channels,
            n_inner: keys.size("intermediate_size", 8..=1 << 20, 8)?,
            n_heads,
            n_key_heads,
            head_dim,
            epsilon: keys.number("rms_norm_eps", 0.0..=1.0)?.unwrap_or(1e-6) as f32,
            theta,
            scaling,
            context: keys.size("max_position_embeddings", 1..=1 << 24, 1)?,
            is_tied: keys.boolean("tie_word_embeddings")?.unwrap_or(false),
        })
    }

    /// Returns the number of all weights.
    pub(super) fn n_weights(&self) -> u64 {
        let [queries, keys] = self.widths();
        let layer = self.n_channels * (2 * queries + 2 * keys + 3 * self.n_inner + 2);
        let tables = self.n_tokens * self.n_channels * if self.is_tied { 1 } else { 2 };
        (layer as u64).saturating_mul(self.n_layers as u64).saturating_add((tables + self.n_channels) as u64)
    }

    /// Returns the channels of the queries, and of the keys.
    pub(super) fn widths(&self) -> [usize; 2] {
        [self.n_heads, self.n_key_heads].map(|heads| heads * self.head_dim)
    }
}

struct Keys(Map<String, Value>);

impl Keys {
    /// Returns the value of a key; null is as good as none.
    fn get(&self, key: &str) -> Option<&Value> {
        self.0.get(key).filter(|value| !value.is_null())
    }

    /// Refuses what changes the model in a way that is not computed here.
    fn check_supported(&self) -> Result<()> {
        let architectures = self.get("architectures");
        if architectures.is_none_or(|value| *value != Value::from(vec![ARCHITECTURE])) {
            let found = architectures.map_or("missing".to_owned(), Value::to_string);
            return Err(unsupported(format!("architectures is {found}, expected [\"{ARCHITECTURE}\"]")).with_hint(
                "name the folder of a language model, as Llama 3 is one; its codec is named apart from it",
            ));
        }
        for (key, only) in [
            ("model_type", Value::from("llama")),
            ("hidden_act", Value::from("silu")),
            ("attention_bias", Value::from(false)),
            ("mlp_bias", Value::from(false)),
            ("use_sliding_window", Value::from(false)),
            ("pretraining_tp", Value::from(1)),
        ] {
            if let Some(value) = self.get(key).filter(|&value| *value != only) {
                return Err(unsupported(format!("{key} is {value}; only {only} is supported")));
            }
        }
        if let Some(value) = self.get("partial_rotary_factor").filter(|value| value.as_f64() != Some(1.0)) {
            return Err(unsupported(format!("partial_rotary_factor is {value}; only 1 is supported")));
        }
        for key in ["sliding_window", "quantization_config", "layer_types", "num_local_experts"] {
            if self.get(key).is_some() {
                return Err(unsupported(format!("{key} is not supported")));
            }
        }
        Ok(())
    }

    fn size(&self, key: &str, range: RangeInclusive<usize>, multiple: usize) -> Result<usize> {
        let size = self.optional(key, range)?.ok_or_else(|| wrong(format!("the key {key} is missing")))?;
        if size.is_multiple_of(multiple) {
            return Ok(size);
        }
        Err(wrong(format!("{key} is {size}, expected a multiple of {multiple}")))
    }

    fn optional(&self, key: &str, range: RangeInclusive<usize>) -> Result<Option<usize>> {
        let Some(value) = self.get(key) else { return Ok(None) };
        let integer = value.as_u64().and_then(|value| usize::try_from(value).ok());
        match integer.filter(|value| range.contains(value)) {
            Some(integer) => Ok(Some(integer)),
            None => Err(wrong(format!("{key} is {value}, expected {} to {}", range.start(), range.end()))),
        }
    }

    fn number(&self, key: &str, range: RangeInclusive<f64>) -> Result<Option<f64>> {
        let Some(value) = self.get(key) else { return Ok(None) };
        match value.as_f64().filter(|value| range.contains(value)) {
            Some(number) => Ok(Some(number)),
            None => Err(wrong(format!("{key} is {value}, expected {} to {}", range.start(), range.end()))),
        }
    }

    fn boolean(&self, key: &str) -> Result<Option<bool>> {
        let Some(value) = self.get(key) else { return Ok(None) };
        let boolean = value.as_bool().ok_or_else(|| wrong(format!("{key} is {value}, expected true or false")))?;
        Ok(Some(boolean))
    }

    /// Returns the base and the scaling of the rotary positions: `rope_theta` and `rope_scaling`, or `rope_parameters`
    /// with both.
    fn rotary(&self) -> Result<(f64, Scaling)> {
        const THETA: RangeInclusive<f64> = 1.0..=1e12;
        const DEFAULT_THETA: f64 = 10_000.0;
        let (name, value) = match self.get("rope_parameters") {
            Some(value) => ("rope_parameters", Some(value)),
            None => ("rope_scaling", self.get("rope_scaling")),
        };
        let theta = self.number("rope_theta", THETA)?;
        let Some(value) = value else { return Ok((theta.unwrap_or(DEFAULT_THETA), Scaling::None)) };
        let Value::Object(inner) = value else { return Err(wrong(format!("{name} is {value}, expected an object"))) };
        let inner = Self(inner.clone());
        let parse = || {
            let theta = inner.number("rope_theta", THETA)?.or(theta).unwrap_or(DEFAULT_THETA);
            let number =
                |key: &str, range| inner.number(key, range)?.ok_or_else(|| wrong(format!("the key {key} is missing")));
            let kind = inner.get("rope_type").or_else(|| inner.get("type"));
            let scaling = match kind.and_then(Value::as_str) {
                None if kind.is_none() => return Err(wrong("the key rope_type is missing")),
                Some("default") => Scaling::None,
                Some("linear") => Scaling::Linear { factor: number("factor", 1.0..=1e6)? },
                Some("llama3") => {
                    let low = number("low_freq_factor", 1e-3..=1e6)?;
                    let high = number("high_freq_factor", 1e-3..=1e6)?;
                    if high <= low {
                        return Err(wrong(format!("high_freq_factor {high} is not above low_freq_factor {low}")));
                    }
                    let context = number("original_max_position_embeddings", 1.0..=1e9)?;
                    Scaling::Llama3 { factor: number("factor", 1.0..=1e6)?, low, high, context }
                }
                _ => {
                    let found = kind.map_or_else(String::new, Value::to_string);
                    return Err(unsupported(format!("rope_type {found} is not supported"))
                        .with_hint("default, linear and llama3 are"));
                }
            };
            Ok((theta, scaling))
        };
        parse().map_err(|error: Error| error.at(name))
    }
}

fn wrong(message: impl std::fmt::Display) -> Error {
    Error::corrupt(format!("config.json: {message}"))
}

fn unsupported(message: impl std::fmt::Display) -> Error {
    Error::unsupported(format!("config.json: {message}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Orpheus' shape, as its file has it.
    const GOOD: &str = r#"{"architectures": ["LlamaForCausalLM"], "attention_bias": false, "head_dim": 128,
        "hidden_act": "silu", "hidden_size": 3072, "intermediate_size": 8192, "max_position_embeddings": 131072,
        "mlp_bias": false, "model_type": "llama", "num_attention_heads": 24, "num_hidden_layers": 28,
        "num_key_value_heads": 8, "pretraining_tp": 1, "rms_norm_eps": 1e-05, "rope_scaling": {"factor": 32.0,
        "high_freq_factor": 4.0, "low_freq_factor": 1.0, "original_max_position_embeddings": 8192,
        "rope_type": "llama3"}, "rope_theta": 500000.0, "tie_word_embeddings": true, "vocab_size": 156940}"#;

    fn changed(key: &str, value: Value) -> String {
        let mut keys: Map<String, Value> = serde_json::from_str(GOOD).unwrap();
        keys.insert(key.to_owned(), value);
        Value::Object(keys).to_string()
    }

    #[test]
    fn a_published_file_is_read() {
        let config = Config::from_json(GOOD.as_bytes()).unwrap();
        assert_eq!((config.n_tokens, config.n_layers, config.widths()), (156_940, 28, [3072, 1024]));
        let scaling = Scaling::Llama3 { factor: 32.0, low: 1.0, high: 4.0, context: 8192.0 };
        assert_eq!((config.theta, config.scaling, config.is_tied), (500_000.0, scaling, true));
        let newer = GOOD.replace("rope_scaling\": {", "rope_parameters\": {\"rope_theta\": 500000.0, ");
        let newer = newer.replace("\"rope_theta\": 500000.0, \"tie", "\"tie");
        assert_eq!(Config::from_json(newer.as_bytes()).unwrap(), config);
    }

    #[test]
    fn what_is_missing_has_its_default() {
        let mut keys: Map<String, Value> = serde_json::from_str(GOOD).unwrap();
        for key in ["head_dim", "num_key_value_heads", "rope_scaling", "rope_theta", "tie_word_embeddings"] {
            keys.insert(key.to_owned(), Value::Null);
        }
        let config = Config::from_json(Value::Object(keys.clone()).to_string().as_bytes()).unwrap();
        assert_eq!((config.head_dim, config.n_key_heads, config.is_tied), (128, 24, false));
        assert_eq!((config.theta, config.scaling), (10_000.0, Scaling::None));
        for key in ["hidden_size", "vocab_size", "num_hidden_layers", "intermediate_size", "num_attention_heads"] {
            let mut fewer = keys.clone();
            fewer.remove(key);
            let error = Config::from_json(Value::Object(fewer).to_string().as_bytes()).unwrap_err();
            assert!(error.to_string().contains(&format!("the key {key} is missing")), "{error}");
        }
    }

    #[test]
    fn everything_else_is_refused_by_its_key() {
        let object = |text: &str| serde_json::from_str::<Value>(text).unwrap();
        for (key, value, expected) in [
            ("architectures", object(r#"["MistralForCausalLM"]"#), "architectures"),
            ("architectures", Value::Null, "architectures is missing"),
            ("model_type", "qwen2".into(), "model_type is \"qwen2\""),
            ("hidden_act", "gelu".into(), "hidden_act"),
            ("attention_bias", true.into(), "attention_bias is true"),
            ("mlp_bias", true.into(), "mlp_bias"),
            ("sliding_window", 4096.into(), "sliding_window"),
            ("quantization_config", object("{}"), "quantization_config"),
            ("partial_rotary_factor", 0.5.into(), "partial_rotary_factor"),
            ("pretraining_tp", 2.into(), "pretraining_tp"),
            ("hidden_size", 3070.into(), "hidden_size is 3070, expected a multiple of 8"),
            ("hidden_size", (-8).into(), "hidden_size is -8"),
            ("intermediate_size", 12.into(), "intermediate_size is 12"),
            ("head_dim", 12.into(), "head_dim is 12"),
            ("num_key_value_heads", 7.into(), "num_key_value_heads 7"),
            ("num_attention_heads", 0.into(), "num_attention_heads is 0"),
            ("vocab_size", "x".into(), "vocab_size is \"x\""),
            ("rms_norm_eps", 2.into(), "rms_norm_eps"),
            ("tie_word_embeddings", 1.into(), "tie_word_embeddings"),
            ("rope_theta", 0.into(), "rope_theta is 0"),
            ("rope_scaling", 3.into(), "rope_scaling is 3"),
            ("rope_scaling", object(r#"{"type": "yarn"}"#), "rope_scaling: config.json: rope_type \"yarn\""),
            ("rope_scaling", object(r#"{"type": "linear"}"#), "the key factor is missing"),
            ("rope_scaling", object("{}"), "the key rope_type is missing"),
            ("rope_parameters", object(r#"{"rope_type": "longrope"}"#), "rope_parameters"),
        ] {
            let error = Config::from_json(changed(key, value).as_bytes()).unwrap_err();
            assert!(error.to_string().contains(expected), "{error}, expected {expected}");
        }
        assert!(Config::from_json(b"[]").is_err());
        assert!(Config::from_json(b"").is_err());
    }
}
