//! Every `unsafe` states by itself why it is sound.

use super::File;

const ABOVE: &str = concat!("as ", "above");

pub fn problems(files: &[File]) -> Vec<String> {
    let mut found = Vec::new();
    for file in files.iter().filter(|file| file.has_suffix(&["rs"])) {
        let path = &file.path;
        let lines: Vec<&str> = file.text.lines().collect();
        for (number, line) in file.lines() {
            if line.contains("SAFETY") && line.contains(ABOVE) {
                found.push(format!("{path}:{number}: this SAFETY comment leans on another; say what holds here"));
            }
            if is_unsafe_fn(line) && !is_documented(&lines[..number - 1]) && !is_of_a_trait(&lines[..number]) {
                found.push(format!("{path}:{number}: an unsafe function without `# Safety`"));
            }
        }
    }
    found
}

/// Returns whether an unsafe function begins in this line.
fn is_unsafe_fn(line: &str) -> bool {
    let Some((before, after)) = line.split_once("unsafe ") else { return false };
    let before = before.trim();
    let head = before.is_empty() || before.starts_with("pub") || before == "const";
    let after = after.strip_prefix("extern \"C\" ").unwrap_or(after);
    head && after.strip_prefix("fn ").is_some_and(|name| !name.starts_with('('))
}

/// Returns whether the comments and attributes directly above contain a `# Safety`.
fn is_documented(above: &[&str]) -> bool {
    let head = |line: &&&str| ["///", "//", "#[", "#!["].iter().any(|start| line.trim_start().starts_with(start));
    above.iter().rev().take_while(head).any(|line| line.contains("# Safety"))
}

/// Returns whether a trait documents the obligations for the function in the last line: the
/// function belongs to `impl Trait for Type` or to a trait with its own `# Safety`, or a macro
/// pastes its name.
fn is_of_a_trait(lines: &[&str]) -> bool {
    let Some((last, above)) = lines.split_last() else { return false };
    if last.contains("fn $") {
        return true;
    }
    let mut inner = indent(last);
    for (at, line) in above.iter().enumerate().rev() {
        // `}, Type {` continues a block that began above it.
        if line.trim().is_empty() || line.trim_start().starts_with('}') || indent(line) >= inner {
            continue;
        }
        let head = line.trim_start().trim_start_matches("unsafe ");
        if head.starts_with("impl") && head.contains(" for ") {
            return true;
        }
        if head.starts_with("trait ") || head.starts_with("pub") && head.contains(" trait ") {
            return is_documented(&above[..at]);
        }
        inner = indent(line);
    }
    false
}

fn indent(line: &str) -> usize {
    line.len() - line.trim_start().len()
}

#[cfg(test)]
mod tests {
    use super::super::file;
    use super::*;

    fn count(text: &str) -> usize {
        problems(&[file("a.rs", text)]).len()
    }

    #[test]
    fn unsafe_functions_say_what_callers_owe() {
        assert_eq!(count("unsafe fn a() {}\n"), 1);
        assert_eq!(count("/// Adds.\n#[inline]\npub(crate) unsafe fn a() {}\n"), 1);
        assert_eq!(count("/// # Safety\n/// `p` is valid.\n#[inline]\npub(crate) unsafe fn a() {}\n"), 0);
        assert_eq!(count("unsafe impl GlobalAlloc for A {\n    unsafe fn alloc() {}\n}\n"), 0);
        assert_eq!(count("impl A {\n    unsafe fn alloc() {}\n}\n"), 1);
        assert_eq!(count("/// # Safety\n/// All.\npub trait A: B {\n    unsafe fn a();\n}\n"), 0);
        assert_eq!(count("pub trait A: B {\n    unsafe fn a();\n}\n"), 1);
        assert_eq!(
            count("lanes! {\n    impl A for [B {\n        x\n    }, C {\n        unsafe fn a() {}\n    }];\n}\n"),
            0
        );
        assert_eq!(count("        unsafe fn $name() {}\n"), 0);
        assert_eq!(count("type F = unsafe fn(u32);\nunsafe { a() }\n"), 0);
    }

    #[test]
    fn safety_comments_stand_alone() {
        assert_eq!(count(&format!("// SAFETY: {ABOVE}.\n")), 1);
        assert_eq!(count("// SAFETY: `plan` checked the length.\n"), 0);
    }
}
