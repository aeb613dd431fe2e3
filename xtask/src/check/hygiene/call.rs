//! Calls that code may not make outside of tests, because there is a better one.

use super::{File, rust};

struct Ban {
    folders: &'static [&'static str],
    calls: &'static [&'static str],
    /// The file that may.
    allowed: &'static str,
    advice: &'static str,
}

const BANS: [Ban; 3] = [
    Ban {
        folders: &["crates/melisma/src/", "crates/melisma-kernels/src/"],
        calls: &[concat!("Budget::", "unlimited("), concat!("Budget::", "limited("), concat!("Budget::", "new(")],
        allowed: "crates/melisma/src/runtime/available.rs",
        advice: "take the caller's budget",
    },
    // A thread that the system refuses is an error, not a panic.
    Ban {
        folders: &[
            "crates/melisma/src/",
            "crates/melisma-server/src/",
            "crates/melisma-cli/src/",
            "crates/melisma-py/src/",
        ],
        calls: &[concat!("thread::", "spawn("), concat!("scope.", "spawn("), concat!("enable_", "steady_tick(")],
        allowed: "",
        advice: "it panics; use `melisma::runtime::thread`",
    },
    Ban {
        folders: &["crates/"],
        calls: &[concat!("Poison", "Error")],
        allowed: "crates/melisma-kernels/src/lock.rs",
        advice: "use the locks of `melisma::lock`",
    },
];

pub fn problems(files: &[File]) -> Vec<String> {
    let mut found = Vec::new();
    for ban in &BANS {
        let sources = ban.folders.iter().flat_map(|folder| rust::production(files, folder));
        for file in sources.filter(|file| file.path != ban.allowed) {
            for (number, line) in (1..).zip(rust::code(&file.text).lines()) {
                if let Some(call) = ban.calls.iter().find(|call| line.contains(**call)) {
                    found.push(format!("{}:{number}: `{call}`; {}", file.path, ban.advice));
                }
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
    fn calls_are_found_outside_of_tests_and_of_the_file_that_may() {
        for ban in &BANS {
            for call in ban.calls {
                let text =
                    format!("/// {call}\nfn a() {{\n    {call};\n}}\n#[cfg(test)]\nmod tests {{\n    {call};\n}}\n");
                let path = format!("{}a.rs", ban.folders[0]);
                let files = [path.as_str(), ban.allowed, "xtask/src/a.rs"].map(|path| file(path, &*text));
                assert_eq!(problems(&files), [format!("{path}:3: `{call}`; {}", ban.advice)]);
            }
        }
    }
}
