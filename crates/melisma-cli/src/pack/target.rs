//! Where packed and unpacked files go: a file that appears only when complete, or a pipe.

use std::fs::File;
use std::io::{self, BufWriter, IsTerminal, Write};
use std::os::fd::AsFd;
use std::path::Path;

use melisma::output::{self, OutputFile};
use melisma::pack::Append;
use melisma::runtime::machine::had_stdout;
use melisma::{Error, Result};

use crate::input::is_pipe;
use crate::session::Session;
use crate::terminal::check_stdout;

/// Rejects output to a terminal, and the removal of a source whose replacement cannot be checked.
pub fn check(path: &Path, rm: Option<&str>) -> Result<()> {
    match rm {
        _ if !is_pipe(path) => Ok(()),
        _ if !had_stdout() => check_stdout(),
        Some(flag) => Err(Error::invalid(format!("{flag} with a pipe: what leaves through it cannot be checked"))
            .with_hint("name a file with -o")),
        None if io::stdout().is_terminal() => {
            Err(Error::invalid("binary data is not written to a terminal")
                .with_hint("name a file with -o, or use a pipe"))
        }
        None => Ok(()),
    }
}

/// Names the input, unless the error is about the output.
pub fn at_input(error: Error, input: &Path, output: &Path) -> Error {
    let name = if is_pipe(output) { "stdout".to_owned() } else { output.display().to_string() };
    if error.to_string().starts_with(&name) { error } else { error.at(input.display()) }
}

/// A packed file being written. Its header is written last, so a file for a pipe is complete before
/// it is sent.
pub struct Spool {
    pub file: OutputFile,
    to_pipe: bool,
}

impl Spool {
    pub fn create(session: &Session, path: &Path) -> Result<Self> {
        if is_pipe(path) {
            let name = format!("melisma-{}.safetensors", std::process::id());
            let file = OutputFile::create(&std::env::temp_dir().join(name), session.existing)?;
            return Ok(Self { file, to_pipe: true });
        }
        let file = OutputFile::create(path, session.existing)?;
        if !file.is_seekable() {
            return Err(Error::invalid(format!("{}: not a regular file, which this output must be", path.display()))
                .with_hint("use -o - for a pipe"));
        }
        Ok(Self { file, to_pipe: false })
    }

    pub fn finish(mut self) -> Result<()> {
        if !self.to_pipe {
            return self.file.commit();
        }
        let mut reader = self.file.reader()?;
        let mut pipe = io::stdout().lock();
        let sent = io::copy(&mut reader, &mut pipe).and_then(|_| pipe.flush());
        sent.map_err(write_error)
    }
}

/// An unpacked file being written from front to back.
pub struct Target {
    out: Out,
    /// Bytes written so far.
    pub written: u64,
}

enum Out {
    File(Box<OutputFile>),
    Pipe(BufWriter<File>),
}

impl Target {
    pub fn create(session: &Session, path: &Path) -> Result<Self> {
        let out = if is_pipe(path) {
            let pipe = io::stdout().as_fd().try_clone_to_owned();
            let pipe = pipe.map_err(|error| output::failed(Path::new("stdout"), error))?;
            Out::Pipe(BufWriter::with_capacity(1 << 18, pipe.into()))
        } else {
            Out::File(Box::new(OutputFile::create(path, session.existing)?))
        };
        Ok(Self { out, written: 0 })
    }

    /// Completes the file and returns the number of bytes written.
    pub fn finish(self) -> Result<u64> {
        match self.out {
            Out::File(file) => file.commit()?,
            Out::Pipe(mut pipe) => pipe.flush().map_err(write_error)?,
        }
        Ok(self.written)
    }
}

impl Append for Target {
    fn append(&mut self, bytes: &[u8]) -> Result<()> {
        match &mut self.out {
            Out::File(file) => file.append(bytes)?,
            Out::Pipe(pipe) => pipe.write_all(bytes).map_err(write_error)?,
        }
        self.written += bytes.len() as u64;
        Ok(())
    }
}

fn write_error(error: io::Error) -> Error {
    output::failed(Path::new("stdout"), error)
}
