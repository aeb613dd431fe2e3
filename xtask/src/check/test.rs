//! Every test of the workspace: the short ones in one step, the long ones in another.

use super::outcome::Outcome;
use super::tally::run_tests;
use crate::process::cargo;
use anyhow::Result;

pub fn check() -> Result<Outcome> {
    run_tests(&mut cargo(["test", "--workspace", "--no-fail-fast"]))
}

pub fn check_long() -> Result<Outcome> {
    run_tests(&mut cargo(["test", "--workspace", "--lib", "--tests", "--no-fail-fast", "--", "--ignored"]))
}
