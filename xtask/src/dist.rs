//! `cargo xtask dist`: what users install, in one folder: the program, wheels, the context of a container's image, man
//! pages and completions, licences, the list of parts and checksums.

mod archive;
mod container;
mod dependency;
mod elf;
mod licence;
mod man;
mod program;
mod release;
mod sbom;
mod target;
mod tool;
mod trial;
mod wheel;

use crate::process::output;
use crate::tree;
use anyhow::{Context, Result};
use dependency::Dependencies;
use release::Release;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use target::Target;
use tool::Tools;

/// Marks a folder as ours, so that it may be emptied before it is filled again.
const MARK: &str = "sbom.cdx.json";
const SUMS: &str = "SHA256SUMS";
/// The shells, and what their systems call the file.
const COMPLETIONS: [(&str, &str); 3] = [("bash", "melisma.bash"), ("zsh", "_melisma"), ("fish", "melisma.fish")];

#[derive(clap::Args)]
pub struct Arguments {
    /// A machine to build for; repeatable, and without it all of them
    #[arg(long = "target", value_name = "ARCH", value_enum)]
    targets: Vec<Target>,
    /// Where to put it
    #[arg(short, long, value_name = "DIR", default_value = "target/publish")]
    output: PathBuf,
    /// Afterwards run programs and wheels on the oldest Debian that can be had, without a toolchain; needs root
    #[arg(long = "try")]
    is_tried: bool,
}

pub fn run(arguments: &Arguments) -> Result<ExitCode> {
    let targets: Vec<_> = Target::ALL
        .into_iter()
        .filter(|target| arguments.targets.is_empty() || arguments.targets.contains(target))
        .collect();
    let release = Release::read()?;
    let tools = Tools::ready(&targets, &release)?;
    let folder = tree::place(&arguments.output, MARK)?;
    fs::create_dir_all(&folder).with_context(|| tree::shown(&folder))?;
    let dependencies = Dependencies::read(&targets)?;
    write(&folder.join(MARK), &sbom::text(&dependencies, &release))?;
    let licences = folder.join("licences.txt");
    write(&licences, &licence::text(&dependencies)?)?;

    let mut programs = Vec::new();
    for target in targets {
        programs.push((target, program::build(&tools, target)?));
    }
    let (man, completions) = (folder.join("man"), folder.join("completions"));
    match programs.iter().find(|(target, _)| target.is_host()) {
        Some((_, program)) => describe(program, &man, &completions, &release)?,
        None => println!("note: no man pages and completions, because no program for this machine was built"),
    }
    let extra: Vec<_> = [&*licences, &man, &completions].into_iter().filter(|path| path.exists()).collect();
    let mut wheels = Vec::new();
    for (target, program) in &programs {
        archive::write(&folder, *target, program, &extra, &release)?;
        wheels.push((*target, wheel::build(&tools, *target, &folder, &licences)?));
    }
    container::write(&folder.join("container"), &programs, &licences)?;
    sum(&folder)?;
    if arguments.is_tried {
        for (target, program) in &programs {
            trial::run_program(*target, program, &release.commit)?;
        }
        for (target, wheel) in &wheels {
            trial::run_wheel(*target, wheel, &release)?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Writes the man pages and completions that `program` describes itself with.
fn describe(program: &Path, man: &Path, completions: &Path, release: &Release) -> Result<()> {
    let edition = man::Edition { version: release.version.to_owned(), date: release.date().to_owned() };
    let help = |words: &[String]| output(Command::new(program).args(words).arg("--help").env("COLUMNS", "110"));
    for page in man::pages(&help, &edition)? {
        write(&man.join(page.file), &page.text)?;
    }
    for (shell, file) in COMPLETIONS {
        write(&completions.join(file), &output(Command::new(program).args(["completions", shell]))?)?;
    }
    Ok(())
}

/// Writes the checksums of all files, and prints them with their sizes.
fn sum(folder: &Path) -> Result<()> {
    let mut text = String::new();
    for file in tree::files(folder)? {
        let name = file.strip_prefix(folder)?.display();
        let bytes = fs::read(&file).with_context(|| tree::shown(&file))?;
        text += &format!("{}  {name}\n", tree::hash(&bytes));
        println!("{:>9} bytes  {name}", bytes.len());
    }
    write(&folder.join(SUMS), &text)?;
    println!("{}: `sha256sum --check {SUMS}` there compares them", tree::shown(folder));
    Ok(())
}

fn write(file: &Path, text: &str) -> Result<()> {
    let parent = file.parent().context("a file without a folder")?;
    fs::create_dir_all(parent).with_context(|| tree::shown(parent))?;
    fs::write(file, text).with_context(|| tree::shown(file))
}
