//! A step has few rows: memory and step are joined in scratch, then each output row attends to its
//! window.

use super::{Attention, Pass};
use crate::Result;
use crate::device::isa::dispatch;
use crate::layer::step::{Arena, Row, Step};
use crate::queue::CpuQueue;

const LANES: usize = 16;

#[derive(Debug)]
pub(super) struct Prepared {
    attention: Attention,
    rotation: Vec<[f32; 2]>,
}

/// Returns the numbers of floats of keys with values, and of queries with inputs, that a step joins.
fn lens(n_channels: usize, window: usize, n_latents: usize) -> [usize; 2] {
    let width = 2 * n_channels;
    [(2 * (window - 1) + n_latents) * width, (window - 1 + n_latents) * width]
}

/// Returns the number of floats of scratch that all threads share.
pub(crate) fn scratch_len(n_channels: usize, window: usize, n_latents: usize) -> usize {
    lens(n_channels, window, n_latents).iter().sum::<usize>() + window
}

impl Prepared {
    pub(super) fn new(attention: &Attention) -> Self {
        Self { attention: *attention, rotation: attention.rotation() }
    }

    pub(super) fn run(&self, queue: &CpuQueue, step: Step<'_>, arena: Arena<'_>, pass: Pass<'_>) -> Result<()> {
        let Attention { n_channels, window, .. } = self.attention;
        let (slot_len, offset, floats) = (arena.slot_len, arena.offset, arena.floats.host()?);
        let (qkv, x, mixed, skip) = (pass.qkv.host()?, pass.x.host()?, pass.mixed.host()?, pass.skip.host()?);
        let (len, width) = (step.n_latents * n_channels, 2 * n_channels);
        if x.is_empty() {
            return Ok(());
        }
        let [kv_len, qx_len] = lens(n_channels, window, step.n_latents);
        let mut scratch = queue.shared_scratch(kv_len + qx_len + window)?;
        let (kv, rest) = scratch.floats(kv_len + qx_len + window)?.split_at_mut(kv_len);
        let (qx, scores) = rest.split_at_mut(qx_len);
        for (stream, row) in step.rows.as_slice().iter().enumerate() {
            let state = &mut floats[row.slot as usize * slot_len + offset..][..3 * (window - 1) * width];
            let (kv_past, qx_past) = state.split_at_mut(2 * (window - 1) * width);
            let (kv_now, qx_now) = (kv_past.len(), qx_past.len());
            kv[..kv_now].copy_from_slice(kv_past);
            qx[..qx_now].copy_from_slice(qx_past);
            let first = self.attention.timeline.first(row) + (window - 1) as i64;
            for t in 0..step.n_latents {
                let position = (first + t as i64).rem_euclid(window as i64) as usize;
                let qkv = &qkv[stream * 3 * len + t * 3 * n_channels..][..3 * n_channels];
                let (qx, kv) = (&mut qx[qx_now + t * width..][..width], &mut kv[kv_now + t * width..][..width]);
                self.turn(position, &qkv[..n_channels], &mut qx[..n_channels]);
                qx[n_channels..].copy_from_slice(&x[stream * len + t * n_channels..][..n_channels]);
                self.turn(position, &qkv[n_channels..2 * n_channels], &mut kv[..n_channels]);
                kv[n_channels..].copy_from_slice(&qkv[2 * n_channels..]);
            }
            let (mixed, skip) = (&mut mixed[stream * len..][..len], &mut skip[stream * len..][..len]);
            let seen = StreamPass { layer: self, row, n_latents: step.n_latents, qx, kv };
            for (t, (mixed, skip)) in
                mixed.chunks_exact_mut(n_channels).zip(skip.chunks_exact_mut(n_channels)).enumerate()
            {
                skip.copy_from_slice(&qx[t * width + n_channels..][..n_channels]);
                let seen = &seen;
                let scores = &mut *scores;
                dispatch!(queue.cpu().isa, attend(seen: &StreamPass<'_>, t: usize, scores: &mut [f32], mixed: &mut [f32]));
                if !self.attention.timeline.live(row, step.n_latents).contains(&t) {
                    skip.fill(0.0);
                }
            }
            kv_past.copy_from_slice(&kv[kv.len() - kv_now..]);
            qx_past.copy_from_slice(&qx[qx.len() - qx_now..]);
        }
        Ok(())
    }

    fn turn(&self, position: usize, x: &[f32], y: &mut [f32]) {
        let half = self.attention.head_dim / 2;
        let rotation = &self.rotation[position * half..(position + 1) * half];
        for (x, y) in x.chunks_exact(2 * half).zip(y.chunks_exact_mut(2 * half)) {
            for (d, [cos, sin]) in rotation.iter().enumerate() {
                let (a, b) = (x[d], x[d + half]);
                y[d] = a.mul_add(*cos, -(b * sin));
                y[d + half] = b.mul_add(*cos, a * sin);
            }
        }
    }
}

/// Memory and step of one stream.
struct StreamPass<'a> {
    layer: &'a Prepared,
    row: &'a Row,
    n_latents: usize,
    /// `[W - 1 + T, 2 C]`
    qx: &'a [f32],
    /// `[2 (W - 1) + T, 2 C]`
    kv: &'a [f32],
}

/// Computes output row `t`.
#[inline(always)]
fn attend(seen: &StreamPass<'_>, t: usize, scores: &mut [f32], mixed: &mut [f32]) {
    let Attention { n_channels, head_dim, window, timeline } = seen.layer.attention;
    let width = 2 * n_channels;
    mixed.fill(0.0);
    if !timeline.live(seen.row, seen.n_latents).contains(&t) {
        return;
    }
    let position = (timeline.first(seen.row) + t as i64) as usize;
    let before = position % window;
    let n_keys = window.min((seen.row.end - (position - before) as i64) as usize);
    // Row t of `qx` and row t + W - 1 of `kv` are the same latent.
    let keys = &seen.kv[(t + window - 1 - before) * width..][..n_keys * width];
    let scale = 1.0 / (head_dim as f32).sqrt();
    for head in (0..n_channels).step_by(head_dim) {
        let query = &seen.qx[t * width + head..][..head_dim];
        let scores = &mut scores[..n_keys];
        let mut most = f32::NEG_INFINITY;
        for (score, key) in scores.iter_mut().zip(keys.chunks_exact(width)) {
            *score = dot(query, &key[head..head + head_dim]) * scale;
            most = if *score > most { *score } else { most };
        }
        let mut sum = 0.0;
        for score in scores.iter_mut() {
            *score = (*score - most).exp();
            sum += *score;
        }
        let mixed = &mut mixed[head..head + head_dim];
        for (score, key) in scores.iter().zip(keys.chunks_exact(width)) {
            let (weight, value) = (score / sum, &key[n_channels + head..][..head_dim]);
            for d in 0..head_dim {
                mixed[d] = weight.mul_add(value[d], mixed[d]);
            }
        }
    }
}

#[inline(always)]
fn dot(a: &[f32], b: &[f32]) -> f32 {
    let mut lanes = [0f32; LANES];
    for (a, b) in a.chunks(LANES).zip(b.chunks(LANES)) {
        for (lane, (a, b)) in lanes.iter_mut().zip(a.iter().zip(b)) {
            *lane = a.mul_add(*b, *lane);
        }
    }
    for half in [8, 4, 2, 1] {
        for lane in 0..half {
            lanes[lane] += lanes[lane + half];
        }
    }
    lanes[0]
}
