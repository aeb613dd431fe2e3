//! The innermost loop: a few outputs times several vectors of neighbouring positions, held in
//! registers.
//!
//! Position p of output o is b\[o\] + Σ_k w[k, o] · x[offset\[k\] + p]. The planes of the image are
//! laid out so that one step of k reads neighbouring floats for neighbouring positions, for any
//! strides and dilations.

use crate::device::isa::{Isa, Level};
use crate::device::vector::Vector;

/// The steps of k that a tile sums.
#[derive(Clone, Copy)]
pub(super) struct Steps {
    pub(super) len: usize,
    /// One offset per step.
    pub(super) offsets: *const u32,
    /// The floats at which the steps of the first position begin.
    pub(super) x: *const f32,
    /// `[len, outputs]`
    pub(super) weight: *const f32,
}

/// The work of one tile, for as many positions as its [`Shape`] is wide.
#[derive(Clone, Copy)]
pub(super) struct Tile {
    pub(super) steps: Steps,
    pub(super) start: Start,
    /// One row for each output, `stride` apart.
    pub(super) sums: *mut f32,
    pub(super) stride: usize,
}

/// The initial values of a tile's sums.
#[derive(Clone, Copy)]
pub(super) enum Start {
    /// `[outputs]`
    Bias(*const f32),
    /// The sums of earlier steps.
    Resume,
}

/// # Safety
/// The pointers of the tile hold what its fields say, and the machine has the instruction set.
pub(super) type Run = unsafe fn(Tile);

/// A tile function and the number of positions it computes.
#[derive(Clone, Copy)]
pub(super) struct Shape {
    pub(super) run: Run,
    pub(super) width: usize,
}

/// The widest tile of any instruction set.
pub(super) const MAX_WIDTH: usize = 12 * 16;

macro_rules! shapes {
    ($run:path, $lanes:literal: $($outputs:literal x [$($vectors:literal)+]),+) => { [$([$({
        use $run as run;
        Shape { run: run::<$outputs, $vectors>, width: $vectors * $lanes }
    }),+]),+] };
}

/// Returns the tiles of `isa` for 1, 2, ... outputs, each in ascending width. A tile has as many
/// sums as fit in registers beside their operands.
pub(super) fn shapes(isa: Isa) -> &'static [[Shape; 3]] {
    match isa.level() {
        #[cfg(target_arch = "x86_64")]
        Level::Avx512 => {
            &const {
                shapes!(x86::avx512, 16: 1 x [1 4 12], 2 x [1 4 12], 3 x [1 3 8], 4 x [1 2 6], 5 x [1 2 5], 6 x [1 2 4],
                7 x [1 2 3], 8 x [1 2 3])
            }
        }
        #[cfg(target_arch = "x86_64")]
        Level::Avx2 => &const { shapes!(x86::avx2, 8: 1 x [1 4 8], 2 x [1 2 5], 3 x [1 2 4], 4 x [1 2 3]) },
        #[cfg(target_arch = "aarch64")]
        Level::Neon => &const { shapes!(neon, 8: 1 x [1 4 8], 2 x [1 2 5], 3 x [1 2 4], 4 x [1 2 3]) },
        _ => &const { shapes!(portable, 4: 1 x [1 2 4], 2 x [1 2 3], 3 x [1 2 3], 4 x [1 2 3]) },
    }
}

/// # Safety
/// As [`Run`].
unsafe fn portable<const OUTPUTS: usize, const VECTORS: usize>(tile: Tile) {
    // SAFETY: the caller's promise, for every access of this function.
    unsafe {
        let mut sums = [[[0f32; 4]; VECTORS]; OUTPUTS];
        for (output, sums) in sums.iter_mut().enumerate() {
            match tile.start {
                Start::Bias(bias) => *sums = [[*bias.add(output); 4]; VECTORS],
                Start::Resume => {
                    let from = tile.sums.add(output * tile.stride);
                    std::ptr::copy_nonoverlapping(from, sums.as_flattened_mut().as_mut_ptr(), VECTORS * 4);
                }
            }
        }
        let Steps { len, offsets, x, weight } = tile.steps;
        for step in 0..len {
            let x = x.add(*offsets.add(step) as usize);
            for (output, sums) in sums.iter_mut().enumerate() {
                let weight = *weight.add(step * OUTPUTS + output);
                for (vector, sums) in sums.iter_mut().enumerate() {
                    for (lane, sum) in sums.iter_mut().enumerate() {
                        *sum = weight.mul_add(*x.add(vector * 4 + lane), *sum);
                    }
                }
            }
        }
        for (output, sums) in sums.iter().enumerate() {
            let to = tile.sums.add(output * tile.stride);
            std::ptr::copy_nonoverlapping(sums.as_flattened().as_ptr(), to, VECTORS * 4);
        }
    }
}

/// # Safety
/// As [`Run`], with the instruction set of `V`.
#[inline(always)]
unsafe fn run<V: Vector, const OUTPUTS: usize, const VECTORS: usize>(tile: Tile) {
    // SAFETY: the caller's promise, for every access of this function.
    unsafe {
        let mut sums = [[V::splat(0.0); VECTORS]; OUTPUTS];
        for (output, sums) in sums.iter_mut().enumerate() {
            for (vector, sum) in sums.iter_mut().enumerate() {
                *sum = match tile.start {
                    Start::Bias(bias) => V::splat(*bias.add(output)),
                    Start::Resume => V::load(tile.sums.add(output * tile.stride + V::N * vector)),
                };
            }
        }
        let Steps { len, offsets, x, mut weight } = tile.steps;
        for step in 0..len {
            let from = x.add(*offsets.add(step) as usize);
            let mut x = [V::splat(0.0); VECTORS];
            for (vector, x) in x.iter_mut().enumerate() {
                *x = V::load(from.add(V::N * vector));
            }
            for (output, sums) in sums.iter_mut().enumerate() {
                let weight = V::splat(*weight.add(output));
                for (sum, x) in sums.iter_mut().zip(x) {
                    *sum = weight.mul_add(x, *sum);
                }
            }
            weight = weight.add(OUTPUTS);
        }
        for (output, sums) in sums.iter().enumerate() {
            for (vector, sum) in sums.iter().enumerate() {
                sum.store(tile.sums.add(output * tile.stride + V::N * vector));
            }
        }
    }
}

/// # Safety
/// As [`Run`].
#[cfg(target_arch = "aarch64")]
unsafe fn neon<const OUTPUTS: usize, const VECTORS: usize>(tile: Tile) {
    // SAFETY: the caller's promise.
    unsafe { run::<crate::device::vector::Neon, OUTPUTS, VECTORS>(tile) }
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use std::arch::x86_64::{__m256, __m512};

    use super::{Tile, run};

    /// # Safety
    /// As [`super::Run`].
    #[target_feature(enable = "avx512f")]
    pub(super) unsafe fn avx512<const OUTPUTS: usize, const VECTORS: usize>(tile: Tile) {
        // SAFETY: the caller's promise.
        unsafe { run::<__m512, OUTPUTS, VECTORS>(tile) }
    }

    /// # Safety
    /// As [`super::Run`].
    #[target_feature(enable = "avx2,fma")]
    pub(super) unsafe fn avx2<const OUTPUTS: usize, const VECTORS: usize>(tile: Tile) {
        // SAFETY: the caller's promise.
        unsafe { run::<__m256, OUTPUTS, VECTORS>(tile) }
    }
}
