//! Texts on their way to frames: many at once, token by token.

use std::ops::Range;
use std::sync::Arc;

use super::cycle::CycleDetector;
use super::format::{Draw, Settings, Tokens};
use super::note::Note;
use super::script::{Prompt, Script};
use crate::llama::{Batch, Choice, Input, Key, Model, Options, PAGE_LEN, Sampler, Sequence};
use crate::snac::tokens::{Assembler, Ledger};
use crate::{Context, Error, Result};

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
    /// Whether it takes no step.
    pub(super) is_paused: bool,
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
    pub(super) fn new(mut script: Script, tokens: Tokens, draw: Draw, repeat_frames: usize) -> Self {
        let notes = std::mem::take(&mut script.notes);
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
            notes,
            is_paused: false,
        }
    }

    /// Returns which tokens it draws, and how.
    pub(super) fn way(&self) -> (Tokens, Draw) {
        (self.tokens, self.draw)
    }

    /// Takes its next piece out, which is then spoken on its own.
    pub(super) fn split(&mut self) -> Option<Self> {
        let prompt = std::mem::take(self.script.prompts.get_mut(self.at)?);
        let script = Script { prompts: vec![prompt], seed: self.script.seed, notes: Vec::new() };
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

    /// Returns the next piece, if it has not begun and may.
    fn waiting(&self) -> Option<&Prompt> {
        self.script.prompts.get(self.at).filter(|_| self.draft.is_none() && !self.is_paused)
    }

    /// Returns the tokens that the model has to read before the next one is drawn; none without a piece that may
    /// advance.
    fn n_unread(&self) -> usize {
        self.draft.as_ref().filter(|_| !self.is_paused).map_or(0, |draft| draft.past.len() - draft.n_read)
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

/// What a step did.
#[derive(Debug, Default)]
pub(super) struct Stepped {
    /// The runs that failed, in order.
    pub(super) failed: Vec<(usize, Error)>,
    /// Tokens that were drawn.
    pub(super) n_drawn: usize,
    /// Whether some run read of its prompt.
    pub(super) has_prompt: bool,
}

/// What a run reads in a step.
#[derive(Debug, Clone, Copy)]
struct Share {
    run: usize,
    n_tokens: usize,
    /// Whether nothing is left to read, so that a token can be drawn.
    is_whole: bool,
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
    /// The most tokens of prompts in a step, so that no prompt holds the other runs up.
    prompt_tokens: usize,
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
            prompt_tokens: usize::MAX,
        })
    }

    /// Reads prompts in pieces: at most `tokens` of them in a step, which changes no bit.
    pub(super) fn with_prompt_tokens(self, tokens: usize) -> Self {
        Self { prompt_tokens: tokens, ..self }
    }

    /// Returns the tokens in the cache, in whole pages.
    pub(super) fn n_cached(&self) -> usize {
        self.n_pages * PAGE_LEN - self.batch.room()
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

    /// Begins the next pieces of runs that wait for one, as far as the cache has room for the whole of them. None
    /// overtakes another.
    fn begin(&mut self, runs: &mut [ScriptRun]) {
        for run in runs {
            let Some(prompt) = run.waiting() else { continue };
            let n_pages = prompt.need(run.tokens.n_slots as usize).div_ceil(PAGE_LEN);
            if self.n_reserved + n_pages > self.n_pages {
                return;
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

    /// Draws one token for each run that is not done, has room and has read its prompt.
    ///
    /// # Errors
    /// The device failed.
    pub(super) fn step(&mut self, runs: &mut [ScriptRun]) -> Result<Stepped> {
        self.begin(runs);
        let shares = self.shares(runs);
        let has_prompt = self.read(runs, &shares)?;
        let drawing = &shares[..shares.partition_point(|share| share.is_whole)];
        let mut stepped = Stepped { has_prompt, ..Stepped::default() };
        for (token, share) in self.draw(runs, drawing)?.into_iter().zip(drawing) {
            match token {
                Ok(token) => {
                    let ended = runs[share.run].push(token);
                    self.close(ended);
                    stepped.n_drawn += 1;
                }
                Err(error) => {
                    stepped.failed.push((share.run, error));
                    self.forget(&mut runs[share.run]);
                }
            }
        }
        stepped.failed.sort_by_key(|(index, _)| *index);
        Ok(stepped)
    }

    /// Returns what the runs read, with those first that have nothing left then.
    fn shares(&self, runs: &[ScriptRun]) -> Vec<Share> {
        let mut room = self.prompt_tokens;
        let mut shares = Vec::with_capacity(runs.len());
        for (run, n_unread) in runs.iter().map(ScriptRun::n_unread).enumerate() {
            let n_tokens = if n_unread > 1 { n_unread.min(room) } else { n_unread };
            if n_unread > 1 {
                room -= n_tokens;
            }
            if n_tokens > 0 {
                shares.push(Share { run, n_tokens, is_whole: n_tokens == n_unread });
            }
        }
        // Runs in the same slot share the product of the head.
        shares.sort_by_key(|share| if share.is_whole { runs[share.run].choice() } else { usize::MAX });
        shares
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

    /// Reads the shares, and computes the logits after those that are whole. Returns whether there is a prompt among
    /// them.
    fn read(&mut self, runs: &mut [ScriptRun], shares: &[Share]) -> Result<bool> {
        let input = |share: &Share| {
            let Draft { sequence, past, n_read, .. } = runs[share.run].draft.as_ref()?;
            let wanted = if share.is_whole { &self.choices[runs[share.run].choice()][..] } else { &[] };
            Some(Input { sequence, tokens: &past[*n_read..n_read + share.n_tokens], wanted })
        };
        let inputs: Vec<_> = shares.iter().filter_map(input).collect();
        let has_prompt = shares.iter().any(|share| share.n_tokens > 1 || !share.is_whole);
        let span = match has_prompt {
            true => tracing::info_span!("prompt", n = inputs.len()),
            false => tracing::info_span!("step", n = inputs.len()),
        };
        span.in_scope(|| self.batch.step(&inputs))?;
        for share in shares {
            if let Some(draft) = &mut runs[share.run].draft {
                draft.n_read += share.n_tokens;
            }
        }
        Ok(has_prompt)
    }

    /// Draws the next tokens of runs whose logits were computed first.
    fn draw(&mut self, runs: &[ScriptRun], shares: &[Share]) -> Result<Vec<Result<u32>>> {
        if shares.is_empty() {
            return Ok(Vec::new());
        }
        let _span = tracing::trace_span!("sample", n = shares.len()).entered();
        let choice = |(place, share): (usize, &Share)| {
            let run: &ScriptRun = &runs[share.run];
            let draft = run.draft.as_ref().ok_or_else(|| Error::invalid("this text is not spoken"))?;
            let key = Key { seed: run.script.seed, sentence: run.piece() as u64, position: draft.n_drawn() as u64 };
            let (logits, wanted) = (self.batch.logits(place)?, &self.choices[run.choice()][..]);
            Ok(Choice { logits, wanted, past: &draft.past, key })
        };
        let choices: Vec<_> = shares.iter().enumerate().map(choice).collect::<Result<_>>()?;
        self.sampler.draw(&choices)
    }
}

/// Returns the error of a text without a frame.
pub(super) fn silent() -> Error {
    Error::corrupt("the voice model gave no speech for this text")
        .with_hint("draw frames only, which always gives speech; or the model and its format do not belong together")
}
