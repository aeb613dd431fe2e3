//! Runs every example of the library, each in an empty folder.

use super::outcome::Outcome;
use crate::executable::executables;
use crate::process::run;
use crate::tree;
use anyhow::Result;
use std::process::Command;

pub fn check() -> Result<Outcome> {
    // Selects the whole workspace, as for the tests, so that nothing is rebuilt with different
    // features.
    let examples = executables(&["build", "--workspace", "--examples"])?;
    for example in &examples {
        let folder = tree::target().join("check/examples").join(&example.name);
        tree::renew(&folder)?;
        run(Command::new(&example.path).current_dir(&folder))?;
    }
    Ok(Outcome::Counted(format!("{} examples", examples.len())))
}
