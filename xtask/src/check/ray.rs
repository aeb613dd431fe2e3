//! Jobs on a Ray cluster of two local nodes, and the job files of Slurm and Kubernetes.

use super::outcome::Outcome;
use super::python;
use crate::process::run;
use crate::{front, tree, venv};
use anyhow::Result;
use std::process::Command;

/// PyYAML, which reads the job files, comes with Ray.
const PACKAGES: &[&str] = &["numpy==2.4.6", "ray[data]==2.60.0"];

pub fn check() -> Result<Outcome> {
    let interpreter = venv::python_in("ray-venv", PACKAGES)?;
    let folder = python::assemble()?;
    let tests = tree::root().join("crates/melisma-py/tests/ray");
    let mut command = Command::new(interpreter);
    command.args(["-m", "unittest", "discover", "--verbose", "--start-directory"]).arg(&tests);
    command.current_dir(&folder).env("PYTHONPATH", &folder).env("PYTHONDONTWRITEBYTECODE", "1");
    // Ray's own figures of use, and bars that nobody watches.
    command.env("RAY_USAGE_STATS_ENABLED", "0").env("RAY_DATA_DISABLE_PROGRESS_BARS", "1");
    run(command.env("MELISMA", front::program()))?;
    Ok(Outcome::Passed)
}
