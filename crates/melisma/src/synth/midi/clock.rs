//! Ticks to seconds.

use super::DEFAULT_TEMPO;

/// The length of a tick.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Division {
    /// Ticks of a beat.
    Beat(u16),
    /// Ticks of `per` seconds.
    Second { ticks: u32, per: u32 },
}

/// Walks through a tempo map. Time is counted in integers, whose unit depends on the division alone.
#[derive(Debug)]
pub(super) struct Clock {
    division: Division,
    tempo: u32,
    tick: u64,
    units: u128,
}

impl Clock {
    pub(super) fn new(division: Division) -> Self {
        Self { division, tempo: DEFAULT_TEMPO, tick: 0, units: 0 }
    }

    /// Goes to `tick`, which does not lie before the last one, and returns its time in seconds.
    pub(super) fn seconds(&mut self, tick: u64) -> f64 {
        let passed = u128::from(tick.saturating_sub(self.tick));
        self.tick = tick;
        let (of_tick, of_second) = match self.division {
            Division::Beat(n) => (self.tempo, 1e6 * f64::from(n)),
            Division::Second { ticks, per } => (per, f64::from(ticks)),
        };
        self.units += passed * u128::from(of_tick);
        self.units as f64 / of_second
    }

    /// Sets a beat to `tempo` microseconds from the current tick on.
    pub(super) fn set_tempo(&mut self, tempo: u32) {
        self.tempo = tempo;
    }
}
