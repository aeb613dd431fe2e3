//! Unpacks one file, or one tensor or tile of it.

use std::path::{Path, PathBuf};
use std::time::Instant;

use melisma::format::{npy, safetensors};
use melisma::pack::{Append, Archive, open};
use melisma::text::size;
use melisma::{DType, Error, Result};
use serde_json::json;

use crate::args::UnpackArgs;
use crate::decode::refuse_mixing;
use crate::input::is_pipe;
use crate::pack::resource::{Resources, bar, length, print};
use crate::pack::target::{self, Target, at_input};
use crate::session::Session;
use crate::terminal::{self, is_closed_pipe};

/// Unpacks one file, or a part of it.
pub fn one(session: &Session, resources: &Resources<'_>, args: &UnpackArgs, [input, path]: [&Path; 2]) -> Result<()> {
    let begin = Instant::now();
    target::check(path, args.rm.then_some("--rm"))?;
    refuse_mixing(session, path)?;
    let decoded = decode(session, resources, args, [input, path]);
    let (bytes_in, bytes_out) = match decoded.and_then(|(bytes_in, target)| Ok((bytes_in, target.finish()?))) {
        Err(error) if is_pipe(path) && is_closed_pipe(&error) => return session.lost_reader(),
        written => written?,
    };
    if args.rm {
        std::fs::remove_file(input).map_err(|error| Error::io(input.display(), error))?;
    }
    let seconds = begin.elapsed().as_secs_f64();
    let text = format!("{}: {}, every hash is right\n", terminal::name(path), size::show(bytes_out));
    if is_pipe(path) {
        session.say(text.trim_end());
        return Ok(());
    }
    let json = json!({
        "output": path.display().to_string(), "bytes_in": bytes_in, "bytes_out": bytes_out,
        "wall_seconds": seconds, "decode_bytes_per_second": bytes_out as f64 / seconds.max(1e-9), "verified": true,
    });
    print(session, resources.device, text, json)
}

/// Decodes what the arguments ask for. Returns the bytes of the packed file and the output, which
/// has no name until it is finished.
pub fn decode(
    session: &Session,
    resources: &Resources<'_>,
    args: &UnpackArgs,
    [input, path]: [&Path; 2],
) -> Result<(u64, Target)> {
    let file = open(input)?;
    let base = args.delta.as_deref().map(open).transpose()?;
    let archive = resources.archive(&file, input, base.as_ref())?;
    let mut target = Target::create(session, path)?;
    let bar = bar(session, archive.source_len());
    let outcome = match &args.tensor {
        None => archive.unpack(&mut target, resources.threads, &|bytes| bar.inc(bytes)),
        Some(name) => part(&archive, (name, args.tile.as_deref()), Header::of(path), &mut target, resources.threads),
    };
    bar.finish_and_clear();
    outcome.map_err(|error| at_input(error, input, path))?;
    Ok((length(&file), target))
}

/// The header of the file that one tensor is written to.
#[derive(Clone, Copy)]
enum Header {
    Npy,
    Safetensors,
}

impl Header {
    fn of(path: &Path) -> Self {
        if path.extension().is_some_and(|suffix| suffix == "npy") { Self::Npy } else { Self::Safetensors }
    }

    fn bytes(self, (name, dtype): (&str, &str), shape: &[u64], len: u64) -> Result<Vec<u8>> {
        match self {
            Self::Safetensors => {
                let json = json!({ name: { "dtype": dtype, "shape": shape, "data_offsets": [0, len] } });
                Ok(safetensors::header(json.to_string(), 8))
            }
            Self::Npy => {
                let element = DType::from_safetensors(dtype).ok_or_else(|| {
                    Error::unsupported(format!("{name}: npy files have no elements of type {dtype}"))
                        .with_hint("name a .safetensors file with -o")
                })?;
                let shape: Vec<usize> = shape.iter().map(|&axis| axis as usize).collect();
                Ok(npy::header(npy::descr(element), &shape))
            }
        }
    }
}

/// Writes one tensor, or one tile of it as a matrix, under the tensor's name.
fn part(
    archive: &Archive<'_>,
    (name, tile): (&str, Option<&str>),
    header: Header,
    target: &mut Target,
    threads: usize,
) -> Result<()> {
    let entry = archive.source().get(name);
    let dtype = entry.map_or("U8", |entry| &entry.dtype);
    match tile {
        None => {
            let (shape, len) = entry.map_or((vec![], 0), |entry| (entry.shape.clone(), entry.len()));
            target.append(&header.bytes((name, dtype), &shape, len)?)?;
            archive.unpack_tensor(name, target, threads)
        }
        Some(text) => {
            let (bytes, [rows, cols]) = archive.tile(name, position(text)?)?;
            let shape = [rows.end - rows.start, cols.end - cols.start];
            target.append(&header.bytes((name, dtype), &shape, bytes.len() as u64)?)?;
            target.append(&bytes)
        }
    }
}

fn position(text: &str) -> Result<[u64; 2]> {
    let parts = text.split_once(',').and_then(|(row, col)| Some([row.trim().parse().ok()?, col.trim().parse().ok()?]));
    parts.ok_or_else(|| {
        Error::invalid(format!("--tile: `{text}` is not a row and a column")).with_hint("for example --tile 0,3")
    })
}

/// Returns the input's name without `.packed`.
pub fn default_output(input: &Path) -> Result<PathBuf> {
    let name = input.file_name().unwrap_or_default().to_string_lossy();
    match name.rsplit_once(".packed") {
        Some((stem, suffix)) => Ok(input.with_file_name(format!("{stem}{suffix}"))),
        None => Err(Error::invalid(format!("{}: cannot derive an output name", input.display()))
            .with_hint("name the output with -o")),
    }
}
