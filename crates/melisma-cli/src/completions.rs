//! `melisma completions SHELL`.

use clap::CommandFactory;
use clap_complete::{Shell, generate};
use melisma::Result;

use crate::args::Cli;
use crate::session;

pub fn run(shell: Shell) -> Result<()> {
    let mut script = Vec::new();
    generate(shell, &mut Cli::command(), "melisma", &mut script);
    session::print(&String::from_utf8_lossy(&script))
}
