//! Texts on their way to frames: many at once, token by token.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use super::cycle::CycleDetector;
use super::format::{Draw, Settings, Tokens};
use super::script::{Prompt, Script};
use crate::llama::{Batch, Choice, Input, Key, Model, Options, PAGE_LEN, Sampler, Sequence};
use crate::snac::tokens::{Assembler, Ledger};
use crate::{Context, Error, Result};

/// Something about a piece of a text that its listener should know. Pieces count from 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Note {
    /// The model repeated itself, and the piece was ended.
    Repeats(usize),
    /// The model did not end, and the piece was ended after so many frames.
    Endless(usize, usize),
    /// The model ended without a frame of speech.
    Silent(usize),
}

impl fmt::Display for Note {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Repeats(at) => write!(f, "piece {}: the model repeated itself and was ended", at + 1),
            Self::Endless(at, n) => {
                write!(f, "piece {}: the model did not stop and was ended after {n} frames", at + 1)
            }
            Self::Silent(at) => write!(f, "piece {}: the model gave no speech", at + 1),
        }
    }
}

/// One text on its way to frames.
#[derive(Debug)]
pub(super) struct ScriptRun {
    script: Script,
    tokens: Tokens,
    draw: Draw,
    repeat_frames: usize,
    /// The piece that is spoken, or the next one.
    at: usize,
    /// The number of the first piece in its text.
    first: usize,
    draft: Option<Draft>,
    assembler: Assembler,
    /// Codes of whole frames that were not taken yet.
    codes: Vec<i32>,
    pub(super) notes: Vec<Note>,
}

/// The piece that is spoken.
#[derive(Debug)]
struct Draft {
    sequence: Sequence,
    /// Prompt and speech.
    past: Vec<u32>,
    /// Tokens of `past` that the model has read.
    n_read: usize,
    n_prompt: usize,
    n_frames: usize,
    /// Pages of the cache that the whole piece may take.
    n_pages: usize,
    repeats: CycleDetector,
}

impl Draft {
    fn n_drawn(&self) -> usize {
        self.past.len() - self.n_prompt
    }
}

impl ScriptRun {
    pub(super) fn new(script: Script, tokens: Tokens, draw: Draw, repeat_frames: usize) -> Self {
        let assembler = Assembler::new(tokens.n_slots as usize);
        Self {
            script,
            tokens,
            draw,
            repeat_frames,
            at: 0,
            first: 0,
            draft: None,
            assembler,
            codes: Vec::new(),
            notes: Vec::new(),
        }
    }

    /// Returns which tokens it draws, and how.
    pub(super) fn way(&self) -> (Tokens, Draw) {
        (self.tokens, self.draw)
    }

    /// Takes its next piece out, which is then spoken on its own.
    pub(super) fn split(&mut self) -> Option<Self> {
        let prompt = std::mem::take(self.script.prompts.get_mut(self.at)?);
        let script = Script { prompts: vec![prompt], seed: self.script.seed };
        let first = self.first + self.at;
        self.at += 1;
        Some(Self { first, ..Self::new(script, self.tokens, self.draw, self.repeat_frames) })
    }

    /// Returns the number of the piece that is spoken.
    fn piece(&self) -> usize {
        self.first + self.at
    }

    /// Returns the frames of all its pieces if each is spoken up to its limit.
    pub(super) fn max_frames(&self) -> usize {
        self.script.max_frames()
    }

    pub(super) fn has_begun(&self) -> bool {
        self.at > 0 || self.draft.is_some()
    }

    pub(super) fn is_done(&self) -> bool {
        self.at == self.script.prompts.len()
    }

    pub(super) fn ledger(&self) -> Ledger {
        self.assembler.ledger()
    }

    /// Returns the codes of the frames that became whole since the last call.
    pub(super) fn take(&mut self) -> Vec<i32> {
        std::mem::take(&mut self.codes)
    }

    /// Returns the next piece, if it has not begun.
    fn waiting(&self) -> Option<&Prompt> {
        self.script.prompts.get(self.at).filter(|_| self.draft.is_none())
    }

    /// Returns which of the [`Stage`]'s choices the next token is drawn from.
    fn choice(&self) -> usize {
        let (n_drawn, n_slots) = (self.draft.as_ref().map_or(0, Draft::n_drawn), self.tokens.n_slots as usize);
        match (self.draw, n_drawn % n_slots) {
            (Draw::Free, _) => 0,
            (Draw::Frames, 0) if n_drawn > 0 => n_slots,
            (Draw::Frames, slot) => slot,
        }
    }

    /// Takes a drawn token; returns the piece if it ends with it.
    fn push(&mut self, token: u32) -> Option<Draft> {
        let _span = tracing::trace_span!("population").entered();
        let piece = self.piece();
        let draft = self.draft.as_mut()?;
        draft.past.push(token);
        let before = self.codes.len();
        match self.tokens.code(token) {
            Some((slot, code)) => self.assembler.offer(slot, code, &mut self.codes),
            None if token == self.tokens.end => {}
            None => self.assembler.reject(),
        }
        let n_slots = self.tokens.n_slots as usize;
        let mut is_cycle = false;
        for frame in self.codes[before..].chunks_exact(n_slots) {
            draft.n_frames += 1;
            is_cycle |= draft.repeats.push(frame);
        }
        let max_frames = self.script.prompts[self.at].max_frames;
        let note = match draft.n_drawn() >= max_frames * n_slots {
            _ if token == self.tokens.end => None,
            _ if is_cycle => Some(Note::Repeats(piece)),
            true => Some(Note::Endless(piece, max_frames)),
            false => return None,
        };
        let before = self.codes.len();
        self.assembler.finish(&mut self.codes);
        draft.n_frames += (self.codes.len() - before) / n_slots;
        self.notes.extend(note.or_else(|| (draft.n_frames == 0).then_some(Note::Silent(piece))));
        self.at += 1;
        self.draft.take()
    }
}

/// Where texts are spoken: the model's cache and the sampler.
#[derive(Debug)]
pub(super) struct Stage {
    batch: Batch,
    sampler: Sampler,
    /// The tokens that can be drawn: all, or those of each slot, and last those of the first slot
    /// with the end.
    choices: Vec<Vec<Range<u32>>>,
    n_pages: usize,
    n_reserved: usize,
    /// Pieces of the longest kind that the cache has room for.
    n_fitting: usize,
}

impl Stage {
    /// Opens a stage on `model` with a cache of `options`.
    pub(super) fn new(
        (context, model): (&Context, &Arc<Model>),
        settings: &Settings,
        tokens: Tokens,
        options: Options,
    ) -> Result<Self> {
        let choices = match settings.draw {
            Draw::Free => vec![vec![0..tokens.n_tokens]],
            Draw::Frames => {
                let slots = (0..tokens.n_slots).map(|slot| vec![tokens.slot(slot)]);
                slots.chain([vec![tokens.slot(0), tokens.end..tokens.end + 1]]).collect()
            }
        };
        Ok(Self {
            batch: Batch::new_in(context, model, options)?,
            sampler: Sampler::new_in(context, settings.sample, settings.penalty_window)?,
            choices,
            n_pages: options.n_cached.div_ceil(PAGE_LEN),
            n_reserved: 0,
            n_fitting: options.n_cached / options.context.next_multiple_of(PAGE_LEN).max(1),
        })
    }

    /// Returns how many pieces of the longest kind the cache has room for.
    pub(super) fn n_fitting(&self) -> usize {
        self.n_fitting
    }

    /// Returns the logits of the last step for its text number `place`, which are the rows that the head computed.
    #[cfg(test)]
    pub(super) fn n_logits(&self, place: usize) -> usize {
        self.batch.logits(place).map_or(0, |logits| logits.len())
    }

    /// Begins the next pieces of runs that wait for one, as far as the cache has room for the whole
    /// of them.
    fn begin(&mut self, runs: &mut [ScriptRun]) {
        for run in runs {
            let Some(prompt) = run.waiting() else { continue };
            let n_pages = prompt.need(run.tokens.n_slots as usize).div_ceil(PAGE_LEN);
            if self.n_reserved + n_pages > self.n_pages {
                continue;
            }
            self.n_reserved += n_pages;
            run.draft = Some(Draft {
                sequence: self.batch.open(),
                past: prompt.tokens.clone(),
                n_read: 0,
                n_prompt: prompt.tokens.len(),
                n_frames: 0,
                n_pages,
                repeats: CycleDetector::new(run.repeat_frames),
            });
        }
    }

    /// Draws one token for each run that is not done and has room. Returns the runs that failed, in
    /// order.
    ///
    /// # Errors
    /// The device failed.
    pub(super) fn step(&mut self, runs: &mut [ScriptRun]) -> Result<Vec<(usize, Error)>> {
        self.begin(runs);
        // Runs in the same slot share the product of the head.
        let mut order: Vec<usize> = (0..runs.len()).filter(|&index| runs[index].draft.is_some()).collect();
        order.sort_by_key(|&index| runs[index].choice());
        self.read(runs, &order)?;
        let mut failed = Vec::new();
        for (token, &index) in self.draw(runs, &order)?.into_iter().zip(&order) {
            match token {
                Ok(token) => {
                    let ended = runs[index].push(token);
                    self.close(ended);
                }
                Err(error) => {
                    failed.push((index, error));
                    self.forget(&mut runs[index]);
                }
            }
        }
        failed.sort_by_key(|(index, _)| *index);
        Ok(failed)
    }

    /// Leaves the piece that a run speaks.
    pub(super) fn forget(&mut self, run: &mut ScriptRun) {
        self.close(run.draft.take());
    }

    /// Gives the memory of a piece back.
    fn close(&mut self, draft: Option<Draft>) {
        if let Some(Draft { sequence, n_pages, .. }) = draft {
            self.batch.close(sequence);
            self.n_reserved -= n_pages;
        }
    }

    /// Computes the logits after the tokens that the model has not read.
    fn read(&mut self, runs: &mut [ScriptRun], order: &[usize]) -> Result<()> {
        let input = |&index: &usize| {
            let Draft { sequence, past, n_read, .. } = runs[index].draft.as_ref()?;
            Some(Input { sequence, tokens: &past[*n_read..], wanted: &self.choices[runs[index].choice()] })
        };
        let inputs: Vec<_> = order.iter().filter_map(input).collect();
        let has_prompt = inputs.iter().any(|input| input.tokens.len() > 1);
        let span = match has_prompt {
            true => tracing::info_span!("prompt", n = inputs.len()),
            false => tracing::info_span!("step", n = inputs.len()),
        };
        span.in_scope(|| self.batch.step(&inputs))?;
        for &index in order {
            if let Some(draft) = &mut runs[index].draft {
                draft.n_read = draft.past.len();
            }
        }
        Ok(())
    }

    /// Draws the next tokens of the runs `order`, whose logits were computed.
    fn draw(&mut self, runs: &[ScriptRun], order: &[usize]) -> Result<Vec<Result<u32>>> {
        let _span = tracing::trace_span!("sample", n = order.len()).entered();
        let choice = |(place, &index): (usize, &usize)| {
            let run: &ScriptRun = &runs[index];
            let draft = run.draft.as_ref().ok_or_else(|| Error::invalid("this text is not spoken"))?;
            let key = Key { seed: run.script.seed, sentence: run.piece() as u64, position: draft.n_drawn() as u64 };
            let (logits, wanted) = (self.batch.logits(place)?, &self.choices[run.choice()][..]);
            Ok(Choice { logits, wanted, past: &draft.past, key })
        };
        let choices: Vec<_> = order.iter().enumerate().map(choice).collect::<Result<_>>()?;
        self.sampler.draw(&choices)
    }
}

/// Returns the error of a text without a frame.
pub(super) fn silent() -> Error {
    Error::corrupt("the voice model gave no speech for this text")
        .with_hint("the model and its format must belong together; draw frames only, which always gives speech")
}
