//! Source of a performance's dry voices: an engine that renders them live, a recording, or a SoundFont.

use std::sync::Arc;

use super::engine::{Buses, Engine, EngineConfig, Stem};
use super::event::Event;
use super::part::Parts;
use super::recording::Recording;
use super::soundfont::Player;
use crate::Result;
use crate::runtime::device::Queue;

#[derive(Debug)]
pub(super) enum Dry {
    Live(Box<Live>),
    Recorded { recording: Arc<Recording>, at: u64 },
    Sampled { mix: Box<Player>, parts: Vec<Player> },
}

#[derive(Debug)]
pub(super) struct Live {
    engine: Engine,
    /// Renders everything again for the stems: floats cannot hold the sum of the stems exactly.
    stem_engine: Option<Engine>,
}

impl Dry {
    /// Creates an engine, and one more for stems. Where a trace is taken, each part is rendered under its own name.
    pub(super) fn live(config: EngineConfig) -> Result<Self> {
        let stems = EngineConfig { buses: Buses::Stems, ..config };
        let parts = if tracing::enabled!(tracing::Level::INFO) { Buses::Stems } else { Buses::Mix };
        let engine = Engine::new(EngineConfig { buses: parts, ..config })?;
        let stem_engine = (config.buses == Buses::Stems).then(|| Engine::new(stems)).transpose()?;
        Ok(Self::Live(Box::new(Live { engine, stem_engine })))
    }

    /// Renders each part alone as well, from the beginning on.
    pub(super) fn split(&mut self, parts: &Parts) -> Result<()> {
        match self {
            Self::Live(live) => live.stem_engine = Some(Engine::of_parts(live.engine.config(), parts)?),
            Self::Recorded { recording, .. } => recording.check_parts(parts)?,
            Self::Sampled { mix, parts: players } => {
                *players = (0..parts.names().len()).map(|part| mix.part(parts, part)).collect::<Result<_>>()?;
            }
        }
        Ok(())
    }

    pub(super) fn position(&self) -> u64 {
        match self {
            Self::Live(live) => live.engine.position(),
            Self::Recorded { at, .. } => *at,
            Self::Sampled { mix, .. } => mix.position(),
        }
    }

    /// Returns the sample of the last message of a SoundFont's player; 0 where events say it.
    pub(super) fn end(&self) -> u64 {
        if let Self::Sampled { mix, .. } = self { mix.end() } else { 0 }
    }

    /// Takes the next event. A recording and a SoundFont's player have it already.
    pub(super) fn push(&mut self, event: Event) -> Result<()> {
        let Self::Live(live) = self else { return Ok(()) };
        live.engine.push(event)?;
        live.stem_engine.as_mut().map_or(Ok(()), |engine| engine.push(event))
    }

    /// Returns whether nothing more will sound.
    pub(super) fn is_over(&self) -> bool {
        match self {
            Self::Live(live) => live.engine.active() == 0 && live.engine.waiting() == 0,
            Self::Recorded { recording, at } => *at >= recording.n_samples(),
            Self::Sampled { mix, .. } => mix.is_over(),
        }
    }

    /// Returns the number of voices that sound now; of a recording, the most that ever do; of a SoundFont, the keys that
    /// are down.
    pub(super) fn n_voices(&self) -> usize {
        match self {
            Self::Live(live) => live.engine.active(),
            Self::Recorded { recording, .. } => recording.most_voices(),
            Self::Sampled { mix, .. } => mix.n_keys(),
        }
    }

    /// Returns the number of notes that got no voice.
    pub(super) fn dropped(&self) -> u64 {
        match self {
            Self::Live(live) => live.engine.dropped(),
            Self::Recorded { .. } | Self::Sampled { .. } => 0,
        }
    }

    /// Renders the next samples: the mix, and the stems where there are any.
    pub(super) fn render(&mut self, queue: Option<&Queue>, mix: Stem<'_>, stems: &mut [Stem<'_>]) -> Result<()> {
        match self {
            Self::Recorded { recording, at } => {
                let first = *at;
                *at += mix.left.len() as u64;
                recording.read(0, first, mix);
                let parts = stems.iter_mut().enumerate();
                parts.for_each(|(index, Stem { left, right })| recording.read(1 + index, first, Stem { left, right }));
                Ok(())
            }
            Self::Sampled { mix: player, parts } => {
                player.render(mix.left, mix.right)?;
                parts.iter_mut().zip(stems).try_for_each(|(part, stem)| part.render(stem.left, stem.right))
            }
            Self::Live(live) => {
                match queue {
                    Some(queue) => live.engine.render_on(queue, mix.left, mix.right),
                    None => live.engine.render(mix.left, mix.right),
                }
                let Some(engine) = &mut live.stem_engine else { return Ok(()) };
                engine.render_each(stems)
            }
        }
    }
}
