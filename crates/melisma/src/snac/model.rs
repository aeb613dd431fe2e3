//! A model: where its weights come from.

use std::fs::File;
use std::path::Path;

use melisma_kernels::{Budget, Device};

use super::builtin::{self, Builtin, MINI24};
use super::config::Config;
use super::reference::decoder::Decoder;
use super::reference::encoder::Encoder;
use super::reference::quantizer::Quantizer;
use super::source::{Source, read_config};
use super::weights::Weights;
use crate::format::checkpoint::Checkpoint;
use crate::pack::{self, Archive, ReadAt};
use crate::runtime::device::host_threads;
use crate::runtime::memory::Space;
use crate::{Context, Error, Remedy, Result};

/// The weights of a codec, and its shape. Decoders and encoders of one model share them in an `Arc`.
#[derive(Debug)]
pub struct Model {
    config: Config,
    hash: String,
    /// Its name, if it is part of this library.
    builtin: Option<&'static str>,
    pub(super) quantizer: Quantizer,
    encoder: Option<Encoder>,
    pub(super) decoder: Decoder,
}

impl Model {
    /// Opens `builtin:mini24`, `builtin:solo24`, a folder with `config.json` and weights, or a file of weights with `config.json`
    /// beside it. Files are read tensor by tensor.
    ///
    /// # Errors
    /// `Io` when a file cannot be read; otherwise those of [`Model::from_bytes`]. The message names the file.
    pub fn open(source: impl AsRef<Path>) -> Result<Self> {
        Self::open_in(&Context::cpu()?, source)
    }

    /// Opens a model like [`Model::open`]. Packed weights are decoded in `context`; the model is the same everywhere.
    ///
    /// # Errors
    /// Those of [`Model::open`], or the device fails.
    pub fn open_in(context: &Context, source: impl AsRef<Path>) -> Result<Self> {
        let (config, weights) = match Source::find(source.as_ref())? {
            Source::Builtin(name) => return Self::builtin(name, context),
            Source::Files { config, weights } => (config, weights),
        };
        let file = File::open(&weights).map_err(|error| Error::io(weights.display(), error))?;
        let text = read_config(&config)?;
        Self::from_file(&text, &file, context.device(), context.budget()).map_err(|error| error.at(weights.display()))
    }

    /// Returns the small model that is part of this library.
    ///
    /// # Errors
    /// `Unsupported` in a build without the feature `builtin`; with it none in practice: a test loads the model.
    pub fn mini24() -> Result<Self> {
        Self::builtin(MINI24, &Context::cpu()?)
    }

    fn builtin(name: &'static str, context: &Context) -> Result<Self> {
        let Builtin { config, weights } = builtin::open(name)?;
        let read = || {
            // As a whole, because most of its tensors are smaller than a tile.
            let unpack = || {
                let archive = Archive::open(&weights, context.budget())?;
                let memory = context.budget().reserve(Space::Host, archive.source_len())?;
                let mut plain = Vec::new();
                archive.unpack(&mut plain, host_threads(context.device()), &|_| ())?;
                Ok((plain, memory))
            };
            let unpacked = pack::is_packed(&weights)?.then(unpack).transpose()?;
            let file = unpacked.as_ref().map_or(weights, |(plain, _memory)| &plain[..]);
            Self::build(Config::from_json(config)?, Weights::new(Checkpoint::read(&file)?))
        };
        let model = read().map_err(|error: Error| error.at(name))?;
        Ok(Self { builtin: Some(name), ..model })
    }

    /// Creates a model from the text of `config.json` and the bytes of a weights file. Packed weights are decoded
    /// within `budget`.
    ///
    /// # Errors
    /// `Corrupt`, `Truncated` or `Unsupported`, and `Memory` where `budget` refuses; the message names the key or tensor.
    pub fn from_bytes(config: &[u8], weights: &[u8], budget: &Budget) -> Result<Self> {
        Self::from_file(config, &weights, &Device::cpu()?, budget)
    }

    fn from_file(config: &[u8], weights: &dyn ReadAt, device: &Device, budget: &Budget) -> Result<Self> {
        let config = Config::from_json(config)?;
        if !pack::is_packed(weights).unwrap_or(false) {
            return Self::build(config, Weights::new(Checkpoint::read(weights)?));
        }
        let archive = Archive::open(weights, budget)?;
        if archive.is_delta() {
            return Err(Error::unsupported("a delta is not a whole model").with_hint(Remedy::Unpack));
        }
        archive.check_hash()?;
        match device {
            Device::Cpu(cpu) => Self::build(config, Weights::packed(archive, cpu.threads)),
            Device::Cuda(_) => {
                let loaded = pack::load_to_device(weights, device, budget)?;
                Self::build(config, Weights::loaded(loaded, device.queue(budget)?))
            }
        }
    }

    /// Creates a synthetic model: the given shape with random weights.
    ///
    /// # Errors
    /// No model can have this configuration. None for one that was read or is one of the published.
    pub fn random(config: Config, seed: u64) -> Result<Self> {
        config.check()?;
        Self::build(config, Weights::random(seed))
    }

    fn build(config: Config, mut weights: Weights<'_>) -> Result<Self> {
        let encoder = weights.has_part("encoder.").then(|| Encoder::load(&mut weights, &config)).transpose()?;
        let quantizer = Quantizer::load(&mut weights, &config)?;
        let decoder = Decoder::load(&mut weights, &config)?;
        Ok(Self { hash: weights.hash(), builtin: None, config, quantizer, encoder, decoder })
    }

    /// Returns its shape.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// Returns its name if it is part of the library. No published language model speaks its codes.
    pub fn builtin_name(&self) -> Option<&'static str> {
        self.builtin
    }

    /// Returns whether this is the small model of the library, whose codes no published language model speaks.
    pub fn is_builtin(&self) -> bool {
        self.builtin == Some(MINI24)
    }

    /// Returns whether it encodes: weights without any of an encoder make a model that only decodes.
    pub fn has_encoder(&self) -> bool {
        self.encoder.is_some()
    }

    /// Returns its encoder.
    ///
    /// # Errors
    /// It has none.
    pub(super) fn encoder(&self) -> Result<&Encoder> {
        self.encoder.as_ref().ok_or_else(|| {
            let name = self.builtin.map_or_else(String::new, |name| format!("{name}: "));
            Error::invalid(format!("{name}this codec has no encoder; it turns tokens into audio only"))
                .with_hint(format!("{MINI24} and the published codecs have one"))
        })
    }

    /// Identifies the model that made a set of codes: 32 hexadecimal digits of a hash over all weights.
    pub fn hash(&self) -> &str {
        &self.hash
    }

    /// Compares the hash that is stored with codes.
    ///
    /// # Errors
    /// `InvalidArgument` when the codes were made by another model.
    pub fn check_stamp(&self, stamp: &str) -> Result<()> {
        if stamp == self.hash {
            return Ok(());
        }
        let message = format!("these tokens were made by the model {stamp:.32}, this is {}", self.hash);
        Err(Error::invalid(message).with_hint("decode them with the model that encoded them"))
    }
}
