//! Type names that say less than a word of the field does.

use super::File;

const VAGUE: [&str; 15] = [
    "Band", "Desk", "Door", "Listed", "Looked", "Made", "Mouth", "Place", "Presence", "Said", "Seat", "Stuck", "Talk",
    "Times", "Words",
];

/// Folders that may define a name, and why.
const ALLOWED: [(&str, &str, &str); 1] = [("crates/melisma-kernels/src/signal/voice/group/", "Words", "machine words")];

pub fn problems(files: &[File]) -> Vec<String> {
    let mut found = Vec::new();
    for file in files.iter().filter(|file| file.has_suffix(&["rs"])) {
        let path = &file.path;
        for (number, line) in file.lines() {
            let vague = |name: &&str| VAGUE.contains(name) && !is_allowed(path, name);
            for name in defined(line).into_iter().chain(aliases(line)).filter(vague) {
                found.push(format!("{path}:{number}: `{name}` is vague; use a word of the field"));
            }
        }
    }
    found
}

fn is_allowed(path: &str, name: &str) -> bool {
    ALLOWED.iter().any(|(folder, allowed, _)| path.starts_with(folder) && *allowed == name)
}

/// Returns the type that a line defines.
fn defined(line: &str) -> Option<&str> {
    let line = line.trim_start();
    let item = match line.strip_prefix("pub") {
        Some(rest) if rest.starts_with('(') => rest.split_once(')').map_or("", |(_, item)| item),
        Some(item) => item,
        None => line,
    };
    let mut words = item.split_whitespace();
    let is_type = matches!(words.next()?, "struct" | "enum" | "type" | "trait" | "union");
    is_type.then(|| identifier(words.next()?)).flatten()
}

/// Returns the names that a line gives to imports.
fn aliases(line: &str) -> impl Iterator<Item = &str> {
    let imports = if line.trim_start().contains("use ") { line } else { "" };
    imports.split(" as ").skip(1).filter_map(identifier)
}

fn identifier(text: &str) -> Option<&str> {
    text.split(|letter: char| !letter.is_alphanumeric() && letter != '_').next()
}

#[cfg(test)]
mod tests {
    use super::super::file;
    use super::*;

    #[test]
    fn vague_types_and_aliases_are_found() {
        let name = VAGUE[7];
        for line in [
            format!("pub(super) struct {name}<'a> {{"),
            format!("    enum {name} {{"),
            format!("pub(in crate::a) type {name} = [u32; 4];"),
            format!("use a::{{B as {name}, C}};"),
        ] {
            let expected = format!("a.rs:1: `{name}` is vague; use a word of the field");
            assert_eq!(problems(&[file("a.rs", line.as_str())]), [expected], "{line}");
            assert_eq!(problems(&[file("a.md", line)]), [""; 0]);
        }
        for line in [format!("struct {name}ment;"), format!("let {name} = 1;"), format!("x as {name}")] {
            assert_eq!(problems(&[file("a.rs", line.as_str())]), [""; 0], "{line}");
        }
    }

    #[test]
    fn allowed_folders_may_define_their_name() {
        for (folder, name, _) in ALLOWED {
            let line = format!("struct {name};");
            assert_eq!(problems(&[file(&format!("{folder}a.rs"), line.as_str())]), [""; 0]);
            assert_eq!(problems(&[file("crates/a.rs", line)]).len(), 1);
        }
    }
}
