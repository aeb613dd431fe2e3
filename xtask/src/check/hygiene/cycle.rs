//! The files of a crate depend on each other in one direction. Where a cycle is better, one of its files states the
//! reason in its first lines.
//!
//! A file may use the modules around it, and `pub use` hands an item on without a use.

use super::import::{self, Import};
use super::{File, rust};
use std::collections::{BTreeMap, BTreeSet};
use std::iter;

const REASON_LINES: usize = 5;
const REASON: &str = "use each other, because";
/// The most modules that hand an item on, one to the next.
const MAX_EXPORTS: usize = 8;

/// Modules, and those that each one uses.
type Graph<'a> = BTreeMap<&'a str, BTreeSet<&'a str>>;

pub fn problems(files: &[File]) -> Vec<String> {
    let sources = files.iter().filter(|file| file.has_suffix(&["rs"]));
    let folders = sources.filter_map(|file| Some(format!("{}/src/", file.path.split_once("/src/")?.0)));
    folders.collect::<BTreeSet<_>>().iter().flat_map(|folder| problems_in(files, folder)).collect()
}

fn problems_in(files: &[File], folder: &str) -> Vec<String> {
    let sources = rust::production(files, folder);
    let names: Vec<String> = sources.iter().map(|file| rust::module(&file.path, folder)).collect();
    let modules: BTreeMap<&str, &File> = names.iter().map(String::as_str).zip(sources).collect();
    let is_reasoned = |module: &str| modules[module].text.lines().take(REASON_LINES).any(|line| line.contains(REASON));
    let graph = graph(&modules);
    let rest = graph.iter().filter(|(module, _)| !is_reasoned(module));
    let rest = rest.map(|(module, uses)| (*module, uses.iter().copied().filter(|used| !is_reasoned(used)).collect()));
    let path = |module: &&str| modules[module].path.as_str();
    let mut found: Vec<String> = cycles(&rest.collect())
        .iter()
        .map(|cycle| {
            let paths: Vec<&str> = cycle.iter().map(path).collect();
            format!("{}: a cycle of files; untie it, or say in one of them that they `{REASON} ...`", paths.join(", "))
        })
        .collect();
    let in_cycles: BTreeSet<&str> = cycles(&graph).into_iter().flatten().collect();
    let stale = modules.keys().filter(|module| is_reasoned(module) && !in_cycles.contains(*module));
    found.extend(stale.map(|module| format!("{}: says why it is in a cycle, but is in none", path(module))));
    found
}

fn graph<'a>(modules: &BTreeMap<&'a str, &File>) -> Graph<'a> {
    let imports = modules.iter().map(|(module, file)| (*module, import::imports(&rust::code(&file.text), module)));
    let imports: BTreeMap<&str, Vec<Import>> = imports.collect();
    let mut exports = BTreeMap::new();
    for (module, import) in imports.iter().flat_map(|(module, imports)| imports.iter().map(move |one| (module, one))) {
        if import.is_export {
            let name = import.path.rsplit("::").next().unwrap_or_default();
            exports.insert(format!("{module}::{name}").trim_start_matches("::").to_owned(), import.path.as_str());
        }
    }
    let uses = |module: &str| {
        let used = imports[module].iter().filter(|import| !import.is_export);
        let used = used.filter_map(|import| definer(&import.path, modules, &exports));
        used.filter(|used| !is_around(used, module)).collect()
    };
    modules.keys().map(|module| (*module, uses(module))).collect()
}

/// Returns the module that defines the item at `path`, whatever modules hand it on.
fn definer<'a>(path: &str, modules: &BTreeMap<&'a str, &File>, exports: &BTreeMap<String, &str>) -> Option<&'a str> {
    let mut path = path.to_owned();
    for _ in 0..MAX_EXPORTS {
        let mut prefixes = iter::successors(Some(&*path), |path| Some(path.rsplit_once("::")?.0));
        let known = prefixes.find(|prefix| modules.contains_key(prefix) || exports.contains_key(*prefix))?;
        if let Some((module, _)) = modules.get_key_value(known) {
            return Some(module);
        }
        path = format!("{}{}", exports[known], &path[known.len()..]);
    }
    None
}

/// Returns whether `outer` is `inner`, or a module around it.
fn is_around(outer: &str, inner: &str) -> bool {
    inner.strip_prefix(outer).is_some_and(|rest| rest.is_empty() || rest.starts_with("::"))
}

/// Returns the groups of modules that lead to each other.
fn cycles<'a>(graph: &Graph<'a>) -> BTreeSet<Vec<&'a str>> {
    let reached: Graph<'a> = graph.keys().map(|module| (*module, reach(graph, module))).collect();
    let cycle = |module: &'a str| -> Vec<&'a str> {
        reached[module].iter().copied().filter(|other| reached[other].contains(module)).collect()
    };
    graph.keys().map(|module| cycle(module)).filter(|cycle| !cycle.is_empty()).collect()
}

fn reach<'a>(graph: &Graph<'a>, from: &'a str) -> BTreeSet<&'a str> {
    let (mut found, mut open) = (BTreeSet::new(), vec![from]);
    while let Some(module) = open.pop() {
        open.extend(graph[module].iter().copied().filter(|used| found.insert(*used)));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::super::file;
    use super::*;

    fn problems_of(sources: &[(&str, &str)]) -> Vec<String> {
        let sources: Vec<File> = sources.iter().map(|(path, text)| file(&format!("a/src/{path}.rs"), *text)).collect();
        problems(&sources)
    }

    #[test]
    fn files_that_use_each_other_are_found() {
        let cycle = |paths: &str| {
            vec![format!("{paths}: a cycle of files; untie it, or say in one of them that they `{REASON} ...`")]
        };
        let two = [("mel/mod", ""), ("mel/bin", "use super::plan::{Plan, run};"), ("mel/plan", "crate::mel::bin::N")];
        assert_eq!(problems_of(&two), cycle("a/src/mel/bin.rs, a/src/mel/plan.rs"));
        // What others hand on is the file's that has it.
        let handed = [
            ("lib", "mod mel;\npub use mel::Bin;"),
            ("mel/mod", "mod bin;\npub(crate) use bin::{Bin, edge};"),
            ("mel/bin", "use crate::{Error, tone};"),
            ("tone", "use crate::Bin;"),
        ];
        assert_eq!(problems_of(&handed), cycle("a/src/mel/bin.rs, a/src/tone.rs"));
        let three = [("a", "use crate::b::B;"), ("b/mod", "use crate::c;"), ("c", "use super::a::A;")];
        assert_eq!(problems_of(&three), cycle("a/src/a.rs, a/src/b/mod.rs, a/src/c.rs"));
    }

    #[test]
    fn modules_around_tests_and_what_is_handed_on_make_no_cycle() {
        let sources = [
            ("lib", "pub use mel::Mel;\nuse pack::Pack;"),
            ("mel/mod", "mod bin;\npub use crate::tone::Tone;\nuse bin::Bin;"),
            ("mel/bin", "use super::Mel;\nuse crate::Error;\n// use crate::mel::plan;\n"),
            ("mel/plan", "use super::bin::Bin;\nuse std::fmt;"),
            ("tone", "use crate::mel::Mel;\n#[cfg(test)]\nuse crate::pack::Pack;"),
            ("pack", "use crate::tone::Tone;"),
        ];
        assert_eq!(problems_of(&sources), [""; 0]);
    }

    #[test]
    fn one_reason_is_enough_and_must_be_true() {
        let reason = format!("//! This file and `b` {REASON} a graph is a node.\nuse super::b::B;");
        assert_eq!(problems_of(&[("a", &reason), ("b", "use super::a;")]), [""; 0]);
        assert_eq!(
            problems_of(&[("a", &reason), ("b", "")]),
            ["a/src/a.rs: says why it is in a cycle, but is in none"]
        );
    }
}
