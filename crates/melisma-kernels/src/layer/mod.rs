//! The layers of SNAC's models. Each has state for streams that join and leave between [`step`]s.

pub mod attention;
pub(crate) mod cuda;
pub mod depthwise;
pub mod downsample;
pub mod embed;
pub mod entry;
pub mod head;
mod history;
pub mod need;
pub mod noise;
pub mod norm;
mod panel;
pub mod plan;
pub mod pointwise;
pub mod populate;
mod product;
pub mod quantize;
pub mod residual;
mod snake;
pub mod step;
#[cfg(test)]
mod streams;
pub mod strided;
pub mod upsample;

/// Returns the columns of rows of `len`, one after the other.
fn transposed(rows: &[f32], len: usize) -> Vec<f32> {
    (0..len).flat_map(|column| rows.iter().skip(column).step_by(len).copied()).collect()
}
