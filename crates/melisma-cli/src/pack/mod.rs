//! `melisma pack`: with zstd's habits. The source stays unless `--rm` says otherwise.

pub mod shards;
mod show;
pub mod target;

use std::fs::File;
use std::path::{Path, PathBuf};

use indicatif::{ProgressBar, ProgressStyle};
use melisma::pack::{self, Archive, Converted, Options, Packed, ReadAt, TensorInfo};
use melisma::runtime::device::{Device, DeviceRequest};
use melisma::runtime::memory::Budget;
use melisma::{Error, Kind, Result};

use crate::args::PackArgs;
use crate::decode::refuse_mixing;
use crate::failure::is_closed_pipe;
use crate::input::is_pipe;
use crate::session::Session;
use target::{Spool, at_input};

/// Where packed files are decoded: threads and memory of the host, and perhaps a GPU.
pub struct Place<'a> {
    pub device: &'a Device,
    pub threads: usize,
    pub budget: &'a Budget,
}

impl<'a> Place<'a> {
    /// The device that was asked for. Left to us it is the CPU: decoded bytes go to a file, and starting a GPU and copying
    /// them back takes longer than the CPU's threads do.
    pub fn of(session: &'a Session) -> Result<Self> {
        let engine = session.engine_on(match session.config.device.value {
            DeviceRequest::Auto => DeviceRequest::Cpu,
            asked => asked,
        })?;
        let threads = session.config.threads.value.count();
        Ok(Self { device: &engine.device, threads, budget: engine.memory.budget() })
    }

    /// The CPU, for what GPUs do not do.
    fn of_cpu(session: &'a Session) -> Result<Self> {
        if let DeviceRequest::Cuda(ordinal) = session.config.device.value {
            return Err(Error::unsupported(format!("cuda:{ordinal}: files are packed and listed by the CPU"))
                .with_hint("use --device cpu or auto; `pack -t` and `unpack` run on a GPU"));
        }
        Self::of(session)
    }

    /// Opens a packed file to be decoded here.
    pub fn archive<'f>(&self, file: &'f File, path: &Path, base: Option<&'f File>) -> Result<Archive<'f>> {
        let archive = Archive::open(file).map_err(|error| error.at(path.display()))?;
        let archive = archive.with_budget(self.budget).on(self.device);
        match base {
            Some(base) => archive.with_base(base).map_err(|error| error.at(path.display())),
            None => Ok(archive),
        }
    }
}

pub fn run(session: &Session, args: &PackArgs) -> Result<()> {
    let _span = tracing::info_span!("pack").entered();
    let place = if args.test { Place::of(session)? } else { Place::of_cpu(session)? };
    if shards::is_index(&args.input) {
        return shards::pack(session, &place, args);
    }
    if args.test {
        return test(session, &place, args);
    }
    if args.list {
        return list(session, &place, &args.input);
    }
    let path = args.output.clone().unwrap_or_else(|| default_output(&args.input));
    target::check(&path, args.rm.then_some("--rm"))?;
    refuse_mixing(session, &path)?;
    let (packed, infos) = match pack_file(session, &place, args, [&args.input, &path]) {
        Err(error) if is_pipe(&path) && is_closed_pipe(&error) => return session.lost_reader(),
        packed => packed?,
    };
    if args.rm {
        std::fs::remove_file(&args.input).map_err(|error| Error::io(args.input.display(), error))?;
    }
    let text = show::packed_line(&path, &packed);
    if is_pipe(&path) {
        session.say(text.trim_end());
        return Ok(());
    }
    print(session, place.device, text, show::packed(&path, &packed, &infos))
}

fn pack_file(
    session: &Session,
    place: &Place<'_>,
    args: &PackArgs,
    [input, path]: [&Path; 2],
) -> Result<(Packed, Vec<TensorInfo>)> {
    let file = open(input)?;
    let converted = match pack::is_checkpoint(&file) {
        true if args.rm => {
            return Err(Error::invalid(format!("{}: --rm with a PyTorch checkpoint", input.display()))
                .with_hint("`unpack` gives back its tensors as .safetensors, not the checkpoint; drop --rm"));
        }
        true => Some(Converted::read(&file).map_err(|error| error.at(input.display()))?),
        false => None,
    };
    if let Some(names) = converted.as_ref().map(Converted::left_out).filter(|names| !names.is_empty()) {
        session.say(&format!("note: {}: left out, not tensors of the model: {}", input.display(), names.join(", ")));
    }
    let source: &dyn ReadAt = converted.as_ref().map_or(&file, |converted| converted);
    let base = args.delta.as_deref().map(open).transpose()?;
    let tile_size = args.tile_size.as_deref().and_then(|size| size.parse().ok());
    let gpu_index = args.gpu_index.then_some(pack::SEGMENT);
    let base = base.as_ref().map(|base| base as _);
    let options = Options { tile_size, threads: place.threads, base, budget: Some(place.budget), gpu_index };
    let mut spool = Spool::create(session, path)?;
    let bar = bar(session, 2 * source.size()?);
    let packed = pack::pack(source, &mut spool.file, &options, &|bytes| bar.inc(bytes));
    bar.finish_and_clear();
    let packed = packed.map_err(|error| at_input(error, input, spool.file.path()))?;
    let reader = spool.file.reader()?;
    let infos = Archive::open(&reader)?.list()?;
    spool.finish()?;
    Ok((packed, infos))
}

fn test(session: &Session, place: &Place<'_>, args: &PackArgs) -> Result<()> {
    let file = open(&args.input)?;
    let base = args.delta.as_deref().map(open).transpose()?;
    let archive = place.archive(&file, &args.input, base.as_ref())?;
    check(session, place, &archive).map_err(|error| failed_check(error).at(args.input.display()))?;
    let text = format!("{}: whole, every hash is right\n", args.input.display());
    print(session, place.device, text, show::tested(&archive, length(&file))?)
}

/// Damage is what a test looks for: a check that failed, and not input that was refused.
fn failed_check(error: Error) -> Error {
    if !matches!(error.kind(), Kind::Corrupt | Kind::Truncated) {
        return error;
    }
    Error::new(Kind::Check, error.to_string()).with_remedies_of(&error)
}

fn check(session: &Session, place: &Place<'_>, archive: &Archive<'_>) -> Result<()> {
    let bar = bar(session, archive.source_len());
    let checked = archive.check(place.threads, &|bytes| bar.inc(bytes));
    bar.finish_and_clear();
    checked
}

fn list(session: &Session, place: &Place<'_>, path: &Path) -> Result<()> {
    let file = open(path)?;
    let archive = place.archive(&file, path, None)?;
    let infos = archive.list()?;
    let bytes = [archive.source_len(), length(&file)];
    session.print(place.device, || show::table(&[infos], bytes), show::listed(&archive, length(&file))?)
}

/// Prints a summary; in words only where somebody wants to know.
pub fn print(session: &Session, device: &Device, text: String, json: serde_json::Value) -> Result<()> {
    if session.config.quiet.value && !session.wants_json() {
        return Ok(());
    }
    session.print(device, || text, json)
}

fn default_output(input: &Path) -> PathBuf {
    let stem = input.file_stem().unwrap_or_default().to_string_lossy();
    input.with_file_name(format!("{stem}.packed.safetensors"))
}

pub fn open(path: &Path) -> Result<File> {
    let failed = |error| Error::io(path.display(), error).with_hint("check the name, and that you may read it");
    let file = File::open(path).map_err(failed)?;
    let data = file.metadata().map_err(failed)?;
    if data.is_file() {
        return Ok(file);
    }
    let kind = if data.is_dir() { "this is a directory" } else { "this is not a regular file" };
    Err(Error::invalid(format!("{}: {kind}", path.display()))
        .with_hint("name a file of weights, or the .index.json of its shards"))
}

pub fn length(file: &File) -> u64 {
    file.metadata().map_or(0, |data| data.len())
}

pub fn bar(session: &Session, len: u64) -> ProgressBar {
    let bar = if session.has_audience() { ProgressBar::new(len) } else { ProgressBar::hidden() };
    if let Ok(style) = ProgressStyle::with_template("{bar:30} {bytes}/{total_bytes} {bytes_per_sec} {eta}") {
        bar.set_style(style);
    }
    bar
}
