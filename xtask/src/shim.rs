//! The host shim: fake CUDA libraries that run every `.cu` on the CPU, under the production launch code.

use crate::check::Outcome;
use crate::process::{cargo, exists, run};
use crate::{toolchain, tree};
use anyhow::{Context, Result, bail};
use std::process::Command;
use std::{env, ffi::OsString, fs, path::Path};

pub fn check() -> Result<Outcome> {
    if tree::sources("cu")?.is_empty() {
        return Ok(Outcome::Skipped("there is no .cu file yet".into()));
    }
    let sources = tree::root().join("crates/melisma-kernels/shim");
    let [build, selftest] = ["build.sh", "selftest.sh"].map(|script| sources.join(script));
    if let Some(missing) = [&build, &selftest].into_iter().find(|script| !script.is_file()) {
        bail!("{} is missing", tree::shown(missing));
    }
    if !exists("g++") {
        bail!("g++ is missing; on Debian it is part of build-essential (`.ci/run` installs it)");
    }
    let libraries = tree::target().join("shim");
    let cache = tree::target().join("shim-cache");
    if cache.exists() {
        fs::remove_dir_all(&cache).with_context(|| tree::shown(&cache))?;
    }
    run(Command::new("bash").arg(build).arg(&libraries))?;
    run(Command::new("bash").arg(selftest))?;
    let on_shim = |mut command: Command| {
        toolchain::run_tests(
            command
                .env("LD_LIBRARY_PATH", before("LD_LIBRARY_PATH", &libraries))
                .env("MELISMA_CUDA_PATH", &libraries)
                .env("MELISMA_CACHE_DIR", &cache)
                .env("MELISMA_SHIM", "1")
                .env("MELISMA_SHIM_NVTX", libraries.join("ranges"))
                .env("REQUIRE_CUDA", "1"),
        )
    };
    fs::write(libraries.join("ranges"), "").with_context(|| tree::shown(&libraries))?;
    on_shim(cargo(["test", "-p", "melisma", "--test", "nvtx"]))?;
    on_shim(cargo(["test", "-p", "melisma-kernels", "--lib", "--", "on_cuda", "cuda::"]))
}

/// The search path in `variable` with `folder` put before it.
fn before(variable: &str, folder: &Path) -> OsString {
    let mut path = folder.as_os_str().to_owned();
    if let Some(rest) = env::var_os(variable).filter(|rest| !rest.is_empty()) {
        path.push(":");
        path.push(rest);
    }
    path
}
