//! Pipes among the inputs. A spectrogram reads its file twice, so the bytes of a pipe are put into a
//! temporary file first.

use std::io::Write;
use std::os::unix::fs::FileTypeExt;
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use melisma::output::{self, Existing, OutputFile};
use melisma::text::size;
use melisma::{Error, Result};

use crate::input::{Input, is_pipe};

/// The most bytes of one pipe.
const MAX_BYTES: u64 = 16 << 30;

/// Returns all bytes of `path` in a file that is removed when it is dropped; `None` if `path` is not a pipe.
pub fn spool(path: &Path) -> Result<Option<OutputFile>> {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    if !is_pipe(path) && !path.metadata().is_ok_and(|data| data.file_type().is_fifo()) {
        return Ok(None);
    }
    let mut input = Input::open(path)?;
    let name = format!("melisma-{}-{}", std::process::id(), COUNT.fetch_add(1, Relaxed));
    let mut file = OutputFile::create(&std::env::temp_dir().join(name), Existing::Replace)?;
    let (mut bytes, mut n_bytes) = (vec![0; 1 << 16], 0);
    loop {
        let n = input.read(&mut bytes)?;
        n_bytes += n as u64;
        if n_bytes > MAX_BYTES {
            let most = size::show(MAX_BYTES);
            return Err(Error::invalid(format!("{}: more than {most}", input.name())).with_hint("cut it first"));
        }
        let written = if n > 0 { file.write_all(&bytes[..n]) } else { file.flush() };
        written.map_err(|error| output::failed(file.path(), error))?;
        if n == 0 {
            return Ok(Some(file));
        }
    }
}
