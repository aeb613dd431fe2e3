//! `melisma unpack`: the source file byte for byte, or one tensor or tile as a file of its own.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Instant;

use melisma::pack::Archive;
use melisma::runtime::{output, size};
use melisma::{Error, Result};
use serde_json::json;

use crate::args::UnpackArgs;
use crate::pack::{Target, bar, length, open, remove, threads};
use crate::session::Session;

pub fn run(session: &Session, args: &UnpackArgs) -> Result<()> {
    let _span = tracing::info_span!("unpack").entered();
    let threads = threads(session)?;
    let file = open(&args.input)?;
    let base = args.delta.as_deref().map(open).transpose()?;
    let mut archive = Archive::open(&file).map_err(|error| error.at(args.input.display()))?;
    if let Some(base) = &base {
        archive = archive.with_base(base)?;
    }
    let path = match &args.output {
        Some(path) => path.clone(),
        None => default_output(&args.input)?,
    };
    let mut target = Target::create(session, &path, &args.input)?;
    let begin = Instant::now();
    let bar = bar(session, archive.source_len());
    let outcome = match &args.tensor {
        None => archive.unpack(&mut target.file, threads, &|bytes| bar.inc(bytes)),
        Some(name) => part(&archive, name, args.tile.as_deref(), &mut target, threads),
    };
    bar.finish_and_clear();
    outcome.map_err(|error| error.at(args.input.display()))?;
    let bytes_out = length(&target.file.reader()?);
    target.finish()?;
    remove(args.rm, &args.input, &path)?;
    let seconds = begin.elapsed().as_secs_f64();
    let text = format!("{}: {}, every hash is right\n", path.display(), size::show(bytes_out));
    if path == Path::new("-") {
        session.say(text.trim_end());
        return Ok(());
    }
    let json = json!({
        "output": path.display().to_string(), "bytes_in": length(&file), "bytes_out": bytes_out,
        "wall_seconds": seconds, "decode_bytes_per_second": bytes_out as f64 / seconds.max(1e-9), "verified": true,
    });
    session.print("cpu", || text, json)
}

/// One tensor, or one tile of it as a matrix, under the tensor's name.
fn part(archive: &Archive<'_>, name: &str, tile: Option<&str>, target: &mut Target, threads: usize) -> Result<()> {
    let tensors = &archive.source().tensors;
    let entry = tensors.iter().find(|tensor| tensor.name == name);
    let dtype = entry.map_or("U8", |entry| &entry.dtype);
    let path = target.file.path().to_owned();
    let mut write = |bytes: &[u8]| target.file.write_all(bytes).map_err(|error| output::failed(&path, error));
    match tile {
        None => {
            let (shape, len) = entry.map_or((vec![], 0), |entry| (entry.shape.clone(), entry.len()));
            write(&header(name, dtype, &shape, len))?;
            archive.unpack_tensor(name, &mut target.file, threads)
        }
        Some(text) => {
            let (bytes, [rows, cols]) = archive.tile(name, position(text)?)?;
            let shape = [rows.end - rows.start, cols.end - cols.start];
            write(&header(name, dtype, &shape, bytes.len() as u64))?;
            write(&bytes)
        }
    }
}

fn position(text: &str) -> Result<[u64; 2]> {
    let parts = text.split_once(',').and_then(|(row, col)| Some([row.trim().parse().ok()?, col.trim().parse().ok()?]));
    parts.ok_or_else(|| {
        Error::invalid(format!("--tile: `{text}` is not a row and a column")).with_hint("for example --tile 0,3")
    })
}

fn header(name: &str, dtype: &str, shape: &[u64], len: u64) -> Vec<u8> {
    let mut json = json!({ name: { "dtype": dtype, "shape": shape, "data_offsets": [0, len] } }).to_string();
    json += &" ".repeat(json.len().next_multiple_of(8) - json.len());
    let mut bytes = (json.len() as u64).to_le_bytes().to_vec();
    bytes.extend_from_slice(json.as_bytes());
    bytes
}

fn default_output(input: &Path) -> Result<PathBuf> {
    let name = input.file_name().unwrap_or_default().to_string_lossy();
    match name.rsplit_once(".packed") {
        Some((stem, suffix)) => Ok(input.with_file_name(format!("{stem}{suffix}"))),
        None => Err(Error::invalid(format!("{}: its name does not say what to call the result", input.display()))
            .with_hint("name the output with -o")),
    }
}
