//! Sums of products, Σ w\[k\] · x\[k\], in one order on every instruction set.
//!
//! Sixteen chains of fused multiply-adds: chain c adds the products of k = c, c + 16, c + 32, ...,
//! starting from 0; a row that is not a multiple of 16 long is continued with zeros. Then chain c
//! and chain c + 8 are added for c < 8, and so on with 4, 2 and 1.

mod chains;
mod mix;
#[cfg(target_arch = "aarch64")]
mod neon;
#[cfg(target_arch = "x86_64")]
mod x86;

use half::{bf16, f16};

use self::chains::{CHAINS, Chains};
pub(super) use self::mix::mix;
use crate::device::isa::{Isa, Level};
use crate::{DType, Element};

/// Bytes of a line of the cache.
const LINE: usize = 64;
/// Outputs of the widest tile.
pub(super) const TILE_OUTPUTS: usize = 8;

/// An element type of weights.
pub trait Stored: Element + sealed::Stored {}

mod sealed {
    pub trait Stored: Sized {
        /// Loads sixteen elements as floats.
        ///
        /// # Safety
        /// As for [`super::Chains`].
        unsafe fn load<C: super::Chains>(from: *const Self) -> C;
    }
}

macro_rules! stored {
    ($($type:ty => $load:ident),+) => { $(
        impl sealed::Stored for $type {
            #[inline(always)]
            unsafe fn load<C: Chains>(from: *const Self) -> C {
                // SAFETY: the caller's promise.
                unsafe { C::$load(from) }
            }
        }
        impl Stored for $type {}
    )+ };
}
stored!(f32 => load_f32, f16 => load_f16, bf16 => load_bf16);

/// A few outputs for a few rows.
#[derive(Debug, Clone, Copy)]
pub(super) struct Tile<T> {
    /// Elements of a sum.
    pub(super) k: usize,
    /// The weights of each output, `k` apart.
    pub(super) w: *const T,
    /// How far behind each weight lies one that is read later and may not be in a cache yet; 0 for none.
    pub(super) ahead: usize,
    /// Rows, `stride_x` apart.
    pub(super) x: *const f32,
    pub(super) stride_x: usize,
    /// Sums of output o and row r go to `y[r * stride_y + o]`.
    pub(super) y: *mut f32,
    pub(super) stride_y: usize,
    pub(super) finish: Finish,
}

/// What happens to a sum.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Finish {
    /// y = sum
    Replace,
    /// y = y + sum
    Add,
    /// y = sum · factor
    Scale(f32),
}

/// A tile function for a fixed number of outputs and rows.
///
/// # Safety
/// The pointers of the tile hold what its fields say, no other thread accesses its sums, and the
/// machine has the instruction set.
pub(super) type Run<T> = unsafe fn(Tile<T>);

/// The tile functions for a number of outputs, by rows.
type Tiles<T> = (usize, &'static [Run<T>]);

macro_rules! tiles {
    ($run:path: $($outputs:literal x [$($rows:literal)+])+) => {{
        use $run as run;
        &const { [$(($outputs, &const { [$(run::<T, $outputs, $rows> as Run<T>),+] } as &[Run<T>])),+] }
    }};
}

/// Returns the tile functions of `isa`, those for the most outputs first and those for one output last. The sums of a
/// tile, with a row and some weights, fit into the registers.
fn tiles<T: Stored>(isa: Isa) -> &'static [Tiles<T>] {
    match isa.level() {
        #[cfg(target_arch = "x86_64")]
        Level::Avx512 => tiles!(x86::avx512: 8 x [1 2] 4 x [1 2 3 4] 1 x [1 2 3 4]),
        #[cfg(target_arch = "x86_64")]
        Level::Avx2 => tiles!(x86::avx2: 4 x [1] 1 x [1]),
        #[cfg(target_arch = "aarch64")]
        Level::Neon => tiles!(neon::neon: 4 x [1] 1 x [1]),
        _ => tiles!(portable: 4 x [1] 1 x [1]),
    }
}

/// # Safety
/// As [`Run`].
unsafe fn portable<T: Stored, const OUTPUTS: usize, const ROWS: usize>(tile: Tile<T>) {
    // SAFETY: the caller's promise.
    unsafe { run::<[f32; CHAINS], T, OUTPUTS, ROWS>(tile) }
}

/// # Safety
/// As [`Run`].
#[inline(always)]
unsafe fn run<C: Chains, T: Stored, const OUTPUTS: usize, const ROWS: usize>(tile: Tile<T>) {
    let Tile { k, w, ahead, x, stride_x, y, stride_y, finish } = tile;
    // SAFETY: the caller's promise, for every access of this function.
    unsafe {
        let mut sums = [[C::zero(); ROWS]; OUTPUTS];
        let mut rows = [C::zero(); ROWS];
        let whole = k / CHAINS * CHAINS;
        let mut at = 0;
        while at < whole {
            for (row, x_chains) in rows.iter_mut().enumerate() {
                *x_chains = C::load_f32(x.add(row * stride_x + at));
            }
            for (output, sums) in sums.iter_mut().enumerate() {
                if ahead > 0 && at.is_multiple_of(LINE / size_of::<T>()) {
                    prefetch(w.wrapping_add(output * k + at + ahead));
                }
                let weights: C = T::load(w.add(output * k + at));
                for (sum, row) in sums.iter_mut().zip(rows) {
                    *sum = weights.mul_add(row, *sum);
                }
            }
            at += CHAINS;
        }
        let rest = k - whole;
        if rest > 0 {
            for (row, x_chains) in rows.iter_mut().enumerate() {
                let mut padded = [0f32; CHAINS];
                std::ptr::copy_nonoverlapping(x.add(row * stride_x + whole), padded.as_mut_ptr(), rest);
                *x_chains = C::load_f32(padded.as_ptr());
            }
            for (output, sums) in sums.iter_mut().enumerate() {
                let mut padded = [T::zeroed(); CHAINS];
                std::ptr::copy_nonoverlapping(w.add(output * k + whole), padded.as_mut_ptr(), rest);
                let weights: C = T::load(padded.as_ptr());
                for (sum, row) in sums.iter_mut().zip(rows) {
                    *sum = weights.mul_add(row, *sum);
                }
            }
        }
        for row in 0..ROWS {
            let mut all = [C::zero(); OUTPUTS];
            for (chains, sums) in all.iter_mut().zip(&sums) {
                *chains = sums[row];
            }
            let y = std::slice::from_raw_parts_mut(y.add(row * stride_y), OUTPUTS);
            let sums = y.iter_mut().zip(C::fold(all));
            match finish {
                Finish::Replace => sums.for_each(|(y, sum)| *y = sum),
                Finish::Add => sums.for_each(|(y, sum)| *y += sum),
                Finish::Scale(factor) => sums.for_each(|(y, sum)| *y = sum * factor),
            }
        }
    }
}

/// Asks for the line of an address, which need not exist, so that it is near when it is read. Short rows end before the
/// processor sees in which order they are read.
#[inline(always)]
fn prefetch<T>(address: *const T) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_T1, _mm_prefetch};
        // SAFETY: a hint, which accesses nothing.
        unsafe { _mm_prefetch::<_MM_HINT_T1>(address.cast()) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = address;
}

/// Outputs `w` of `k` weights each, for rows of `k` floats.
#[derive(Debug, Clone, Copy)]
pub(super) struct Sums<'a, T> {
    pub(super) k: usize,
    /// `[O, K]`
    pub(super) w: &'a [T],
    /// `[R, K]`
    pub(super) x: &'a [f32],
    pub(super) finish: Finish,
    /// How far behind each weight lies what is read after them; `None` where the next outputs are.
    pub(super) ahead: Option<usize>,
}

impl<T: Stored> Sums<'_, T> {
    /// Computes all outputs for all rows: output o of row r goes to `y[r * stride_y + o]`.
    ///
    /// # Safety
    /// `y` has room for them, and no other thread accesses that room.
    pub(super) unsafe fn write(&self, isa: Isa, y: *mut f32, stride_y: usize) {
        let Self { k, w, x, finish, ahead } = *self;
        if k == 0 {
            return;
        }
        let (n_outputs, n_rows) = (w.len() / k, x.len() / k);
        let tiles = tiles::<T>(isa);
        let most_rows = tiles.last().map_or(1, |(_, runs)| runs.len());
        for row in (0..n_rows).step_by(most_rows) {
            let rows = most_rows.min(n_rows - row);
            let mut output = 0;
            let fitting = |&(outputs, runs): &Tiles<T>| Some((outputs, *runs.get(rows - 1)?));
            for (outputs, run) in tiles.iter().filter_map(fitting) {
                while output + outputs <= n_outputs {
                    // SAFETY: `w` and `x` have these outputs and rows; the caller promises room in `y`, and `isa` proves
                    // the instruction set.
                    unsafe {
                        run(Tile {
                            k,
                            w: w.as_ptr().add(output * k),
                            ahead: if row == 0 { ahead.unwrap_or(outputs * k) } else { 0 },
                            x: x.as_ptr().add(row * k),
                            stride_x: k,
                            y: y.add(row * stride_y + output),
                            stride_y,
                            finish,
                        });
                    }
                    output += outputs;
                }
            }
        }
    }
}

/// Returns Σ x\[k\]².
pub(super) fn square(isa: Isa, x: &[f32]) -> f32 {
    let mut sum = 0.0;
    // SAFETY: one output of one row.
    unsafe { Sums { k: x.len(), w: x, x, finish: Finish::Replace, ahead: None }.write(isa, &raw mut sum, 1) };
    sum
}

/// Returns whether weights can have this type.
pub(super) fn is_stored(dtype: DType) -> bool {
    matches!(dtype, DType::F32 | DType::F16 | DType::BF16)
}
