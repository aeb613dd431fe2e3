//! Where packed and unpacked files go: a file that appears whole, or a pipe.

use std::fs::File;
use std::io::{self, BufWriter, IsTerminal, Write};
use std::os::fd::AsFd;
use std::path::Path;

use melisma::pack::Append;
use melisma::runtime::output::{self, OutputFile};
use melisma::{Error, Result};

use crate::input::is_pipe;
use crate::session::Session;

/// Refuses a terminal, a file that is read, and the removal of a source whose replacement cannot be checked.
pub fn check(path: &Path, input: &Path, base: Option<&Path>, rm: Option<&str>) -> Result<()> {
    if is_pipe(path) {
        if let Some(flag) = rm {
            return Err(Error::invalid(format!("{flag} with a pipe: what leaves through it cannot be checked"))
                .with_hint("name a file with -o"));
        }
        if io::stdout().is_terminal() {
            return Err(Error::invalid("binary data is not written to a terminal")
                .with_hint("name a file with -o, or use a pipe"));
        }
        return Ok(());
    }
    let same = |a: &Path, b: &Path| matches!((a.canonicalize(), b.canonicalize()), (Ok(a), Ok(b)) if a == b);
    let refused = |what: &str| {
        Err(Error::invalid(format!("{}: the output is the {what}", path.display()))
            .with_hint("name another file with -o"))
    };
    match base {
        _ if same(path, input) => refused("input"),
        Some(base) if same(path, base) => refused("base"),
        _ => Ok(()),
    }
}

/// Names the input, unless the error is about the output.
pub fn at_input(error: Error, input: &Path, output: &Path) -> Error {
    let name = if is_pipe(output) { "stdout".to_owned() } else { output.display().to_string() };
    if error.to_string().starts_with(&name) { error } else { error.at(input.display()) }
}

/// A packed file on its way. Its beginning is written last, so that one for a pipe is complete before it leaves.
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
        match io::copy(&mut reader, &mut io::stdout().lock()) {
            Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(output::failed(Path::new("stdout"), error)),
            _ => Ok(()),
        }
    }
}

/// An unpacked file on its way, written from front to back.
pub struct Target {
    out: Out,
    /// Bytes so far.
    pub written: u64,
}

enum Out {
    File(Box<OutputFile>),
    Pipe { pipe: BufWriter<File>, is_closed: bool },
}

impl Target {
    pub fn create(session: &Session, path: &Path) -> Result<Self> {
        let out = if is_pipe(path) {
            let pipe = io::stdout().as_fd().try_clone_to_owned();
            let pipe = pipe.map_err(|error| output::failed(Path::new("stdout"), error))?;
            Out::Pipe { pipe: BufWriter::with_capacity(1 << 18, pipe.into()), is_closed: false }
        } else {
            Out::File(Box::new(OutputFile::create(path, session.existing)?))
        };
        Ok(Self { out, written: 0 })
    }

    /// Completes it, unless `outcome` is an error. A reader that went away is none.
    pub fn finish(mut self, outcome: Result<()>) -> Result<u64> {
        let outcome = outcome.and_then(|()| match &mut self.out {
            Out::File(_) => Ok(()),
            Out::Pipe { pipe, is_closed } => pipe.flush().map_err(|error| lost(error, is_closed)),
        });
        match (outcome, self.out) {
            (Ok(()), Out::File(file)) => file.commit()?,
            (Ok(()), Out::Pipe { .. }) | (Err(_), Out::Pipe { is_closed: true, .. }) => {}
            (Err(error), _) => return Err(error),
        }
        Ok(self.written)
    }
}

impl Append for Target {
    fn append(&mut self, bytes: &[u8]) -> Result<()> {
        match &mut self.out {
            Out::File(file) => file.append(bytes)?,
            Out::Pipe { pipe, is_closed } => pipe.write_all(bytes).map_err(|error| lost(error, is_closed))?,
        }
        self.written += bytes.len() as u64;
        Ok(())
    }
}

fn lost(error: io::Error, is_closed: &mut bool) -> Error {
    *is_closed = error.kind() == io::ErrorKind::BrokenPipe;
    output::failed(Path::new("stdout"), error)
}
