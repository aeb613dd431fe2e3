//! Decides what a build or a merge may replace: its own files, and with `-f` a plain file or a
//! dataset. It never replaces an input, or a folder that contains anything else.

use std::collections::BTreeSet;
use std::fs::{DirEntry, Metadata};
use std::path::{Path, PathBuf};

use super::change::Change;
use super::identity::plan_of;
use super::lines::origin::Origin;
use super::paths::Paths;
use super::{COLUMNS, Kind, TOKEN_COLUMNS, journal, npy};
use crate::dataset::failure;
use crate::output::{self, Existing};
use crate::{Error, Remedy, Result};

const CHOOSE: &str = "choose another name, or remove it yourself";

/// Fails if the output would overwrite one of `inputs`.
pub(in crate::dataset) fn spare<'a>(paths: &Paths, inputs: impl IntoIterator<Item = &'a Path>) -> Result<()> {
    let written = [&paths.output, &paths.partial, &paths.journal, &paths.failures].into_iter().chain(&paths.origin);
    let written: Vec<(&PathBuf, PathBuf)> =
        written.filter_map(|path| Some((path, path.canonicalize().ok()?))).collect();
    if written.is_empty() {
        return Ok(());
    }
    for input in inputs {
        let Ok(at) = input.canonicalize() else { continue };
        let Some((path, place)) = written.iter().find(|(_, place)| at.starts_with(place)) else { continue };
        let (shown, noun) = (path.display(), noun(path));
        let message = match at == *place {
            true => format!("{shown}: this {noun} is an input, and the output would replace it"),
            false => {
                format!("{shown}: this {noun} holds the input {}, and the output would replace it", input.display())
            }
        };
        return Err(Error::invalid(message).with_hint("choose another name for the output"));
    }
    Ok(())
}

/// Fails if not even `-f` may replace the output.
pub(in crate::dataset) fn output(path: &Path) -> Result<()> {
    match std::fs::metadata(path) {
        Err(_) => Ok(()),
        Ok(data) if data.is_file() => Ok(()),
        Ok(data) if data.is_dir() => match stray(path) {
            None if npy::layout(path).is_ok_and(|layout| layout.text("plan").is_some()) => Ok(()),
            None => Err(Error::invalid(format!("{}: this folder is not a dataset", path.display())).with_hint(CHOOSE)),
            Some(name) => Err(foreign(path, &name)),
        },
        Ok(_) => Err(irregular(path)),
    }
}

/// Returns the error for an existing output that may not be replaced; `more` says why it cannot be
/// used as is.
pub(in crate::dataset) fn already(path: &Path, more: &str) -> Error {
    let error =
        Error::new(crate::ErrorKind::Exists, format!("{}: the {} exists already{more}", path.display(), noun(path)));
    match output(path) {
        Ok(()) => error.with_hint(Remedy::Replace).or_hint("choose another name"),
        Err(_) => error.with_hint(CHOOSE),
    }
}

/// Fails if a file beside the output does not belong to a build, unless `-f` replaces it.
pub(in crate::dataset) fn beside(paths: &Paths, kind: Kind, existing: Existing) -> Result<()> {
    let is_ours = |path: &Path, data: &Metadata| -> Result<bool> {
        match (data.is_dir(), data.is_file()) {
            (true, _) if *path != paths.partial => {
                Err(Error::invalid(format!("{}: a folder has the name of a file of this build", path.display()))
                    .with_hint(CHOOSE))
            }
            (true, _) => stray(path).map_or(Ok(kind == Kind::Npy), |name| Err(foreign(path, &name))),
            (false, false) => Err(irregular(path)),
            _ if *path == paths.journal => Ok(journal::is_journal(path)),
            _ if *path == paths.failures => Ok(failure::is_list(path)),
            _ if paths.origin.as_deref() == Some(path) => Ok(Origin::parse(path).is_ok()),
            _ => Ok(kind != Kind::Npy
                && (data.len() == 0 || journal::read(&paths.journal).is_some() || plan_of(path).is_some())),
        }
    };
    for path in [&paths.partial, &paths.journal, &paths.failures].into_iter().chain(&paths.origin) {
        let Ok(data) = path.symlink_metadata() else { continue };
        if !is_ours(path, &data)? && existing == Existing::Refuse {
            let message = format!("{}: the {} is not of a build of this output", path.display(), noun(path));
            return Err(Error::invalid(message)
                .with_hint(Remedy::Replace)
                .or_hint("move it elsewhere")
                .or_hint("choose another name for the output"));
        }
    }
    Ok(())
}

/// Returns the error for an unfinished build that may not be replaced, because of `change`.
pub(in crate::dataset) fn unfinished(paths: &Paths, change: &Change) -> Error {
    let of = match change {
        Change::Settings(_) => "of other settings",
        Change::Files => "of other files or texts",
        Change::Unknown => "of other files or settings",
    };
    let (partial, settings) = (paths.partial.display(), change.after());
    Error::invalid(format!("{partial}: an unfinished build {of} is there{settings}"))
        .with_hint(Remedy::StartOver)
        .or_hint("use the settings and files that it was begun with")
}

/// Removes a file, or a folder that contains only files of a dataset.
pub(in crate::dataset) fn remove(path: &Path) -> Result<()> {
    let Ok(data) = path.symlink_metadata() else { return Ok(()) };
    let removed = match data.is_dir() {
        false => std::fs::remove_file(path),
        true => std::fs::read_dir(path).and_then(|entries| {
            let kept = kept(path);
            let mut ours = entries.flatten().filter(|entry| is_known(entry, &kept)).collect::<Vec<_>>();
            // The index tells which columns are ours, so it goes last.
            ours.sort_by_key(|entry| entry.file_name() == npy::INDEX);
            ours.iter().try_for_each(|entry| std::fs::remove_file(entry.path()))?;
            std::fs::remove_dir(path)
        }),
    };
    removed.map_err(|error| output::failed(path, error))
}

/// Returns the first entry of a folder that does not belong to a dataset.
fn stray(folder: &Path) -> Option<String> {
    let Ok(entries) = std::fs::read_dir(folder) else { return Some("files that cannot be listed".to_owned()) };
    let kept = kept(folder);
    let strays = entries.flatten().filter(|entry| !is_known(entry, &kept));
    strays.map(|entry| entry.file_name().display().to_string()).min()
}

/// Returns the columns of the dataset in a folder that have names of a table.
fn kept(folder: &Path) -> BTreeSet<String> {
    let ragged = npy::layout(folder).map(|layout| layout.ragged()).unwrap_or_default();
    ragged.into_iter().flat_map(|(values, offsets)| [values, offsets]).collect()
}

fn is_known(entry: &DirEntry, kept: &BTreeSet<String>) -> bool {
    let name = entry.file_name();
    let name = name.to_str().unwrap_or_default();
    // A build that was killed leaves files that were not renamed yet.
    let name = name.strip_suffix(".new").unwrap_or(name);
    let is_column = name
        .strip_suffix(".npy")
        .is_some_and(|column| COLUMNS.contains(&column) || TOKEN_COLUMNS.contains(&column) || kept.contains(column));
    (is_column || name == npy::INDEX) && entry.file_type().is_ok_and(|kind| kind.is_file())
}

fn foreign(folder: &Path, name: &str) -> Error {
    Error::invalid(format!("{}: this folder holds {name}, which is not part of a dataset", folder.display()))
        .with_hint(CHOOSE)
}

fn irregular(path: &Path) -> Error {
    Error::invalid(format!("{}: this is neither a regular file nor a dataset", path.display())).with_hint(CHOOSE)
}

fn noun(path: &Path) -> &'static str {
    if path.is_dir() { "folder" } else { "file" }
}
