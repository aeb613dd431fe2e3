//! Codes to samples: whole clips, and streams.

use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::sync::Arc;

use super::codes::{Codes, Frames};
use super::engine::{Engine, EngineOptions, unless_reference};
use super::model::Model;
use super::noise::Noise;
use super::player::{DecodeOptions, Player};
use super::reference::{self, Stream};
use super::tokens;
use crate::{Context, Error, Result};

fn without_frames(path: &Path) -> Error {
    Error::corrupt(format!("{}: no whole frame of tokens", path.display()))
        .with_hint("name a file that `encode` or a language model wrote")
}

/// Codes to samples on a device.
///
/// ```
/// use melisma::snac::Decoder;
///
/// let mut decoder = Decoder::open("builtin:mini24")?;
/// let codes = decoder.codes(&[0, 1, 2, 3, 4, 5, 6].repeat(4))?;
/// let whole = decoder.decode(&codes)?;
///
/// // Live: samples leave as soon as no later frame can change them.
/// let mut stream = decoder.stream()?;
/// let mut samples = Vec::new();
/// for frame in codes.frames().chunks(1) {
///     samples.extend(stream.push(frame)?);
/// }
/// samples.extend(stream.finish()?);
/// assert_eq!(samples, whole);
/// # Ok::<(), melisma::Error>(())
/// ```
#[derive(Debug)]
pub struct Decoder {
    model: Arc<Model>,
    context: Context,
    options: DecodeOptions,
    /// `None` where only the reference decodes the model.
    engine: Option<Engine>,
}

impl Decoder {
    /// Opens a model on the CPU: `builtin:mini24`, or what [`Model::open`] takes.
    ///
    /// # Errors
    /// Those of [`Model::open`] and [`Context::cpu`].
    pub fn open(source: impl AsRef<Path>) -> Result<Self> {
        Self::open_in(&Context::cpu()?, source)
    }

    /// Opens a model in `context`.
    ///
    /// # Errors
    /// Those of [`Model::open_in`] and [`Decoder::new_in`].
    pub fn open_in(context: &Context, source: impl AsRef<Path>) -> Result<Self> {
        Self::new_in(context, Arc::new(Model::open_in(context, source)?), DecodeOptions::default())
    }

    /// Creates a decoder of `model`.
    ///
    /// # Errors
    /// `Memory` when the budget refuses; `Unsupported` for a GPU that has no kernels for the model.
    pub fn new_in(context: &Context, model: Arc<Model>, options: impl Into<DecodeOptions>) -> Result<Self> {
        let options = options.into();
        let size = EngineOptions { max_streams: 1, rounding: options.rounding };
        let engine =
            unless_reference(context.queue(), || Engine::new(&model, context.queue(), context.budget(), size))?;
        Ok(Self { model, context: context.clone(), options, engine })
    }

    /// Returns its model.
    pub fn model(&self) -> &Arc<Model> {
        &self.model
    }

    /// Returns the number of samples per second.
    pub fn sample_rate(&self) -> u32 {
        self.model.config().sampling_rate
    }

    /// Returns codes of whole frames in a row, in the order in which language models write them.
    ///
    /// # Errors
    /// Those of [`Codes::from_frames`].
    pub fn codes(&self, frames: &[i32]) -> Result<Codes> {
        Codes::from_frames(self.model.config(), frames)
    }

    /// Returns the codes in a file of tokens, in any format that [`tokens`] knows.
    ///
    /// ```no_run
    /// use melisma::Existing;
    /// use melisma::audio::Clip;
    /// use melisma::snac::Decoder;
    ///
    /// let mut decoder = Decoder::open("builtin:mini24")?;
    /// let samples = decoder.decode(&decoder.read("tokens.txt")?)?;
    /// Clip::mono(decoder.sample_rate(), samples).write("speech.wav", Existing::Refuse)?;
    /// # Ok::<(), melisma::Error>(())
    /// ```
    ///
    /// # Errors
    /// Those of [`tokens::Reader`], or the file cannot be read, has no whole frame, or is of another model. Tokens that
    /// belong to no frame are left out, as in a stream; a `Reader` counts them.
    pub fn read(&self, path: impl AsRef<Path>) -> Result<Codes> {
        let path = path.as_ref();
        let unread = |error| Error::io(path.display(), error);
        let mut file = File::open(path).map_err(unread)?;
        let mut reader = tokens::Reader::new(tokens::Format::Auto, self.model.config())?;
        let (mut frames, mut bytes) = (Vec::new(), vec![0; 64 << 10]);
        loop {
            let n = file.read(&mut bytes).map_err(unread)?;
            let codes = if n == 0 { reader.finish() } else { reader.push(&bytes[..n]) };
            frames.extend_from_slice(codes.map_err(|error| error.at(path.display()))?.frames().as_slice());
            if n == 0 {
                reader.origin(&self.model).map_err(|error| error.at(path.display()))?;
                return if frames.is_empty() { Err(without_frames(path)) } else { self.codes(&frames) };
            }
        }
    }

    /// Returns the samples of a whole clip.
    ///
    /// # Errors
    /// `InvalidArgument` for codes of another model; otherwise the device failed.
    pub fn decode(&mut self, codes: &Codes) -> Result<Vec<f32>> {
        self.decode_with(codes, &self.options.noise.clone())
    }

    /// Returns the samples of a whole clip with other noise than that of [`Decoder::new_in`].
    ///
    /// # Errors
    /// As [`Decoder::decode`].
    pub fn decode_with(&mut self, codes: &Codes, noise: &Noise) -> Result<Vec<f32>> {
        match &mut self.engine {
            Some(engine) => engine.decode(codes, noise),
            None => {
                Frames::from(codes).check(self.model.config())?;
                Ok(reference::decode(&self.model, codes, noise))
            }
        }
    }

    /// Returns a stream; it shares the weights of this decoder.
    ///
    /// # Errors
    /// `Memory` when the budget refuses.
    pub fn stream(&self) -> Result<Player> {
        self.stream_with(self.options.noise.clone())
    }

    /// Returns a stream with other noise than that of [`Decoder::new_in`].
    ///
    /// # Errors
    /// As [`Decoder::stream`].
    pub fn stream_with(&self, noise: Noise) -> Result<Player> {
        match &self.engine {
            Some(engine) => Player::on(engine.sibling(self.context.queue(), self.context.budget(), 1)?, noise),
            None => Ok(Player::reference(Stream::new(Arc::clone(&self.model), noise))),
        }
    }
}
