//! Every folder of golden files has the script that made it, or a page that describes how it was
//! made.

use super::File;
use crate::tree;
use std::collections::BTreeSet;
use std::fs;

pub fn problems(files: &[File]) -> Vec<String> {
    let folders = fs::read_dir(tree::root().join("golden")).into_iter().flatten().flatten();
    let folders = folders.filter(|entry| entry.path().is_dir()).map(|entry| entry.file_name());
    unexplained(folders.map(|name| name.to_string_lossy().into_owned()).collect(), files)
}

fn unexplained(folders: BTreeSet<String>, files: &[File]) -> Vec<String> {
    let explains = |folder: &str, file: &File| {
        let name = file.path.strip_prefix("golden/").and_then(|path| path.strip_prefix(folder));
        name.is_some_and(|name| name.starts_with('/') && (name.ends_with("/make.py") || name.ends_with("/README.md")))
    };
    let folders = folders.into_iter().filter(|folder| !files.iter().any(|file| explains(folder, file)));
    folders
        .map(|folder| format!("golden/{folder}: neither make.py nor README.md says how its files were made"))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::super::file;
    use super::*;

    #[test]
    fn a_folder_without_a_script_is_found() {
        let files = [file("golden/a/make.py", ""), file("golden/ab/x.py", ""), file("golden/c/README.md", "")];
        let folders = ["a", "ab", "c"].map(str::to_owned).into();
        assert_eq!(
            unexplained(folders, &files),
            ["golden/ab: neither make.py nor README.md says how its files were made"]
        );
    }
}
