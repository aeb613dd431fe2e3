//! Finds the commit of a release, for `--version` and the server: `MELISMA_COMMIT`, or that of the Git repository
//! around this package. Without either, the program is built without one. Other builds do not look, so that a commit
//! compiles nothing again.

use std::process::Command;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-env-changed=MELISMA_COMMIT");
    let is_release = std::env::var("PROFILE").is_ok_and(|profile| profile == "release");
    if !is_release || std::env::var_os("MELISMA_COMMIT").is_some() || git(&["ls-files", "build.rs"]).is_none() {
        return;
    }
    // Every commit and every checkout adds a line to this file.
    if let Some(log) =
        git(&["rev-parse", "--git-path", "logs/HEAD"]).filter(|log| std::fs::exists(log).unwrap_or(false))
    {
        println!("cargo::rerun-if-changed={log}");
    }
    if let Some(commit) = git(&["rev-parse", "--short=12", "HEAD"]) {
        println!("cargo::rustc-env=MELISMA_COMMIT={commit}");
    }
}

/// Returns what `git` prints in the folder of this package, unless it fails or prints nothing.
fn git(args: &[&str]) -> Option<String> {
    let ran = Command::new("git").args(args).output().ok().filter(|ran| ran.status.success())?;
    let text = String::from_utf8(ran.stdout).ok()?.trim().to_owned();
    (!text.is_empty()).then_some(text)
}
