//! Notebooks of the guide: in the repository without outputs; all of their cells run, in their order.

use super::script::Setup;
use crate::process::run;
use crate::tree;
use anyhow::{Context, Result, ensure};
use serde::Deserialize;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Runs every cell where the notebook is, as Jupyter does; a cell that fails ends it with its traceback.
const RUN: &str = "\
import os, sys, nbformat, nbclient
book = nbformat.read(sys.argv[1], as_version=4)
nbformat.validate(book)
where = {'metadata': {'path': os.path.dirname(sys.argv[1])}}
nbclient.NotebookClient(book, timeout=600, kernel_name='python3', resources=where).execute()
";

#[derive(Deserialize)]
struct Notebook {
    cells: Vec<Cell>,
}

#[derive(Deserialize)]
struct Cell {
    cell_type: String,
    id: String,
    #[serde(default)]
    outputs: Vec<serde_json::Value>,
    #[serde(default)]
    execution_count: Option<u64>,
}

/// Returns the notebooks of the guide.
pub fn all() -> Result<Vec<PathBuf>> {
    let mut files = tree::files(&tree::root().join(super::FOLDER))?;
    files.retain(|path| path.extension().is_some_and(|suffix| suffix == "ipynb"));
    Ok(files)
}

/// Fails where a notebook has outputs, and returns how many cells of code it has.
pub fn check(file: &Path) -> Result<usize> {
    let text = fs::read_to_string(file).with_context(|| tree::shown(file))?;
    n_cells(&text).with_context(|| tree::shown(file))
}

fn n_cells(text: &str) -> Result<usize> {
    let notebook: Notebook = serde_json::from_str(text).context("not a notebook of version 4.5")?;
    let code: Vec<_> = notebook.cells.iter().filter(|cell| cell.cell_type == "code").collect();
    for cell in &code {
        let is_clear = cell.outputs.is_empty() && cell.execution_count.is_none();
        ensure!(is_clear, "the cell `{}` has outputs; clear those of all cells and save it", cell.id);
    }
    Ok(code.len())
}

/// Runs a notebook with `setup`, and settings below `home`.
pub fn execute(file: &Path, setup: &Setup, home: &Path) -> Result<()> {
    fs::create_dir_all(home).with_context(|| tree::shown(home))?;
    let mut command = Command::new(&setup.python);
    command.args(["-c", RUN]).arg(file);
    setup.set(&mut command, home)?;
    command.env_remove("MPLBACKEND").env("MPLCONFIGDIR", home).current_dir(home);
    run(&mut command).with_context(|| tree::shown(file))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_of_code_are_counted_and_have_no_outputs() {
        let notebook = |cell: &str| {
            format!(
                r##"{{"cells": [{{"cell_type": "markdown", "id": "a", "source": ["# A"]}}, {cell}], "nbformat": 4}}"##
            )
        };
        let code =
            |fields: &str| notebook(&format!(r#"{{"cell_type": "code", "id": "b", "source": ["1"], {fields}}}"#));
        assert_eq!(n_cells(&code(r#""outputs": [], "execution_count": null"#)).unwrap(), 1);
        for fields in [
            r#""outputs": [{"output_type": "stream"}], "execution_count": null"#,
            r#""outputs": [], "execution_count": 3"#,
        ] {
            let refusal = n_cells(&code(fields)).unwrap_err().to_string();
            assert!(refusal.starts_with("the cell `b` has outputs"), "{refusal}");
        }
        assert!(n_cells("[]").is_err() && n_cells(&notebook("{}")).is_err());
    }

    #[test]
    fn the_guide_has_a_notebook() {
        let n: Vec<_> = all().unwrap().iter().map(|file| check(file).unwrap()).collect();
        assert!(!n.is_empty() && n.iter().all(|n| *n > 5), "{n:?}");
    }
}
