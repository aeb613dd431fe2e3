//! How the time of some work grows with its size.

use melisma_kernels::device::ceiling::thread_seconds;

/// Checks that `work(8 * n)` takes less than 16 times as long as `work(n)`, where the square would take
/// 64 times. It counts this thread's own time, so that other programs do not matter; an attempt may be
/// disturbed, but not each.
pub(crate) fn check_linear(n: usize, mut work: impl FnMut(usize)) {
    let mut seconds = |n| {
        let begin = thread_seconds();
        work(n);
        thread_seconds() - begin
    };
    let factors: Vec<f64> = (0..5).map(|_| seconds(8 * n) / seconds(n)).take_while(|factor| *factor >= 16.0).collect();
    assert!(factors.len() < 5, "8 times the size, {factors:?} times the time");
}
