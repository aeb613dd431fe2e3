//! Language models: `LlamaForCausalLM`, as Llama 3 and its descendants have it.
//!
//! A [`Model`] is `config.json` and the weights of a folder, which stay in their files, or `builtin:voice`. A [`Batch`]
//! runs many sequences on it: a [`step`](Batch::step) takes the next tokens of some of them, one or
//! a whole prompt each, and gives the logits after the last. A [`Sampler`] draws the next token.
//! Keys and values of past tokens lie in pages that sequences share and give back.
//!
//! On a GPU the weights are bf16 in its memory, and tokens are drawn where the logits are; with
//! [`Rounding::Bf16`] activations and past tokens are bf16 too.
//!
//! A sequence has the same logits, bit for bit, whatever its neighbours, its cuts into steps and
//! the number of threads. Equal logits draw equal tokens on every device.

mod batch;
mod config;
mod layers;
mod model;
mod sampler;
mod sequence;
mod source;
mod weights;

pub use batch::{Batch, Input, Options};
pub use config::{Config, Scaling};
#[cfg(feature = "speak")]
pub(crate) use layers::{PAGE_LEN, row_bytes};
pub use melisma_kernels::language::sample::{Key, Sample};
pub use melisma_kernels::layer::step::Rounding;
pub use model::Model;
pub use sampler::{Choice, Sampler};
pub use sequence::Sequence;
#[cfg(feature = "speak")]
pub(crate) use source::{BUILTIN, Builtin, Source};
