//! Checks, golden files, benches, pictures, the site of the guide, releases and GPU packing: `cargo xtask check`,
//! `golden`, `bench`, `picture`, `site`, `dist`, `cuda`.
#![forbid(unsafe_code)]

mod bench;
mod check;
mod cuda;
mod dist;
mod executable;
mod front;
mod golden;
mod process;
mod site;
#[allow(dead_code, reason = "the library uses all of it")]
#[path = "../../crates/melisma/src/text/table.rs"]
mod table;
mod toolchain;
mod tree;
mod venv;

use clap::{Parser, Subcommand};
use std::process::ExitCode;

#[derive(Parser)]
#[command(name = "cargo xtask", about = "Checks, golden files, benches, pictures, the site, releases and GPU packing")]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Run the checks, all of them or the named ones
    Check(check::Arguments),
    /// Rewrite golden/MANIFEST.sha256 from the files under golden/
    Golden,
    /// Run `melisma bench`, record the figures or compare them with a record
    Bench(bench::Arguments),
    /// Draw the README's pictures: the server's page and the report of the demo
    Picture,
    /// Write the guide and the pages that it leads to as a site, into target/site
    Site,
    /// Make what users install: programs, wheels, a container's context, man pages, licences, checksums
    Dist(dist::Arguments),
    /// Pack test and bench binaries for a machine with a GPU
    Cuda(cuda::Arguments),
}

fn main() -> ExitCode {
    let result = match Arguments::parse().command {
        Command::Check(arguments) => check::run(&arguments),
        Command::Golden => golden::write(),
        Command::Bench(arguments) => bench::run(&arguments),
        Command::Picture => check::page::draw(),
        Command::Site => site::run(),
        Command::Dist(arguments) => dist::run(&arguments),
        Command::Cuda(arguments) => cuda::run(&arguments),
    };
    result.unwrap_or_else(|error| {
        eprintln!("error: {error:#}");
        ExitCode::from(2)
    })
}
