//! The paths below `crate::` that a source uses, in `use` trees and elsewhere.

/// Returns the items below the crate's root that `code` uses, such as `optimize::need::Need`, each
/// with its line.
///
/// `depth` is the number of modules around the code: that many `super::` also lead to the root.
pub fn crate_paths(code: &str, depth: usize) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    for root in ["crate::".to_owned(), "super::".repeat(depth)] {
        for (at, _) in code.match_indices(&root) {
            let is_word = |c: char| c.is_alphanumeric() || c == '_' || c == ':' || c == '$';
            if depth == 0 && root.is_empty() || code[..at].ends_with(is_word) {
                continue;
            }
            let line = code[..at].matches('\n').count() + 1;
            let mut paths = Vec::new();
            tree(&code[at + root.len()..], "", &mut paths);
            found.extend(paths.into_iter().map(|path| (line, path)));
        }
    }
    found
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
    use super::crate_paths;

    fn paths(code: &str, depth: usize) -> Vec<String> {
        crate_paths(code, depth).into_iter().map(|(_, path)| path).collect()
    }

    #[test]
    fn use_trees_and_plain_paths_are_read() {
        let code = "use crate::{Error, onnx::{self, read::Model as M}, pack};\nlet x = crate::mel::plan::<u8>(1);\nuse crate::tensor::*;";
        let expected = ["Error", "onnx::self", "onnx::read::Model", "pack", "mel::plan", "tensor::"];
        assert_eq!(paths(code, 1), expected);
        assert_eq!(crate_paths(code, 1)[4].0, 2);
    }

    #[test]
    fn enough_supers_lead_to_the_root() {
        assert_eq!(paths("use super::super::audio::Clip;", 2), ["audio::Clip"]);
        assert_eq!(paths("use super::plan;", 2).len(), 0);
        assert_eq!(paths("$crate::trace!()", 1).len(), 0);
    }
}
