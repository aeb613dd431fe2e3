//! README.md and the guide, `docs/guide`: their shell and Python blocks run, page by page; their lines of Rust are those
//! of tests; options and messages exist; the site is whole.
//!
//! A page's blocks run in their order in one folder that is new, as a reader would run them in a clone. A block below
//! `<!-- needs: model -->`, or one of the other [`block::NEEDS`], is read and counted, and runs only in [`check_long`].

mod block;
mod message;
mod model;
mod notebook;
mod option;
mod script;

use super::outcome::Outcome;
use super::python;
use crate::process::works;
use crate::{front, site, tree, venv};
use anyhow::{Context, Result, bail};
use block::{Block, Language};
use std::collections::BTreeMap;
use std::fs;
use std::process::Command;
use std::sync::Mutex;

/// Where the pages are, beside [`FRONT`].
pub const FOLDER: &str = "docs/guide";
const FRONT: &str = "README.md";
/// Packages of the blocks that need peers or models, and of notebooks.
const PEERS: &[&str] = &[
    "numpy==2.4.6",
    "torch==2.15.0",
    "safetensors==0.8.0",
    "transformers==5.22.2",
    "openai==3.49.0",
    "websockets==17.4",
    "ipykernel==7.4.0",
    "matplotlib==3.11.2",
    "nbclient==0.11.0",
    "nbformat==5.11.1",
];
/// The image of `docs/running.md`.
const IMAGE: &str = "melisma";
/// Pages that run at the same time: some of them wait for a server.
const N_AT_ONCE: usize = 4;

struct Page {
    /// From the root.
    path: String,
    text: String,
    blocks: Vec<Block>,
}

pub fn check() -> Result<Outcome> {
    let pages = pages()?;
    let package = python::assemble()?;
    let python = venv::python(&python::PACKAGES[..1])?;
    let setup = script::Setup { program: front::program(), python, package, met: Vec::new(), stand_ins: None };
    let commands = option::Commands::read(&setup.program)?;
    for page in &pages {
        commands.check(page)?;
        message::check(page)?;
        check_rust(page)?;
    }
    run(&pages, &setup)?;
    let site = site::write()?;
    for file in notebook::all()? {
        let n = notebook::check(&file)?;
        println!("{}: {n} cells of code, without outputs; `guide-long` runs them", tree::shown(&file));
    }
    Ok(Outcome::Counted(format!("{}; {site}", summary(&pages, &setup.met))))
}

/// Runs the pages that have blocks for packages, models and devices, with stand-ins for the models, and the notebooks.
pub fn check_long() -> Result<Outcome> {
    let met = met();
    let mut pages = pages()?;
    pages.retain(|page| page.blocks.iter().any(|block| block.need.is_some_and(|need| met.contains(&need))));
    let package = python::assemble()?;
    let python = venv::python_in("guide-venv", PEERS)?;
    let mut setup = script::Setup { program: front::program(), python, package, met, stand_ins: None };
    let models = tree::target().join("check/guide-models");
    let mut command = Command::new(&setup.python);
    setup.set(&mut command, &models)?;
    setup.stand_ins = Some(model::StandIns::write(command, models)?);
    run(&pages, &setup)?;
    let mut n_cells = 0;
    for file in notebook::all()? {
        n_cells += notebook::check(&file)?;
        notebook::execute(&file, &setup, &tree::target().join("check/guide/notebook"))?;
    }
    Ok(Outcome::Counted(format!("{}; {n_cells} cells of notebooks ran", summary(&pages, &setup.met))))
}

/// Returns the needs that [`check_long`] meets: a GPU that is there, and Docker with the image that the guide runs.
fn met() -> Vec<&'static str> {
    let mut met = vec![block::PEERS, block::MODEL];
    if works(&mut Command::new("nvidia-smi")) {
        met.push(block::GPU);
    }
    if works(Command::new("docker").args(["image", "inspect", IMAGE])) {
        met.push(block::DOCKER);
    }
    met
}

/// Fails where the lines of a block of Rust are not in a source of the workspace, which its tests run.
fn check_rust(page: &Page) -> Result<()> {
    for block in page.blocks.iter().filter(|block| block.language == Language::Rust) {
        let lines = |text: &str| text.lines().map(str::trim).collect::<Vec<_>>().join("\n");
        let wanted = lines(&block.text);
        let mut sources = tree::sources("rs")?.into_iter().filter_map(|path| fs::read_to_string(path).ok());
        if !sources.any(|source| lines(&source).contains(&wanted)) {
            bail!("{}:{}: no source has these lines of Rust", page.path, block.line);
        }
    }
    Ok(())
}

fn pages() -> Result<Vec<Page>> {
    let mut pages = Vec::new();
    for file in std::iter::once(tree::root().join(FRONT)).chain(tree::files(&tree::root().join(FOLDER))?) {
        if file.extension().is_some_and(|suffix| suffix == "md") {
            let path = tree::shown(&file);
            let text = fs::read_to_string(&file).with_context(|| path.clone())?;
            let blocks = block::blocks(&text).with_context(|| path.clone())?;
            pages.push(Page { path, text, blocks });
        }
    }
    Ok(pages)
}

/// Runs every page, and names all blocks that fail.
fn run(pages: &[Page], setup: &script::Setup) -> Result<()> {
    let folder = tree::target().join("check/guide");
    tree::renew(&folder)?;
    let waiting = Mutex::new(pages.iter());
    let failures = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..N_AT_ONCE.min(pages.len()) {
            scope.spawn(|| {
                while let Some(page) = waiting.lock().ok().and_then(|mut pages| pages.next()) {
                    let failure = setup.run(page, &folder.join(page.path.replace('/', "-"))).err();
                    println!("{}: {}", page.path, if failure.is_some() { "FAILED" } else { "ok" });
                    if let (Some(failure), Ok(mut failures)) = (failure, failures.lock()) {
                        failures.push(format!("{failure:#}"));
                    }
                }
            });
        }
    });
    let failures = failures.into_inner().unwrap_or_default();
    match failures.first() {
        None => Ok(()),
        Some(first) => bail!("{} pages fail; {first}", failures.len()),
    }
}

fn summary(pages: &[Page], met: &[&str]) -> String {
    let code = || pages.iter().flat_map(|page| &page.blocks).filter(|block| block.is_run());
    let unmet = |block: &Block| block.need.filter(|need| !met.contains(need));
    let mut left_out: BTreeMap<&str, usize> = BTreeMap::new();
    for need in code().filter_map(unmet) {
        *left_out.entry(need).or_default() += 1;
    }
    let n_run = code().filter(|block| unmet(block).is_none()).count();
    let mut text = format!("{} pages, {n_run} blocks ran", pages.len());
    for (need, n) in left_out {
        text += &format!(", {n} SKIPPED: needs {need}");
    }
    text
}
