//! One voice alone.

use melisma_kernels::Isa;
use melisma_kernels::signal::voice::{
    Block, Control, Envelope, Filter, N_PARTIALS, Partials, Segment, Slot, Source, TICK, Tone, UNIT, Voice, Voices,
};

use melisma::{Error, Result};

/// An envelope that opens at once and stays open.
pub(super) const STEADY: Envelope = Envelope {
    attack: Segment { samples: 1, curve: 1.0 },
    decay: Segment { samples: 1, curve: 1.0 },
    sustain: 1.0,
    release: Segment { samples: 480, curve: 1.0 },
};

/// Returns a filter with a constant cutoff.
pub(super) fn still(octaves: f32, damping: f32) -> Filter {
    Filter { octaves, sweep: 0.0, rate: 0.0, lfo_increment: 0, lfo_phase: 0, lfo_depth: 0.0, damping }
}

pub(super) fn increment(turns: f64) -> u64 {
    (turns * 2f64.powi(64)) as u64
}

/// Returns a sine without a filter.
pub(super) fn sine(turns: f64, envelope: Envelope) -> Voice {
    let mut levels = [0.0; N_PARTIALS];
    levels[0] = 1.0;
    let source = Source::Partials(Partials { increment: increment(turns), levels, rates: [0.0; N_PARTIALS] });
    Voice { source, envelope, gain: [1.0, 1.0] }
}

/// Returns a sine and a saw through a filter.
pub(super) fn tone(turns: f64, [sine, saw]: [f32; 2], filter: Filter) -> Voice {
    let increment = increment(turns);
    let source = Source::Tone(Tone { increment, saw_increment: increment, sine, saw, filter });
    Voice { source, envelope: STEADY, gain: [1.0, 1.0] }
}

/// Plays one voice starting at sample 0.
pub(super) struct Player {
    voices: Voices,
    slot: Slot,
    now: u64,
}

impl Player {
    pub(super) fn new(voice: &Voice) -> Result<Self> {
        let mut voices = Voices::new(Isa::from_env()?, 16, 1);
        let slot = voices.start(0, voice, 0, Control::default())?;
        let slot = slot.ok_or_else(|| Error::invalid("sheet: the voice found no place"))?;
        Ok(Self { voices, slot, now: 0 })
    }

    /// Skips to a later sample without rendering: without a filter, a voice depends only on time.
    pub(super) fn leap(&mut self, to: u64) {
        self.now = to;
    }

    pub(super) fn release(&mut self) {
        self.voices.release(self.slot, self.now);
    }

    /// Returns the next samples of the left channel.
    pub(super) fn play(&mut self, n: usize) -> Vec<f32> {
        let mut out = Vec::with_capacity(n);
        while out.len() < n {
            let len = (n - out.len()).min(Voices::LONGEST);
            let controls = vec![Control::default(); len / TICK + 2];
            self.voices.render(Block { position: self.now, len, controls: &controls });
            out.extend(self.voices.bus(0).left[..len].iter().map(|&sample| sample as f32 / UNIT));
            self.now += len as u64;
        }
        out
    }
}
