//! A language model that speaks, with its tokenizer and its codec.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use super::ahead::Pieces;
use super::config::Config;
use super::estimate::{Estimate, Trial, frame_time};
use super::format::{Draw, Format, Settings, Tokens};
use super::note::Note;
use super::run::{ScriptRun, Stage, silent};
use super::script::{Script, Writer};
use super::speech::{Delivery, Speech};
use super::tokenizer::Tokenizer;
use crate::llama::{self, BUILTIN, Model, Options, PAGE_LEN, Rounding};
use crate::runtime::memory::{Needed, Space};
use crate::snac::tokens::Ledger;
use crate::snac::{self, Codes, Decoder, Engine};
use crate::{Context, Device, Error, Result};

/// Speech that repeats itself for so long is ended.
const REPEAT_S: f64 = 5.0;
/// The most texts that are spoken at once: more rows of a step would gain little.
const MAX_RUNS: usize = 32;
/// The most bytes of the cache of many texts, unless one alone needs more.
const CACHE_BYTES: usize = 1 << 30;

/// A language model that speaks, with its tokenizer and its codec.
#[derive(Debug)]
pub struct Speaker {
    context: Context,
    model: Arc<Model>,
    tokenizer: Tokenizer,
    format: Format,
    codec: Arc<snac::Model>,
    tokens: Tokens,
    folder: PathBuf,
    config: Config,
}

/// How a [`Speaker`] is opened.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Opening {
    /// How a GPU may round the language model: weights, activations and cache to bf16 with [`Rounding::Bf16`], and
    /// otherwise not at all.
    pub rounding: Rounding,
    /// Keys of its format that win over those of its folder.
    pub config: Config,
}

impl Default for Opening {
    fn default() -> Self {
        Self { rounding: Rounding::Off, config: Config::default() }
    }
}

impl Opening {
    setters! {
        /// Sets how a GPU may round the language model.
        pub fn with_rounding(rounding: Rounding);
        /// Sets keys of its format that win over those of its folder.
        pub fn with_config(config: Config);
    }
}

/// How far [`Speaker::speak_all_watched`] is.
#[derive(Debug)]
pub enum Progress<T> {
    /// A step begins. An error of the caller ends the work here.
    Step,
    /// A text is done.
    Done(T, Result<SpokenText>),
}

/// What became of a text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SpokenText {
    /// Its frames.
    pub codes: Codes,
    /// The account of all tokens.
    pub ledger: Ledger,
    /// What its listener should know.
    pub notes: Vec<Note>,
}

impl Speaker {
    /// Opens a language model on the CPU with the codec of [`Speaker::codec_of`]: `builtin:voice`, or a folder.
    ///
    /// ```
    /// use melisma::speak::{Delivery, Speaker};
    ///
    /// let speaker = Speaker::open("builtin:voice")?;
    /// let script = speaker.script("Hello!", None, 0)?;
    /// let delivery = Delivery::from(speaker.format().settings());
    /// let mut samples = Vec::new();
    /// for piece in speaker.speak(script, &delivery)? {
    ///     samples.extend(piece?.samples);
    /// }
    /// assert!(samples.len() > 2048);
    /// # Ok::<(), melisma::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Speaker::open_in`], and those of [`snac::Model::open`].
    pub fn open(folder: impl AsRef<Path>) -> Result<Self> {
        let context = Context::cpu()?;
        let codec = snac::Model::open_in(&context, Self::codec_of(&folder))?;
        Self::open_in(&context, folder, Arc::new(codec))
    }

    /// Returns the codec of a language model where nobody names one: `builtin:solo24` for `builtin:voice`, and
    /// `builtin:mini24` for all others.
    pub fn codec_of(folder: impl AsRef<Path>) -> &'static str {
        match folder.as_ref() == Path::new(BUILTIN) {
            true => snac::SOLO24,
            false => snac::MINI24,
        }
    }

    /// Opens the language model in `folder`, which speaks the codes of `codec`: `config.json`, its weights,
    /// `tokenizer.json`, and `speak.yaml` unless it is Orpheus; or `builtin:voice`.
    ///
    /// # Errors
    /// A file cannot be read or is malformed, or the files and the codec do not belong together.
    pub fn open_in(context: &Context, folder: impl AsRef<Path>, codec: Arc<snac::Model>) -> Result<Self> {
        Self::open_as_in(context, folder, codec, Opening::default())
    }

    /// Opens a language model as `opening` says.
    ///
    /// # Errors
    /// As [`Speaker::open_in`].
    #[doc(hidden)]
    pub fn open_as_in(
        context: &Context,
        folder: impl AsRef<Path>,
        codec: Arc<snac::Model>,
        opening: Opening,
    ) -> Result<Self> {
        let Opening { rounding, config } = opening;
        let folder = folder.as_ref();
        let model = Arc::new(Model::open_rounded_in(context, folder, rounding)?);
        let tokenizer = Tokenizer::open(folder)?;
        let n_tokens = model.config().n_tokens;
        if tokenizer.n_tokens() > n_tokens {
            let message = format!("tokenizer.json has {} tokens, the model {n_tokens}", tokenizer.n_tokens());
            return Err(Error::corrupt(message)
                .with_hint("the model and its tokenizer.json must belong together")
                .at(folder.display()));
        }
        let format = config.format_of(folder, &tokenizer)?;
        let tokens = format.tokens(n_tokens, &codec).map_err(|error| {
            let error = error.at(folder.display());
            let is_builtin = folder == Path::new(BUILTIN);
            if is_builtin {
                error.with_hint(format!("it speaks with {}: name no other codec", snac::SOLO24))
            } else {
                error
            }
        })?;
        let (context, folder) = (context.clone(), folder.to_owned());
        Ok(Self { context, model, tokenizer, format, codec, tokens, folder, config })
    }

    /// Returns the folder of the model, or `builtin:voice`.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Returns the keys of its format that win over those of its folder.
    pub(super) fn config(&self) -> &Config {
        &self.config
    }

    /// Returns where it runs.
    pub fn context(&self) -> &Context {
        &self.context
    }

    /// Returns the format of its prompts and speech.
    pub fn format(&self) -> &Format {
        &self.format
    }

    /// Returns its codec.
    pub fn codec(&self) -> &Arc<snac::Model> {
        &self.codec
    }

    /// Returns the prompts of a text, which is spoken by the voice called `voice` or the default one.
    ///
    /// # Errors
    /// `InvalidArgument` when the text has no words or ones that the tokenizer does not know, or the voice is unknown.
    pub fn script(&self, text: &str, voice: Option<&str>, seed: u64) -> Result<Script> {
        self.script_within(text, voice, seed, self.context_tokens())
    }

    /// Returns the prompts of a text like [`Speaker::script`], cut into smaller pieces where one would have more than
    /// `context` tokens with its speech.
    ///
    /// # Errors
    /// As [`Speaker::script`].
    #[doc(hidden)]
    pub fn script_within(&self, text: &str, voice: Option<&str>, seed: u64, context: usize) -> Result<Script> {
        let context = context.min(self.context_tokens());
        let writer = Writer { format: &self.format, tokenizer: &self.tokenizer, tokens: self.tokens, context };
        let (prompts, notes) = writer.prompts(text, self.format.voice(voice)?)?;
        Ok(Script { prompts, seed, notes })
    }

    /// Returns the memory that [`Speaker::speak`] takes for a text, its codec included.
    #[doc(hidden)]
    pub fn needed(&self, script: &Script, delivery: &Delivery) -> Needed {
        let (Options { context, n_cached }, at_once) = self.options_of(script, delivery);
        let cache = self.token_bytes().saturating_mul(n_cached.next_multiple_of(PAGE_LEN)) as u64;
        let all = self.needed_beside(context, at_once);
        match self.context.device() {
            Device::Cpu(_) => Needed { host: all.host.saturating_add(cache), ..all },
            Device::Cuda(_) => Needed { device: all.device.saturating_add(cache), ..all },
        }
    }

    /// Returns the memory for a text that is not the model's cache.
    pub(super) fn needed_beside(&self, context: usize, at_once: usize) -> Needed {
        let config = self.model.config();
        let engine = Engine::needed(self.codec.config(), self.context.device(), 1);
        let rotary = (4 * config.head_dim).saturating_mul(context.next_multiple_of(PAGE_LEN));
        // The logits and what the sampler makes of them.
        let drawn = at_once.saturating_mul(8 * config.n_tokens);
        let model = rotary.saturating_add(llama::row_bytes(config, self.context.device())).saturating_add(drawn) as u64;
        match self.context.device() {
            Device::Cpu(_) => Needed { host: engine.host.saturating_add(model), ..engine },
            Device::Cuda(_) => Needed { device: engine.device.saturating_add(model), ..engine },
        }
    }

    /// Returns the speech of a text, which is made while it is read.
    ///
    /// # Errors
    /// A number of `delivery` is impossible, or memory is too small.
    pub fn speak(&self, script: Script, delivery: &Delivery) -> Result<Speech> {
        let (options, at_once) = self.options_of(&script, delivery);
        let stage = self.stage(&delivery.settings, options)?;
        let pieces = Pieces::new(self.run(script, &delivery.settings), at_once);
        Speech::new((&self.context, &self.codec), stage, pieces, delivery)
    }

    /// Returns the size of the batch for a text, and how many of its pieces are spoken at once.
    fn options_of(&self, script: &Script, delivery: &Delivery) -> (Options, usize) {
        let need = script.need(self.tokens.n_slots as usize);
        let at_once = delivery.pace.at_once(delivery.settings.draw, script.n_pieces());
        let n_cached = match at_once {
            1 => need,
            _ => self.n_cached((need, at_once), self.needed_beside(need, at_once)),
        };
        (Options { context: need, n_cached }, at_once)
    }

    /// Tries a few steps, and returns how fast [`Speaker::speak_all`] will be, with the time in
    /// which `decoder` decodes its frames.
    ///
    /// # Errors
    /// As [`Speaker::speak_all`].
    #[doc(hidden)]
    pub fn estimate_all<T>(
        &self,
        scripts: &[(T, Script)],
        settings: &Settings,
        decoder: Option<&mut Decoder>,
    ) -> Result<Estimate> {
        let options = self.options(scripts);
        let mut stage = self.stage(settings, options)?;
        let n_at_once = scripts.len().min(MAX_RUNS).min(stage.n_fitting()).max(1);
        let step = stage.step_time(n_at_once, (self.tokens, settings.draw))?;
        let config = self.codec.config();
        let frame = match decoder {
            Some(decoder) => frame_time(config, |codes| decoder.decode(codes).map(drop))?,
            None => Duration::ZERO,
        };
        let max_frames = scripts.iter().map(|(_, script)| script.max_frames()).sum();
        Ok(Trial { n_at_once, step, frame }.estimate(config, max_frames))
    }

    /// Speaks many texts in one batch, each with the frames that it would have alone. Each goes to `done` with its
    /// name, as soon as it is done; one that fails stops no other.
    ///
    /// # Errors
    /// A setting is impossible, memory is too small, the device failed, or `done` did.
    #[doc(hidden)]
    pub fn speak_all<T>(
        &self,
        scripts: Vec<(T, Script)>,
        settings: &Settings,
        mut done: impl FnMut(T, Result<SpokenText>) -> Result<()>,
    ) -> Result<()> {
        self.speak_all_watched(scripts, settings, |progress| match progress {
            Progress::Step => Ok(()),
            Progress::Done(name, said) => done(name, said),
        })
    }

    /// Works like [`Speaker::speak_all`], and calls `each` also before every step.
    ///
    /// # Errors
    /// As [`Speaker::speak_all`], or those of `each`.
    #[doc(hidden)]
    pub fn speak_all_watched<T>(
        &self,
        scripts: Vec<(T, Script)>,
        settings: &Settings,
        mut each: impl FnMut(Progress<T>) -> Result<()>,
    ) -> Result<()> {
        let options = self.options(&scripts);
        let mut stage = self.stage(settings, options)?;
        let mut left = scripts.into_iter();
        let (mut names, mut runs) = (Vec::new(), Vec::new());
        loop {
            for (name, script) in left.by_ref().take(MAX_RUNS - runs.len()) {
                names.push(name);
                runs.push(self.run(script, settings));
            }
            if runs.is_empty() {
                return Ok(());
            }
            each(Progress::Step)?;
            // The last first, so that the places of the others stay.
            for (place, error) in stage.step(&mut runs)?.failed.into_iter().rev() {
                runs.remove(place);
                each(Progress::Done(names.remove(place), Err(error)))?;
            }
            for place in (0..runs.len()).rev().filter(|&place| runs[place].is_done()).collect::<Vec<_>>() {
                let said = self.spoken(runs.remove(place));
                each(Progress::Done(names.remove(place), said))?;
            }
        }
    }

    /// Returns the cache and the sampler for texts.
    pub(super) fn stage(&self, settings: &Settings, options: Options) -> Result<Stage> {
        Stage::new((&self.context, &self.model), settings, self.tokens, options)
    }

    /// Returns which tokens its own settings draw, and how.
    pub(super) fn way(&self) -> (Tokens, Draw) {
        (self.tokens, self.format.settings().draw)
    }

    /// Returns the most tokens of a prompt and its speech.
    pub(super) fn context_tokens(&self) -> usize {
        self.model.config().context
    }

    pub(super) fn run(&self, script: Script, settings: &Settings) -> ScriptRun {
        let config = self.codec.config();
        let frame_s = config.frame_len() as f64 / f64::from(config.sampling_rate);
        ScriptRun::new(script, self.tokens, settings.draw, (REPEAT_S / frame_s).ceil() as usize)
    }

    fn spoken(&self, mut run: ScriptRun) -> Result<SpokenText> {
        let codes = Codes::from_frames(self.codec.config(), &run.take())?;
        match codes.n_frames() {
            0 => Err(silent()),
            _ => Ok(SpokenText { codes, ledger: run.ledger(), notes: run.notes }),
        }
    }

    /// Returns the bytes of a token in the cache.
    pub(super) fn token_bytes(&self) -> usize {
        let config = self.model.config();
        2 * self.model.cache_type().size() * config.n_layers * config.n_key_heads * config.head_dim
    }

    /// Returns the size of a batch for many texts.
    fn options<T>(&self, scripts: &[(T, Script)]) -> Options {
        let need = scripts.iter().map(|(_, script)| script.need(self.tokens.n_slots as usize)).max().unwrap_or(0);
        Options { context: need, n_cached: self.n_cached((need, scripts.len()), Needed::default()) }
    }

    /// Returns the tokens of a cache for `n` texts or pieces, with pieces of up to `need` tokens, where other work needs
    /// `beside`.
    fn n_cached(&self, (need, n): (usize, usize), beside: Needed) -> usize {
        let (space, beside) = match self.context.device() {
            Device::Cpu(_) => (Space::Host, beside.host),
            Device::Cuda(_) => (Space::Device, beside.device),
        };
        let free = self.context.budget().free(space);
        let room = usize::try_from(free.saturating_sub(beside).min(free / 2)).unwrap_or(usize::MAX);
        // Whole pages.
        let n_fitting = CACHE_BYTES.min(room) / self.token_bytes() / PAGE_LEN * PAGE_LEN;
        let need = need.next_multiple_of(PAGE_LEN);
        n_fitting.min(need.saturating_mul(n.min(MAX_RUNS))).max(need)
    }
}
