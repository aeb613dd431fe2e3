//! Tensor population: frames of seven codes in a row to the three levels of a 24 kHz model.

use std::ops::Deref;
use std::sync::OnceLock;

use melisma_kernels::layer::populate as kernel;
#[doc(hidden)]
pub use melisma_kernels::layer::populate::{FRAME_CODES, LEVEL_CODES};
use melisma_kernels::lock::{Mutex, MutexGuard};

use crate::{Error, Result};

/// Levels of n frames, and whether all codes of a level exist in its codebook.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Populated {
    /// `[n]`, `[2n]`, `[4n]`
    pub levels: [Vec<i32>; 3],
    /// One flag for each level: every code is in `0..codebook_size`.
    pub valid: [bool; 3],
}

/// Spreads `frames`, `[n, 7]`, over the levels, and checks every code. Codes after the last whole frame are left out.
pub fn populate(frames: &[i32], codebook_size: i32) -> Populated {
    let mut out = Populated::default();
    populate_into(frames, codebook_size, &mut out);
    out
}

/// As [`populate`], into buffers that are used again.
pub fn populate_into(frames: &[i32], codebook_size: i32, out: &mut Populated) {
    let n_frames = frames.len() / FRAME_CODES;
    for (level, per_frame) in out.levels.iter_mut().zip(LEVEL_CODES) {
        level.resize(n_frames * per_frame, 0);
    }
    out.valid = kernel::populate(frames, codebook_size, out.levels.each_mut().map(Vec::as_mut_slice));
}

/// The largest size, in frames, whose buffers are cached.
#[doc(hidden)]
pub const CACHED_FRAMES: usize = 16;
/// Sizes whose buffers are allocated at once: those that live streams ask for.
const PREWARMED: [usize; 4] = [1, 4, 7, 8];
/// Cached buffers of one size. A caller that finds them all in use gets a fresh one.
const SHELF_LEN: usize = 16;

/// Population into cached buffers, from many threads at once; no caller waits for another.
///
/// Buffers of 1 to [`CACHED_FRAMES`] frames are cached, larger ones are not. A trace has the span `tensor_allocation`, and
/// `tensor_population_and_validation` for the one pass that spreads the codes and checks them.
#[derive(Debug)]
pub struct Populator {
    codebook_size: i32,
    shelves: [OnceLock<Shelf>; CACHED_FRAMES],
}

/// A buffer is taken by `try_lock`, which does not wait.
type Shelf = [Mutex<Populated>; SHELF_LEN];

/// A population. Its buffer returns to the cache when it is dropped.
#[derive(Debug)]
pub enum Population<'a> {
    /// In a cached buffer.
    Cached(MutexGuard<'a, Populated>),
    /// In a fresh buffer.
    Fresh(Populated),
}

impl Deref for Population<'_> {
    type Target = Populated;

    fn deref(&self) -> &Populated {
        match self {
            Self::Cached(cached) => cached,
            Self::Fresh(fresh) => fresh,
        }
    }
}

impl Populator {
    /// For codebooks of `codebook_size`. Buffers of the usual sizes are allocated at once.
    pub fn new(codebook_size: i32) -> Self {
        let populator = Self { codebook_size, shelves: [const { OnceLock::new() }; CACHED_FRAMES] };
        for n_frames in PREWARMED {
            populator.shelf(n_frames);
        }
        populator
    }

    /// Spreads whole frames over the levels.
    ///
    /// # Errors
    /// `InvalidArgument` when `frames` ends inside a frame or a code is not in the codebook; the message names it.
    pub fn populate(&self, frames: &[i32]) -> Result<Population<'_>> {
        let n_frames = frames.len() / FRAME_CODES;
        if !frames.len().is_multiple_of(FRAME_CODES) {
            return Err(Error::invalid(format!("{} codes are not whole frames of {FRAME_CODES}", frames.len())));
        }
        let mut population = {
            let _span = tracing::info_span!("tensor_allocation", frames = n_frames).entered();
            self.take(n_frames)
        };
        {
            let bytes = 2 * size_of_val(frames) as u64;
            let _span = tracing::info_span!("tensor_population_and_validation", frames = n_frames, bytes).entered();
            let out = match &mut population {
                Population::Cached(cached) => &mut **cached,
                Population::Fresh(fresh) => fresh,
            };
            populate_into(frames, self.codebook_size, out);
        }
        if population.valid == [true; 3] {
            return Ok(population);
        }
        let outside = |code: &&i32| !(0..self.codebook_size).contains(*code);
        let code = frames.iter().find(outside).copied().unwrap_or_default();
        let last = self.codebook_size.saturating_sub(1);
        Err(Error::invalid(format!("code {code} is not in the codebook; 0 to {last} exist")))
    }

    fn take(&self, n_frames: usize) -> Population<'_> {
        let free = self.shelf(n_frames).and_then(|shelf| shelf.iter().find_map(|buffer| buffer.try_lock()));
        free.map_or_else(|| Population::Fresh(sized(n_frames)), Population::Cached)
    }

    fn shelf(&self, n_frames: usize) -> Option<&Shelf> {
        let shelf = self.shelves.get(n_frames.checked_sub(1)?)?;
        Some(shelf.get_or_init(|| std::array::from_fn(|_| Mutex::new(sized(n_frames)))))
    }

    #[cfg(test)]
    fn is_made(&self, n_frames: usize) -> bool {
        self.shelves[n_frames - 1].get().is_some()
    }
}

fn sized(n_frames: usize) -> Populated {
    Populated { levels: LEVEL_CODES.map(|per_frame| vec![0; n_frames * per_frame]), valid: [false; 3] }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::snac::{Codes, Config};

    /// Levels slot by slot.
    fn reference(frames: &[i32]) -> Vec<Vec<i32>> {
        Codes::from_frames(&Config::snac_24khz(), frames).unwrap().levels()
    }

    #[test]
    fn equals_the_order_of_slots_for_0_to_64_frames() {
        let mut reused = Populated { levels: [vec![9; 1000], vec![], vec![7; 3]], valid: [false; 3] };
        for n_frames in 0..=64 {
            let frames: Vec<i32> = (0..n_frames * 7).map(|i| (i * 2_654_435) % 4096).collect();
            populate_into(&frames, 4096, &mut reused);
            assert_eq!(reused.levels.as_slice(), reference(&frames), "{n_frames} frames");
            assert_eq!(reused.valid, [true; 3]);
            assert_eq!(populate(&frames, 4096), reused);
        }
    }

    #[test]
    fn a_bad_code_invalidates_its_level_only() {
        for (slot, level) in [(0, 0), (1, 1), (2, 2), (3, 2), (4, 1), (5, 2), (6, 2)] {
            for bad in [4096, -1, i32::MAX, i32::MIN] {
                let mut frames = [4095; 21];
                frames[7 + slot] = bad;
                let mut expected = [true; 3];
                expected[level] = false;
                assert_eq!(populate(&frames, 4096).valid, expected, "slot {slot}, code {bad}");
            }
        }
    }

    #[test]
    fn codes_after_the_last_whole_frame_are_left_out() {
        assert_eq!(populate(&[1; 13], 4096).levels[2], [1; 4]);
    }

    #[test]
    fn usual_sizes_are_allocated_at_once_and_large_ones_never_cached() {
        let populator = Populator::new(4096);
        let made: Vec<usize> = (1..=CACHED_FRAMES).filter(|&n_frames| populator.is_made(n_frames)).collect();
        assert_eq!(made, PREWARMED);
        assert!(matches!(populator.populate(&[1; 7 * 3]).unwrap(), Population::Cached(_)));
        assert!(populator.is_made(3));
        assert!(matches!(populator.populate(&[1; 7 * 17]).unwrap(), Population::Fresh(_)));
        assert!(populator.populate(&[]).unwrap().levels[0].is_empty());
        assert!(populator.populate(&[1; 8]).is_err());
        let error = populator.populate(&[0, 1, 4096, 3, 4, 5, 6]).unwrap_err();
        assert_eq!(error.to_string(), "code 4096 is not in the codebook; 0 to 4095 exist");
    }

    /// Sixteen threads at once; each finds its own codes, and a seventeenth holder gets a buffer of its own.
    #[test]
    fn sixteen_threads_share_the_buffers() {
        let populator = Populator::new(4096);
        std::thread::scope(|scope| {
            for thread in 0..16 {
                let populator = &populator;
                scope.spawn(move || {
                    for round in 0..300 {
                        let n_frames = 1 + (thread + round) % 20;
                        let frames: Vec<i32> =
                            (0..n_frames * 7).map(|i| (i * 31 + thread * 97 + round) % 4096).collect();
                        let found = populator.populate(&frames).unwrap();
                        assert_eq!(found.levels.as_slice(), reference(&frames));
                    }
                });
            }
        });
        let held: Vec<_> = (0..SHELF_LEN + 1).map(|_| populator.populate(&[5; 7]).unwrap()).collect();
        assert!(held[..SHELF_LEN].iter().all(|held| matches!(held, Population::Cached(_))));
        assert!(matches!(held[SHELF_LEN], Population::Fresh(_)));
    }
}
