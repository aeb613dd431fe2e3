//! The tests of the kernels on 64-bit Arm, in an emulator.

use super::aarch64::{LINUX, missing_library};
use super::outcome::Outcome;
use super::tally::run_tests;
use crate::process::{cargo, find};
use anyhow::Result;
use std::path::Path;

/// The C library of Debian's packages, for programs and their linker.
const SYSROOT: &str = "/usr/aarch64-linux-gnu";

pub fn check() -> Result<Outcome> {
    let is_there = [
        ("qemu-user", find("qemu-aarch64").is_some()),
        ("gcc-aarch64-linux-gnu", find("aarch64-linux-gnu-gcc").is_some()),
        ("libc6-dev-arm64-cross", Path::new(SYSROOT).is_dir()),
    ];
    if let Some((package, _)) = is_there.iter().find(|(_, is_there)| !is_there) {
        return Ok(Outcome::Skipped(format!("the package {package} of Debian is not installed")));
    }
    if let Some(skipped) = missing_library(LINUX) {
        return Ok(skipped);
    }
    let skipped = [
        "on_cuda",
        // Slow in an emulator; the tests that compare all instruction sets run portable code too.
        "on_scalar",
        "sine_is_accurate",
        // QEMU applies no limits.
        "memory_is_limited_to_what_was_said_and_to_what_is_allowed",
    ];
    run_tests(
        cargo(["test", "-p", "melisma-kernels", "--lib", "--target", LINUX, "--"])
            .args(skipped.into_iter().flat_map(|name| ["--skip", name]))
            .env("CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER", "aarch64-linux-gnu-gcc")
            .env("CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_RUNNER", format!("qemu-aarch64 -L {SYSROOT}"))
            .env("CC_aarch64_unknown_linux_gnu", "aarch64-linux-gnu-gcc"),
    )
}
