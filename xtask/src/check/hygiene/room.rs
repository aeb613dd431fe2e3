//! The rooms of `melisma` import each other exactly as in the table in `docs/ARCHITECTURE.md`: an
//! import without a row is a problem, and so is a row without an import.

use super::import::{self, Import};
use super::{File, rust};
use std::collections::{BTreeMap, BTreeSet};

pub const PAGE: &str = "docs/ARCHITECTURE.md";
const SOURCES: &str = "crates/melisma/src/";
/// The rooms that the page lets every room use.
const SHARED: &[&str] = &["config", "format", "output", "runtime", "text", "trace"];

pub fn problems(files: &[File]) -> Vec<String> {
    let Some(page) = files.iter().find(|file| file.path == PAGE) else { return vec![format!("{PAGE}: missing")] };
    let table = table(&page.text);
    if table.is_empty() {
        return vec![format!("{PAGE}: has no table `| room | may use |`")];
    }
    let sources = rust::production(files, SOURCES);
    let modules: Vec<String> = sources.iter().map(|file| rust::module(&file.path, SOURCES)).collect();
    let rooms: BTreeSet<&str> = modules.iter().map(|module| room(module)).collect();
    let mut found = Vec::new();
    let mut used = BTreeSet::new();
    for (file, module) in sources.into_iter().zip(&modules) {
        let own = room(module);
        for Import { line, path, .. } in import::imports(&rust::code(&file.text), module) {
            let other = room(&path);
            if own.is_empty() || !rooms.contains(other) || other == own || SHARED.contains(&other) {
                continue;
            }
            let allowed = table.get(own).and_then(|allowed| allowed.iter().find(|allowed| covers(allowed, &path)));
            match allowed {
                Some(allowed) => drop(used.insert((own.to_owned(), allowed.clone()))),
                None => found.push(format!("{}:{line}: `{own}` uses `{path}`, which {PAGE} does not list", file.path)),
            }
        }
    }
    let listed =
        table.into_iter().flat_map(|(room, allowed)| allowed.into_iter().map(move |path| (room.clone(), path)));
    let stale = listed.filter(|edge| !used.contains(edge));
    found.extend(stale.map(|(room, path)| format!("{PAGE}: lists `{path}` for `{room}`, but no import needs it")));
    found
}

/// Returns the room of a path below the crate's root; empty for the root.
fn room(path: &str) -> &str {
    path.split("::").next().unwrap_or_default()
}

fn covers(allowed: &str, path: &str) -> bool {
    path.strip_prefix(allowed).is_some_and(|rest| rest.is_empty() || rest.starts_with("::"))
}

/// Returns the rows of `| room | may use |`: the paths in backticks for each room.
fn table(page: &str) -> BTreeMap<String, Vec<String>> {
    let rows = page.lines().skip_while(|line| !line.starts_with("| room | may use |")).skip(2);
    let quoted = |cell: &str| -> Vec<String> { cell.split('`').skip(1).step_by(2).map(str::to_owned).collect() };
    rows.map_while(|line| line.strip_prefix('|')?.split_once('|'))
        .flat_map(|(room, uses)| quoted(room).into_iter().map(move |room| (room, quoted(uses))))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::super::file;
    use super::*;

    const TABLE: &str =
        "| room | may use |\n|---|---|\n| `mel` | `audio`, for clips |\n| `onnx` | `optimize::need` |\n\nend | `x` |\n";

    fn tree(mel: &str, onnx: &str) -> Vec<String> {
        problems(&[
            file(PAGE, TABLE),
            file("crates/melisma/src/audio/mod.rs", ""),
            file("crates/melisma/src/optimize/mod.rs", ""),
            file("crates/melisma/src/mel/plan.rs", mel),
            file("crates/melisma/src/onnx.rs", onnx),
        ])
    }

    const MEL: &str = "use crate::audio::Clip;";
    const ONNX: &str = "use crate::optimize::need;";

    #[test]
    fn listed_imports_pass_and_tests_may_import_anything() {
        assert_eq!(tree(MEL, ONNX), [""; 0]);
        let with_test = format!("{MEL}\n#[cfg(test)]\nmod tests {{\n    use crate::optimize::need;\n}}\n");
        assert_eq!(tree(&with_test, ONNX), [""; 0]);
    }

    #[test]
    fn an_import_without_a_row_is_a_problem() {
        let found = tree("use crate::audio::Clip;\nuse crate::{Error, onnx};", ONNX);
        assert_eq!(
            found,
            ["crates/melisma/src/mel/plan.rs:2: `mel` uses `onnx`, which docs/ARCHITECTURE.md does not list"]
        );
        assert_eq!(tree("use super::super::audio::Clip;\nuse super::super::onnx::Model;", ONNX).len(), 1);
        assert_eq!(tree(MEL, "use crate::optimize::{need, cache};").len(), 1);
    }

    #[test]
    fn a_row_without_an_import_is_a_problem() {
        assert_eq!(tree("", ONNX), ["docs/ARCHITECTURE.md: lists `audio` for `mel`, but no import needs it"]);
        assert_eq!(problems(&[file(PAGE, "# Architecture\n")]).len(), 1);
    }
}
