//! The libraries do not speak of the command line: what to change is a `Remedy`, which each front words.

/// Rooms whose texts every front prints.
const ROOMS: [&str; 2] = ["crates/melisma/src/", "crates/melisma-kernels/src/"];
/// Options of another program.
const OTHERS: [&str; 1] = ["crates/melisma-kernels/src/device/cuda/nvrtc.rs"];
/// Ways to name the program or a short flag.
const COMMANDS: [&str; 4] = ["`melisma ", "use -f", "with -f", "`-f`"];

/// The lines before a file's tests that name flags or commands in a text.
pub fn problems(path: &str, text: &str) -> Vec<String> {
    let is_test = path.ends_with("tests.rs") || path.contains("/tests/");
    if !ROOMS.iter().any(|room| path.starts_with(room)) || is_test || OTHERS.contains(&path) {
        return Vec::new();
    }
    let code = text.lines().take_while(|line| line.trim() != "#[cfg(test)]");
    let code = (1..).zip(code).filter(|(_, line)| !line.trim_start().starts_with("//"));
    let named = code.filter(|(_, line)| line.split('"').skip(1).step_by(2).any(names_flag));
    named.map(|(number, _)| format!("{path}:{number}: names a flag or a command; use a Remedy")).collect()
}

fn names_flag(text: &str) -> bool {
    let is_flag =
        |word: &str| word.strip_prefix("--").is_some_and(|name| name.starts_with(|c: char| c.is_ascii_lowercase()));
    COMMANDS.iter().any(|command| text.contains(command)) || text.split([' ', '`', '(']).any(is_flag)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_in_texts_of_the_libraries_are_found() {
        let lines = |text: &str| problems("crates/melisma/src/a.rs", text).len();
        for text in ["\"raise --limit\"", "x(\"use `--set a=b`\")", "\"`melisma doctor` lists them\"", "\"use -f\""] {
            assert_eq!(lines(text), 1, "{text}");
            assert_eq!(lines(&format!("#[cfg(test)]\n{text}")), 0, "{text}");
            assert_eq!(problems("crates/melisma-cli/src/a.rs", text).len(), 0);
            assert_eq!(problems("crates/melisma/src/a/tests.rs", text).len(), 0);
        }
        for text in ["// \"--limit\"", "\"a -- b\"", "x -= \"y\" --z", "\"melisma optimize v1\""] {
            assert_eq!(lines(text), 0, "{text}");
        }
    }
}
