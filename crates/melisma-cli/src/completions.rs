//! `melisma completions SHELL`.

use clap::CommandFactory;
use clap_complete::{Shell, generate};
use melisma::Result;
use serde_json::json;

use crate::args::Cli;
use crate::session::Session;

pub fn run(session: &Session, shell: Shell) -> Result<()> {
    let mut script = Vec::new();
    generate(shell, &mut Cli::command(), "melisma", &mut script);
    let script = String::from_utf8_lossy(&script).into_owned();
    let json = json!({ "shell": shell.to_string(), "script": script });
    session.print_asked(session.config.device.value, || script, json)
}
