//! Runs other programs. Each command is printed, and a failure names the program and its status.

use crate::tree;
use anyhow::{Context, Result, bail};
use std::env;
use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Command, Stdio};

/// Returns the cargo that runs us, in the repository's root.
pub fn cargo<I: AsRef<std::ffi::OsStr>>(arguments: impl IntoIterator<Item = I>) -> Command {
    let mut command = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.args(arguments).current_dir(tree::root());
    command
}

/// Runs it with its output visible.
pub fn run(command: &mut Command) -> Result<()> {
    show(command);
    let status = command.status().with_context(|| cannot_start(command))?;
    if !status.success() {
        bail!("`{}` ended with {status}", brief(command));
    }
    Ok(())
}

/// Runs it with its output visible, and passes each line of its stdout to `line`.
pub fn tee(command: &mut Command, mut line: impl FnMut(&str)) -> Result<()> {
    show(command);
    let mut child = command.stdout(Stdio::piped()).spawn().with_context(|| cannot_start(command))?;
    let pipe = child.stdout.take().context("no pipe to the program's output")?;
    for text in BufReader::new(pipe).split(b'\n') {
        let text = text.with_context(|| brief(command))?;
        let text = String::from_utf8_lossy(&text);
        println!("{text}");
        line(&text);
    }
    let status = child.wait().with_context(|| brief(command))?;
    if !status.success() {
        bail!("`{}` ended with {status}", brief(command));
    }
    Ok(())
}

/// Runs it and returns its stdout; stderr stays visible.
pub fn output(command: &mut Command) -> Result<String> {
    let output = command.stderr(Stdio::inherit()).output().with_context(|| cannot_start(command))?;
    if !output.status.success() {
        bail!("`{}` ended with {}", brief(command), output.status);
    }
    String::from_utf8(output.stdout).with_context(|| format!("output of `{}`", brief(command)))
}

/// Works like [`output`], with `input` on the program's stdin.
pub fn exchange(command: &mut Command, input: &str) -> Result<String> {
    let mut child =
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().with_context(|| cannot_start(command))?;
    let mut pipe = child.stdin.take().context("no pipe to the program's input")?;
    // The programs we call read all of their input before they answer, so this cannot deadlock.
    let sent = pipe.write_all(input.as_bytes());
    drop(pipe);
    let output = child.wait_with_output().with_context(|| brief(command))?;
    if !output.status.success() {
        bail!("`{}` ended with {}", brief(command), output.status);
    }
    sent.with_context(|| format!("input of `{}`", brief(command)))?;
    String::from_utf8(output.stdout).with_context(|| format!("output of `{}`", brief(command)))
}

/// Returns whether the command can be started and succeeds; its output is hidden.
pub fn works(command: &mut Command) -> bool {
    command.stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok_and(|status| status.success())
}

/// Returns the full path of a program.
pub fn find(program: &str) -> Option<PathBuf> {
    let path = env::var_os("PATH")?;
    env::split_paths(&path).map(|folder| folder.join(program)).find(|file| file.is_file())
}

/// Returns whether `program --version` works.
pub fn exists(program: &str) -> bool {
    works(Command::new(program).arg("--version"))
}

fn show(command: &Command) {
    println!("$ {}", brief(command));
}

/// Returns the program's file name and its arguments.
fn brief(command: &Command) -> String {
    let program = std::path::Path::new(command.get_program());
    let mut text = program.file_name().unwrap_or(command.get_program()).to_string_lossy().into_owned();
    for argument in command.get_args() {
        text.push(' ');
        text.push_str(&argument.to_string_lossy());
    }
    text
}

fn cannot_start(command: &Command) -> String {
    format!("cannot start `{}`", brief(command))
}
