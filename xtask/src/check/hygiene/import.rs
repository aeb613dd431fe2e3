//! The paths that a source uses, in `use` trees and elsewhere.

/// An item that a source uses.
pub struct Import {
    pub line: usize,
    /// Its path below the crate's root, such as `optimize::need::Need`. That of another crate looks like one below the
    /// module.
    pub path: String,
    /// Whether `pub use` hands it on.
    pub is_export: bool,
}

const ROOTS: [&str; 3] = ["crate::", "self::", "super::"];
const USE: &str = "use ";

/// Returns what the `code` of `module` uses.
pub fn imports(code: &str, module: &str) -> Vec<Import> {
    let is_word = |c: char| c.is_alphanumeric() || c == '_' || c == ':' || c == '$';
    let mut found = Vec::new();
    for start in ROOTS.into_iter().chain([USE]) {
        for (at, _) in code.match_indices(start) {
            let (before, text) = (&code[..at], &code[at..]);
            let line_before = before.rsplit('\n').next().unwrap_or_default().trim_start();
            let is_export = line_before.starts_with("pub") && (start == USE || line_before.ends_with(USE));
            let is_start = match text.strip_prefix(USE) {
                // A root in the statement is found by itself.
                Some(path) => (line_before.is_empty() || is_export) && !ROOTS.iter().any(|root| path.starts_with(root)),
                None => !before.ends_with(is_word),
            };
            if is_start {
                let (base, text) = base(text.strip_prefix(USE).unwrap_or(text), module);
                let mut paths = Vec::new();
                tree(text, base, &mut paths);
                let line = before.matches('\n').count() + 1;
                found.extend(paths.into_iter().map(|path| Import { line, path, is_export }));
            }
        }
    }
    found
}

/// Returns the module that a path begins in, and the rest of the path.
fn base<'a>(mut path: &'a str, module: &'a str) -> (&'a str, &'a str) {
    if let Some(rest) = path.strip_prefix("crate::") {
        return ("", rest);
    }
    let mut base = module;
    path = path.strip_prefix("self::").unwrap_or(path);
    while let Some(rest) = path.strip_prefix("super::") {
        path = rest;
        base = base.rsplit_once("::").map_or("", |(above, _)| above);
    }
    (base, path)
}

/// Parses one tree, `a::b`, `a::{b, c::d}` or `a::*`, and returns the text after it.
fn tree<'a>(text: &'a str, prefix: &str, found: &mut Vec<String>) -> &'a str {
    let text = text.trim_start();
    if let Some(mut rest) = text.strip_prefix('{') {
        loop {
            rest = tree(rest, prefix, found).trim_start();
            match rest.strip_prefix(',') {
                Some(next) if !next.trim_start().starts_with('}') => rest = next,
                Some(next) => break next.trim_start().trim_start_matches('}'),
                None => break rest.strip_prefix('}').unwrap_or(rest),
            }
        }
    } else {
        let end = text.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(text.len());
        let (name, rest) = text.split_at(end);
        let path = if prefix.is_empty() { name.to_owned() } else { format!("{prefix}::{name}") };
        match rest.strip_prefix("::") {
            Some(rest) if !name.is_empty() && !rest.starts_with('<') => tree(rest, &path, found),
            _ => {
                found.push(path);
                let rest = rest.strip_prefix('*').unwrap_or(rest);
                match rest.trim_start().strip_prefix("as ") {
                    Some(alias) => alias.trim_start_matches(|c: char| c.is_alphanumeric() || c == '_'),
                    None => rest,
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::imports;

    fn paths(code: &str, module: &str) -> Vec<String> {
        imports(code, module).into_iter().map(|import| import.path).collect()
    }

    #[test]
    fn use_trees_and_plain_paths_are_read() {
        let code = "use crate::{Error, onnx::{self, read::Model as M}, pack};\nlet x = crate::mel::plan::<u8>(1);\nuse crate::tensor::*;";
        let expected = ["Error", "onnx::self", "onnx::read::Model", "pack", "mel::plan", "tensor::"];
        assert_eq!(paths(code, "engine"), expected);
        assert_eq!(imports(code, "engine")[4].line, 2);
        assert_eq!(paths("$crate::trace!(); reuse crate", "engine"), [""; 0]);
    }

    #[test]
    fn paths_begin_where_their_module_is() {
        assert_eq!(paths("use super::super::audio::Clip;", "mel::plan"), ["audio::Clip"]);
        assert_eq!(paths("use super::run;\nself::step()", "mel::plan"), ["mel::plan::step", "mel::run"]);
        assert_eq!(
            paths("    use step::{Step, next};", "mel::plan"),
            ["mel::plan::step::Step", "mel::plan::step::next"]
        );
        assert_eq!(paths("use audio::Clip;\nuse crate::pack;", ""), ["pack", "audio::Clip"]);
    }

    #[test]
    fn what_is_handed_on_is_marked() {
        let code =
            "pub use step::Step;\npub(crate) use crate::pack::Pack;\nuse step::Next;\npub fn run(at: super::At) {}";
        let marked: Vec<_> = imports(code, "mel").into_iter().filter(|import| import.is_export).collect();
        let marked: Vec<_> = marked.iter().map(|import| (import.line, &*import.path)).collect();
        assert_eq!(marked, [(2, "pack::Pack"), (1, "mel::step::Step")]);
    }
}
