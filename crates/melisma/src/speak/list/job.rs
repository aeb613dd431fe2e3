//! What both ways to speak a list share: its tasks, and the account of them.

use std::collections::HashSet;
use std::ops::Range;

use super::line::{Line, List};
use crate::output::Existing;
use crate::runtime::memory::Needed;
use crate::snac::Decoder;
use crate::speak::{Delivery, Estimate, Note, Pace, Script, Speaker};
use crate::{Error, Result};

/// A list that a speaker speaks in one batch.
#[derive(Debug)]
pub struct Job<'a> {
    pub(super) speaker: &'a Speaker,
    pub(super) list: &'a List,
    pub(super) delivery: Delivery,
    pub(super) voice: Option<String>,
    pub(super) seed: u64,
    pub(super) shard: (usize, usize),
    pub(super) existing: Existing,
}

/// What happens while a list is spoken. An error of the caller ends the work; what is finished stays.
#[derive(Debug)]
#[non_exhaustive]
pub enum Event<'a> {
    /// The memory that each of the texts can be spoken in alone. Nothing is written yet.
    Needs(Needed),
    /// The work begins.
    Planned {
        /// Texts that are left.
        n_texts: usize,
        /// Texts that an earlier run has spoken.
        n_kept: usize,
    },
    /// How fast the texts that are left will be spoken; not if there are none.
    Estimated(Estimate),
    /// The next tokens are drawn.
    Step,
    /// A line cannot be spoken; the others are.
    Failed(u32, &'a Error),
    /// Something about the speech of a line.
    Noted(u32, &'a Note),
    /// A text is done or has failed.
    Done,
}

/// The account of a list.
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct Spoken {
    /// Texts that this run has spoken.
    pub n_spoken: usize,
    /// Texts that an earlier run has spoken.
    pub n_kept: usize,
    /// Frames of this run.
    pub n_frames: usize,
    /// Samples of this run; 0 if tokens were asked for.
    pub n_samples: u64,
    /// The files of the shard that have audio, also those of an earlier run; none if tokens were asked for.
    pub files: Vec<String>,
    /// The lines that could not be spoken, by number.
    pub failures: Vec<(u32, Error)>,
    /// What was noted of lines, by number.
    pub notes: Vec<(u32, Note)>,
}

/// A line that can be spoken.
pub(super) struct Task {
    pub(super) number: u32,
    pub(super) name: String,
    pub(super) text: String,
    pub(super) script: Script,
}

pub(super) type Watch<'a> = &'a mut dyn FnMut(Event<'_>) -> Result<()>;

impl<'a> Job<'a> {
    /// Speaks `list` with the model's own voice and settings.
    pub fn new(speaker: &'a Speaker, list: &'a List) -> Self {
        let delivery = speaker.format().settings().into();
        Self { speaker, list, delivery, voice: None, seed: 0, shard: (0, 1), existing: Existing::Refuse }
    }

    setters! {
        /// Sets how the texts are spoken.
        pub fn with_delivery(delivery: Delivery);
        /// Sets the voice of lines without one; `None` is the model's first.
        pub fn with_voice(voice: Option<String>);
        /// Sets the seed of lines without one.
        pub fn with_seed(seed: u64);
        /// Sets whether what is there may be replaced.
        pub fn with_existing(existing: Existing);
    }

    /// Speaks only part `index` of `n` parts, counted from 0.
    #[must_use]
    pub fn with_shard(mut self, index: usize, n: usize) -> Self {
        self.shard = (index, n);
        self
    }

    /// Returns the lines of the shard.
    fn part(&self) -> Result<Range<usize>> {
        let (index, n) = self.shard;
        if index >= n {
            return Err(Error::invalid(format!("shard {index} is out of range: {n} shards, counted from 0")));
        }
        let bound = |index: usize| (self.list.len() as u128 * index as u128 / n as u128) as usize;
        Ok(bound(index)..bound(index + 1))
    }

    /// Returns the tasks of the shard, and lists its other lines. `rename` gives the name that no two tasks share.
    pub(super) fn tasks(
        &self,
        rename: impl Fn(String) -> Result<String>,
        spoken: &mut Spoken,
        watch: Watch<'_>,
    ) -> Result<Vec<Task>> {
        let (part, mut names, mut tasks) = (self.part()?, HashSet::new(), Vec::new());
        for (at, (number, line)) in self.list.lines[..part.end].iter().enumerate() {
            let named = line.as_ref().map_err(copied).and_then(|line| {
                let name = rename(line.name.clone().unwrap_or_else(|| format!("{number:06}")))?;
                match names.insert(name.clone()) {
                    true => Ok((line, name)),
                    false => Err(Error::invalid(format!("the name `{name:.64}` is taken by an earlier line"))),
                }
            });
            if at < part.start {
                continue;
            }
            match named.and_then(|(line, name)| self.task(*number, line, name)) {
                Ok(task) => tasks.push(task),
                Err(error) => spoken.fail(*number, error, watch)?,
            }
        }
        Ok(tasks)
    }

    fn task(&self, number: u32, line: &Line, name: String) -> Result<Task> {
        let voice = line.voice.as_deref().or(self.voice.as_deref());
        let script = self.speaker.script(&line.text, voice, line.seed.unwrap_or(self.seed))?;
        Ok(Task { number, name, text: line.text.clone(), script })
    }

    /// Fails for a list without a text, unless its other shards may have some.
    pub(super) fn check_some(&self) -> Result<()> {
        match self.shard.1 {
            1 => Err(Error::invalid(format!("{}: no line of it can be spoken", self.list.name)).with_hint(
                "each line is an object such as {\"text\": \"Good morning.\", \"voice\": \"tara\", \"name\": \"a\"}",
            )),
            _ => Ok(()),
        }
    }

    /// Says what memory the scripts need.
    pub(super) fn need<'b>(&self, scripts: impl Iterator<Item = &'b Script>, watch: Watch<'_>) -> Result<()> {
        // Of one of them, with one piece at a time: more are spoken at once where the memory allows it.
        let delivery = Delivery { pace: Pace::Live, ..self.delivery.clone() };
        let needed = scripts.map(|script| self.speaker.needed(script, &delivery)).fold(Needed::default(), most);
        watch(Event::Needs(needed))
    }

    /// Says how fast the scripts will be spoken, and their frames decoded.
    pub(super) fn estimate<T>(
        &self,
        scripts: &[(T, Script)],
        decoder: Option<&mut Decoder>,
        watch: Watch<'_>,
    ) -> Result<()> {
        if scripts.is_empty() {
            return Ok(());
        }
        let estimate = self.speaker.estimate_all(scripts, &self.delivery.settings, decoder)?;
        watch(Event::Estimated(estimate))
    }
}

impl Spoken {
    pub(super) fn fail(&mut self, number: u32, error: Error, watch: Watch<'_>) -> Result<()> {
        watch(Event::Failed(number, &error))?;
        self.failures.push((number, error));
        Ok(())
    }

    pub(super) fn note(&mut self, number: u32, notes: Vec<Note>, watch: Watch<'_>) -> Result<()> {
        for note in notes {
            watch(Event::Noted(number, &note))?;
            self.notes.push((number, note));
        }
        Ok(())
    }
}

/// Returns the larger of each memory.
fn most(one: Needed, other: Needed) -> Needed {
    Needed { host: one.host.max(other.host), device: one.device.max(other.device) }
}

fn copied(error: &Error) -> Error {
    Error::new(error.kind(), error.to_string()).with_remedies_of(error)
}
