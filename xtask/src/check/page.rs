//! The server's page in a browser: Playwright with the system's Chromium, in `target/page`.

use super::outcome::Outcome;
use crate::process::{exists, find, output, run};
use crate::{front, tree};
use anyhow::{Context, Result};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

const CHROMIUM: &[&str] = &["chromium", "chromium-browser", "google-chrome"];
/// The first version of Node.js whose test runner has what the tests use.
const NODE: u32 = 20;

pub fn check() -> Result<Outcome> {
    run_tests("test.js")
}

pub fn check_long() -> Result<Outcome> {
    run_tests("long.js")
}

fn run_tests(suffix: &str) -> Result<Outcome> {
    let setup = match Setup::prepare()? {
        Ok(setup) => setup,
        Err(missing) => return Ok(Outcome::Skipped(missing)),
    };
    let mut files: Vec<_> = tree::files(&setup.folder)?;
    let is_test = |name: &str| name.ends_with(&format!(".{suffix}"));
    files.retain(|path| path.parent() == Some(&*setup.folder) && is_test(&path.to_string_lossy()));
    // One process, because the files share one set-up.
    let import = |path: &PathBuf| format!("import \"{}\";\n", path.display());
    let all = setup.folder.join(format!("all-{suffix}"));
    fs::write(&all, files.iter().map(import).collect::<String>()).with_context(|| tree::shown(&all))?;
    run(setup.node().args(["--test", "--test-force-exit", "--test-reporter=spec"]).arg(&all))?;
    Ok(Outcome::Counted(format!("{} files of tests", files.len())))
}

/// Draws the README's pictures of the page and of the report into `docs`.
pub fn draw() -> Result<ExitCode> {
    let setup = Setup::prepare()?.map_err(anyhow::Error::msg)?;
    run(setup.node().arg("picture.js").arg(tree::root().join("docs")))?;
    Ok(ExitCode::SUCCESS)
}

/// A copy of the tests with their packages, the program and a browser.
struct Setup {
    folder: PathBuf,
    chromium: PathBuf,
}

impl Setup {
    /// Prepares the copy; the inner error says what this machine lacks.
    fn prepare() -> Result<Result<Self, String>> {
        // Playwright wants the full path.
        let Some(chromium) = CHROMIUM.iter().find_map(|name| find(name)) else {
            return Ok(Err("no Chromium; `.ci/run` installs it on Debian".into()));
        };
        if !has_node() || !exists("npm") {
            return Ok(Err(format!("no Node.js {NODE} or newer with npm; `.ci/run` installs it on Debian")));
        }
        front::build()?;
        let folder = tree::target().join("page");
        copy(&tree::root().join("crates/melisma-server/web-tests"), &folder)?;
        run(Command::new("npm").args(["ci", "--ignore-scripts", "--no-audit", "--no-fund"]).current_dir(&folder))
            .context("npm packages could not be installed; is the registry reachable?")?;
        Ok(Ok(Self { folder, chromium }))
    }

    fn node(&self) -> Command {
        let mut command = Command::new("node");
        command.current_dir(&self.folder).env("MELISMA", front::program()).env("CHROMIUM", &self.chromium);
        command
    }
}

fn has_node() -> bool {
    let version = output(Command::new("node").arg("--version")).unwrap_or_default();
    version
        .trim_start_matches('v')
        .split('.')
        .next()
        .and_then(|major| major.parse().ok())
        .is_some_and(|n: u32| n >= NODE)
}

/// Copies the tests; packages that are installed already stay.
fn copy(from: &Path, to: &Path) -> Result<()> {
    fs::create_dir_all(to).with_context(|| tree::shown(to))?;
    for path in tree::files(from)? {
        if let Some(name) = path.file_name() {
            fs::copy(&path, to.join(name)).with_context(|| tree::shown(&path))?;
        }
    }
    Ok(())
}
