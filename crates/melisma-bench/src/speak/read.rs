//! The rate at which threads read memory.

use std::hint::black_box;
use std::thread;

use super::{Plan, measure};

/// Larger memory is read at the same rate.
const MOST: usize = 1 << 30;
/// Bytes that are read at least between start and end of a thread.
const LEAST: usize = 256 << 20;
const LANES: usize = 16;

/// Measures the bytes per second that `threads` together read from memory of `len` bytes, again and
/// again.
pub(super) fn bandwidth(threads: usize, len: usize) -> f64 {
    let memory: Vec<u64> = (0..len.min(MOST) as u64 / 8).collect();
    let len = size_of_val(&memory[..]);
    let n_times = LEAST.div_ceil(len);
    let measured = measure(Plan { least: 5, ..Plan::default() }, || {
        thread::scope(|scope| {
            for part in memory.chunks(memory.len().div_ceil(threads)) {
                scope.spawn(move || (0..n_times).map(|_| folded(black_box(part))).for_each(|all| _ = black_box(all)));
            }
        });
    });
    (n_times * len) as f64 / measured.median
}

/// Returns a number that depends on all others.
fn folded(numbers: &[u64]) -> u64 {
    let mut lanes = [0; LANES];
    for numbers in numbers.as_chunks::<LANES>().0 {
        for (lane, number) in lanes.iter_mut().zip(numbers) {
            *lane ^= number;
        }
    }
    lanes.iter().fold(0, |all, lane| all ^ lane)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_number_counts_and_takes_time() {
        let mut numbers = vec![0; 3 * LANES];
        for at in [0, LANES, 3 * LANES - 1] {
            numbers[at] ^= 1 << at;
        }
        assert_eq!(folded(&numbers), 1 | 1 << LANES | 1 << (3 * LANES - 1));
        let rate = bandwidth(2, 1 << 20);
        assert!(rate.is_finite() && rate > 0.0, "{rate}");
    }
}
