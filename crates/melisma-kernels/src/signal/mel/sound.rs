//! Samples laid out so that frames are lanes, and the transform's access to them.

use super::fft::{Complex, Source};
use super::lanes::Lanes;

/// Writes y[r][c] = x[c hop + r].
#[inline(always)]
pub(super) fn transpose(x: &[f32], y: &mut [f32], hop_len: usize, stride: usize) {
    let n_rows = y.len() / stride;
    let n_columns = (x.len() / hop_len).min(stride);
    for (r, row) in y.chunks_mut(stride).enumerate().take(n_rows) {
        for (c, y) in row.iter_mut().enumerate().take(n_columns) {
            *y = x[c * hop_len + r];
        }
    }
}

/// Sample n of N neighbouring frames is a vector at `offsets[n] * unit`.
#[derive(Clone, Copy)]
pub(super) struct Sound {
    pub(super) from: *const f32,
    pub(super) offsets: *const u32,
    pub(super) unit: usize,
}

impl Sound {
    /// # Safety
    /// `n` is below `n_fft`.
    #[inline(always)]
    pub(super) unsafe fn sample<V: Lanes>(&self, n: usize) -> V {
        // SAFETY: the caller's promise.
        unsafe { V::load(self.from.add(*self.offsets.add(n) as usize * self.unit)) }
    }
}

/// Element i has sample 2i as real part and sample 2i + 1 as imaginary part.
pub(super) struct Halves<'a> {
    pub(super) sound: &'a Sound,
    pub(super) window: *const f32,
}

impl<V: Lanes> Source<V> for Halves<'_> {
    #[inline(always)]
    unsafe fn get(&self, index: usize) -> Complex<V> {
        // SAFETY: the caller's promise; the window has n_fft coefficients.
        unsafe {
            let (re, im) = (self.sound.sample::<V>(2 * index), self.sound.sample::<V>(2 * index + 1));
            let (left, right) = (V::splat(*self.window.add(2 * index)), V::splat(*self.window.add(2 * index + 1)));
            Complex { re: re.mul(left), im: im.mul(right) }
        }
    }
}

/// Element i is sample i.
pub(super) struct Whole<'a> {
    pub(super) sound: &'a Sound,
    pub(super) window: *const f32,
}

impl<V: Lanes> Source<V> for Whole<'_> {
    #[inline(always)]
    unsafe fn get(&self, index: usize) -> Complex<V> {
        // SAFETY: the caller's promise; the window has n_fft coefficients.
        unsafe {
            let re = self.sound.sample::<V>(index).mul(V::splat(*self.window.add(index)));
            Complex { re, im: V::splat(0.0) }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::signal::mel::{Edge, reference::beyond};

    #[test]
    fn rows_are_the_samples_of_neighbouring_frames() {
        let x: Vec<f32> = (0..15).map(|i| i as f32).collect();
        let mut y = vec![0.0; 3 * 16];
        transpose(&x, &mut y, 3, 16);
        assert_eq!(y[16..21], [1.0, 4.0, 7.0, 10.0, 13.0]);
        assert_eq!(beyond(Edge::Reflect, -2, 3), Some(2));
    }
}
