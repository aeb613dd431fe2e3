//! `melisma doctor`.

use melisma::config::{Environment, default_file};
use melisma::engine::ours::{chain, mixed};
use melisma::engine::{EngineName, onnxruntime, rten};
use melisma::runtime::device::Device;
use melisma::runtime::device::cuda::{self, Gpu, Probe};
use melisma::runtime::machine::{Machine, disk_use, peak_resident_bytes};
use melisma::runtime::memory;
use melisma::snac::{MINI24, SOLO24};
use melisma::speak::{BUILTIN, has_builtin};
use melisma::text::table::{Align, Table};
use melisma::text::{count, size};
use melisma::{Error, Result as Checked};
use serde_json::{Map, Value, json};

use crate::remedy;
use crate::session::Session;

/// The subfolders of the cache.
const CACHES: [&str; 2] = ["kernels", "engines"];
/// Engines that are built into this program.
const EMBEDDED: [(EngineName, &str); 3] =
    [(rten::NAME, rten::VERSION), (chain::NAME, env!("CARGO_PKG_VERSION")), (mixed::NAME, env!("CARGO_PKG_VERSION"))];

pub fn run(session: &Session) -> Checked<()> {
    let _span = tracing::info_span!("doctor").entered();
    let facts = Facts::collect(session)?;
    session.print(&facts.device, || facts.table().text(), facts.json())
}

/// Everything that `doctor` reports.
pub struct Facts {
    machine: Machine,
    cuda: Probe,
    device: Device,
    instruction_set: &'static str,
    threads: usize,
    memory_limit: Option<u64>,
    /// The memory of the program itself, which the limit does not count.
    program_bytes: Option<u64>,
    config_file: Option<String>,
    /// The path of the configuration file that is read without `--config`.
    config_default: Option<String>,
    profile: String,
    cache_dir: Option<String>,
    /// Engines that are found at run time: where each one is, or why it is missing and what to do.
    engines: Vec<(&'static str, Result<Library, String>)>,
    /// Folder, files, bytes.
    caches: Vec<(&'static str, u64, u64)>,
}

impl Facts {
    /// Collects the facts; fails if the requested device is missing.
    pub fn collect(session: &Session) -> Checked<Self> {
        let config = &session.config;
        let cache_dir = config.cache_dir.value.as_ref();
        let cache = |name| {
            let (files, bytes) = cache_dir.map_or((0, 0), |directory| disk_use(directory.join(name)));
            (name, files, bytes)
        };
        Ok(Self {
            device: session.context()?.device().clone(),
            instruction_set: melisma::runtime::device::instruction_set()?,
            machine: Machine::detect(),
            cuda: cuda::probe(),
            threads: config.threads.value.count(),
            memory_limit: config.memory_limit.value.bytes(),
            program_bytes: memory::program_bytes(),
            config_file: config.file.as_ref().map(|path| path.display().to_string()),
            config_default: default_file(&Environment::process()).map(|path| path.display().to_string()),
            profile: config.profile.value.to_string(),
            cache_dir: cache_dir.map(|path| path.display().to_string()),
            engines: engines(),
            caches: CACHES.map(cache).to_vec(),
        })
    }

    /// Returns one line per fact.
    pub fn table(&self) -> Table {
        let mut table = Table::new([("what", Align::Left), ("found", Align::Left)]);
        let mut line = |what: &str, found: String| table.push([what.to_owned(), found]);
        let or_none = |text: &Option<String>| text.clone().unwrap_or_else(|| "none".to_owned());
        let bytes = |bytes: Option<u64>| bytes.map_or_else(|| "unknown".to_owned(), size::show);
        let Machine { cpu, cores, features, os, arch, .. } = &self.machine;
        line("system", format!("{os} {arch}"));
        line("cpu", format!("{cpu}, {}", count(*cores as u64, "core")));
        line("cpu features", features.join(" "));
        line("instruction set", self.instruction_set.to_owned());
        line("memory", format!("{}, {} free", bytes(self.machine.memory_bytes), bytes(self.machine.available_bytes)));
        if let Some(limit) = self.machine.control_group_limit_bytes {
            line("control group limit", size::show(limit));
        }
        match &self.cuda.gpus {
            Ok(gpus) if !gpus.is_empty() => {
                gpus.iter().for_each(|gpu| line(&format!("cuda:{}", gpu.ordinal), described(gpu)))
            }
            Ok(_) => line("gpus", "none".to_owned()),
            Err(reason) => line("gpus", format!("none: {reason}")),
        }
        for library in &self.cuda.libraries {
            line(&format!("cuda {}", library.name), library.place.clone().unwrap_or_else(|reason| reason));
        }
        line("built-in models", builtin().join(" "));
        for (name, version) in EMBEDDED {
            line(&format!("engine {name}"), format!("{version}, part of this program"));
        }
        for (name, found) in &self.engines {
            line(&format!("engine {name}"), found.as_ref().map_or_else(Clone::clone, Library::text));
        }
        for (name, files, used) in &self.caches {
            line(&format!("cache {name}"), format!("{}, {}", count(*files, "file"), size::show(*used)));
        }
        line("cache folder", or_none(&self.cache_dir));
        line("config file", self.config_shown());
        line("profile", self.profile.clone());
        line("memory limit", size::show_limit(self.memory_limit));
        line("program itself", bytes(self.program_bytes));
        line("threads", self.threads.to_string());
        line("will use", format!("{} ({})", self.device, self.device.description()));
        table
    }

    fn config_shown(&self) -> String {
        match (&self.config_file, &self.config_default) {
            (Some(file), _) => file.clone(),
            (None, Some(place)) => format!("none; it would be {place}"),
            (None, None) => "none".to_owned(),
        }
    }

    /// Returns the same facts with stable keys.
    pub fn json(&self) -> Value {
        let cache =
            |(name, files, bytes): &(&str, u64, u64)| ((*name).to_owned(), json!({ "files": files, "bytes": bytes }));
        json!({
            "machine": self.machine,
            "instruction_set": self.instruction_set,
            "cuda": cuda_json(&self.cuda),
            "builtin_models": builtin(),
            "engines": engines_json(&self.engines),
            "device_description": self.device.description(),
            "threads": self.threads,
            "memory_limit_bytes": self.memory_limit,
            "program_bytes": self.program_bytes,
            "peak_resident_bytes": peak_resident_bytes(),
            "config_file": self.config_file,
            "config_default": self.config_default,
            "profile": self.profile,
            "cache_dir": self.cache_dir,
            "caches": self.caches.iter().map(cache).collect::<Map<_, _>>(),
        })
    }
}

/// Returns the names of the models that are part of this program.
fn builtin() -> Vec<&'static str> {
    let voice = if has_builtin() { &[SOLO24, BUILTIN][..] } else { &[] };
    [&[MINI24], voice].concat()
}

/// A library and its version.
struct Library {
    place: String,
    version: String,
}

impl Library {
    fn text(&self) -> String {
        format!("{}, {}", self.version, self.place)
    }
}

fn engines() -> Vec<(&'static str, Result<Library, String>)> {
    let told = |error: Error| match remedy::hint(&error) {
        Some(hint) => format!("{error}; {hint}"),
        None => error.to_string(),
    };
    let runtime = || {
        let found = onnxruntime::runtime()?;
        Ok(Library { place: found.path.display().to_string(), version: found.version.clone() })
    };
    let provider = |name: &str| {
        let version = runtime()?.version;
        Ok(Library { place: onnxruntime::find_provider(name)?.display().to_string(), version })
    };
    let tensorrt = || {
        let Library { place, .. } = provider("tensorrt")?;
        let library = onnxruntime::find_tensorrt()?;
        let version = onnxruntime::tensorrt_version().unwrap_or_default();
        Ok(Library { place: format!("{place} with {}", library.display()), version: format!("TensorRT {version}") })
    };
    vec![
        ("onnxruntime", runtime().map_err(told)),
        ("onnxruntime-cuda", provider("cuda").map_err(told)),
        ("onnxruntime-tensorrt", tensorrt().map_err(told)),
    ]
}

fn engines_json(found: &[(&str, Result<Library, String>)]) -> Value {
    let embedded = EMBEDDED.map(|(name, version)| (name.to_string(), json!({ "version": version })));
    let found = found.iter().map(|(name, found)| {
        let value = match found {
            Ok(Library { place, version }) => json!({ "place": place, "version": version }),
            Err(reason) => json!({ "missing": reason }),
        };
        ((*name).to_owned(), value)
    });
    embedded.into_iter().chain(found).collect::<Map<_, _>>().into()
}

fn described(gpu: &Gpu) -> String {
    let memory = format!("{}, {} free", size::show(gpu.memory_bytes), size::show(gpu.free_bytes));
    let shared = if gpu.shares_memory { ", shared with the CPU" } else { "" };
    format!("{}, sm_{}, {} multiprocessors, {memory}{shared}", gpu.name, gpu.architecture, gpu.n_processors)
}

fn cuda_json(probe: &Probe) -> Value {
    let gpu = |gpu: &Gpu| {
        json!({
            "ordinal": gpu.ordinal, "name": gpu.name, "architecture": gpu.architecture,
            "multiprocessors": gpu.n_processors, "memory_bytes": gpu.memory_bytes, "free_bytes": gpu.free_bytes,
            "shares_memory": gpu.shares_memory,
        })
    };
    let gpus: Vec<Value> = probe.gpus.iter().flatten().map(gpu).collect();
    let library = |library: &cuda::LibraryReport| {
        let (place, missing) = (library.place.as_ref().ok(), library.place.as_ref().err());
        (library.name.to_owned(), json!({ "place": place, "missing": missing }))
    };
    json!({
        "driver_version": probe.driver_version,
        "nvrtc_version": probe.nvrtc_version.map(|(major, minor)| format!("{major}.{minor}")),
        "gpus": gpus,
        "missing": probe.gpus.as_ref().err(),
        "libraries": probe.libraries.iter().map(library).collect::<Map<_, _>>(),
    })
}
