//! Models of several sizes, from a file to their steps, within a memory limit. Their weights are
//! zeros, which cost as much as others.

use std::sync::Arc;
use std::time::Duration;

use melisma::llama::{Batch, Config, Input, Model, Options};
use melisma::runtime::machine::resident_bytes;
use melisma::snac;
use melisma::speak::{Speaker, synthetic};
use melisma::{Budget, Context, Result};

use super::read::bandwidth;
use super::{Plan, Row, SMALL, Shape, THREADS, measure};
use crate::folder::Folder;

/// Tokens of a vocabulary as that of Orpheus, without those of speech.
pub(super) const WORDS: usize = 128_000;
pub(super) const ORPHEUS: Shape =
    Shape { n_layers: 28, n_channels: 3072, n_inner: 8192, n_heads: 24, n_key_heads: 8, n_words: WORDS, ..SMALL };
const SIZES: [(&str, Shape); 3] = [
    ("15M", SMALL),
    (
        "1B",
        Shape { n_layers: 16, n_channels: 2048, n_inner: 8192, n_heads: 32, n_key_heads: 8, n_words: WORDS, ..SMALL },
    ),
    ("3B", ORPHEUS),
];
/// Tokens of a sequence, and the steps of a measurement at most.
const N_TOKENS: usize = 64;
/// A memory limit below the weights of the larger models, which are mapped and do not count.
const LIMIT: u64 = 256 << 20;
/// Bytes of a weight.
const WEIGHT: usize = 2;

pub(super) fn rows(context: &Context) -> Result<Vec<Row>> {
    let context = &Context::on(context.device().clone(), Budget::limited(LIMIT))?;
    let codec = Arc::new(snac::Model::mini24()?);
    let rows = SIZES.iter().map(|(label, shape)| {
        let folder = Folder::create(&format!("speak-{label}"))?;
        synthetic::write_zeros(&folder.0, &codec, *shape)?;
        let mut rows = open(context, &folder, (&codec, label))?;
        rows.extend(step(context, &folder, (&codec, label))?);
        Ok(rows)
    });
    Ok(rows.collect::<Result<Vec<_>>>()?.concat())
}

/// Measures the time from files in the system's cache to a model with its tokenizer, and the memory
/// that it takes.
fn open(context: &Context, folder: &Folder, (codec, label): (&Arc<snac::Model>, &str)) -> Result<Vec<Row>> {
    let open = || Speaker::open_in(context, &folder.0, Arc::clone(codec));
    let mut opened = open();
    let plan = Plan { warm_up: 1, least: 5, most: 9, time: Duration::from_secs(5) };
    let measured = measure(plan, || opened = open());
    drop(opened?);
    let before = resident_bytes();
    let _opened = open()?;
    let taken = resident_bytes().zip(before).map(|(after, before)| after.saturating_sub(before));
    let name = format!("speak/open {label}");
    let memory = taken.map(|bytes| Row::single(format!("{name}, memory"), "MiB", bytes as f64 / f64::from(1 << 20)));
    Ok([measured.seconds(&name)].into_iter().chain(memory).collect())
}

/// Measures the time of a step that draws one token of one text, and the rate at which it reads the
/// weights, beside that of the memory.
fn step(context: &Context, folder: &Folder, (codec, label): (&snac::Model, &str)) -> Result<Vec<Row>> {
    let model = Arc::new(Model::open_in(context, &folder.0)?);
    let mut batch = Batch::new_in(context, &model, Options { context: N_TOKENS, n_cached: N_TOKENS })?;
    let (sequence, n_codes) = (batch.open(), codec.config().codebook_size);
    let codes = 0..n_codes as u32;
    let input = Input { sequence: &sequence, tokens: &[0], wanted: std::slice::from_ref(&codes) };
    let mut outcome = Ok(());
    let plan = Plan { warm_up: 2, least: 5, most: N_TOKENS as u32 - 2, time: Duration::from_secs(2) };
    let measured = measure(plan, || outcome = batch.step(&[input]));
    outcome?;
    let n_read = weights(model.config(), n_codes) * WEIGHT;
    let time = measured.seconds(&format!("speak/step {label} {THREADS}t"));
    let rate = measured.rate(&format!("speak/weights read by a step {label} {THREADS}t"), "GB/s", n_read as f64 / 1e9);
    let ceiling = Some(bandwidth(THREADS, n_read) / 1e9);
    Ok(vec![Row { unit: "ms".to_owned(), median: 1e3 * time.median, ..time }, Row { ceiling, ..rate }])
}

/// Returns the number of weights of all layers, and of the head's rows for `n_wanted` tokens.
pub(super) fn weights(config: &Config, n_wanted: usize) -> usize {
    let Config { n_channels, n_inner, head_dim, .. } = *config;
    let [queries, keys] = [config.n_heads, config.n_key_heads].map(|heads| heads * head_dim);
    let layer = 2 * queries + 2 * keys + 3 * n_inner;
    (config.n_layers * layer + n_wanted) * n_channels
}
