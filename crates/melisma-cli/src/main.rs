//! The command line of Melisma.
#![forbid(unsafe_code)]

mod args;
mod bench;
mod build;
mod cache;
mod codec;
mod completions;
mod dataset;
mod decode;
mod demo;
mod doctor;
mod encode;
mod failure;
mod input;
mod interrupt;
mod json_output;
mod mel;
mod optimize;
mod pack;
mod progress;
mod remedy;
mod run;
mod serve;
mod session;
mod settings;
mod show;
mod speak;
mod synth;
mod systemd;
mod terminal;
mod trace_file;
mod unpack;
mod variable;

use std::process::ExitCode;

use args::{Cli, Command};
use melisma::Result;
use melisma::runtime::memory;
use session::Session;

fn main() -> ExitCode {
    // Measured before anything is allocated.
    let _ = memory::program_bytes();
    if let Err(error) = interrupt::survive_large_files() {
        return failure::report(&error);
    }
    let cli = match args::parse() {
        Ok(cli) => cli,
        Err(code) => return code,
    };
    // A worker's stdout belongs to the process that started it.
    if cli.globals.json && !cli.command.as_ref().is_some_and(Command::is_worker) {
        json_output::enable();
    }
    match run(cli).and_then(|code| json_output::print(None).map(|()| code)) {
        Ok(code) => code,
        Err(error) => failure::report(&error),
    }
}

fn run(cli: Cli) -> Result<ExitCode> {
    let session = Session::open(&cli)?;
    if !cli.command.as_ref().is_some_and(|command| command.is_worker() || command.notes_later()) {
        session.note_unread_config();
        session.warn_of_misspelt_variables();
    }
    let outcome = match cli.command {
        _ if cli.globals.print_config => show::config(&session),
        Some(Command::Demo(args)) => demo::run(&session, &args),
        Some(Command::Speak(args)) => speak::run(&session, &args),
        Some(Command::Decode(args)) => decode::run(&session, &args),
        Some(Command::Encode(args)) => encode::run(&session, &args),
        Some(Command::Synth(args)) => synth::run(&session, &args),
        Some(Command::Bench(args)) => bench::run(&session, &args),
        Some(Command::Mel(args)) => mel::run(&session, &args),
        Some(Command::Dataset(args)) => dataset::run(&session, &args),
        Some(Command::Pack(args)) => pack::run(&session, &args),
        Some(Command::Unpack(args)) => unpack::run(&session, &args),
        Some(Command::Optimize(args)) => optimize::run(&session, &args),
        Some(Command::OptimizeWorker { spec }) => optimize::work(&spec),
        Some(Command::Cache(args)) => cache::run(&session, &args),
        Some(Command::Run(args)) => run::run(&session, &args),
        Some(Command::Serve(args)) => serve::run(&session, &args),
        Some(Command::Doctor) => doctor::run(&session),
        Some(Command::Completions { shell }) => completions::run(&session, shell),
        None => Err(melisma::Error::invalid("no command was given").with_hint("`melisma --help` lists them")),
    };
    let finished = session.finish();
    outcome.and(finished).map(|()| session.exit_code())
}
