//! Libraries allocate within the caller's budget.

use super::{File, rust};

const LIBRARIES: &[&str] = &["crates/melisma/src/", "crates/melisma-kernels/src/"];
const CONSTRUCTORS: &[&str] =
    &[concat!("Budget::", "unlimited("), concat!("Budget::", "limited("), concat!("Budget::", "new(")];
/// Turns the configured limit into a budget.
const ALLOWED: &str = "crates/melisma/src/runtime/memory.rs";

pub fn problems(files: &[File]) -> Vec<String> {
    let mut found = Vec::new();
    let sources = LIBRARIES.iter().flat_map(|folder| rust::production(files, folder));
    for file in sources.filter(|file| file.path != ALLOWED) {
        let code = rust::code(&file.text);
        for (number, line) in (1..).zip(code.lines()) {
            if let Some(made) = CONSTRUCTORS.iter().find(|made| line.contains(**made)) {
                found.push(format!("{}:{number}: `{made})`; take the caller's budget", file.path));
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::super::file;
    use super::*;

    #[test]
    fn library_code_takes_the_callers_budget() {
        for made in CONSTRUCTORS {
            let text =
                format!("/// {made}1)\nfn a() {{\n    {made}1);\n}}\n#[cfg(test)]\nmod tests {{\n    {made}1);\n}}\n");
            let found =
                ["crates/melisma/src/a.rs", "crates/melisma-cli/src/a.rs", ALLOWED].map(|path| file(path, &*text));
            assert_eq!(problems(&found), [format!("crates/melisma/src/a.rs:3: `{made})`; take the caller's budget")]);
        }
    }
}
