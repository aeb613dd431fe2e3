//! The library `melisma` without its optional parts: it must build without warnings when all or all
//! but one are left out, and without CUDA the kernels must run on the CPU. The CUDA interfaces exclude
//! each other, and a build with both is refused in one sentence. The packages that use it must build
//! on their own as well.

use super::outcome::Outcome;
use super::tally::Tally;
use crate::process::{cargo, run};
use anyhow::{Context, Result, ensure};
use std::process::Command;

/// One of the optional parts; every check builds with none. The step `cuda12` builds with `cuda-12`.
const SELECTIONS: [&str; 7] = ["builtin", "codecs", "cuda-13", "onnx", "speak", "trace", "voice"];

/// Packages that are built on their own by whoever installs them, so with fewer features of `melisma` than the workspace.
const ALONE: [&str; 2] = ["melisma-py", "melisma-server"];

/// A selection that cannot be built, and what the build says.
const REFUSED: (&str, &str) = ("cuda-12,cuda-13", "the features `cuda-12` and `cuda-13` exclude each other");

/// The unit tests of a server without the built-in voice.
const VOICELESS: [&str; 8] =
    ["test", "--quiet", "-p", "melisma-server", "--lib", "--no-default-features", "--features", "cuda-13"];

/// Tests of a library that has nothing built in.
const MISSING: &str = "a_build_without";
const N_MISSING: u64 = 3;

/// Tests of the kernels that are quick without optimisation, which is quick to build.
const TESTS: [&str; 3] = ["convert::", "device::", "queue::"];

/// Builds with none of the optional parts, without warnings.
pub fn check() -> Result<Outcome> {
    run(&mut lint(""))?;
    Ok(Outcome::Passed)
}

pub fn check_long() -> Result<Outcome> {
    for features in SELECTIONS {
        run(&mut lint(features))?;
    }
    for package in ALONE {
        run(&mut cargo(["check", "--quiet", "-p", package]))?;
    }
    run(&mut cargo(["check", "--quiet", "-p", "melisma-cli", "--no-default-features"]))?;
    run(&mut cargo(VOICELESS))?;
    let bare = ["test", "--quiet", "-p", "melisma", "--lib", "--no-default-features", "--features", "speak"];
    let mut missing = Tally::default();
    missing.run(cargo(bare).args(["--", MISSING]))?;
    ensure!(missing.passed() >= N_MISSING, "{} tests are called `{MISSING}...`, not {N_MISSING}", missing.passed());
    let (features, sentence) = REFUSED;
    let output = cargo(["check", "--quiet"]).args(selection(features)).output().context("cannot start cargo")?;
    let text = String::from_utf8_lossy(&output.stderr);
    ensure!(!output.status.success(), "the features {features} were built");
    let errors: Vec<&str> = text.lines().filter(|line| line.starts_with("error: melisma")).collect();
    ensure!(matches!(errors[..], [line] if line.contains(sentence)), "the features {features} gave\n{text}");
    let mut tests = cargo(["test", "--quiet", "-p", "melisma-kernels", "--no-default-features"]);
    tests.args(["--config", "profile.dev.package.melisma-kernels.opt-level=0", "--lib"]);
    run(tests.arg("--").args(TESTS).args(["--skip", "on_cuda", "--skip", "large_outputs"]))?;
    Ok(Outcome::Counted(format!(
        "{} selections, 1 refused, {} packages alone, a program and a server without a voice, the CPU without CUDA",
        SELECTIONS.len(),
        ALONE.len()
    )))
}

fn lint(features: &str) -> Command {
    let mut command = cargo(["clippy", "--quiet"]);
    command.args(selection(features)).args(["--", "-D", "warnings"]);
    command
}

fn selection(features: &str) -> [&str; 6] {
    ["-p", "melisma", "--lib", "--no-default-features", "--features", features]
}
