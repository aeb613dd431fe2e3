//! A thread that the system refuses is an error, not a panic.

use super::{File, rust};

const SOURCES: &[&str] =
    &["crates/melisma/src/", "crates/melisma-server/src/", "crates/melisma-cli/src/", "crates/melisma-py/src/"];
const PANICKING: &[&str] =
    &[concat!("thread::", "spawn("), concat!("scope.", "spawn("), concat!("enable_", "steady_tick(")];

pub fn problems(files: &[File]) -> Vec<String> {
    let mut found = Vec::new();
    for file in SOURCES.iter().flat_map(|folder| rust::production(files, folder)) {
        let code = rust::code(&file.text);
        for (number, line) in (1..).zip(code.lines()) {
            if let Some(call) = PANICKING.iter().find(|call| line.contains(**call)) {
                found.push(format!("{}:{number}: `{call})` panics; use `melisma::runtime::thread`", file.path));
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
    fn threads_are_started_where_a_refusal_is_an_error() {
        for call in PANICKING {
            let text =
                format!("/// {call}a)\nfn a() {{\n    {call}a);\n}}\n#[cfg(test)]\nmod tests {{\n    {call}a);\n}}\n");
            let found = ["crates/melisma-cli/src/a.rs", "crates/melisma-bench/src/a.rs"].map(|path| file(path, &*text));
            let told = format!("crates/melisma-cli/src/a.rs:3: `{call})` panics; use `melisma::runtime::thread`");
            assert_eq!(problems(&found), [told]);
        }
    }
}
