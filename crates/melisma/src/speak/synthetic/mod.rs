//! Synthetic models with seeded weights or zeros, for benches and tests. They speak noise.

mod tokenizer;

use std::fs::File;
use std::io::Write;
use std::path::Path;

use half::bf16;
use serde_json::{Value, json};

use super::FILE_NAME;
use crate::format::safetensors::{self, HeaderJson, Tensor};
use crate::output::{self, Existing};
use crate::random::SplitMix64;
use crate::{DType, Error, Result, snac};

/// The tokens after the 256 bytes of the vocabulary.
const BEGIN: u32 = 256;
const END: u32 = 258;
const BEFORE: u32 = 259;
const AFTER: u32 = 260;
const SPEECH: u32 = 264;
const WEIGHTS: &str = "model.safetensors";

/// The size of a model.
#[derive(Debug, Clone, Copy)]
pub struct Shape {
    /// Layers.
    pub n_layers: usize,
    /// Channels between the layers, a multiple of the heads.
    pub n_channels: usize,
    /// Channels inside the gated unit.
    pub n_inner: usize,
    /// Query heads.
    pub n_heads: usize,
    /// Key heads.
    pub n_key_heads: usize,
    /// Tokens of the vocabulary after those of speech: groups of letters, with the merges that lead
    /// to them.
    pub n_words: usize,
    /// The most tokens of a sequence.
    pub context: usize,
    /// Whether the head has the weights of the embedding.
    pub is_tied: bool,
    /// How much likelier the end is than a code: the head's weight of a channel that is always on.
    pub end: f32,
    /// Scale of what the layers add to their input; with 0 a token depends on the one before only.
    pub mix: f32,
}

impl Default for Shape {
    fn default() -> Self {
        Self {
            n_layers: 2,
            n_channels: 16,
            n_inner: 16,
            n_heads: 2,
            n_key_heads: 1,
            n_words: 0,
            context: 8192,
            is_tied: false,
            end: 0.0,
            mix: 1.0,
        }
    }
}

/// Writes a model of random weights for the codes of `codec` into `folder`: `config.json`, `model.safetensors`, a
/// `tokenizer.json` of bytes and words, and `speak.yaml` with the voices `ann` and `bob`.
///
/// # Errors
/// A file cannot be written.
pub fn write(folder: &Path, codec: &snac::Model, shape: Shape, seed: u64) -> Result<()> {
    let n_tokens = describe(folder, codec, shape)?;
    output::write(&folder.join(WEIGHTS), &random(shape, n_tokens, seed)?, Existing::Replace)
}

/// Writes a model whose weights are zeros, which take no room on a disk with sparse files.
///
/// # Errors
/// A file cannot be written.
pub fn write_zeros(folder: &Path, codec: &snac::Model, shape: Shape) -> Result<()> {
    let n_tokens = describe(folder, codec, shape)?;
    let mut json = HeaderJson::new(&[("format", "pt")]);
    for (name, size) in tensors(shape, n_tokens) {
        let len = size.iter().product::<usize>() * DType::BF16.size();
        json.push(&name, DType::BF16.safetensors_name(), &json!(stored(size)).to_string(), len as u64);
    }
    let (path, data_len) = (folder.join(WEIGHTS), json.data_len());
    let header = json.header();
    let write = || {
        let mut file = File::create(&path)?;
        file.write_all(&header)?;
        file.set_len(header.len() as u64 + data_len)
    };
    write().map_err(|error| Error::io(path.display(), error))
}

/// Writes everything but the weights; returns the tokens of the vocabulary.
fn describe(folder: &Path, codec: &snac::Model, shape: Shape) -> Result<usize> {
    output::create_directory(folder)?;
    let first_word = SPEECH as usize + codec.config().n_slots() * codec.config().codebook_size;
    let n_tokens = first_word + shape.n_words;
    let format = format!(
        "voices: [ann, bob]\nprompt: \"{{voice}}: {{text}}\"\nbefore: [{BEFORE}]\nafter: [{AFTER}, {}]\n\
         speech: {SPEECH}\nend: {END}\ncodec: {}\ntemperature: 1\n",
        AFTER + 1,
        codec.hash()
    );
    let files = [
        ("config.json", config(shape, n_tokens).to_string()),
        ("tokenizer.json", tokenizer::json(first_word..n_tokens).to_string()),
        (FILE_NAME, format),
    ];
    files.iter().try_for_each(|(name, text)| output::write(&folder.join(name), text.as_bytes(), Existing::Replace))?;
    Ok(n_tokens)
}

fn config(shape: Shape, n_tokens: usize) -> Value {
    json!({
        "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_act": "silu", "rms_norm_eps": 1e-5,
        "hidden_size": shape.n_channels, "intermediate_size": shape.n_inner, "num_hidden_layers": shape.n_layers,
        "num_attention_heads": shape.n_heads, "num_key_value_heads": shape.n_key_heads, "rope_theta": 10000.0,
        "max_position_embeddings": shape.context, "tie_word_embeddings": shape.is_tied, "vocab_size": n_tokens,
    })
}

/// Returns names and sizes of all tensors; norms have one row.
fn tensors(shape: Shape, n_tokens: usize) -> Vec<(String, [usize; 2])> {
    let Shape { n_channels, n_inner, .. } = shape;
    let n_keys = n_channels / shape.n_heads * shape.n_key_heads;
    let mut named = vec![("model.embed_tokens.weight".to_owned(), [n_tokens, n_channels])];
    if !shape.is_tied {
        named.push(("lm_head.weight".to_owned(), [n_tokens, n_channels]));
    }
    named.push(("model.norm.weight".to_owned(), [1, n_channels]));
    for layer in 0..shape.n_layers {
        let inner = [
            ("self_attn.q_proj", [n_channels, n_channels]),
            ("self_attn.k_proj", [n_keys, n_channels]),
            ("self_attn.v_proj", [n_keys, n_channels]),
            ("self_attn.o_proj", [n_channels, n_channels]),
            ("mlp.gate_proj", [n_inner, n_channels]),
            ("mlp.up_proj", [n_inner, n_channels]),
            ("mlp.down_proj", [n_channels, n_inner]),
            ("input_layernorm", [1, n_channels]),
            ("post_attention_layernorm", [1, n_channels]),
        ];
        named.extend(inner.map(|(name, size)| (format!("model.layers.{layer}.{name}.weight"), size)));
    }
    named
}

/// Returns the shape of a tensor in its file.
fn stored([rows, columns]: [usize; 2]) -> Vec<usize> {
    if rows == 1 { vec![columns] } else { vec![rows, columns] }
}

/// Returns weights in bf16. Channel 0 is on in every token, and no layer changes it much.
fn random(shape: Shape, n_tokens: usize, seed: u64) -> Result<Vec<u8>> {
    const ON: f32 = 4.0;
    let named = tensors(shape, n_tokens);
    let mut random = SplitMix64::new(seed);
    let mut values = Vec::new();
    for (name, [rows, columns]) in &named {
        let [is_embedding, is_head] = ["embed_tokens", "lm_head"].map(|part| name.contains(part));
        let is_last = name.contains("o_proj") || name.contains("down_proj");
        let mix = if is_last { shape.mix } else { 1.0 };
        let scale = if is_embedding || is_head { 1.0 } else { mix / (*columns as f32).sqrt() };
        let mut floats: Vec<f32> = random.floats(rows * columns).iter().map(|value| value * scale).collect();
        if *rows == 1 {
            floats.fill(1.0);
        }
        for (row, floats) in floats.chunks_mut(*columns).enumerate().filter(|_| is_embedding || is_head) {
            // A tied head adds the same to all tokens for the channel, and the rest to the end.
            let is_end = row == END as usize && (is_head || shape.is_tied);
            floats[0] = if is_embedding { ON } else { 0.0 } + if is_end { shape.end } else { 0.0 };
        }
        values.push(floats.into_iter().map(bf16::from_f32).collect::<Vec<_>>());
    }
    let tensors = named.into_iter().zip(&values).map(|((name, size), values)| Tensor {
        name,
        dtype: DType::BF16,
        shape: stored(size),
        bytes: bytemuck::cast_slice(values),
    });
    safetensors::encode(tensors.collect(), &[("format", "pt")])
}
