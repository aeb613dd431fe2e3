//! The host shim: fake CUDA libraries that run every `.cu` on the CPU, under the production launch
//! code.
//!
//! It runs the tests whose names contain `cuda`, in the kernels' suites and in the integration tests,
//! so a new test needs no entry here. Most tests run with small cases; the extended step runs all of
//! them.

use super::outcome::Outcome;
use super::tally::Tally;
use crate::process::{cargo, exists, output, run};
use crate::tree;
use anyhow::{Context, Result, bail};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, ffi::OsString, fs};

pub fn check() -> Result<Outcome> {
    let Some(shim) = Shim::build()? else { return Ok(Outcome::Skipped("no .cu files found".into())) };
    run(Command::new("bash").arg(sources().join("selftest.sh")).arg(&shim.libraries))?;
    let mut total = Tally::default();
    // All packages, as in the step `test`: another selection would resolve other features and
    // recompile everything.
    shim.run(&mut cargo(["test", "--workspace", "--lib", "--", "on_cuda", "cuda::"]), "1", &mut total)?;
    shim.run_integration("1", &mut total)?;
    Ok(Outcome::Counted(total.to_string()))
}

/// Runs the cases that take too long for every check.
pub fn check_long() -> Result<Outcome> {
    let Some(shim) = Shim::build()? else { return Ok(Outcome::Skipped("no .cu files found".into())) };
    let mut total = Tally::default();
    shim.run_integration("long", &mut total)?;
    Ok(Outcome::Counted(total.to_string()))
}

struct Shim {
    libraries: PathBuf,
    cache: PathBuf,
}

impl Shim {
    /// Returns `None` without kernels.
    fn build() -> Result<Option<Self>> {
        if tree::sources("cu")?.is_empty() {
            return Ok(None);
        }
        let build = sources().join("build.sh");
        if !build.is_file() {
            bail!("{} is missing", tree::shown(&build));
        }
        if !exists("g++") {
            bail!("g++ is missing; on Debian it is part of build-essential (`.ci/run` installs it)");
        }
        let shim = Self { libraries: tree::target().join("shim"), cache: cache()? };
        run(Command::new("bash").arg(build).arg(&shim.libraries))?;
        Ok(Some(shim))
    }

    /// Runs the integration tests of all packages; work stays pending until something waits for it.
    fn run_integration(&self, cases: &str, total: &mut Tally) -> Result<()> {
        let mut command = cargo(["test", "--workspace", "--test", "*", "--", "cuda"]);
        self.run(command.env("MELISMA_SHIM_LATE", "1"), cases, total)
    }

    fn run(&self, command: &mut Command, cases: &str, total: &mut Tally) -> Result<()> {
        let ranges = self.libraries.join("ranges");
        fs::write(&ranges, "").with_context(|| tree::shown(&ranges))?;
        command
            .env("LD_LIBRARY_PATH", before("LD_LIBRARY_PATH", &self.libraries))
            .env("MELISMA_CUDA_PATH", &self.libraries)
            .env("MELISMA_CACHE_DIR", &self.cache)
            .env("MELISMA_SHIM", cases)
            .env("MELISMA_SHIM_NVTX", ranges)
            .env("REQUIRE_CUDA", "1");
        total.run(command)
    }
}

fn sources() -> PathBuf {
    tree::root().join("crates/melisma-kernels/shim")
}

/// Returns the folder for compiled kernels, which the launch code finds by their sources. What else they depend on is in
/// the folder's name: the shim, the compiler and the processor. Folders of others are removed.
fn cache() -> Result<PathBuf> {
    let mut facts = output(Command::new("g++").arg("--version"))?;
    let processor = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    facts.extend(processor.lines().find(|line| line.starts_with("flags")));
    for path in tree::files(&sources())? {
        facts += &fs::read_to_string(&path).with_context(|| tree::shown(&path))?;
    }
    let all = tree::target().join("shim-cache");
    let own = all.join(tree::hash(facts.as_bytes()));
    if !own.exists() {
        tree::renew(&all)?;
    }
    Ok(own)
}

/// Returns the search path in `variable`, with `folder` prepended.
fn before(variable: &str, folder: &Path) -> OsString {
    let mut path = folder.as_os_str().to_owned();
    if let Some(rest) = env::var_os(variable).filter(|rest| !rest.is_empty()) {
        path.push(":");
        path.push(rest);
    }
    path
}
