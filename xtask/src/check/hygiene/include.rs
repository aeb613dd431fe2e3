//! Files that source code includes at compile time must be inside its crate, because a package has
//! only those.

use super::File;
use crate::tree::resolve;
use std::path::{Path, PathBuf};

const MACROS: &[&str] = &[concat!("include", "!("), concat!("include_str", "!("), concat!("include_bytes", "!(")];

pub fn problems(files: &[File]) -> Vec<String> {
    let mut found = Vec::new();
    for File { path, text } in files.iter().filter(|file| file.has_suffix(&["rs"])) {
        found.extend(leaving(path, text).map(|file| format!("{path}: includes `{file}`, outside of its crate")));
    }
    found
}

/// Returns the files outside its crate that the source `path` includes.
fn leaving<'a>(path: &'a str, text: &'a str) -> impl Iterator<Item = String> + 'a {
    let calls = MACROS.iter().flat_map(|name| text.match_indices(name)).map(|(at, name)| &text[at + name.len()..]);
    calls.filter_map(move |call| {
        let call = call.split([';', '\n']).next().unwrap_or_default();
        let file: String = call.split('"').skip(1).step_by(2).filter(|literal| *literal != MANIFEST).collect();
        let from = match call.contains(MANIFEST) {
            true => home(path),
            false => Path::new(path).parent()?.to_path_buf(),
        };
        let inside = resolve(&from.join(file.trim_start_matches('/'))).is_some_and(|file| file.starts_with(home(path)));
        (!inside).then_some(file)
    })
}

const MANIFEST: &str = "CARGO_MANIFEST_DIR";

/// Returns the folder of the crate that `path` belongs to: `crates/NAME`, or one at the top of the repository.
fn home(path: &str) -> PathBuf {
    let depth = if path.starts_with("crates/") { 2 } else { 1 };
    Path::new(path).components().take(depth).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn included_files_stay_in_their_crate() {
        let source = "crates/a/src/room/noun.rs";
        let call = |file: &str| format!("let text = {}{file});", MACROS[1]);
        for inside in ["\"noun.txt\"", "\"../../page.md\"", "concat!(env!(\"CARGO_MANIFEST_DIR\"), \"/page.md\")"] {
            assert_eq!(leaving(source, &call(inside)).count(), 0, "{inside}");
        }
        for outside in [
            "\"../../../b/page.md\"",
            "\"../../../../docs/page.md\"",
            "\"../../../../../../page.md\"",
            "concat!(env!(\"CARGO_MANIFEST_DIR\"), \"/../b/page.md\")",
            "concat!(\"../../../\", \"page.md\")",
        ] {
            assert_eq!(leaving(source, &call(outside)).count(), 1, "{outside}");
        }
    }
}
