//! Texts of many listeners, spoken together while they come and go.

use std::sync::Arc;
use std::time::Duration;

use super::note::Note;
use super::run::{ScriptRun, Stage, silent};
use super::script::{LONGEST_PIECE, PLAIN_PIECE, Script};
use super::speaker::Speaker;
use crate::llama::{Options, PAGE_LEN};
use crate::runtime::memory::{Available, Space};
use crate::snac::tokens::Ledger;
use crate::snac::{self, Codes};
use crate::{Device, Error, Result};

/// The most tokens of prompts in a step: those who speak wait for them.
const PROMPT_TOKENS: usize = 64;

/// The size of an [`Ensemble`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EnsembleOptions {
    /// Texts that are spoken at once.
    pub n_texts: usize,
    /// The most bytes of the model's cache; one piece of a text always has room.
    pub cache_bytes: u64,
}

/// Texts of one model that are spoken together, each by a step of its own pace: they join and leave between two steps,
/// and a text has the tokens that it would have alone.
///
/// A piece of a text begins when the cache has room for the whole of it, in the order in which the texts have joined.
/// So the cache is never full within a piece.
#[derive(Debug)]
pub struct Ensemble {
    stage: Stage,
    /// In the order in which they joined.
    runs: Vec<ScriptRun>,
    /// Of each run.
    members: Vec<Member>,
    n_joined: u64,
    speaker: Arc<Speaker>,
    /// The most tokens of a piece.
    context: usize,
    n_texts: usize,
    /// Tokens that the cache has room for.
    n_cached: usize,
}

/// A text of an [`Ensemble`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Member(u64);

/// What a step of an [`Ensemble`] did.
#[derive(Debug)]
#[non_exhaustive]
pub struct Step {
    /// The texts that have new frames or ended, in the order in which they joined.
    pub said: Vec<Utterance>,
    /// Tokens that were drawn.
    pub n_tokens: usize,
    /// Whether some text read of its prompt.
    pub has_prompt: bool,
}

/// What a text said in a step.
#[derive(Debug)]
#[non_exhaustive]
pub struct Utterance {
    /// The text.
    pub member: Member,
    /// The frames that became whole.
    pub codes: Codes,
    /// What its listener should know.
    pub notes: Vec<Note>,
    /// The account of all its tokens if it ended, or why it failed. It has left then.
    pub end: Option<Result<Ledger>>,
}

impl Ensemble {
    /// Opens an ensemble of `speaker`, with the settings of its format.
    ///
    /// # Errors
    /// Memory is too small.
    pub fn new(speaker: Arc<Speaker>, options: EnsembleOptions) -> Result<Self> {
        let EnsembleOptions { n_texts, cache_bytes } = options;
        let n_texts = n_texts.max(1);
        let room = usize::try_from(cache_bytes).unwrap_or(usize::MAX) / speaker.token_bytes() / PAGE_LEN * PAGE_LEN;
        let [plain, longest] = speaker.piece_tokens();
        let n_cached = longest.max(plain.saturating_mul(n_texts)).min(room).max(plain);
        let context = speaker.context_tokens().min(n_cached);
        let stage = speaker.stage(&speaker.format().settings(), Options { context, n_cached })?;
        let stage = stage.with_prompt_tokens(PROMPT_TOKENS);
        let n_texts = n_texts.min(n_cached / plain);
        let (runs, members) = (Vec::new(), Vec::new());
        Ok(Self { stage, runs, members, n_joined: 0, speaker, context, n_texts, n_cached })
    }

    /// Returns how many texts of plain English the cache has room for, at most as many as were asked for.
    pub fn n_texts(&self) -> usize {
        self.n_texts
    }

    /// Returns the most tokens of a piece and its speech, for [`Speaker::script_within`].
    pub fn context(&self) -> usize {
        self.context
    }

    /// Returns the bytes of the cache, and how many of them texts hold.
    pub fn cache_bytes(&self) -> [u64; 2] {
        let bytes = |n_tokens: usize| n_tokens as u64 * self.speaker.token_bytes() as u64;
        [bytes(self.n_cached), bytes(self.stage.n_cached())]
    }

    /// Returns the number of texts that are spoken or wait.
    pub fn len(&self) -> usize {
        self.runs.len()
    }

    /// Returns whether it is silent: nobody speaks or waits.
    pub fn is_empty(&self) -> bool {
        self.runs.is_empty()
    }

    /// Adds a text.
    ///
    /// # Errors
    /// One of its pieces is longer than [`Ensemble::context`].
    pub fn join(&mut self, script: Script) -> Result<Member> {
        let need = script.need(self.codec().config().n_slots());
        if need > self.context {
            let message = format!("a piece of the text takes {need} tokens; the cache has room for {}", self.context);
            return Err(Error::invalid(message).with_hint("cut the text with `Speaker::script_within`"));
        }
        let member = Member(self.n_joined);
        self.n_joined += 1;
        self.runs.push(self.speaker.run(script, &self.speaker.format().settings()));
        self.members.push(member);
        Ok(member)
    }

    /// Ends a text, whose memory is free at once. One that has ended already stays ended.
    pub fn leave(&mut self, member: Member) {
        if let Some(place) = self.members.iter().position(|other| *other == member) {
            self.remove(place);
        }
    }

    fn remove(&mut self, place: usize) -> ScriptRun {
        self.members.remove(place);
        let mut run = self.runs.remove(place);
        self.stage.forget(&mut run);
        run
    }

    /// Draws a token for each text that `is_ready`, has room in the cache and has read its prompt.
    ///
    /// # Errors
    /// The device failed, and all texts have left.
    pub fn step(&mut self, mut is_ready: impl FnMut(Member) -> bool) -> Result<Step> {
        for (run, member) in self.runs.iter_mut().zip(&self.members) {
            run.is_paused = !is_ready(*member);
        }
        let stepped = self.stage.step(&mut self.runs).inspect_err(|_| {
            while !self.runs.is_empty() {
                self.remove(0);
            }
        })?;
        let (mut failed, mut ended) = (stepped.failed.into_iter().peekable(), Vec::new());
        let mut said = Vec::new();
        for (place, run) in self.runs.iter_mut().enumerate() {
            let codes = Codes::from_frames(self.speaker.codec().config(), &run.take())?;
            let error = failed.next_if(|(failed, _)| *failed == place).map(|(_, error)| error);
            let end = match error {
                Some(error) => Some(Err(error)),
                None if !run.is_done() => None,
                None if run.ledger().frames == 0 => Some(Err(silent())),
                None => Some(Ok(run.ledger())),
            };
            if end.is_some() {
                ended.push(place);
            }
            if codes.n_frames() > 0 || end.is_some() {
                let notes = std::mem::take(&mut run.notes);
                said.push(Utterance { member: self.members[place], codes, notes, end });
            }
        }
        for place in ended.into_iter().rev() {
            self.remove(place);
        }
        Ok(Step { said, n_tokens: stepped.n_drawn, has_prompt: stepped.has_prompt })
    }

    /// Returns the time of a step of `n` texts, at most as many as are spoken at once, from a few that are tried. Nothing
    /// is left of them.
    ///
    /// # Errors
    /// The device failed.
    pub fn step_time(&mut self, n: usize) -> Result<Duration> {
        let way = self.speaker.way();
        self.stage.step_time(n.clamp(1, self.n_texts.max(1)), way)
    }

    fn codec(&self) -> &Arc<snac::Model> {
        self.speaker.codec()
    }
}

impl Speaker {
    /// Returns the bytes that are free for the cache of an [`Ensemble`] of `n_texts` texts.
    pub fn free_cache_bytes(&self, n_texts: usize) -> u64 {
        let (device, budget) = (self.context().device(), self.context().budget());
        let beside = self.needed_beside(self.context_tokens(), n_texts);
        let (space, beside) = match device {
            Device::Cpu(_) => (Space::Host, beside.host),
            Device::Cuda(_) => (Space::Device, beside.device),
        };
        let free = Available::detect(device).free(space).unwrap_or(u64::MAX).min(budget.free(space));
        free.saturating_sub(beside)
    }

    /// Returns the most tokens of a long piece of plain English and of any piece, each in whole pages.
    fn piece_tokens(&self) -> [usize; 2] {
        let n_slots = self.codec().config().n_slots();
        [PLAIN_PIECE, LONGEST_PIECE].map(|piece| {
            let tokens = piece.n_prompt + piece.n_frames * n_slots;
            tokens.min(self.context_tokens()).next_multiple_of(PAGE_LEN)
        })
    }
}
