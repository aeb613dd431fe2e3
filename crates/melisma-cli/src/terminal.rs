//! Text output for people. Control characters are escaped: a file name cannot move the cursor,
//! change colours or hide what follows.

use std::io::{self, Write};
use std::path::Path;

use melisma::output;
use melisma::runtime::machine::had_stdout;
use melisma::text::table::escaped;
pub use melisma::text::table::one_line;
use melisma::{Error, ErrorKind, Result};

/// Writes `text` to stdout. A closed pipe is not an error.
pub fn print(text: &str) -> Result<()> {
    write(visible(text).as_bytes())
}

/// Writes raw bytes to stdout. A closed pipe is not an error.
pub fn write(bytes: &[u8]) -> Result<()> {
    match send(bytes) {
        Err(error) if is_closed_pipe(&error) => Ok(()),
        sent => sent,
    }
}

/// Writes raw bytes to stdout. A closed pipe is an error.
pub fn send(bytes: &[u8]) -> Result<()> {
    check_stdout()?;
    let mut stdout = io::stdout().lock();
    let sent = stdout.write_all(bytes).and_then(|()| stdout.flush());
    sent.map_err(|error| output::failed(Path::new("stdout"), error))
}

/// Fails if the process was started without a stdout: what is written would be lost without a word.
pub fn check_stdout() -> Result<()> {
    match had_stdout() {
        true => Ok(()),
        false => Err(Error::new(ErrorKind::Io, "stdout: it is closed").with_hint("send it to a file or to /dev/null")),
    }
}

/// Returns whether `error` means that the reader closed the pipe, which may happen at any time.
pub fn is_closed_pipe(error: &Error) -> bool {
    error.io_source().is_some_and(|source| source.kind() == io::ErrorKind::BrokenPipe)
}

/// Writes `text` and a newline to stderr.
pub fn say(text: &str) {
    // A failure of stderr cannot be reported.
    let _ = writeln!(io::stderr(), "{}", visible(text));
}

/// Returns `text` with every control character escaped except newlines and tabs.
pub fn visible(text: &str) -> String {
    escaped(text, |c| c == '\n' || c == '\t')
}

/// Returns `path` on one line.
pub fn name(path: &Path) -> String {
    one_line(&path.display().to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn controls_become_visible() {
        assert_eq!(visible("a\tb\n\u{1b}[31mc\u{7}\r\u{9b}d"), "a\tb\n\\u{1b}[31mc\\u{7}\\r\\u{9b}d");
        assert_eq!(one_line("a\nb\u{202e}c"), "a\\nb\\u{202e}c");
        assert_eq!(visible("Ä 音 🎵 \\n"), "Ä 音 🎵 \\n");
    }
}
