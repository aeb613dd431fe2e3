//! An encoder with the shape of Whisper tiny: `mel [1, 80, 3000]` to `features [1, 1500, 384]`.

use super::Sketch;
use crate::Result;
use crate::onnx::{Dim, Model, Node, ValueInfo};
use crate::random::SplitMix64;

const WIDTH: usize = 384;
const HEADS: usize = 6;
const LAYERS: usize = 4;
const FRAMES: usize = 3000;

/// Builds an encoder with random weights from a seed.
///
/// # Errors
/// Never for these sizes.
pub fn whisper_encoder(seed: u64) -> Result<Model> {
    let mut sketch = Sketch { random: SplitMix64::new(seed), ..Sketch::default() };
    let x = conv(&mut sketch, "mel", 80, 1)?;
    let x = gelu(&mut sketch, &x)?;
    let x = conv(&mut sketch, &x, WIDTH, 2)?;
    let x = gelu(&mut sketch, &x)?;
    let x = sketch.with(Node::new("Transpose", &[&x], &[]).with("perm", vec![0, 2, 1]));
    let positions = sketch.weight(&[FRAMES / 2, WIDTH], 0.0, 0.5)?;
    let mut x = sketch.node("Add", &[&x, &positions]);
    for _ in 0..LAYERS {
        let h = norm(&mut sketch, &x)?;
        let h = attention(&mut sketch, &h)?;
        x = sketch.node("Add", &[&x, &h]);
        let h = norm(&mut sketch, &x)?;
        let h = linear(&mut sketch, &h, [WIDTH, 4 * WIDTH])?;
        let h = gelu(&mut sketch, &h)?;
        let h = linear(&mut sketch, &h, [4 * WIDTH, WIDTH])?;
        x = sketch.node("Add", &[&x, &h]);
    }
    norm(&mut sketch, &x)?;
    let known = |axes: [usize; 3]| axes.map(|axis| Dim::Known(axis as i64));
    let (input, output) = (known([1, 80, FRAMES]), known([1, FRAMES / 2, WIDTH]));
    sketch.finish("whisper_encoder", ValueInfo::tensor("mel", 1, &input), ValueInfo::tensor("features", 1, &output))
}

fn conv(sketch: &mut Sketch, x: &str, n_in: usize, stride: i64) -> Result<String> {
    let weight = sketch.layer(&[WIDTH, n_in, 3], 3 * n_in)?;
    let bias = sketch.weight(&[WIDTH], 0.0, 0.05)?;
    let node = Node::new("Conv", &[x, &weight, &bias], &[])
        .with("kernel_shape", vec![3])
        .with("strides", vec![stride])
        .with("pads", vec![1, 1]);
    Ok(sketch.with(node))
}

/// Computes x · (1 + erf(x / √2)) / 2.
fn gelu(sketch: &mut Sketch, x: &str) -> Result<String> {
    let [root, one, half] = [std::f32::consts::SQRT_2, 1.0, 0.5].map(|value| sketch.tensor(&[value], &[]));
    let scaled = sketch.node("Div", &[x, &root?]);
    let erf = sketch.node("Erf", &[&scaled]);
    let sum = sketch.node("Add", &[&erf, &one?]);
    let product = sketch.node("Mul", &[x, &sum]);
    Ok(sketch.node("Mul", &[&product, &half?]))
}

fn norm(sketch: &mut Sketch, x: &str) -> Result<String> {
    let (scale, bias) = (sketch.weight(&[WIDTH], 1.0, 0.1)?, sketch.weight(&[WIDTH], 0.0, 0.1)?);
    Ok(sketch.with(Node::new("LayerNormalization", &[x, &scale, &bias], &[]).with("axis", -1).with("epsilon", 1e-5f32)))
}

fn linear(sketch: &mut Sketch, x: &str, [n_in, n_out]: [usize; 2]) -> Result<String> {
    let (weight, bias) = (sketch.layer(&[n_in, n_out], n_in)?, sketch.weight(&[n_out], 0.0, 0.05)?);
    let product = sketch.node("MatMul", &[x, &weight]);
    Ok(sketch.node("Add", &[&bias, &product]))
}

fn attention(sketch: &mut Sketch, x: &str) -> Result<String> {
    let shape = sketch.ints(&[1, (FRAMES / 2) as i64, HEADS as i64, (WIDTH / HEADS) as i64])?;
    let heads = |sketch: &mut Sketch, order: [i64; 4]| {
        let projected = linear(sketch, x, [WIDTH, WIDTH])?;
        let split = sketch.node("Reshape", &[&projected, &shape]);
        Ok::<_, crate::Error>(sketch.with(Node::new("Transpose", &[&split], &[]).with("perm", order.to_vec())))
    };
    let (q, k, v) = (heads(sketch, [0, 2, 1, 3])?, heads(sketch, [0, 2, 3, 1])?, heads(sketch, [0, 2, 1, 3])?);
    let scores = sketch.node("MatMul", &[&q, &k]);
    let scale = sketch.tensor(&[1.0 / ((WIDTH / HEADS) as f32).sqrt()], &[])?;
    let scaled = sketch.node("Mul", &[&scores, &scale]);
    let weights = sketch.with(Node::new("Softmax", &[&scaled], &[]).with("axis", -1));
    let mixed = sketch.node("MatMul", &[&weights, &v]);
    let merged = sketch.with(Node::new("Transpose", &[&mixed], &[]).with("perm", vec![0, 2, 1, 3]));
    let flat = sketch.ints(&[1, (FRAMES / 2) as i64, WIDTH as i64])?;
    let merged = sketch.node("Reshape", &[&merged, &flat]);
    linear(sketch, &merged, [WIDTH, WIDTH])
}
