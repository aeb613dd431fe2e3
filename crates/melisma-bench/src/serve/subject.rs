//! The models that are served.

use std::sync::Arc;

use melisma::Context;
use melisma::snac::{Config, Engine, EngineOptions, Model};
use melisma_kernels::Budget;

use super::{BenchContext, Device, Result, model_folder};
use crate::folder::Folder;

/// A model, here and in the server.
pub(super) struct Subject {
    /// Its name in rows.
    pub(super) label: &'static str,
    /// What `--model` takes.
    pub(super) source: String,
    pub(super) model: Arc<Model>,
    /// Removed when the subject is dropped.
    _folder: Option<Folder>,
}

impl Subject {
    pub(super) fn builtin() -> Result<Self> {
        let model = Arc::new(Model::mini24()?);
        Ok(Self { label: "builtin", source: "builtin:mini24".to_owned(), model, _folder: None })
    }

    /// Returns the published 24 kHz shape with random weights.
    pub(super) fn full_size(device: &Device) -> Result<Self> {
        let folder = model_folder("serve", &Config::snac_24khz())?;
        let source = folder.path();
        let model = Arc::new(Model::open_in(&Context::on(device.clone(), Budget::unlimited())?, &source)?);
        Ok(Self { label: "24khz", source, model, _folder: Some(folder) })
    }

    /// Returns an engine for one stream, on the device to measure.
    pub(super) fn engine(&self, context: BenchContext<'_>) -> Result<Engine> {
        let budget = Budget::unlimited();
        Engine::new(&self.model, &context.device.queue(&budget)?, &budget, EngineOptions::new(1))
    }
}
