//! The layers of a language model of the Llama family, and the choice of its next token.
//!
//! A step has R rows, one for each token: those of a prompt, or one for each sequence of a batch.
//! Every row is computed on its own and every sum has one order, so a row has the same bits
//! whatever its neighbours, threads and cuts. Rows and the cache are f32. The CPU keeps the type of
//! the weights' file; a GPU has them in bf16, and may have the cache in bf16 too. Keys and values of past tokens lie in pages that
//! [`tokens::Tokens`] finds.

pub mod attention;
mod cuda;
mod curve;
pub mod embed;
pub mod gated;
mod lanes;
pub mod norm;
pub mod numbers;
pub mod product;
pub mod rotary;
pub mod sample;
pub mod tokens;
pub mod weight;
