//! Errors on stderr and exit codes.

use std::io::{self, Write};
use std::process::ExitCode;

use clap::error::{ContextKind, ContextValue};
use melisma::{Error, Kind};

const USAGE: u8 = 2;
const CHECK: u8 = 3;
const RESOURCE: u8 = 4;

/// Prints `error` and returns its exit code.
pub fn report(error: &Error) -> ExitCode {
    say(&error.to_string(), error.hint());
    ExitCode::from(code(error))
}

fn code(error: &Error) -> u8 {
    match error.kind() {
        Kind::Check => CHECK,
        Kind::Device | Kind::Memory => RESOURCE,
        Kind::Io if is_full(error) => RESOURCE,
        _ => USAGE,
    }
}

fn is_full(error: &Error) -> bool {
    let source = std::error::Error::source(error).and_then(|source| source.downcast_ref::<io::Error>());
    source.is_some_and(|source| matches!(source.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded))
}

/// Prints what clap has to say: help and version on stdout, wrong usage in our shape.
pub fn usage(error: &clap::Error) -> ExitCode {
    if !error.use_stderr() {
        // A closed pipe is the reader's choice.
        let _ = error.print();
        return ExitCode::SUCCESS;
    }
    let text = error.render().to_string();
    let mut lines = text.lines().map(str::trim).take_while(|line| !line.starts_with("Usage:"));
    let first = lines.next().unwrap_or_default();
    let missing: Vec<&str> = lines.filter(|line| line.starts_with(['<', '-'])).collect();
    let message = first.strip_prefix("error: ").unwrap_or(first);
    say(format!("{message} {}", missing.join(" ")).trim_end(), Some(&hint(error)));
    ExitCode::from(USAGE)
}

fn hint(error: &clap::Error) -> String {
    let words = |kind| match error.get(kind) {
        Some(ContextValue::String(word)) => Some(word.clone()),
        Some(ContextValue::Strings(words)) if !words.is_empty() => Some(words.join(", ")),
        _ => None,
    };
    for kind in [ContextKind::SuggestedArg, ContextKind::SuggestedSubcommand, ContextKind::SuggestedValue] {
        if let Some(word) = words(kind) {
            return format!("did you mean `{word}`?");
        }
    }
    match words(ContextKind::ValidValue) {
        Some(values) => format!("use one of {values}"),
        None => "`melisma --help` and `melisma COMMAND --help` list what there is".to_owned(),
    }
}

fn say(message: &str, hint: Option<&str>) {
    let mut text = format!("error: {message}\n");
    if let Some(hint) = hint {
        text += &format!("hint: {hint}\n");
    }
    // Without stderr there is nobody to tell.
    let _ = io::stderr().write_all(text.as_bytes());
}
