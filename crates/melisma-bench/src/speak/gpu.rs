//! A model of Orpheus' size on a GPU, rounded to bf16 as PyTorch has it: the steps of many texts at once beside
//! PyTorch, and one text to audio.

use std::sync::Arc;
use std::time::{Duration, Instant};

use half::bf16;
use melisma::llama::{Batch, Choice, Input, Key, Model, Options, Rounding, Sampler, Sequence};
use melisma::snac;
use melisma::speak::{Delivery, Opening, Pace, Speaker, synthetic};
use melisma::{Budget, Context, DType, Queue, Result, Tensor};

use super::size::{ORPHEUS, WORDS, weights};
use super::voice::{SEED, SETTINGS, TEXT};
use super::{Plan, Row, measure};
use crate::Peer;
use crate::folder::Folder;
use crate::measure::of_times;
use crate::peer::figures;

const PEERS: &str = include_str!("../../peers/speak_gpu.py");
/// Texts that are spoken at once, and the tokens before the measured ones.
const BATCHES: [usize; 4] = [1, 16, 64, 256];
const N_PAST: usize = 600;
const N_STEPS: usize = 40;
/// Bytes that are copied to measure the memory's rate.
const COPIED: usize = 2 << 30;

pub(super) fn rows(context: &Context) -> Result<Vec<Row>> {
    let folder = Folder::create("speak-gpu")?;
    let codec = Arc::new(snac::Model::mini24()?);
    synthetic::write(&folder.0, &codec, ORPHEUS, SEED)?;
    let mut rows = speech(context, &folder, &codec)?;
    let model = Arc::new(Model::open_rounded_in(context, &folder.0, Rounding::Bf16)?);
    let rate = copy_rate(context)?;
    for n in BATCHES {
        rows.push(steps(context, &model, &codec, (n, rate))?);
    }
    drop(model);
    let batches = BATCHES.map(|n| n.to_string());
    let past = N_PAST.to_string();
    let parts = ["eager", "compiled"].map(|how| [&[how, &past][..], &batches.each_ref().map(String::as_str)].concat());
    let figures = figures("PyTorch", PEERS, &parts.each_ref().map(Vec::as_slice));
    for row in &mut rows {
        let peers = figures.get(&row.name).into_iter().flatten();
        row.peers.extend(peers.map(|(name, &median)| Peer { name: name.clone(), median }));
    }
    Ok(rows)
}

/// Measures the time to open the model, to the first samples of a text, and from a text to all its samples.
fn speech(context: &Context, folder: &Folder, codec: &Arc<snac::Model>) -> Result<Vec<Row>> {
    let start = Instant::now();
    let opening = Opening::default().with_rounding(Rounding::Bf16);
    let speaker = Speaker::open_as_in(context, &folder.0, Arc::clone(codec), opening)?;
    let mut rows = vec![Row::single("speak/open 3B", "s", start.elapsed().as_secs_f64())];
    let (mut first, mut whole, mut n_samples) = (Vec::new(), Vec::new(), 0);
    for round in 0..6 {
        let delivery = Delivery { pace: Pace::Live, ..SETTINGS.into() };
        n_samples = 0;
        let start = Instant::now();
        for piece in speaker.speak(speaker.script(TEXT, None, SEED)?, &delivery)? {
            let n = piece?.samples.len();
            if n_samples == 0 && n > 0 && round > 0 {
                first.push(start.elapsed().as_secs_f64());
            }
            n_samples += n;
        }
        if round > 0 {
            whole.push(start.elapsed().as_secs_f64());
        }
    }
    let first = of_times(first).seconds("speak/text to first samples 3B");
    rows.push(Row { unit: "ms".to_owned(), median: 1e3 * first.median, ..first });
    let seconds = n_samples as f64 / f64::from(codec.config().sampling_rate);
    rows.push(of_times(whole).rate("speak/text to audio 3B", "x", seconds));
    Ok(rows)
}

/// Measures the tokens per second of `n` texts that each draw one token a step. The ceiling is the time in which the
/// weights and the cache are read at `rate`.
fn steps(context: &Context, model: &Arc<Model>, codec: &snac::Model, (n, rate): (usize, f64)) -> Result<Row> {
    let config = model.config();
    let len = N_PAST + N_STEPS + 16;
    let options = Options { context: len, n_cached: n * len.next_multiple_of(64) };
    let mut batch = Batch::new_in(context, model, options)?;
    let mut sampler = Sampler::new_in(context, SETTINGS.sample, SETTINGS.penalty_window)?;
    let n_codes = codec.config().codebook_size as u32;
    let first = (config.n_tokens - codec.config().n_slots() * n_codes as usize - WORDS) as u32;
    let codes = first..first + n_codes;
    let wanted = [codes];
    let sequences: Vec<Sequence> = (0..n).map(|_| batch.open()).collect();
    let mut past: Vec<Vec<u32>> =
        (0..n).map(|text| (0..N_PAST).map(|at| first + ((text * 31 + at * 17) as u32) % n_codes).collect()).collect();
    let prompts = sequences.iter().zip(&past).map(|(sequence, past)| Input { sequence, tokens: past, wanted: &[] });
    batch.step(&prompts.collect::<Vec<_>>())?;
    let mut times = Vec::new();
    for step in 0..N_STEPS + 5 {
        let start = Instant::now();
        let inputs = sequences.iter().zip(&past);
        let inputs =
            inputs.map(|(sequence, past)| Input { sequence, tokens: &past[past.len() - 1..], wanted: &wanted });
        batch.step(&inputs.collect::<Vec<_>>())?;
        let choices = (0..n).map(|text| {
            let key = Key { seed: text as u64, position: step as u64, ..Key::default() };
            Ok(Choice { logits: batch.logits(text)?, wanted: &wanted, past: &past[text], key })
        });
        let drawn = sampler.draw(&choices.collect::<Result<Vec<_>>>()?)?;
        for (past, token) in past.iter_mut().zip(drawn) {
            past.push(token?);
        }
        if step >= 5 {
            times.push(start.elapsed().as_secs_f64());
        }
    }
    let cached = 2 * config.n_layers * config.n_key_heads * config.head_dim * size_of::<bf16>();
    let n_read = 2 * weights(config, n_codes as usize) + n * N_PAST * cached;
    let row = of_times(times).rate(&format!("speak/tokens of {n} texts at once 3B"), "tokens/s", n as f64);
    Ok(Row { ceiling: Some(n as f64 * rate / n_read as f64), ..row })
}

/// Returns the bytes per second that a copy within the GPU's memory reads and writes.
fn copy_rate(context: &Context) -> Result<f64> {
    let (queue, budget) = (context.queue(), Budget::unlimited());
    let tensor = || Tensor::new(context.device(), &budget, DType::F32, &[COPIED / 4]);
    let (from, mut to) = (tensor()?, tensor()?);
    let mut outcome = Ok(());
    let measured = measure(Plan { warm_up: 2, least: 7, most: 20, time: Duration::from_millis(200) }, || {
        outcome = copy(queue, &from, &mut to);
    });
    outcome?;
    Ok(2.0 * COPIED as f64 / measured.median)
}

fn copy(queue: &Queue, from: &Tensor, to: &mut Tensor) -> Result<()> {
    queue.copy(from.view::<f32>()?, to.view_mut()?)?;
    queue.synchronize()
}
