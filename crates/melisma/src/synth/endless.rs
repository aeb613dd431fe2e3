//! Generated music without end: a composer writes phrase after phrase into a stream.

use super::composer::{Composer, Style};
use super::engine::EngineConfig;
use super::event::{Action, Event};
use super::note::PlacedNote;
use super::score::Score;
use super::stream::{Played, Remote, Stream};
use crate::Result;

/// Events of the phrases that are planned, at least: a phrase has some hundreds.
const LEAST_EVENTS: usize = 1 << 13;
/// How long before its first note a phrase is written: more than a second, whatever the block.
const AHEAD_SECONDS: f64 = 1.25;

/// A stream that never runs out of notes: what [`compose`](super::compose) would write for the same style and seed, however
/// long it plays. Every half minute or so a block writes a phrase, which allocates; [`Endless::plan`] does it at another
/// time.
///
/// ```
/// use melisma::synth::{Endless, EngineConfig, Style};
///
/// let (mut music, _remote) = Endless::new(Style::named("sleep")?, 7, EngineConfig::default())?;
/// for _ in 0..300 {
///     let block = music.next_block()?;
///     assert_eq!(block.left.len(), 480);
/// }
/// # Ok::<(), melisma::Error>(())
/// ```
#[derive(Debug)]
pub struct Endless {
    stream: Stream,
    composer: Composer,
    n_notes: u64,
}

impl Endless {
    /// Composes music of `style` from its beginning, with a remote for its controls. Names of notes
    /// from 2^63 on are free for others.
    ///
    /// # Errors
    /// As [`Style::check`] and [`Stream::new`].
    pub fn new(style: Style, seed: u64, config: EngineConfig) -> Result<(Self, Remote)> {
        style.check()?;
        let max_events = config.max_events.max(LEAST_EVENTS);
        let (mut stream, remote) = Stream::new(EngineConfig { max_events, ..config })?;
        for (parameter, value) in style.controls {
            stream.engine().push(Event { at: 0, action: Action::Set { parameter, value } })?;
        }
        Ok((Self { stream, composer: Composer::new(style, seed), n_notes: 0 }, remote))
    }

    /// Returns the stream, for captures and other events.
    pub fn stream(&mut self) -> &mut Stream {
        &mut self.stream
    }

    /// Writes the next phrase, more than a second before its first note, if it is not written yet. Returns
    /// its notes, each with its name.
    ///
    /// # Errors
    /// Other events leave no room for it.
    pub fn plan(&mut self) -> Result<Vec<(u64, PlacedNote)>> {
        let mut planned = Vec::new();
        let engine = self.stream.engine();
        let rate = engine.config().sample_rate;
        let until = engine.position() as f64 / f64::from(rate) + AHEAD_SECONDS;
        while self.composer.seconds() <= until {
            let mut phrase = Score { notes: self.composer.phrase(), ..Score::default() };
            phrase.sort();
            for event in phrase.events_named_from(self.n_notes, rate) {
                engine.push(event)?;
            }
            planned.extend((self.n_notes..).zip(phrase.notes.iter().map(|note| note.placed(rate))));
            self.n_notes += phrase.notes.len() as u64;
        }
        Ok(planned)
    }

    /// Renders the next block of 10 ms.
    ///
    /// # Errors
    /// As [`Endless::plan`].
    pub fn next_block(&mut self) -> Result<Played<'_>> {
        self.plan()?;
        Ok(self.stream.next_block())
    }
}
