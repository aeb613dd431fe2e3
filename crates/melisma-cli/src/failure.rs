//! Errors: text on stderr, an object on stdout with `--json`, and exit codes.

use std::ffi::OsStr;
use std::io::{self, Write};
use std::path::Path;
use std::process::ExitCode;

use clap::error::{ContextKind, ContextValue, ErrorKind as Usage};
use melisma::output;
use melisma::runtime::memory;
use melisma::text::size;
use melisma::{Error, ErrorKind, Remedy};
use serde_json::{Value, json};

use crate::{json_output, remedy, terminal};

const USAGE: u8 = 2;
const CHECK: u8 = 3;
const RESOURCE: u8 = 4;

/// A failure as it is reported.
pub struct Failure<'a> {
    pub kind: &'a str,
    pub message: &'a str,
    pub hint: Option<&'a str>,
    /// The memory of the program itself, if the limit on the rest was too low.
    pub program_bytes: Option<u64>,
    pub code: u8,
}

/// Reports `error` and returns its exit code.
pub fn report(error: &Error) -> ExitCode {
    let (message, hint) = (error.to_string(), remedy::hint(error));
    let is_limit = |remedy: &Remedy| matches!(remedy, Remedy::RaiseMemoryLimit { .. });
    let program_bytes = if Remedy::of(error).iter().any(is_limit) { memory::program_bytes() } else { None };
    let (kind, hint) = (error.kind().name(), hint.as_deref());
    let failure = Failure { kind, message: &message, hint, program_bytes, code: code(error) };
    failure.print();
    failure.report();
    ExitCode::from(failure.code)
}

impl Failure<'_> {
    /// Prints the text on stderr.
    fn print(&self) {
        let mut text = format!("error: {}", terminal::one_line(self.message));
        if let Some(hint) = self.hint {
            text += &format!("\nhint: {hint}");
        }
        if let Some(bytes) = self.program_bytes {
            let program = size::show(bytes);
            text += &format!("\nnote: the limit counts what Melisma allocates, beside {program} of the program itself");
        }
        terminal::say(&text);
    }

    /// Prints the object on stdout if JSON was requested.
    pub fn report(&self) {
        // If stdout cannot be written to, this error cannot be reported there either.
        let _ = json_output::print(Some(self.json()));
    }

    fn json(&self) -> Value {
        let mut json = json!({ "kind": self.kind, "message": self.message, "hint": self.hint, "exit_code": self.code });
        if let Some(bytes) = self.program_bytes {
            json["program_bytes"] = bytes.into();
        }
        json
    }
}

fn code(error: &Error) -> u8 {
    match error.kind() {
        ErrorKind::Check => CHECK,
        ErrorKind::Device | ErrorKind::Memory => RESOURCE,
        ErrorKind::Io if is_full(error) => RESOURCE,
        _ => USAGE,
    }
}

fn is_full(error: &Error) -> bool {
    let is_full = |source: &io::Error| {
        matches!(source.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded | io::ErrorKind::FileTooLarge)
    };
    error.io_source().is_some_and(is_full)
}

/// Prints clap's message about the command line of `all`: help and version on stdout, usage errors in our format.
pub fn usage(error: &clap::Error, all: &clap::Command) -> ExitCode {
    if !error.use_stderr() {
        return match print(error) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => report(&error),
        };
    }
    let text = error.render().to_string();
    let mut lines = text.lines().map(str::trim).take_while(|line| !line.starts_with("Usage:"));
    let first = lines.next().unwrap_or_default();
    let missing: Vec<&str> = lines.filter(|line| line.starts_with(['<', '-'])).collect();
    let message = first.strip_prefix("error: ").unwrap_or(first);
    let message = match message.split_once(" is not in ") {
        // clap writes ranges as Rust does.
        Some((value, range)) => format!("{value} is not from {}", range.replace("..=", " to ")),
        None => format!("{message} {}", missing.join(" ")),
    };
    let needs_command = [Usage::DisplayHelpOnMissingArgumentOrSubcommand, Usage::MissingSubcommand];
    let (message, hint) = match needs_command.contains(&error.kind()) {
        true => incomplete(&text, all),
        false => (message, hint(error, &text, all)),
    };
    let failure =
        Failure { kind: "usage", message: message.trim_end(), hint: Some(&hint), program_bytes: None, code: USAGE };
    if wants_json() {
        json_output::enable();
    }
    failure.print();
    failure.report();
    ExitCode::from(USAGE)
}

/// Prints help or the version.
fn print(error: &clap::Error) -> melisma::Result<()> {
    terminal::check_stdout()?;
    let printed = error.print().and_then(|()| io::stdout().flush());
    match printed.map_err(|error| output::failed(Path::new("stdout"), error)) {
        // If the reader closed the pipe, that is its choice.
        Err(error) if terminal::is_closed_pipe(&error) => Ok(()),
        printed => printed,
    }
}

/// Returns the message and the hint for a command like `melisma cache`, which needs another one after it.
fn incomplete(text: &str, all: &clap::Command) -> (String, String) {
    let usage = text.lines().find_map(|line| line.trim().strip_prefix("Usage: melisma ")).unwrap_or_default();
    let path: Vec<&str> = usage.split(' ').take_while(|word| !word.starts_with(['[', '<'])).collect();
    let command = path.iter().try_fold(all, |command, name| command.find_subcommand(name));
    let names: Vec<&str> = command.unwrap_or(all).get_subcommands().map(clap::Command::get_name).collect();
    (format!("`melisma {}` needs a command", path.join(" ")), format!("use one of {}", names.join(", ")))
}

/// Returns whether the command line asks for JSON, even though it could not be parsed as a whole.
fn wants_json() -> bool {
    let flags = std::env::args_os().skip(1).take_while(|arg| arg != "--");
    let is_on = |value: &OsStr| ["1", "true", "yes", "on", "t", "y"].iter().any(|on| value.eq_ignore_ascii_case(on));
    flags.into_iter().any(|arg| arg == "--json") || std::env::var_os("MELISMA_JSON").is_some_and(|value| is_on(&value))
}

fn hint(error: &clap::Error, text: &str, all: &clap::Command) -> String {
    let words = |kind| match error.get(kind) {
        Some(ContextValue::String(word)) => vec![word.clone()],
        Some(ContextValue::Strings(words)) => words.clone(),
        _ => Vec::new(),
    };
    let kinds = [
        (ContextKind::InvalidArg, ContextKind::SuggestedArg),
        (ContextKind::InvalidSubcommand, ContextKind::SuggestedSubcommand),
        (ContextKind::InvalidValue, ContextKind::SuggestedValue),
    ];
    // The best suggestion comes last.
    let suggested = kinds.into_iter().find_map(|(wrong, right)| Some((words(wrong).pop()?, words(right).pop()?)));
    if let Some((_, word)) = suggested.filter(|(wrong, right)| is_near(wrong, right)) {
        return format!("did you mean `{word}`?");
    }
    let help = format!("`{} --help`", called(all));
    match (words(ContextKind::ValidValue), error.kind()) {
        (values, _) if !values.is_empty() => format!("use one of {}", values.join(", ")),
        (_, Usage::UnknownArgument) if words(ContextKind::InvalidArg).iter().any(|word| is_text(word)) => {
            format!("put `--` after all flags, before a text that begins with `-`; {help} explains the arguments")
        }
        (_, Usage::InvalidSubcommand) => "`melisma --help` lists the commands".to_owned(),
        (_, Usage::MissingRequiredArgument) => {
            match text.lines().find_map(|line| line.trim().strip_prefix("Usage: ")) {
                Some(usage) => format!("write {usage}; {help} explains it"),
                None => format!("{help} explains what it needs"),
            }
        }
        _ => format!("{help} explains its arguments"),
    }
}

/// Returns whether an argument that begins with a hyphen is a text or a number rather than a flag.
fn is_text(word: &str) -> bool {
    word.strip_prefix('-')
        .is_some_and(|rest| rest.starts_with(|letter: char| !letter.is_ascii_alphabetic() && letter != '-'))
}

/// Returns whether `right` may be meant by `wrong`: the first letter is seldom mistyped.
fn is_near(wrong: &str, right: &str) -> bool {
    let [wrong, right] = [wrong, right].map(|word| word.trim_start_matches('-'));
    wrong.chars().next() == right.chars().next() || right.contains(wrong) || wrong.contains(right)
}

/// Returns the command that was called, as in `melisma dataset build`.
fn called(all: &clap::Command) -> String {
    let (mut command, mut path) = (all, all.get_name().to_owned());
    for arg in std::env::args_os().skip(1) {
        if let Some(next) = arg.to_str().and_then(|name| command.find_subcommand(name)) {
            path += &format!(" {}", next.get_name());
            command = next;
        }
    }
    path
}
