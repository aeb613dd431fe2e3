//! The measured peak performance of a core, as the ceiling for benches.

use std::time::Instant;

use crate::device::isa::{Isa, Level};

/// Returns the CPU seconds of this thread; 0 where the system does not report them.
pub fn thread_seconds() -> f64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the pointer is valid.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut time) };
    time.tv_sec as f64 + 1e-9 * time.tv_nsec as f64
}

/// Returns the CPU seconds of all threads of this process and of the child processes that it has waited for.
pub fn process_seconds() -> f64 {
    [libc::RUSAGE_SELF, libc::RUSAGE_CHILDREN].into_iter().map(usage_seconds).sum()
}

fn usage_seconds(who: libc::c_int) -> f64 {
    let mut usage = std::mem::MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: the pointer is valid for a whole `rusage`.
    unsafe { libc::getrusage(who, usage.as_mut_ptr()) };
    // SAFETY: all bytes were zeroed before the call, and zero is valid for every field.
    let usage = unsafe { usage.assume_init() };
    let seconds = |time: libc::timeval| time.tv_sec as f64 + 1e-6 * time.tv_usec as f64;
    seconds(usage.ru_utime) + seconds(usage.ru_stime)
}

/// Returns the floating-point operations per second of fused multiply-adds on registers, measured
/// on this thread.
pub fn flops(isa: Isa) -> f64 {
    const ROUNDS: u64 = 2_000_000;
    let (run, flops_per_round): (fn(u64), f64) = match isa.level() {
        #[cfg(target_arch = "x86_64")]
        Level::Avx512 => (x86::avx512, 24.0 * 32.0),
        #[cfg(target_arch = "x86_64")]
        Level::Avx2 => (x86::avx2, 12.0 * 16.0),
        #[cfg(target_arch = "aarch64")]
        Level::Neon => (neon, 12.0 * 16.0),
        _ => (portable, 2.0 * LANES as f64),
    };
    run(ROUNDS / 20);
    let start = Instant::now();
    run(ROUNDS);
    flops_per_round * ROUNDS as f64 / start.elapsed().as_secs_f64()
}

const LANES: usize = 32;

fn portable(rounds: u64) {
    let mut sums = [1f32; LANES];
    let (a, b) = std::hint::black_box((1.000_000_1f32, 1e-9f32));
    for _ in 0..rounds {
        for sum in &mut sums {
            *sum = *sum * a + b;
        }
    }
    std::hint::black_box(sums);
}

/// Independent multiply-adds on registers, enough to hide the latency.
#[cfg(target_arch = "aarch64")]
fn neon(rounds: u64) {
    use crate::device::vector::{Float, Neon};
    // SAFETY: every 64-bit Arm machine has NEON.
    unsafe {
        let mut sums = [Neon::splat(1.0); 12];
        let (a, b) = std::hint::black_box((Neon::splat(1e-9), Neon::splat(1e-9)));
        for _ in 0..rounds {
            for sum in &mut sums {
                *sum = a.mul_add(b, *sum);
            }
        }
        std::hint::black_box(sums);
    }
}

/// Loops of independent multiply-adds on registers, enough to hide the latency.
#[cfg(target_arch = "x86_64")]
mod x86 {
    use std::arch::asm;

    macro_rules! multiply_adds {
        ($rounds:ident, $zero:literal, $register:literal, [$a:literal, $b:literal], [$($sum:literal),+]) => {
            // SAFETY: uses only vector registers, which the C calling convention lets a callee
            // change; the caller holds an `Isa` for the instruction set.
            unsafe {
                asm!(
                    $(concat!($zero, " ", $register, $sum, ", ", $register, $sum, ", ", $register, $sum),)+
                    concat!($zero, " ", $register, $a, ", ", $register, $a, ", ", $register, $a),
                    concat!($zero, " ", $register, $b, ", ", $register, $b, ", ", $register, $b),
                    "2:",
                    $(concat!("vfmadd231ps ", $register, $sum, ", ", $register, $a, ", ", $register, $b),)+
                    "dec rcx",
                    "jnz 2b",
                    inout("rcx") $rounds => _,
                    clobber_abi("C"),
                )
            }
        };
    }

    pub(super) fn avx512(rounds: u64) {
        multiply_adds!(
            rounds,
            "vpxord",
            "zmm",
            [30, 31],
            [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23]
        );
    }

    pub(super) fn avx2(rounds: u64) {
        multiply_adds!(rounds, "vxorps", "ymm", [14, 15], [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_instruction_set_has_a_ceiling() {
        for isa in Isa::available() {
            assert!(flops(isa) > 1e6, "{isa:?}");
        }
    }
}
