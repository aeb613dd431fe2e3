//! What the names of files begin with, if several folders are searched: enough of the end of each folder's path to tell
//! it from the others.

use std::collections::HashSet;
use std::path::{Component, Path, PathBuf};

/// A folder to be searched.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Root {
    pub(super) path: PathBuf,
    /// How many of the last components of its path are part of the names.
    pub(super) n_named: usize,
}

/// Returns the folders, each once. Names of the files of a single one do not begin with it.
pub(super) fn roots(folders: &[PathBuf]) -> Vec<Root> {
    let mut seen = HashSet::new();
    let is_new = |folder: &&PathBuf| seen.insert(folder.canonicalize().unwrap_or_else(|_| folder.to_path_buf()));
    let folders: Vec<&PathBuf> = folders.iter().filter(is_new).collect();
    if let [folder] = folders[..] {
        return vec![Root { path: folder.clone(), n_named: 0 }];
    }
    let whole: Vec<PathBuf> = folders.iter().map(|folder| whole(folder)).collect();
    let n_named = depths(&whole);
    let root = |((folder, whole), n_named): ((&&PathBuf, PathBuf), usize)| {
        let is_named = |path: &Path| {
            let mut last = path.components().rev().take(n_named);
            path.components().count() >= n_named && last.all(|part| matches!(part, Component::Normal(_)))
        };
        Root { path: if is_named(folder) { folder.to_path_buf() } else { whole }, n_named }
    };
    folders.iter().zip(whole).zip(n_named).map(root).collect()
}

/// Returns the path from `/` on, without `..`.
fn whole(folder: &Path) -> PathBuf {
    let whole = std::path::absolute(folder).unwrap_or_else(|_| folder.to_owned());
    match whole.components().any(|part| part == Component::ParentDir) {
        true => whole.canonicalize().unwrap_or(whole),
        false => whole,
    }
}

/// Returns for each path how many of its last components tell it from the others.
fn depths(paths: &[PathBuf]) -> Vec<usize> {
    let names = |path: &PathBuf| path.components().filter(|part| matches!(part, Component::Normal(_))).count();
    let end = |path: &PathBuf, n: usize| -> PathBuf {
        let parts: Vec<Component<'_>> = path.components().collect();
        parts[parts.len() - n..].iter().collect()
    };
    let most: Vec<usize> = paths.iter().map(names).collect();
    let mut depths: Vec<usize> = most.iter().map(|&most| most.min(1)).collect();
    loop {
        let ends: Vec<PathBuf> = paths.iter().zip(&depths).map(|(path, &n)| end(path, n)).collect();
        let is_unclear = |at: usize| {
            let mut others = ends.iter().enumerate().filter(|&(other, _)| other != at);
            others.any(|(_, other)| other.starts_with(&ends[at]) || ends[at].starts_with(other))
        };
        let longer: Vec<usize> = (0..paths.len()).filter(|&at| depths[at] < most[at] && is_unclear(at)).collect();
        if longer.is_empty() {
            return depths;
        }
        longer.into_iter().for_each(|at| depths[at] += 1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(paths: &[&str]) -> Vec<usize> {
        depths(&paths.iter().map(PathBuf::from).collect::<Vec<_>>())
    }

    #[test]
    fn as_many_folders_are_named_as_tell_the_roots_apart() {
        assert_eq!(named(&["/a/train", "/a/test"]), [1, 1]);
        assert_eq!(named(&["/a/wavs", "/b/wavs", "/c"]), [2, 2, 1]);
        assert_eq!(named(&["/a/x/wavs", "/b/x/wavs"]), [3, 3]);
        // A name below the first one could be one of the second.
        assert_eq!(named(&["/b", "/c/b/wavs", "/d/wavs"]), [1, 3, 2]);
        assert_eq!(named(&["/wavs", "/b/wavs"]), [1, 2]);
        assert_eq!(named(&["/", "/b"]), [0, 1]);
    }

    #[test]
    fn a_folder_is_searched_once_and_named_as_it_was_given() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        for name in ["a/wavs", "b/wavs"] {
            std::fs::create_dir_all(at(name)).unwrap();
        }
        let one = [at("a/wavs"), at("a/../a/wavs"), at("a/wavs/")];
        assert_eq!(roots(&one), [Root { path: at("a/wavs"), n_named: 0 }]);
        let two = roots(&[at("a/wavs"), at("b/wavs")]);
        assert_eq!(two, ["a/wavs", "b/wavs"].map(|name| Root { path: at(name), n_named: 2 }));
        let up = roots(&[at("a/wavs/.."), at("b/wavs")]);
        assert_eq!((&up[0].path, up[0].n_named), (&at("a").canonicalize().unwrap(), 1));
    }
}
