//! The guide, `docs/guide`: its shell and Python blocks run, page by page; its options and messages exist; its site is
//! whole.
//!
//! A page's blocks run in their order in one folder that is new, as a reader would run them in a clone. A block below
//! `<!-- needs: model -->`, or one of the other [`block::NEEDS`], is read and counted, and does not run.

mod block;
mod message;
mod option;
mod script;

use super::outcome::Outcome;
use super::python;
use crate::{front, site, tree, venv};
use anyhow::{Context, Result, bail};
use block::{Block, Language};
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::Mutex;

/// Where the pages are.
pub const FOLDER: &str = "docs/guide";
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
    let setup = script::Setup { program: front::program(), python, package };
    let commands = option::Commands::read(&setup.program)?;
    for page in &pages {
        commands.check(page)?;
        message::check(page)?;
    }
    run(&pages, &setup)?;
    let site = site::write()?;
    Ok(Outcome::Counted(format!("{}; {site}", summary(&pages))))
}

fn pages() -> Result<Vec<Page>> {
    let mut pages = Vec::new();
    for file in tree::files(&tree::root().join(FOLDER))? {
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
                    let name = Path::new(&page.path).file_stem().unwrap_or_default();
                    let failure = setup.run(page, &folder.join(name)).err();
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

fn summary(pages: &[Page]) -> String {
    let code = || pages.iter().flat_map(|page| &page.blocks).filter(|block| block.language != Language::Text);
    let mut left_out: BTreeMap<&str, usize> = BTreeMap::new();
    for need in code().filter_map(|block| block.need) {
        *left_out.entry(need).or_default() += 1;
    }
    let n_run = code().filter(|block| block.need.is_none()).count();
    let mut text = format!("{} pages, {n_run} blocks ran", pages.len());
    for (need, n) in left_out {
        text += &format!(", {n} SKIPPED: needs {need}");
    }
    text
}
