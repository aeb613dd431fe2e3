//! The libraries do not mention the command line: they return a `Remedy`, which each front words.

use super::{File, rust};

/// Rooms whose texts every front prints.
const ROOMS: [&str; 3] = ["crates/melisma/src/", "crates/melisma-kernels/src/", "crates/melisma-server/src/"];
/// Options of another program.
const OTHERS: [&str; 1] = ["crates/melisma-kernels/src/device/cuda/nvrtc.rs"];
/// Mentions of the program or a short flag.
const COMMANDS: [&str; 4] = ["`melisma ", "use -f", "with -f", "`-f`"];

/// Returns the lines outside tests that name flags or commands in a text.
pub fn problems(files: &[File]) -> Vec<String> {
    let mut found = Vec::new();
    let sources = ROOMS.iter().flat_map(|room| rust::production(files, room));
    for file in sources.filter(|file| !OTHERS.contains(&&*file.path)) {
        let code = rust::code(&file.text);
        let named = (1..).zip(code.lines()).filter(|(_, line)| line.split('"').skip(1).step_by(2).any(names_flag));
        found.extend(
            named.map(|(number, _)| format!("{}:{number}: names a flag or a command; use a Remedy", file.path)),
        );
    }
    found
}

fn names_flag(text: &str) -> bool {
    let is_flag =
        |word: &str| word.strip_prefix("--").is_some_and(|name| name.starts_with(|c: char| c.is_ascii_lowercase()));
    COMMANDS.iter().any(|command| text.contains(command)) || text.split([' ', '`', '(']).any(is_flag)
}

#[cfg(test)]
mod tests {
    use super::super::file;
    use super::*;

    #[test]
    fn flags_in_texts_of_the_libraries_are_found() {
        let count = |path: &str, text: &str| problems(&[file(path, text)]).len();
        let lines = |text: &str| count("crates/melisma/src/a.rs", text);
        for text in ["\"raise --limit\"", "x(\"use `--set a=b`\")", "\"`melisma doctor` lists them\"", "\"use -f\""] {
            assert_eq!(lines(text), 1, "{text}");
            assert_eq!(lines(&format!("#[cfg(test)]\n{text}")), 0, "{text}");
            assert_eq!(count("crates/melisma-server/src/a.rs", text), 1);
            assert_eq!(count("crates/melisma-cli/src/a.rs", text), 0);
            assert_eq!(count("crates/melisma/src/a/tests.rs", text), 0);
        }
        for text in ["// \"--limit\"", "\"a -- b\"", "x -= \"y\" --z", "\"melisma optimize v1\""] {
            assert_eq!(lines(text), 0, "{text}");
        }
    }
}
