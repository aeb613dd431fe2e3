//! `melisma doctor`.

use melisma::Result;
use melisma::runtime::device::{CudaReport, Selected, cuda_report};
use melisma::runtime::machine::{Machine, disk_use, peak_resident_bytes};
use melisma::runtime::size;
use melisma::runtime::table::{Align, Table};
use serde_json::{Value, json};

use crate::session::Session;

/// The folders of the cache.
const CACHES: [&str; 2] = ["kernels", "engines"];

pub fn run(session: &Session) -> Result<()> {
    let _span = tracing::info_span!("doctor").entered();
    let facts = Facts::look(session)?;
    session.print(&facts.used.name, || facts.table().text(), facts.json())
}

/// Everything that `doctor` knows.
pub struct Facts {
    machine: Machine,
    cuda: CudaReport,
    used: Selected,
    threads: usize,
    memory_limit: Option<u64>,
    config_file: Option<String>,
    profile: String,
    cache_dir: Option<String>,
    caches: Vec<(&'static str, u64, u64)>,
}

impl Facts {
    /// Looks; fails when the device that was asked for is not there.
    pub fn look(session: &Session) -> Result<Self> {
        let config = &session.config;
        let cache_dir = config.cache_dir.value.as_ref();
        let cache = |name| {
            let (files, bytes) = cache_dir.map_or((0, 0), |directory| disk_use(&directory.join(name)));
            (name, files, bytes)
        };
        Ok(Self {
            machine: Machine::look(),
            cuda: cuda_report(),
            used: session.device()?,
            threads: config.threads.value.count(),
            memory_limit: config.memory_limit.value.bytes(),
            config_file: config.file.as_ref().map(|path| path.display().to_string()),
            profile: config.profile.value.to_string(),
            cache_dir: cache_dir.map(|path| path.display().to_string()),
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
        line("memory", format!("{}, {} free", bytes(self.machine.memory_bytes), bytes(self.machine.available_bytes)));
        if let Some(limit) = self.machine.control_group_limit_bytes {
            line("control group limit", size::show(limit));
        }
        line("gpus", if self.cuda.gpus.is_empty() { "none".to_owned() } else { self.cuda.gpus.join(", ") });
        line("cuda driver", or_none(&self.cuda.driver));
        line("nvrtc", or_none(&self.cuda.nvrtc));
        line("cublaslt", or_none(&self.cuda.cublaslt));
        if let Some(reason) = &self.cuda.missing {
            line("cuda", format!("not used: {reason}"));
        }
        for (name, files, used) in &self.caches {
            line(&format!("cache {name}"), format!("{files} files, {}", size::show(*used)));
        }
        line("cache directory", or_none(&self.cache_dir));
        line("config file", or_none(&self.config_file));
        line("profile", self.profile.clone());
        line("memory limit", self.memory_limit.map_or_else(|| "none".to_owned(), size::show));
        line("threads", self.threads.to_string());
        line("will use", format!("{} ({})", self.used.name, self.used.description));
        table
    }

    /// The same with stable keys.
    pub fn json(&self) -> Value {
        let caches: serde_json::Map<String, Value> = self
            .caches
            .iter()
            .map(|(name, files, bytes)| ((*name).to_owned(), json!({ "files": files, "bytes": bytes })))
            .collect();
        json!({
            "machine": self.machine,
            "cuda": self.cuda,
            "used": self.used,
            "threads": self.threads,
            "memory_limit_bytes": self.memory_limit,
            "peak_resident_bytes": peak_resident_bytes(),
            "config_file": self.config_file,
            "profile": self.profile,
            "cache_dir": self.cache_dir,
            "caches": caches,
        })
    }
}
