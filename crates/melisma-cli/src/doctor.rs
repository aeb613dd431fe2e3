//! `melisma doctor`.

use melisma::Result as Checked;
use melisma::optimize::engine::{onnxruntime, rten};
use melisma::runtime::device::Device;
use melisma::runtime::device::cuda::{self, Gpu, Probe};
use melisma::runtime::machine::{Machine, disk_use, peak_resident_bytes};
use melisma::runtime::size;
use melisma::runtime::table::{Align, Table};
use serde_json::{Map, Value, json};

use crate::session::Session;

/// The folders of the cache.
const CACHES: [&str; 2] = ["kernels", "engines"];

pub fn run(session: &Session) -> Checked<()> {
    let _span = tracing::info_span!("doctor").entered();
    let facts = Facts::look(session)?;
    session.print(&facts.device, || facts.table().text(), facts.json())
}

/// Everything that `doctor` knows.
pub struct Facts {
    machine: Machine,
    cuda: Probe,
    device: Device,
    instruction_set: &'static str,
    threads: usize,
    memory_limit: Option<u64>,
    config_file: Option<String>,
    profile: String,
    cache_dir: Option<String>,
    /// The library's path and version, or why there is none.
    onnxruntime: Result<(String, String), String>,
    /// Folder, files, bytes.
    caches: Vec<(&'static str, u64, u64)>,
}

impl Facts {
    /// Looks; fails when the device that was asked for is not there.
    pub fn look(session: &Session) -> Checked<Self> {
        let config = &session.config;
        let cache_dir = config.cache_dir.value.as_ref();
        let cache = |name| {
            let (files, bytes) = cache_dir.map_or((0, 0), |directory| disk_use(&directory.join(name)));
            (name, files, bytes)
        };
        Ok(Self {
            device: session.engine()?.device.clone(),
            instruction_set: melisma::runtime::device::instruction_set()?,
            machine: Machine::look(),
            cuda: cuda::probe(),
            threads: config.threads.value.count(),
            memory_limit: config.memory_limit.value.bytes(),
            config_file: config.file.as_ref().map(|path| path.display().to_string()),
            profile: config.profile.value.to_string(),
            cache_dir: cache_dir.map(|path| path.display().to_string()),
            onnxruntime: onnxruntime::runtime()
                .map(|found| (found.path.display().to_string(), found.version.clone()))
                .map_err(|error| error.to_string()),
            caches: CACHES.map(cache).to_vec(),
        })
    }

    /// One line per fact.
    pub fn table(&self) -> Table {
        let mut table = Table::new([("what", Align::Left), ("found", Align::Left)]);
        let mut line = |what: &str, found: String| table.push([what.to_owned(), found]);
        let or_none = |text: &Option<String>| text.clone().unwrap_or_else(|| "none".to_owned());
        let bytes = |bytes: Option<u64>| bytes.map_or_else(|| "unknown".to_owned(), size::show);
        let Machine { cpu, cores, features, os, arch, .. } = &self.machine;
        line("system", format!("{os} {arch}"));
        line("cpu", format!("{cpu}, {cores} cores"));
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
        line("engine rten", format!("{}, part of this program", rten::VERSION));
        match &self.onnxruntime {
            Ok((path, version)) => line("engine onnxruntime", format!("{version}, {path}")),
            Err(reason) => line("engine onnxruntime", reason.clone()),
        }
        for (name, files, used) in &self.caches {
            line(&format!("cache {name}"), format!("{files} files, {}", size::show(*used)));
        }
        line("cache directory", or_none(&self.cache_dir));
        line("config file", or_none(&self.config_file));
        line("profile", self.profile.clone());
        line("memory limit", self.memory_limit.map_or_else(|| "none".to_owned(), size::show));
        line("threads", self.threads.to_string());
        line("will use", format!("{} ({})", self.device, self.device.description()));
        table
    }

    /// The same with stable keys.
    pub fn json(&self) -> Value {
        let cache =
            |(name, files, bytes): &(&str, u64, u64)| ((*name).to_owned(), json!({ "files": files, "bytes": bytes }));
        json!({
            "machine": self.machine,
            "instruction_set": self.instruction_set,
            "cuda": cuda_json(&self.cuda),
            "engines": {
                "rten": { "version": rten::VERSION },
                "onnxruntime": match &self.onnxruntime {
                    Ok((path, version)) => json!({ "place": path, "version": version }),
                    Err(reason) => json!({ "missing": reason }),
                },
            },
            "device_description": self.device.description(),
            "threads": self.threads,
            "memory_limit_bytes": self.memory_limit,
            "peak_resident_bytes": peak_resident_bytes(),
            "config_file": self.config_file,
            "profile": self.profile,
            "cache_dir": self.cache_dir,
            "caches": self.caches.iter().map(cache).collect::<Map<_, _>>(),
        })
    }
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
