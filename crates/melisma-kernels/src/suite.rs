//! One suite of cases for every device: `suite!(case, ...)` makes one test per case for each
//! instruction set of the architecture and for CUDA. A missing device prints SKIPPED; with `REQUIRE_CUDA=1` a missing
//! GPU fails the test.

use crate::{Budget, Cpu, Device, Element, Isa, Level, Queue, Tensor};

/// The device and queue that a case runs on.
pub(crate) struct Bench {
    pub(crate) device: Device,
    pub(crate) queue: Queue,
    pub(crate) budget: Budget,
}

impl Bench {
    pub(crate) fn new(device: Device) -> Self {
        let budget = Budget::unlimited();
        let queue = device.queue(&budget).expect("a queue");
        Self { device, queue, budget }
    }

    /// Returns a copy of `values` in the device's memory.
    pub(crate) fn tensor<T: Element>(&self, values: &[T]) -> Tensor {
        let host = Tensor::from_slice(&self.budget, values, &[values.len()]).expect("host memory");
        host.to(&self.queue, &self.budget).expect("device memory")
    }
}

pub(crate) fn with_isa(level: Level, case: fn(&Bench)) {
    match Isa::new(level) {
        Some(isa) => case(&Bench::new(Device::Cpu(Cpu { isa, threads: 2 }))),
        None => skip(format!("this CPU has no {}", level.name())),
    }
}

/// Says that the test that runs on this thread does not test: past the harness, which hides what a test
/// prints. `cargo xtask check` counts these lines.
pub(crate) fn skip(why: impl std::fmt::Display) {
    use std::io::Write;
    let (thread, why) = (std::thread::current(), why.to_string());
    let name = thread.name().unwrap_or("a test");
    let _ = writeln!(std::io::stdout(), "SKIPPED: {name}: {}", why.lines().next().unwrap_or_default());
}

pub(crate) fn with_cuda(case: fn(&Bench)) {
    let required = std::env::var("REQUIRE_CUDA").is_ok_and(|value| value == "1");
    match Device::cuda(0) {
        Ok(device) => case(&Bench::new(device)),
        Err(error) if required => panic!("REQUIRE_CUDA=1: {error}"),
        Err(error) => skip(error),
    }
}

macro_rules! suite {
    ($($case:ident),+ $(,)?) => {
        $crate::suite::cpu_suite!($($case),+);
        mod on_cuda { $(#[test] fn $case() { $crate::suite::with_cuda(super::$case) })+ }
    };
}
pub(crate) use suite;

/// Like [`suite!`], for CPU-only kernels.
macro_rules! cpu_suite {
    ($($case:ident),+ $(,)?) => {
        mod on_scalar { $(#[test] fn $case() { $crate::suite::with_isa($crate::Level::Scalar, super::$case) })+ }
        #[cfg(target_arch = "x86_64")]
        mod on_avx2 { $(#[test] fn $case() { $crate::suite::with_isa($crate::Level::Avx2, super::$case) })+ }
        #[cfg(target_arch = "x86_64")]
        mod on_avx512 { $(#[test] fn $case() { $crate::suite::with_isa($crate::Level::Avx512, super::$case) })+ }
        #[cfg(target_arch = "aarch64")]
        mod on_neon { $(#[test] fn $case() { $crate::suite::with_isa($crate::Level::Neon, super::$case) })+ }
    };
}
pub(crate) use cpu_suite;
