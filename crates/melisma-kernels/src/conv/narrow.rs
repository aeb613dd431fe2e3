//! The innermost loop for few positions: vectors hold neighbouring outputs, which share the input
//! of one position. The steps of a sum and their order are the same as in the other loop, so the
//! bits are too.

use super::tile::Steps;
use crate::device::isa::{Isa, Level};
use crate::device::vector::Vector;
use crate::{Budget, Buffer, Result};

/// Images with up to this many positions are faster with this loop.
pub(super) const MAX_LEN: usize = 8;
/// The most positions of a tile.
pub(super) const POSITIONS: usize = 4;
/// The most outputs of a strip.
pub(super) const MAX_STRIP: usize = 64;

/// The work of one tile; its steps cover the outputs of a strip.
#[derive(Clone, Copy)]
pub(super) struct Tile {
    pub(super) steps: Steps,
    /// `[positions, strip]`; the sums start from their current values.
    pub(super) sums: *mut f32,
}

/// # Safety
/// The pointers of the tile hold what its fields say, and the machine has the instruction set.
pub(super) type Run = unsafe fn(Tile);

/// Tiles of one instruction set.
pub(super) struct Shapes {
    /// Outputs of a strip.
    pub(super) strip: usize,
    /// One function for each number of positions: 1, 2, ...
    pub(super) runs: [Run; POSITIONS],
}

macro_rules! runs {
    ($run:path) => {{
        use $run as run;
        [run::<1>, run::<2>, run::<3>, run::<4>]
    }};
}

pub(super) fn shapes(isa: Isa) -> Shapes {
    match isa.level() {
        #[cfg(target_arch = "x86_64")]
        Level::Avx512 => Shapes { strip: 64, runs: runs!(x86::avx512) },
        #[cfg(target_arch = "x86_64")]
        Level::Avx2 => Shapes { strip: 16, runs: runs!(x86::avx2) },
        #[cfg(target_arch = "aarch64")]
        Level::Neon => Shapes { strip: 16, runs: runs!(neon) },
        _ => Shapes { strip: 16, runs: runs!(portable) },
    }
}

/// Packs weights `[group][step][outputs of the group]` as `[strip][step][outputs of the strip]`,
/// padded with zeros.
pub(super) fn pack(budget: &Budget, weight: &[f32], n_steps: usize, group: usize, strip: usize) -> Result<Buffer> {
    let n_outputs = weight.len() / n_steps;
    let mut packed = Buffer::host(budget, n_outputs.div_ceil(strip) * n_steps * strip * size_of::<f32>())?;
    packed.prefer_huge_pages();
    let floats = packed.view_mut::<f32>()?.host()?;
    floats.fill(0.0);
    for (index, weight) in weight.chunks(group * n_steps).enumerate() {
        let n = weight.len() / n_steps;
        for (step, weight) in weight.chunks_exact(n).enumerate() {
            for (at, value) in weight.iter().enumerate() {
                let output = index * group + at;
                floats[(output / strip * n_steps + step) * strip + output % strip] = *value;
            }
        }
    }
    Ok(packed)
}

/// # Safety
/// As [`Run`].
unsafe fn portable<const N: usize>(tile: Tile) {
    // SAFETY: the caller's promise, for every access of this function.
    unsafe {
        let sums = &mut *tile.sums.cast::<[[f32; 16]; N]>();
        let Steps { len, offsets, x, weight } = tile.steps;
        for step in 0..len {
            let x = x.add(*offsets.add(step) as usize);
            let weight = &*weight.add(step * 16).cast::<[f32; 16]>();
            for (position, sums) in sums.iter_mut().enumerate() {
                let x = *x.add(position);
                for (sum, weight) in sums.iter_mut().zip(weight) {
                    *sum = weight.mul_add(x, *sum);
                }
            }
        }
    }
}

/// # Safety
/// As [`Run`], with the instruction set of `V`; a strip has `VECTORS` vectors.
#[inline(always)]
unsafe fn run<V: Vector, const N: usize, const VECTORS: usize>(tile: Tile) {
    // SAFETY: the caller's promise, for every access of this function.
    unsafe {
        let mut sums = [[V::splat(0.0); VECTORS]; N];
        for (at, sum) in sums.as_flattened_mut().iter_mut().enumerate() {
            *sum = V::load(tile.sums.add(V::N * at));
        }
        let Steps { len, offsets, x, weight: mut from } = tile.steps;
        for step in 0..len {
            let x = x.add(*offsets.add(step) as usize);
            let mut weight = [V::splat(0.0); VECTORS];
            for (at, weight) in weight.iter_mut().enumerate() {
                *weight = V::load(from.add(V::N * at));
            }
            for (position, sums) in sums.iter_mut().enumerate() {
                let x = V::splat(*x.add(position));
                for (sum, weight) in sums.iter_mut().zip(weight) {
                    *sum = weight.mul_add(x, *sum);
                }
            }
            from = from.add(VECTORS * V::N);
        }
        for (at, sum) in sums.as_flattened().iter().enumerate() {
            sum.store(tile.sums.add(V::N * at));
        }
    }
}

/// # Safety
/// As [`Run`].
#[cfg(target_arch = "aarch64")]
unsafe fn neon<const N: usize>(tile: Tile) {
    // SAFETY: the caller's promise.
    unsafe { run::<crate::device::vector::Neon, N, 2>(tile) }
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use std::arch::x86_64::{__m256, __m512};

    use super::{Tile, run};

    /// # Safety
    /// As [`super::Run`].
    #[target_feature(enable = "avx512f")]
    pub(super) unsafe fn avx512<const N: usize>(tile: Tile) {
        // SAFETY: the caller's promise.
        unsafe { run::<__m512, N, 4>(tile) }
    }

    /// # Safety
    /// As [`super::Run`].
    #[target_feature(enable = "avx2,fma")]
    pub(super) unsafe fn avx2<const N: usize>(tile: Tile) {
        // SAFETY: the caller's promise.
        unsafe { run::<__m256, N, 2>(tile) }
    }
}
