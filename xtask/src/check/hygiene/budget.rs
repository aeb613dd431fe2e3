//! Libraries allocate within the caller's budget.

use super::{File, rust};

const LIBRARIES: &[&str] = &["crates/melisma/src/", "crates/melisma-kernels/src/"];
const UNLIMITED: &str = concat!("Budget::", "unlimited()");
/// Turns a configuration without limits into a budget.
const ALLOWED: &str = "crates/melisma/src/runtime/memory.rs";

pub fn problems(files: &[File]) -> Vec<String> {
    let mut found = Vec::new();
    let sources = LIBRARIES.iter().flat_map(|folder| rust::production(files, folder));
    for file in sources.filter(|file| file.path != ALLOWED) {
        let code = rust::code(&file.text);
        let lines = (1..).zip(code.lines()).filter(|(_, line)| line.contains(UNLIMITED));
        found.extend(
            lines.map(|(number, _)| format!("{}:{number}: `{UNLIMITED}`; take the caller's budget", file.path)),
        );
    }
    found
}

#[cfg(test)]
mod tests {
    use super::super::file;
    use super::*;

    #[test]
    fn library_code_takes_the_callers_budget() {
        let text = format!(
            "/// {UNLIMITED}\nfn a() {{\n    {UNLIMITED};\n}}\n#[cfg(test)]\nmod tests {{\n    {UNLIMITED};\n}}\n"
        );
        let found = problems(&[file("crates/melisma/src/a.rs", &*text), file("crates/melisma-cli/src/a.rs", &*text)]);
        assert_eq!(found, [format!("crates/melisma/src/a.rs:3: `{UNLIMITED}`; take the caller's budget")]);
    }
}
