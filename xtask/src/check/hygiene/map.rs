//! The map in `docs/ARCHITECTURE.md` names every folder directly below `crates/*/src`, and no other.

use super::File;
use super::room::PAGE;
use std::collections::BTreeSet;

pub fn problems(files: &[File]) -> Vec<String> {
    let Some(page) = files.iter().find(|file| file.path == PAGE) else { return vec![format!("{PAGE}: missing")] };
    let named = named(&page.text);
    let there: BTreeSet<String> = files.iter().filter_map(|file| folder(&file.path)).collect();
    let unnamed = there.difference(&named).map(|path| format!("{path}: the map in {PAGE} does not name this folder"));
    let absent = named.difference(&there).map(|path| format!("{PAGE}: the map names {path}, which does not exist"));
    unnamed.chain(absent).collect()
}

/// Returns `crates/CRATE/src/FOLDER` of a file below it.
fn folder(path: &str) -> Option<String> {
    let parts: Vec<&str> = path.split('/').collect();
    let ["crates", name, "src", folder, _, ..] = parts[..] else { return None };
    Some(format!("crates/{name}/src/{folder}"))
}

/// Returns the folders of the first code block: `src/NAME/` or `src/{NAME,NAME}/`, indented below
/// `CRATE/`.
fn named(page: &str) -> BTreeSet<String> {
    let block = page.split("```").nth(1).unwrap_or_default();
    let mut found = BTreeSet::new();
    let mut name = "";
    for line in block.lines() {
        let entry = line.split_whitespace().next().unwrap_or_default();
        match line.len() - line.trim_start().len() {
            2 => name = entry.trim_end_matches('/'),
            4 => {
                let folders = entry.strip_prefix("src/").and_then(|entry| entry.strip_suffix('/')).unwrap_or_default();
                let folders = folders.trim_matches(['{', '}']).split(',').filter(|folder| !folder.is_empty());
                found.extend(folders.map(|folder| format!("crates/{name}/src/{folder}")));
            }
            _ => {}
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::super::file;
    use super::*;

    const MAP: &str = concat!(
        "# A\n```\ncrates/\n  melisma/       the library\n    src/mel/     presets,\n                 filterbanks\n",
        "    src/{audio,onnx}/  files\n    src/*.rs     others\n  melisma-cli/   commands\ndocs/\n```\n",
    );

    fn tree(paths: &[&str]) -> Vec<String> {
        problems(&paths.iter().map(|path| file(path, "")).chain([file(PAGE, MAP)]).collect::<Vec<_>>())
    }

    #[test]
    fn every_folder_is_named_and_every_name_exists() {
        let all = ["crates/melisma/src/mel/a.rs", "crates/melisma/src/audio/wav/b.rs", "crates/melisma/src/onnx/c.rs"];
        assert_eq!(tree(&all), [""; 0]);
        assert_eq!(tree(&[&all[..], &["crates/melisma/src/lib.rs", "crates/melisma/tests/x/y.rs"]].concat()), [""; 0]);
        assert_eq!(tree(&all[..2]), [format!("{PAGE}: the map names crates/melisma/src/onnx, which does not exist")]);
        let more = [&all[..], &["crates/melisma-cli/src/mel/d.rs"]].concat();
        assert_eq!(tree(&more), [format!("crates/melisma-cli/src/mel: the map in {PAGE} does not name this folder")]);
    }
}
