//! Undefined behaviour in `melisma-kernels`.

use super::outcome::Outcome;
use super::tally::run_tests;
use crate::process::works;
use crate::toolchain::nightly;
use anyhow::Result;

pub fn check() -> Result<Outcome> {
    if !works(&mut nightly(["miri", "--version"])) {
        return Ok(Outcome::Skipped("no nightly compiler with the miri component is installed".into()));
    }
    // Miri supports neither CUDA's libraries nor every vector instruction.
    run_tests(
        nightly(["miri", "test", "-p", "melisma-kernels", "--lib", "--", "--skip", "on_cuda", "--skip", "on_avx"])
            .env("MIRIFLAGS", "-Zmiri-disable-isolation")
            .env("MELISMA_ISA", "scalar"),
    )
}
