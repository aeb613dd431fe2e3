//! A comment that begins with "Returns" belongs to a function that returns something.

use super::File;

const RETURNS: &str = concat!("/// Ret", "urns ");
/// The most lines of a function's head.
const MAX_LINES: usize = 40;

pub fn problems(files: &[File]) -> Vec<String> {
    let mut found = Vec::new();
    for file in files.iter().filter(|file| file.has_suffix(&["rs"])) {
        let lines: Vec<&str> = file.text.lines().map(str::trim).collect();
        for (at, line) in lines.iter().enumerate() {
            let begins = line.starts_with(RETURNS) && (at == 0 || !lines[at - 1].starts_with("///"));
            if begins && head(&lines[at..]).is_some_and(|head| !has_result(&head)) {
                found.push(format!("{}:{}: the function returns nothing; say what it does", file.path, at + 1));
            }
        }
    }
    found
}

/// Returns the head of the function below a comment; `None` for anything else.
fn head(lines: &[&str]) -> Option<String> {
    let mut lines = lines.iter().skip_while(|line| line.starts_with("//"));
    let mut line = *lines.next()?;
    while line.starts_with("#[") {
        while !line.ends_with(']') {
            line = lines.next()?;
        }
        line = lines.next()?;
    }
    let mut head = line.to_owned();
    let mut rest = lines.take(MAX_LINES);
    while !head.ends_with(['{', ';', '}']) {
        head = format!("{head} {}", rest.next()?);
    }
    head.split_whitespace().any(|word| word == "fn").then_some(head)
}

/// Returns whether a function has a result. Success alone, `Result<()>`, does not count.
fn has_result(head: &str) -> bool {
    let Some((_, result)) = arrow(head).map(|at| head.split_at(at + 2)) else { return false };
    let result = result.trim_start();
    let is_path = |text: &str| text.chars().all(|c| c.is_alphanumeric() || "_:".contains(c));
    let success = result.split_once("Result<").filter(|(path, _)| is_path(path)).map(|(_, success)| success);
    success.is_none_or(|success| !success.starts_with("()"))
}

/// Returns where the function's own arrow is: arguments and bounds may have others.
fn arrow(head: &str) -> Option<usize> {
    let (head, mut depth) = (head.split(" where ").next()?, 0);
    head.char_indices().find_map(|(at, letter)| {
        let is_arrow = letter == '-' && head[at..].starts_with("->");
        match letter {
            '(' | '<' => depth += 1,
            '>' if head[..at].ends_with('-') => {}
            ')' | '>' => depth -= 1,
            _ => {}
        }
        (is_arrow && depth == 0).then_some(at)
    })
}

#[cfg(test)]
mod tests {
    use super::super::file;
    use super::*;

    fn problems_of(head: &str) -> Vec<String> {
        problems(&[file("a.rs", format!("mod b;\n\n    {RETURNS}the seed.\n    ///\n    /// # Errors\n{head}\n"))])
    }

    #[test]
    fn functions_that_return_something_pass() {
        for head in [
            "    pub(crate) fn seed(&self) -> u64 {",
            "    #[cfg(test)]\n    #[expect(\n        dead_code,\n    )]\n    fn seed(\n        at: u64,\n    ) -> u64 {",
            "    fn seed<F: Fn(u8) -> ()>(run: F) -> Result<Seed<()>> where F: Sync {",
            "    unsafe fn seed(self) -> Option<std::result::Result<(), u8>>;",
            "    Seed,",
            "    struct Seed {",
            "macro_rules! seed {",
        ] {
            assert_eq!(problems_of(head), [""; 0], "{head}");
        }
    }

    #[test]
    fn functions_that_return_nothing_are_found() {
        for head in [
            "    pub(crate) fn seed(&self) {",
            "    #[inline]\n    fn seed(\n        at: u64,\n    ) {",
            "    fn seed<F: Fn(u8) -> u8>(run: impl Fn() -> Result<()>) where F: Fn() -> u8 {",
            "    fn seed(&self) -> Result<()> {",
            "    async fn seed(&self) -> std::result::Result<(), String>;",
        ] {
            assert_eq!(problems_of(head), ["a.rs:3: the function returns nothing; say what it does"], "{head}");
        }
        let later = format!("/// Sets the seed.\n{RETURNS}later lines do not count.\nfn seed() {{}}\n");
        assert_eq!(problems(&[file("a.rs", later)]), [""; 0]);
    }
}
