//! `melisma pack`: with zstd's habits. The source stays unless `--rm` says otherwise.

mod shards;

use std::fs::File;
use std::io::{self, IsTerminal};
use std::path::{Path, PathBuf};

use indicatif::{ProgressBar, ProgressStyle};
use melisma::pack::{self, Archive, Options, Packed, ReadAt, TensorInfo};
use melisma::runtime::device::{self, Device, DeviceRequest};
use melisma::runtime::output::{self, OutputFile};
use melisma::runtime::size;
use melisma::runtime::table::{Align, Table};
use melisma::{Error, Result};
use serde_json::{Value, json};

use crate::args::PackArgs;
use crate::session::Session;

pub fn run(session: &Session, args: &PackArgs) -> Result<()> {
    let _span = tracing::info_span!("pack").entered();
    let threads = threads(session)?;
    if args.test {
        return test(session, args, threads);
    }
    if args.list {
        return list(session, &args.input);
    }
    if shards::is_index(&args.input) {
        return shards::run(session, args, |source, path| {
            let (packed, infos) = pack_file(session, args, source, path)?;
            Ok(summary(path, &packed, &infos))
        });
    }
    let path = args.output.clone().unwrap_or_else(|| default_output(&args.input));
    let (packed, infos) = pack_file(session, args, &args.input, &path)?;
    remove(args.rm, &args.input, &path)?;
    report(session, &path, &packed, &infos)
}

fn pack_file(session: &Session, args: &PackArgs, input: &Path, path: &Path) -> Result<(Packed, Vec<TensorInfo>)> {
    let file = open(input)?;
    let at_input = |error: Error| error.at(input.display());
    let converted = if pack::is_checkpoint(&file) {
        let bytes = std::fs::read(input).map_err(|error| Error::io(input.display(), error))?;
        Some(pack::from_checkpoint(&bytes).map_err(at_input)?)
    } else {
        None
    };
    let source: &dyn ReadAt = converted.as_ref().map_or(&file, |bytes| bytes);
    let base = args.delta.as_deref().map(open).transpose()?;
    let side = args.tile_size.as_deref().and_then(|side| side.parse().ok());
    let gpu_index = args.gpu_index.then_some(pack::SEGMENT);
    let options = Options { side, threads: threads(session)?, base: base.as_ref().map(|base| base as _), gpu_index };
    let mut target = Target::create(session, path, input)?;
    let bar = bar(session, 2 * length(&file));
    let packed = pack::pack(source, &mut target.file, &options, &|bytes| bar.inc(bytes));
    bar.finish_and_clear();
    let packed = packed.map_err(at_input)?;
    let reader = target.file.reader()?;
    let infos = Archive::open(&reader)?.list()?;
    target.finish()?;
    Ok((packed, infos))
}

fn summary(path: &Path, packed: &Packed, infos: &[TensorInfo]) -> Value {
    let Packed { source_len, packed_len, encode_seconds } = *packed;
    json!({
        "output": path.display().to_string(), "bytes_in": source_len, "bytes_out": packed_len,
        "ratio": packed_len as f64 / source_len.max(1) as f64,
        "encode_bytes_per_second": source_len as f64 / encode_seconds.max(1e-9), "verified": true,
        "tensors": tensors(infos),
    })
}

fn report(session: &Session, path: &Path, packed: &Packed, infos: &[TensorInfo]) -> Result<()> {
    let Packed { source_len, packed_len, .. } = *packed;
    let text = format!(
        "{}: {} to {} ({:.2} %), verified\n",
        path.display(),
        size::show(source_len),
        size::show(packed_len),
        100.0 * packed_len as f64 / source_len.max(1) as f64
    );
    if path == Path::new("-") {
        session.say(text.trim_end());
        return Ok(());
    }
    session.print("cpu", || text, summary(path, packed, infos))
}

fn test(session: &Session, args: &PackArgs, threads: usize) -> Result<()> {
    let file = open(&args.input)?;
    let archive = Archive::open(&file).map_err(|error| error.at(args.input.display()))?;
    let bar = bar(session, archive.source_len());
    let checked = archive.check(threads, &|bytes| bar.inc(bytes));
    bar.finish_and_clear();
    checked.map_err(|error| error.at(args.input.display()))?;
    let (bytes_in, bytes_out) = (archive.source_len(), length(&file));
    let json = json!({
        "bytes_in": bytes_in, "bytes_out": bytes_out, "ratio": bytes_out as f64 / bytes_in.max(1) as f64,
        "verified": true, "tensors": tensors(&archive.list()?),
    });
    session.print("cpu", || format!("{}: whole, every hash is right\n", args.input.display()), json)
}

fn list(session: &Session, path: &Path) -> Result<()> {
    let file = open(path)?;
    let archive = Archive::open(&file).map_err(|error| error.at(path.display()))?;
    let infos = archive.list()?;
    let (bytes_in, bytes_out) = (archive.source_len(), length(&file));
    let ratio = bytes_out as f64 / bytes_in.max(1) as f64;
    let right = |name| (name, Align::Right);
    let left = |name| (name, Align::Left);
    let mut table = Table::new([
        left("tensor"),
        left("dtype"),
        left("shape"),
        right("bytes"),
        right("packed"),
        right("ratio"),
        left("modes"),
    ]);
    for info in &infos {
        let entry = &info.entry;
        table.push([
            entry.name.clone(),
            entry.dtype.clone(),
            format!("{:?}", entry.shape),
            entry.len().to_string(),
            info.packed_len.to_string(),
            format!("{:.4}", info.packed_len as f64 / entry.len().max(1) as f64),
            modes(info).join(" | "),
        ]);
    }
    let json = json!({
        "bytes_in": bytes_in, "bytes_out": bytes_out, "ratio": ratio, "verified": false, "delta": archive.is_delta(),
        "gpu_index": archive.has_gpu_index(),
        "tensors": tensors(&infos),
    });
    let total = format!("{bytes_in} bytes in {bytes_out}, {:.2} %\n", 100.0 * ratio);
    session.print("cpu", || table.text() + &total, json)
}

/// For each plane its modes, e.g. `pairs` or `raw 3, bytes 1`.
fn modes(info: &TensorInfo) -> Vec<String> {
    let plane = |modes: &Vec<(&str, u64)>| match &modes[..] {
        [(name, _)] => (*name).to_owned(),
        modes => modes.iter().map(|(name, count)| format!("{name} {count}")).collect::<Vec<_>>().join(", "),
    };
    info.modes.iter().map(plane).collect()
}

fn tensors(infos: &[TensorInfo]) -> Vec<Value> {
    let tensor = |info: &TensorInfo| {
        json!({
            "name": info.entry.name, "dtype": info.entry.dtype, "shape": info.entry.shape,
            "bytes_in": info.entry.len(), "bytes_out": info.packed_len, "modes": modes(info),
            "tiles": info.layout.grid(),
        })
    };
    infos.iter().map(tensor).collect()
}

fn default_output(input: &Path) -> PathBuf {
    let stem = input.file_stem().unwrap_or_default().to_string_lossy();
    input.with_file_name(format!("{stem}.packed.safetensors"))
}

/// The threads to work on; the work is the CPU's, so that a demand for a GPU is refused.
pub fn threads(session: &Session) -> Result<usize> {
    if let DeviceRequest::Cuda(ordinal) = session.config.device.value {
        return Err(Error::unsupported(format!("cuda:{ordinal}: files are packed and unpacked by the CPU"))
            .with_hint("use --device cpu or auto"));
    }
    match device::select(DeviceRequest::Cpu, session.config.threads.value)? {
        Device::Cpu(cpu) => Ok(cpu.threads),
        Device::Cuda(_) => Ok(1),
    }
}

pub fn open(path: &Path) -> Result<File> {
    let file = File::open(path).map_err(|error| Error::io(path.display(), error))?;
    let data = file.metadata().map_err(|error| Error::io(path.display(), error))?;
    if data.is_file() {
        return Ok(file);
    }
    Err(Error::invalid(format!("{}: not a regular file, which this input must be", path.display())))
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

/// Removes the source, once the file that replaces it is there.
pub fn remove(is_wanted: bool, source: &Path, replacement: &Path) -> Result<()> {
    if !is_wanted {
        return Ok(());
    }
    if replacement == Path::new("-") {
        return Err(Error::invalid("--rm with a pipe: what left through it cannot be checked")
            .with_hint(format!("{} was kept", source.display())));
    }
    std::fs::remove_file(source).map_err(|error| Error::io(source.display(), error))
}

/// An output file, or one on its way into stdout.
pub struct Target {
    pub file: OutputFile,
    to_stdout: bool,
}

impl Target {
    /// Refuses the input itself, and a terminal.
    pub fn create(session: &Session, path: &Path, input: &Path) -> Result<Self> {
        if path == Path::new("-") {
            if io::stdout().is_terminal() {
                return Err(Error::invalid("binary data is not written to a terminal")
                    .with_hint("name a file with -o, or use a pipe"));
            }
            let name = format!("melisma-{}.safetensors", std::process::id());
            let file = OutputFile::create(&std::env::temp_dir().join(name), session.existing)?;
            return Ok(Self { file, to_stdout: true });
        }
        let same = |a: &Path, b: &Path| matches!((a.canonicalize(), b.canonicalize()), (Ok(a), Ok(b)) if a == b);
        if same(path, input) {
            return Err(Error::invalid(format!("{}: the output is the input", path.display()))
                .with_hint("name another file with -o"));
        }
        Ok(Self { file: OutputFile::create(path, session.existing)?, to_stdout: false })
    }

    pub fn finish(mut self) -> Result<()> {
        if !self.to_stdout {
            return self.file.commit();
        }
        let mut reader = self.file.reader()?;
        io::copy(&mut reader, &mut io::stdout().lock()).map_err(|error| output::failed(Path::new("stdout"), error))?;
        Ok(())
    }
}
