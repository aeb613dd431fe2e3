//! Steps in processes of their own beside the others: much of a check keeps one core busy, or none, as a build of few
//! crates and a browser do.

use super::Step;
use crate::tree;
use anyhow::{Context, Result};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::{env, fs};

/// The steps that only compile. They have a target folder of their own, because cargo locks the one that it builds in.
const COMPILED: [&str; 4] = ["clippy", "docs", "features", "aarch64"];

/// The steps that run programs. Only they use `target/venv`: one after the other, because two might install into it.
const RUN: [&str; 6] = ["nvrtc", "dataset", "python", "page", "guide", "shim"];

/// Steps that run one after the other, in a process of their own.
pub struct Beside {
    child: Child,
    log: PathBuf,
    names: Vec<&'static str>,
}

/// Returns whether a step can run beside others.
pub fn takes(step: &Step) -> bool {
    COMPILED.contains(&step.name) || RUN.contains(&step.name)
}

/// Starts the steps, of which [`takes`] is true, in one process for each kind.
pub fn start(steps: &[&'static Step]) -> Result<Vec<Beside>> {
    let of = |list: &[&str]| steps.iter().map(|step| step.name).filter(|name| list.contains(name)).collect::<Vec<_>>();
    let own = tree::target().join("beside");
    let kinds = [(of(&COMPILED), own.join("log"), Some(own.as_path())), (of(&RUN), own.join("run.log"), None)];
    let kinds = kinds.into_iter().filter(|(names, ..)| !names.is_empty());
    kinds.map(|(names, log, target)| Beside::start(names, log, target)).collect()
}

impl Beside {
    /// Starts the steps, with `target` as their target folder; what they print is kept until [`Beside::finish`].
    fn start(names: Vec<&'static str>, log: PathBuf, target: Option<&Path>) -> Result<Self> {
        if let Some(folder) = log.parent() {
            fs::create_dir_all(folder).with_context(|| tree::shown(folder))?;
        }
        let output = File::create(&log).with_context(|| tree::shown(&log))?;
        let mut command = Command::new(env::current_exe().context("the path of this program")?);
        command.arg("check").args(&names);
        if let Some(folder) = target {
            command.env("CARGO_TARGET_DIR", folder);
        }
        let errors = output.try_clone().with_context(|| tree::shown(&log))?;
        let child =
            command.stdout(output).stderr(errors).spawn().context("cannot start the steps beside the others")?;
        println!("beside the other steps: {}", names.join(", "));
        Ok(Self { child, log, names })
    }

    /// Waits for the steps, prints what they printed, and returns their rows of the report.
    pub fn finish(mut self) -> Result<Vec<[String; 5]>> {
        self.child.wait().context("the steps beside the others")?;
        let log = fs::read(&self.log).with_context(|| tree::shown(&self.log))?;
        let log = String::from_utf8_lossy(&log);
        println!("{log}");
        Ok(self.names.iter().map(|name| row(&log, name)).collect())
    }
}

/// Returns the row of the step `name` from its closing line, as in `== docs: 22.1 s (40.0 s of CPU) ok: 352 public items`.
fn row(log: &str, name: &str) -> [String; 5] {
    let closing = |line: &'_ str| {
        let (seconds, rest) = line.strip_prefix(&format!("== {name}: "))?.split_once(" s (")?;
        let (cpu, said) = rest.split_once(" s of CPU) ")?;
        let (word, detail) = said.split_once(": ").unwrap_or((said, ""));
        Some([name, seconds, cpu, word, detail].map(str::to_owned))
    };
    log.lines()
        .filter_map(closing)
        .next_back()
        .unwrap_or_else(|| [name, "", "", "FAILED", "it did not end"].map(str::to_owned))
}

#[cfg(test)]
mod tests {
    use super::super::Tier;
    use super::*;

    #[test]
    fn a_step_beside_the_others_has_its_row() {
        let log = "\n== docs: pages, 3 s (long)\n== docs: 22.1 s (40.0 s of CPU) ok: 352 items: all\n\
                   == clippy: lints\n== clippy: 3.0 s (1.5 s of CPU) ok\n";
        assert_eq!(row(log, "docs"), ["docs", "22.1", "40.0", "ok", "352 items: all"]);
        assert_eq!(row(log, "clippy"), ["clippy", "3.0", "1.5", "ok", ""]);
        assert_eq!(row("== clippy: lints\n", "clippy")[3], "FAILED");
    }

    #[test]
    fn only_steps_of_every_check_run_beside_the_others() {
        for name in COMPILED.iter().chain(&RUN) {
            let is_it = |step: &Step| step.name == *name && step.tier == Tier::Always;
            assert!(super::super::STEPS.iter().any(is_it), "{name}");
        }
    }
}
