//! General MIDI's programs and drums, and our instruments.

use super::DRUMS;
use crate::synth::instrument::Instrument;

/// Returns the instrument of a key of `program` on `channel`.
pub(super) fn instrument(channel: u8, program: u8, key: u8) -> Instrument {
    if channel == DRUMS {
        // Bass drums, toms and other drums; everything else is a cymbal or a rattle.
        return match key {
            35 | 36 | 41 | 43 | 45 | 47 | 48 | 50 | 60..=68 => Instrument::Kick,
            _ => Instrument::Hat,
        };
    }
    match program {
        // Pianos, mallets, guitars, plucked strings, ethnic strings, pitched percussion.
        0..=15 | 24..=31 | 45..=47 | 104..=118 => Instrument::Pluck,
        32..=39 => Instrument::Bass,
        // Reversed cymbal, noises and sound effects.
        119..=127 => Instrument::Swell,
        // Organs, strings, ensembles, pads, synthetic effects.
        16..=23 | 40..=44 | 48..=55 | 88..=103 => Instrument::Pad,
        // Brass, reeds, pipes, synthetic leads.
        _ => Instrument::Lead,
    }
}

/// Returns the program that is read back as `instrument`.
pub(super) fn program(instrument: Instrument) -> u8 {
    match instrument {
        Instrument::Pad => 89,
        Instrument::Lead => 80,
        Instrument::Pluck => 46,
        Instrument::Bass => 38,
        Instrument::Swell => 122,
        Instrument::Kick | Instrument::Hat => 0,
    }
}

/// Returns the key of a drum; `None` for instruments with a pitch.
pub(super) fn drum(instrument: Instrument) -> Option<u8> {
    match instrument {
        Instrument::Kick => Some(36),
        Instrument::Hat => Some(42),
        _ => None,
    }
}
