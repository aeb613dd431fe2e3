//! The layers of a model, prepared for a device.

use std::path::Path;

use half::bf16;
use melisma_kernels::language::norm::Norm;
use melisma_kernels::language::weight::Weight;
use melisma_kernels::language::{embed, norm, product};
use melisma_kernels::layer::step::Rounding;

use super::config::Config;
use super::source::Source;
use super::weights::{Files, Weights};
use crate::runtime::memory::Needed;
use crate::{Budget, Context, DType, Device, Result};

/// The largest `config.json`.
const MAX_CONFIG: u64 = 1 << 20;

/// A language model: its shape, and its weights, in the type of their file or on a GPU in bf16.
#[derive(Debug)]
pub struct Model {
    config: Config,
    device: Device,
    rounding: Rounding,
    pub(super) embedding: embed::Plan,
    pub(super) layers: Vec<Layer>,
    pub(super) norm: norm::Plan,
    pub(super) head: product::Plan,
}

/// x + output(attention(qkv(norm(x)))), then x + down(gated(gate_up(norm(x)))).
#[derive(Debug)]
pub(super) struct Layer {
    pub(super) attention_norm: norm::Plan,
    pub(super) qkv: product::Plan,
    pub(super) output: product::Plan,
    pub(super) inner_norm: norm::Plan,
    pub(super) gate_up: product::Plan,
    pub(super) down: product::Plan,
}

impl Model {
    /// Opens the model in a folder: `config.json` and `model.safetensors`, or its shards and their index, plain or
    /// packed; or `builtin:voice`, whose weights are decoded. The CPU uses plain weights where they are: the files must keep their bytes as long as the model is open.
    /// A GPU gets a copy.
    ///
    /// # Errors
    /// `Io` when a file cannot be read; `Corrupt`, `Truncated` or `Unsupported` when it is not such a model, or a GPU
    /// would have to round its weights; `Memory` when packed weights or those on a GPU do not fit. The message names
    /// the file, and the key or tensor.
    pub fn open_in(context: &Context, folder: impl AsRef<Path>) -> Result<Self> {
        Self::open_rounded_in(context, folder, Rounding::Off)
    }

    /// Opens a model that a GPU may round: with [`Rounding::Bf16`] weights, what they are multiplied with, and the keys
    /// and values of past tokens to bf16, which is faster and takes half the cache; otherwise nothing. The CPU never
    /// rounds.
    ///
    /// # Errors
    /// As [`Model::open_in`].
    pub fn open_rounded_in(context: &Context, folder: impl AsRef<Path>, rounding: Rounding) -> Result<Self> {
        let folder = folder.as_ref();
        let source = Source::find(folder)?;
        let text = source.text("config.json", MAX_CONFIG).map_err(|error| {
            error.with_hint("a language model is a folder with config.json, tokenizer.json and weights in safetensors")
        })?;
        let config = Config::from_json(text.as_bytes()).map_err(|error| error.at(folder.display()))?;
        let files = Files::open(&source)?;
        let weights = Weights::new(&files, (context.device(), rounding), context.budget())?;
        Self::build(config, (context, rounding), &weights)
    }

    fn build(config: Config, (context, rounding): (&Context, Rounding), weights: &Weights<'_>) -> Result<Self> {
        let (device, budget) = (context.device(), context.budget());
        let loader = Loader { config: &config, device, budget, weights };
        let table = weights.matrix("model.embed_tokens.weight", [config.n_tokens, config.n_channels])?;
        let table = table.on(device, budget)?;
        let layers = (0..config.n_layers).map(|index| loader.layer(index)).collect::<Result<_>>()?;
        let head = match config.is_tied {
            true => table.clone(),
            false => weights.matrix("lm_head.weight", [config.n_tokens, config.n_channels])?,
        };
        let norm = loader.norm("model.norm.weight")?;
        // Older files have the rotary frequencies, and some have the tied head a second time.
        weights.check_all_taken(|name| {
            name.ends_with(".rotary_emb.inv_freq") || (config.is_tied && name == "lm_head.weight")
        })?;
        let (embedding, head) = (embed::plan(device, &table, budget)?, product::plan(device, &[&head], budget)?);
        Ok(Self { config, device: device.clone(), rounding, embedding, layers, norm, head })
    }

    /// Returns the memory that the model in a folder takes for its weights: that of a GPU, and for `builtin:voice` what
    /// it takes while it opens, decoded and copied. A model that cannot be read counts as 0, because opening it fails
    /// later.
    pub fn needed(folder: impl AsRef<Path>, device: &Device) -> Needed {
        let read = |source: &Source<'_>| Config::from_json(source.text("config.json", MAX_CONFIG)?.as_bytes());
        let Ok(source) = Source::find(folder.as_ref()) else { return Needed::default() };
        let bytes = read(&source).map_or(0, |config| config.n_weights().saturating_mul(size_of::<bf16>() as u64));
        match (device, source) {
            (Device::Cuda(_), Source::Builtin(_)) => Needed { host: bytes, device: bytes },
            (Device::Cuda(_), Source::Folder(_)) => Needed { host: 0, device: bytes },
            (Device::Cpu(_), Source::Builtin(_)) => Needed { host: 2 * bytes, device: 0 },
            (Device::Cpu(_), Source::Folder(_)) => Needed::default(),
        }
    }

    /// Returns its shape.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// Returns the element type of the keys and values of past tokens.
    pub(crate) fn cache_type(&self) -> DType {
        // The kernel reads eight channels of bf16 at a time.
        let takes_halves = self.config.head_dim.is_multiple_of(8);
        match (&self.device, self.rounding) {
            (Device::Cuda(_), Rounding::Bf16) if takes_halves => DType::BF16,
            _ => DType::F32,
        }
    }

    /// Returns the device that it was prepared for.
    pub(super) fn device(&self) -> &Device {
        &self.device
    }
}

/// Prepares layers from weights.
struct Loader<'a> {
    config: &'a Config,
    device: &'a Device,
    budget: &'a Budget,
    weights: &'a Weights<'a>,
}

impl Loader<'_> {
    fn norm(&self, name: &str) -> Result<norm::Plan> {
        let weight = &self.weights.vector(name, self.config.n_channels)?;
        Norm { weight, epsilon: self.config.epsilon }.plan(self.device, self.budget)
    }

    fn product(&self, weights: &[&Weight]) -> Result<product::Plan> {
        product::plan(self.device, weights, self.budget)
    }

    fn layer(&self, index: usize) -> Result<Layer> {
        let Config { n_channels, n_inner, .. } = *self.config;
        let [queries, keys] = self.config.widths();
        let at = |name: &str| format!("model.layers.{index}.{name}.weight");
        let matrix = |name: &str, outputs, k| self.weights.matrix(&at(name), [outputs, k]);
        let q = matrix("self_attn.q_proj", queries, n_channels)?;
        let k = matrix("self_attn.k_proj", keys, n_channels)?;
        let v = matrix("self_attn.v_proj", keys, n_channels)?;
        let gate = matrix("mlp.gate_proj", n_inner, n_channels)?;
        let up = matrix("mlp.up_proj", n_inner, n_channels)?;
        Ok(Layer {
            attention_norm: self.norm(&at("input_layernorm"))?,
            qkv: self.product(&[&q, &k, &v])?,
            output: self.product(&[&matrix("self_attn.o_proj", n_channels, queries)?])?,
            inner_norm: self.norm(&at("post_attention_layernorm"))?,
            gate_up: self.product(&[&gate, &up])?,
            down: self.product(&[&matrix("mlp.down_proj", n_channels, n_inner)?])?,
        })
    }
}
