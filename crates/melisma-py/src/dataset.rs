//! `melisma.dataset`: folders of audio to training tensors.

mod inputs;
mod lines;
mod merge;
mod verify;

use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use melisma::Existing;
use melisma::dataset::store::{ColumnType, Store};
use melisma::dataset::{
    Check, Counters, Feature, Fields, Lengths, LineFormat, Lines, Metadata, Options, Outcome, Preparation, Request,
    StoreKind, Tail, Techniques, Texts, Tokens, Trim, Untexted,
};
use melisma::format::npy;
use melisma::mel::Config;
use melisma::snac::tokens::check_orpheus;
use melisma::{Error, Result};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};
use serde_json::json;

pub use inputs::PyInputs;
use lines::LinesArgs;
pub use merge::merge_shards;
pub use verify::verify_dataset;

use crate::error::raise;
use crate::exec_context::{ExecContext, ExecOptions};
use crate::local::Local;
use crate::signal::{self, Stop};
use crate::snac::Codec;
use crate::{array, mel};

/// What every build takes.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub struct BuildArgs<'py> {
    inputs: Bound<'py, PyInputs>,
    output: PathBuf,
    store: Option<String>,
    shard: (usize, usize),
    overwrite: bool,
    max_failures: Option<usize>,
    progress: Option<Bound<'py, PyAny>>,
}

/// How the work is done; `None` is the default.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub struct How {
    buffers_in_flight: Option<usize>,
    segments_per_buffer: Option<usize>,
    autosize_gpu_batch: bool,
}

impl From<How> for Techniques {
    fn from(how: How) -> Self {
        let own = Self::default();
        Self {
            buffers_in_flight: how.buffers_in_flight.unwrap_or(own.buffers_in_flight),
            segments_per_buffer: how.segments_per_buffer,
            autosize_gpu_batch: how.autosize_gpu_batch,
            ..own
        }
    }
}

/// A table of texts, and the columns of it that are read.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub struct TableArgs {
    path: PathBuf,
    text: String,
    /// The column with the names of the files.
    name: Option<String>,
    kept: Vec<String>,
    speaker: Option<String>,
}

/// Which files are used, and what is done with their audio.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub struct FilesArgs {
    min_seconds: Option<f64>,
    max_seconds: Option<f64>,
    /// The threshold in dB and the margin in seconds.
    trim: Option<(f64, f64)>,
    loudness: Option<f64>,
}

impl FilesArgs {
    fn checked(&self) -> Result<(Lengths, Preparation)> {
        let trim = |(db, seconds)| Trim::default().with_threshold_db(db).with_margin_seconds(seconds);
        Ok((Lengths::new(self.min_seconds, self.max_seconds)?, Preparation::new(self.trim.map(trim), self.loudness)?))
    }
}

/// Device, threads and memory limit.
type ExecArgs<'py> = (Option<String>, Option<usize>, Option<Bound<'py, PyAny>>);

fn exec_options<'a>((device, threads, memory_limit): &'a ExecArgs<'_>) -> ExecOptions<'a> {
    ExecOptions { device: device.as_deref(), threads: *threads, memory_limit: memory_limit.as_ref() }
}

/// Threads and memory limit of work that needs no device.
type HostArgs<'py> = (Option<usize>, Option<Bound<'py, PyAny>>);

/// Opens the CPU.
fn host(py: Python<'_>, (threads, memory_limit): HostArgs<'_>) -> PyResult<ExecContext> {
    let memory_limit = memory_limit.as_ref();
    ExecContext::open(py, ExecOptions { device: Some("cpu"), threads, memory_limit })
}

/// A feature and a place, with its model loaded, for many builds.
#[pyclass(name = "_Builder", module = "melisma._melisma", frozen)]
pub struct PyBuilder {
    opened: Local<Opened>,
}

struct Opened {
    exec: ExecContext,
    feature: Feature,
    techniques: Techniques,
    /// The form of an output of lines.
    lines: Lines,
}

#[pymethods]
impl PyBuilder {
    /// Builds datasets of spectrograms.
    #[staticmethod]
    fn mel<'py>(
        py: Python<'py>,
        exec: ExecArgs<'py>,
        preset: &str,
        values: &Bound<'py, PyDict>,
        segments: (f64, Option<f64>, bool),
        files: FilesArgs,
        techniques: How,
    ) -> PyResult<Self> {
        let mut config = Config::preset(preset).map_err(raise)?;
        mel::set(&mut config, values)?;
        let options = || -> Result<Options> {
            let (segment, hop, drops_tail) = (seconds(segments.0)?, segments.1.map(seconds).transpose()?, segments.2);
            let tail = if drops_tail { Tail::Drop } else { Tail::Pad };
            let mut options =
                Options::new(config.clone(), segment)?.with_tail(tail).with_hop(hop.unwrap_or(segment))?;
            (options.lengths, options.preparation) = files.checked()?;
            if values.contains("dtype").unwrap_or(false) {
                options.mel.dtype = config.dtype;
            }
            Ok(options)
        };
        let options = options().map_err(raise)?;
        let exec = ExecContext::open(py, exec_options(&exec))?;
        let (feature, techniques) = (options.into(), techniques.into());
        Ok(Self { opened: Local::new(Opened { exec, feature, techniques, lines: Lines::default() }) })
    }

    /// Builds datasets of tokens.
    #[staticmethod]
    fn tokens<'py>(
        py: Python<'py>,
        exec: ExecArgs<'py>,
        model: &str,
        table: Option<TableArgs>,
        measure: Option<(Option<f64>,)>,
        filters: (FilesArgs, bool),
        lines: LinesArgs,
    ) -> PyResult<Self> {
        let (files, requires_text) = filters;
        let (lengths, preparation) = files.checked().map_err(raise)?;
        let untexted = if requires_text { Untexted::LeaveOut } else { Untexted::Keep };
        let codec = Codec::open(py, model, exec_options(&exec))?;
        let texts = match table {
            None => Texts::Beside,
            Some(TableArgs { path, text, name, kept, speaker }) => {
                let fields = Fields::new(text).with_path(name).with_kept(kept).with_speaker(speaker);
                let open = move |_: &_| Metadata::open_fields(&path, &fields);
                Texts::Table(Arc::new(signal::alone(py, open)?))
            }
        };
        let check = measure.map_or(Check::None, |(min_snr_db,)| Check::Measure { min_snr_db });
        let tokens = Tokens::new(Arc::clone(&codec.model)).with_texts(texts).with_check(check);
        let tokens = tokens.with_lengths(lengths).with_untexted(untexted).with_preparation(preparation);
        let lines = Lines::from(lines);
        if lines.format == LineFormat::Orpheus {
            check_orpheus(codec.model.config()).map_err(raise)?;
        }
        let (feature, techniques) = (tokens.into(), Techniques::default());
        Ok(Self { opened: Local::new(Opened { exec: codec.exec, feature, techniques, lines }) })
    }

    /// Repairs a dataset of spectrograms, with its own settings.
    #[staticmethod]
    fn like<'py>(py: Python<'py>, exec: ExecArgs<'py>, path: PathBuf) -> PyResult<Self> {
        let options = || -> Result<Options> {
            let layout = Store::open(&path)?.layout;
            if layout.is_tokens() {
                return Err(Error::invalid(format!("{}: these are tokens; their model is needed", path.display()))
                    .with_hint("use feature=Tokens(model=..., texts=...)"));
            }
            Options::parse(layout.text("config").unwrap_or_default())
        };
        let feature = py.detach(options).map_err(raise)?.into();
        let exec = ExecContext::open(py, exec_options(&exec))?;
        Ok(Self {
            opened: Local::new(Opened { exec, feature, techniques: Techniques::default(), lines: Lines::default() }),
        })
    }

    /// Rebuilds the damaged rows of a dataset, and returns what a verification finds then.
    fn repair<'py>(
        &self,
        py: Python<'py>,
        inputs: &Bound<'py, PyInputs>,
        path: PathBuf,
    ) -> PyResult<Bound<'py, PyAny>> {
        let Opened { exec, feature, .. } = self.opened.get()?;
        verify::repair(py, (&inputs.get().inputs, &path), (exec, feature))
    }

    /// Builds one dataset or shard, and returns a report.
    fn build<'py>(&self, py: Python<'py>, args: BuildArgs<'py>) -> PyResult<Bound<'py, PyAny>> {
        build(py, &args, self.opened.get()?)
    }
}

fn seconds(value: f64) -> Result<Duration> {
    Duration::try_from_secs_f64(value).map_err(|_| Error::invalid(format!("a segment cannot have {value} seconds")))
}

fn build<'py>(
    py: Python<'py>,
    args: &BuildArgs<'py>,
    Opened { exec, feature, techniques, lines }: &Opened,
) -> PyResult<Bound<'py, PyAny>> {
    let BuildArgs { output, store, shard, overwrite, max_failures, progress, .. } = args;
    let (threads, shard) = (exec.config.threads.value.count(), *shard);
    let existing = if *overwrite { Existing::Replace } else { Existing::Refuse };
    let counters = OnceLock::new();
    // Rows in all, and those of earlier runs.
    let (total, resumed) = (OnceLock::new(), AtomicU64::new(0));
    let progress = progress.as_ref().map(|progress| progress.clone().unbind());
    let inputs = &args.inputs.get().inputs;
    let work = |stop: &Stop| -> Result<Outcome> {
        let is_lines = matches!(feature, Feature::Tokens(_)) && Lines::is_name(output) && store.is_none();
        let store = if is_lines { StoreKind::Safetensors } else { StoreKind::choose(store.as_deref(), output)? };
        if !is_lines && *lines != Lines::default() {
            return Err(Error::invalid(format!("{}: this holds codes of every frame", output.display()))
                .with_hint("name an output that ends with .jsonl, or leave out `format` and `drop_repeats`"));
        }
        let mut request = Request::new_in(&exec.context, inputs, output, feature.clone())
            .with_shard(shard.0, shard.1)
            .with_store(store)
            .with_existing(existing)
            .with_max_failures(*max_failures)
            .with_threads(threads)
            .with_techniques(*techniques);
        if is_lines {
            request = request.with_lines(*lines);
        }
        let counters = counters.get_or_init(|| Counters::stopped_by(Arc::clone(&stop.0)));
        request.build_watched(counters, |plan, done| {
            resumed.store(done as u64, Relaxed);
            let _ = total.set(plan.rows.len() as u64);
        })
    };
    let tell = || -> PyResult<()> {
        let (Some(progress), Some(total)) = (&progress, total.get()) else { return Ok(()) };
        let done = resumed.load(Relaxed) + counters.get().map_or(0, |counters| counters.now().rows);
        Python::attach(|py| progress.call1(py, (done, *total)).map(drop))
    };
    let outcome = signal::watched(py, work, tell)?;
    tell()?;
    array::parsed(py, &report(&outcome).to_string())
}

fn report(outcome: &Outcome) -> serde_json::Value {
    json!({
        "rows": outcome.segments,
        "rows_resumed": outcome.resumed_segments,
        "frames": outcome.frames,
        "files_ok": outcome.files_ok,
        "files_failed": outcome.files_failed(),
        "files_left_out": outcome.left_out,
        "files_newer": outcome.newer,
        "files_peak_limited": outcome.limited,
        "files_without_text": outcome.without_text,
        "failures": outcome.failures,
        "failures_by_code": outcome.failures_by_code(),
        "audio_seconds": outcome.audio_seconds,
        "wall_seconds": outcome.wall_seconds,
    })
}

/// Returns the columns of a dataset: name, numpy's type, shape, file and offset; and its attributes.
#[pyfunction(name = "_dataset_columns")]
pub fn columns<'py>(py: Python<'py>, path: PathBuf) -> PyResult<(Bound<'py, PyList>, Bound<'py, PyAny>)> {
    let store = py.detach(|| Store::open(&path)).map_err(raise)?;
    let list = PyList::empty(py);
    for (column, file, offset) in store.places() {
        let kind = match column.element {
            ColumnType::Number(dtype) => npy::descr(dtype).to_owned(),
            ColumnType::Text(width) => format!("S{width}"),
        };
        let mut shape = vec![store.layout.len(column)];
        shape.extend(column.shape.iter().map(|&extent| extent as u64));
        list.append((&column.name, kind, shape, file, offset))?;
    }
    let attributes = serde_json::Value::Object(store.layout.attributes.clone()).to_string();
    Ok((list, array::parsed(py, &attributes)?))
}
