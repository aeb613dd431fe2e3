//! The definition, in f64.

use super::{Conv, Curve};

/// Computes y `[O, H', W']` of x `[C, H, W]`.
pub(super) fn conv(layer: &Conv<'_>, [height, width]: [usize; 2], [rows, columns]: [usize; 2], x: &[f32]) -> Vec<f64> {
    let mut y = Vec::new();
    for output in 0..layer.n_out {
        for i in 0..rows {
            for j in 0..columns {
                let mut sum = f64::from(layer.bias[output]);
                for channel in 0..layer.n_in {
                    for m in 0..layer.kernel[0] {
                        for n in 0..layer.kernel[1] {
                            let row = (i * layer.strides[0] + m * layer.dilations[0]).checked_sub(layer.before[0]);
                            let column = (j * layer.strides[1] + n * layer.dilations[1]).checked_sub(layer.before[1]);
                            if let (Some(row), Some(column)) = (row, column)
                                && row < height
                                && column < width
                            {
                                let tap = ((output * layer.n_in + channel) * layer.kernel[0] + m) * layer.kernel[1] + n;
                                let at = (channel * height + row) * width + column;
                                sum += f64::from(layer.weight[tap]) * f64::from(x[at]);
                            }
                        }
                    }
                }
                y.push(match layer.curve {
                    Curve::Relu if sum < 0.0 => 0.0,
                    _ => sum,
                });
            }
        }
    }
    y
}
