//! Every test of the workspace: the short ones in one step, the long ones in another.

use super::outcome::Outcome;
use super::tally::{Tally, run_tests};
use crate::process::cargo;
use anyhow::Result;

pub fn check() -> Result<Outcome> {
    run_tests(&mut cargo(["test", "--workspace", "--no-fail-fast"]))
}

/// The tests whose streams must not be late run one after the other, because each takes the whole machine.
const TIMED: &str = "serve_load::";

pub fn check_long() -> Result<Outcome> {
    let test = ["test", "--workspace", "--lib", "--tests", "--no-fail-fast", "--", "--ignored"];
    let mut total = Tally::default();
    let most = total.run(cargo(test).args(["--skip", TIMED]));
    let timed = total.run(cargo(test).args([TIMED, "--test-threads", "1"]));
    most.and(timed)?;
    Ok(Outcome::Counted(total.to_string()))
}

#[cfg(test)]
mod tests {
    use crate::tree;
    use std::fs;
    use std::path::PathBuf;

    /// Returns the Rust files below the `tests` folders of the crates.
    fn sources() -> Vec<PathBuf> {
        let mut sources = tree::sources("rs").unwrap();
        sources.retain(|path| tree::shown(path).split('/').nth(2) == Some("tests"));
        sources
    }

    #[test]
    fn every_integration_test_is_a_module_of_its_program() {
        let mut found = sources();
        found.retain(|path| path.parent().is_some_and(|folder| folder.ends_with("integration")));
        assert!(found.len() > 60, "{found:?}");
        for path in found.iter().filter(|path| !path.ends_with("main.rs")) {
            let main = fs::read_to_string(path.with_file_name("main.rs")).unwrap();
            let module = format!("mod {};", path.file_stem().unwrap().to_string_lossy());
            assert!(main.lines().any(|line| line == module), "{}: nothing runs it", tree::shown(path));
        }
    }

    #[test]
    fn a_program_of_its_own_says_why() {
        let is_program = |path: &&PathBuf| {
            let parts = tree::shown(path).split('/').count();
            parts == 4 || (parts == 5 && path.ends_with("main.rs") && !path.ends_with("integration/main.rs"))
        };
        for path in sources().iter().filter(is_program) {
            let text = fs::read_to_string(path).unwrap();
            assert!(text.contains("A program of its own, because"), "{}", tree::shown(path));
        }
    }
}
