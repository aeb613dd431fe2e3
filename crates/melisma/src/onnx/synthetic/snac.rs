//! SNAC's decoder as written by exporters: `z [1, latent_dim, latents]` to `audio [1, 1, samples]`,
//! without noise blocks.

use super::Sketch;
use crate::onnx::{Dim, Model, Node, ValueInfo};
use crate::random::SplitMix64;
use crate::{Error, Result};

/// The sizes of a decoder.
#[derive(Debug, Clone, Copy)]
pub struct Snac<'a> {
    /// Channels of the latents.
    pub latent_dim: usize,
    /// Channels before the first block; each block halves them.
    pub dim: usize,
    /// The upsampling factor of each block.
    pub strides: &'a [usize],
}

impl Snac<'_> {
    /// The 24 kHz model.
    #[cfg(feature = "bench")]
    pub const SNAC_24KHZ: Snac<'static> = Snac { latent_dim: 768, dim: 1024, strides: &[8, 8, 4, 2] };
}

/// Builds a decoder with random weights from a seed.
///
/// # Errors
/// A size is 0 or too large, or the channels cannot be halved for each stride.
pub fn snac_decoder(sizes: &Snac<'_>, seed: u64) -> Result<Model> {
    let mut sketch = Sketch { random: SplitMix64::new(seed), ..Sketch::default() };
    let Snac { latent_dim, dim, strides } = *sizes;
    let is_small = |sizes: &[usize], most: usize| sizes.iter().all(|size| (1..=most).contains(size));
    let is_halved = strides.len() <= 8 && dim.is_multiple_of(1 << strides.len());
    if !is_small(&[latent_dim, dim], 8192) || !is_small(strides, 64) || !is_halved {
        return Err(Error::invalid(format!("invalid sizes of a decoder: {sizes:?}"))
            .with_hint("use 1 to 8192 channels that can be halved for each of up to 8 strides, of 1 to 64"));
    }
    let mut x = conv(
        &mut sketch,
        "z",
        Conv { n_in: latent_dim, n_out: latent_dim, taps: 7, dilation: 1, groups: latent_dim, gain: 0.5 },
    )?;
    x = conv(&mut sketch, &x, Conv { n_in: latent_dim, n_out: dim, taps: 1, dilation: 1, groups: 1, gain: 0.5 })?;
    let mut n_channels = dim;
    for &stride in strides {
        x = snake(&mut sketch, &x, n_channels)?;
        let n_out = n_channels / 2;
        let weight = sketch.layer(&[n_channels, n_out, 2 * stride], 8 * n_channels)?;
        let bias = sketch.weight(&[n_out], 0.0, 0.05)?;
        let half = stride.div_ceil(2) as i64;
        let node = Node::new("ConvTranspose", &[&x, &weight, &bias], &[])
            .with("kernel_shape", vec![2 * stride as i64])
            .with("strides", vec![stride as i64])
            .with("pads", vec![half, half])
            .with("output_padding", vec![(stride % 2) as i64]);
        x = sketch.with(node);
        n_channels = n_out;
        for dilation in [1, 3, 9] {
            let h = snake(&mut sketch, &x, n_channels)?;
            let wide = Conv { n_in: n_channels, n_out: n_channels, taps: 7, dilation, groups: n_channels, gain: 0.5 };
            let h = conv(&mut sketch, &h, wide)?;
            let h = snake(&mut sketch, &h, n_channels)?;
            // A small gain keeps the signal from growing from unit to unit.
            let h = conv(&mut sketch, &h, Conv { taps: 1, dilation: 1, groups: 1, gain: 0.25, ..wide })?;
            x = sketch.node("Add", &[&x, &h]);
        }
    }
    x = snake(&mut sketch, &x, n_channels)?;
    x = conv(&mut sketch, &x, Conv { n_in: n_channels, n_out: 1, taps: 7, dilation: 1, groups: 1, gain: 0.25 })?;
    sketch.node("Tanh", &[&x]);
    let axes = |channels: usize, time: &str| [Dim::Known(1), Dim::Known(channels as i64), Dim::Named(time.to_owned())];
    let (input, output) = (axes(latent_dim, "latents"), axes(1, "samples"));
    sketch.finish("snac_decoder", ValueInfo::tensor("z", 1, &input), ValueInfo::tensor("audio", 1, &output))
}

#[derive(Clone, Copy)]
struct Conv {
    n_in: usize,
    n_out: usize,
    taps: usize,
    dilation: usize,
    groups: usize,
    gain: f32,
}

fn conv(sketch: &mut Sketch, x: &str, conv: Conv) -> Result<String> {
    let Conv { n_in, n_out, taps, dilation, groups, gain } = conv;
    let reach = gain * (3.0 / (n_in / groups * taps) as f32).sqrt();
    let weight = sketch.weight(&[n_out, n_in / groups, taps], 0.0, reach)?;
    let bias = sketch.weight(&[n_out], 0.0, 0.05)?;
    let pad = (taps / 2 * dilation) as i64;
    let node = Node::new("Conv", &[x, &weight, &bias], &[])
        .with("kernel_shape", vec![taps as i64])
        .with("dilations", vec![dilation as i64])
        .with("pads", vec![pad, pad])
        .with("group", groups as i64);
    Ok(sketch.with(node))
}

/// Computes x + sin²(αx) · (1 / (α + 1e-9)) in five nodes.
fn snake(sketch: &mut Sketch, x: &str, n_channels: usize) -> Result<String> {
    let alpha: Vec<f32> = (0..n_channels).map(|_| 1.0 + 0.5 * sketch.random.signed()).collect();
    let inverse: Vec<f32> = alpha.iter().map(|alpha| 1.0 / (alpha + 1e-9)).collect();
    let (alpha, inverse) = (sketch.tensor(&alpha, &[1, n_channels, 1])?, sketch.tensor(&inverse, &[1, n_channels, 1])?);
    let two = match sketch.graph.initializers.iter().find(|tensor| tensor.shape.is_empty()) {
        Some(tensor) => tensor.name.clone(),
        None => sketch.tensor(&[2.0], &[])?,
    };
    let turns = sketch.node("Mul", &[&alpha, x]);
    let sine = sketch.node("Sin", &[&turns]);
    let square = sketch.node("Pow", &[&sine, &two]);
    let scaled = sketch.node("Mul", &[&inverse, &square]);
    Ok(sketch.node("Add", &[x, &scaled]))
}
