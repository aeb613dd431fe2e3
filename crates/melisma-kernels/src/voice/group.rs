//! Sixteen voices side by side: one vector per quantity, and the moments at which an envelope turns.
//! More than 400 lines because its quantities are set, moved and read together.

use super::sound::{Envelope, N_PARTIALS, Segment, Source, Voice};
use super::{Control, TICK, UNIT, cpu, math, step};

/// Lanes of a group: the widest vector.
pub(super) const LANES: usize = 16;

type Floats = [f32; LANES];
type Words = [u32; LANES];

/// Which inner loop a group takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub(super) enum Kind {
    Tone,
    Partials,
    Drum,
    Noise,
}

impl Kind {
    pub(super) fn of(source: &Source) -> Self {
        match source {
            Source::Tone(_) => Self::Tone,
            Source::Partials(_) => Self::Partials,
            Source::Drum(_) => Self::Drum,
            Source::Noise(_) => Self::Noise,
        }
    }
}

/// A quantity that is linear between moments at which it is evaluated.
#[derive(Debug, Clone, Copy)]
#[repr(C, align(64))]
pub(super) struct Line {
    pub(super) value: Floats,
    pub(super) slope: Floats,
    /// Its value at the end of the line.
    pub(super) target: Floats,
}

impl Line {
    const SILENT: Self = Self { value: [0.0; LANES], slope: [0.0; LANES], target: [0.0; LANES] };

    fn rest(&mut self, lane: usize, value: f32) {
        (self.value[lane], self.slope[lane], self.target[lane]) = (value, 0.0, value);
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    Attack,
    Decay,
    Sustain,
    /// To silence, and then the lane is free.
    Last,
}

/// Sixteen lanes. A free lane is silent: its gains are 0, and so is everything else.
#[derive(Debug, Clone)]
#[repr(C, align(64))]
pub(super) struct Group {
    pub(super) level: Line,
    pub(super) base: Floats,
    pub(super) scale: Floats,
    pub(super) rate: Floats,
    /// The low words of the segment's first sample and of the onset.
    pub(super) segment: Words,
    pub(super) onset: Words,
    /// Samples from now to the end of the level's line, set where they are not those to the end of the tick.
    pub(super) line_len: Floats,
    pub(super) left: Floats,
    pub(super) right: Floats,

    /// The 64-bit phase as high and low words, and the saw's.
    pub(super) phase: [Words; 2],
    pub(super) increment: [Words; 2],
    pub(super) saw_phase: [Words; 2],
    pub(super) saw_increment: [Words; 2],
    pub(super) period: Floats,
    pub(super) sine: Floats,
    pub(super) saw: Floats,

    pub(super) state: [Floats; 2],
    pub(super) filter: [Line; 3],
    pub(super) octaves: Floats,
    pub(super) sweep: Floats,
    pub(super) sweep_rate: Floats,
    pub(super) lfo_phase: Words,
    pub(super) lfo_increment: Words,
    pub(super) lfo_depth: Floats,
    pub(super) damping: Floats,
    pub(super) seed: Words,
    pub(super) mix: [Floats; 3],

    pub(super) partials: [Line; N_PARTIALS],
    pub(super) partial_levels: [Floats; N_PARTIALS],
    pub(super) partial_rates: [Floats; N_PARTIALS],

    /// The drum's phase at the end of the tick.
    pub(super) drum_target: Words,
    pub(super) drum_increment: Words,
    pub(super) drop: Floats,
    pub(super) drop_rate: Floats,

    pub(super) kind: Kind,
    pub(super) bus: usize,
    /// Bit per lane that sounds.
    pub(super) sounding: u32,
    /// A saw has two steps within reach.
    pub(super) is_close: bool,
    /// The next moment at which a lane turns.
    pub(super) boundary: u64,
    turn: [u64; LANES],
    sweep_end: [u64; LANES],
    stage: [Stage; LANES],
    envelope: [Envelope; LANES],
    pub(super) generation: Words,
}

const NEVER: u64 = u64::MAX;
const IDLE: Envelope = {
    let segment = Segment { samples: 1, curve: 1.0 };
    Envelope { attack: segment, decay: segment, sustain: 0.0, release: segment }
};

impl Group {
    pub(super) fn new() -> Self {
        let (floats, words) = ([0.0; LANES], [0; LANES]);
        Self {
            level: Line::SILENT,
            base: floats,
            scale: floats,
            rate: floats,
            segment: words,
            onset: words,
            line_len: [TICK as f32; LANES],
            left: floats,
            right: floats,
            phase: [words; 2],
            increment: [words; 2],
            saw_phase: [words; 2],
            saw_increment: [words; 2],
            period: floats,
            sine: floats,
            saw: floats,
            state: [floats; 2],
            filter: [Line::SILENT; 3],
            octaves: floats,
            sweep: floats,
            sweep_rate: floats,
            lfo_phase: words,
            lfo_increment: words,
            lfo_depth: floats,
            damping: [1.0; LANES],
            seed: words,
            mix: [floats; 3],
            partials: [Line::SILENT; N_PARTIALS],
            partial_levels: [floats; N_PARTIALS],
            partial_rates: [floats; N_PARTIALS],
            drum_target: words,
            drum_increment: words,
            drop: floats,
            drop_rate: floats,
            kind: Kind::Tone,
            bus: 0,
            sounding: 0,
            is_close: false,
            boundary: NEVER,
            turn: [NEVER; LANES],
            sweep_end: [NEVER; LANES],
            stage: [Stage::Last; LANES],
            envelope: [IDLE; LANES],
            generation: words,
        }
    }

    pub(super) fn free_lane(&self) -> Option<usize> {
        (0..LANES).find(|lane| self.sounding >> lane & 1 == 0)
    }

    pub(super) fn is_releasing(&self, lane: usize) -> bool {
        self.stage[lane] == Stage::Last
    }

    /// A voice begins at sample `now` in a free lane.
    pub(super) fn start(&mut self, lane: usize, voice: &Voice, now: u64, control: Control) {
        self.sounding |= 1 << lane;
        self.envelope[lane] = voice.envelope;
        self.left[lane] = voice.gain[0] * UNIT;
        self.right[lane] = voice.gain[1] * UNIT;
        self.onset[lane] = now as u32;
        self.sweep_end[lane] = NEVER;
        self.level.rest(lane, 0.0);
        match &voice.source {
            Source::Tone(tone) => {
                // The sine begins at zero, the saw in the middle of its rise.
                self.set_wide(lane, 3 << 62, 1 << 63);
                self.retune(lane, tone.increment, tone.saw_increment);
                (self.sine[lane], self.saw[lane]) = (tone.sine, tone.saw);
                self.start_filter(lane, &tone.filter, now, control);
            }
            Source::Partials(partials) => {
                self.set_wide(lane, 0, 0);
                for k in 0..N_PARTIALS {
                    self.partial_levels[k][lane] = partials.levels[k];
                    self.partial_rates[k][lane] = partials.rates[k];
                }
                self.retune(lane, partials.increment, 0);
                for k in 0..N_PARTIALS {
                    let level = self.partial_levels[k][lane];
                    self.partials[k].rest(lane, level);
                }
            }
            Source::Drum(drum) => {
                self.drum_increment[lane] = drum.increment;
                (self.drop[lane], self.drop_rate[lane]) = (drum.drop, drum.rate);
                // Zero of the cosine that makes the sine.
                self.drum_target[lane] = 3 << 30;
            }
            Source::Noise(noise) => {
                self.seed[lane] = noise.seed;
                for (level, row) in noise.mix.iter().zip(&mut self.mix) {
                    row[lane] = *level;
                }
                self.start_filter(lane, &noise.filter, now, control);
            }
        }
        self.stage[lane] = Stage::Attack;
        self.set_segment(lane, now, voice.envelope.attack, 1.0);
        if !now.is_multiple_of(TICK as u64) {
            // SAFETY: a single lane needs no instruction set.
            unsafe { cpu::aim_slow::<f32>(self, lane, now, control) };
        }
        self.find_boundary();
    }

    fn start_filter(&mut self, lane: usize, filter: &super::Filter, now: u64, control: Control) {
        self.octaves[lane] = filter.octaves;
        self.sweep[lane] = filter.sweep;
        self.sweep_rate[lane] = filter.rate;
        self.lfo_phase[lane] = filter.lfo_phase;
        self.lfo_increment[lane] = filter.lfo_increment;
        self.lfo_depth[lane] = filter.lfo_depth;
        self.damping[lane] = filter.damping;
        self.state[0][lane] = 0.0;
        self.state[1][lane] = 0.0;
        if filter.rate > 0.0 {
            // 2^-60 of a sweep is nothing; from here on its age may wrap.
            self.sweep_end[lane] = now + (60.0 / f64::from(filter.rate)).min(1e9) as u64;
        }
        // SAFETY: a single lane needs no instruction set.
        let coefficients = unsafe { cpu::coefficients::<f32>(self, lane, now as u32, control) };
        for (line, value) in self.filter.iter_mut().zip(coefficients) {
            line.rest(lane, value);
        }
    }

    fn set_wide(&mut self, lane: usize, phase: u64, saw_phase: u64) {
        for (words, wide) in [(&mut self.phase, phase), (&mut self.saw_phase, saw_phase)] {
            (words[0][lane], words[1][lane]) = ((wide >> 32) as u32, wide as u32);
        }
    }

    /// Frequencies of tones and partials from now on.
    pub(super) fn retune(&mut self, lane: usize, increment: u64, saw_increment: u64) {
        for (words, wide) in [(&mut self.increment, increment), (&mut self.saw_increment, saw_increment)] {
            (words[0][lane], words[1][lane]) = ((wide >> 32) as u32, wide as u32);
        }
        self.period[lane] = math::period(saw_increment);
        let limit = (0.47 * 2f64.powi(64)) as u64;
        for k in 0..N_PARTIALS {
            if increment > limit / (k as u64 + 1) {
                self.partial_levels[k][lane] = 0.0;
            }
        }
        let close = (2.0 * step::REACH * step::PER_SAMPLE) as f32 / 4_294_967_296.0;
        self.is_close = (0..LANES).any(|lane| self.sounding >> lane & 1 == 1 && self.period[lane] < close);
    }

    pub(super) fn release(&mut self, lane: usize, now: u64) {
        if self.stage[lane] != Stage::Last {
            self.end(lane, now, self.envelope[lane].release);
        }
    }

    /// The level goes to 0 within `segment`, and the voice ends.
    pub(super) fn end(&mut self, lane: usize, now: u64, segment: Segment) {
        self.stage[lane] = Stage::Last;
        self.set_segment(lane, now, segment, 0.0);
        self.find_boundary();
    }

    /// The level goes from where it is to `end`.
    fn set_segment(&mut self, lane: usize, now: u64, segment: Segment, end: f32) {
        let start = self.level.value[lane];
        let last = (-f64::from(segment.curve)).exp2();
        let scale = f64::from(start - end) / (1.0 - last);
        self.scale[lane] = scale as f32;
        self.base[lane] = (f64::from(end) - scale * last) as f32;
        self.rate[lane] = segment.curve / segment.samples as f32;
        self.segment[lane] = now as u32;
        self.turn[lane] = now + u64::from(segment.samples);
        self.level.target[lane] = start;
        self.aim_level(lane, now);
    }

    fn sustain(&mut self, lane: usize) {
        let level = self.level.value[lane];
        (self.base[lane], self.scale[lane], self.rate[lane]) = (level, 0.0, 0.0);
        self.level.rest(lane, level);
        self.turn[lane] = NEVER;
    }

    /// A line to the end of this tick; where a tick begins, all lanes get theirs.
    fn aim_level(&mut self, lane: usize, now: u64) {
        if now.is_multiple_of(TICK as u64) {
            return;
        }
        self.line_len[lane] = self.to_line_end(lane, now);
        // SAFETY: a single lane needs no instruction set.
        unsafe { cpu::aim_level::<f32>(self, lane, now as u32) };
    }

    fn to_line_end(&self, lane: usize, now: u64) -> f32 {
        let tick_end = (now / TICK as u64 + 1) * TICK as u64;
        (tick_end.min(self.turn[lane]) - now) as f32
    }

    /// Lines that end inside of the tick that begins at `now`.
    pub(super) fn measure_lines(&mut self, now: u64) {
        for lane in 0..LANES {
            self.line_len[lane] = self.to_line_end(lane, now);
        }
    }

    /// Lanes whose segment ends at `now` go on to the next.
    pub(super) fn turn(&mut self, now: u64) {
        for lane in 0..LANES {
            if self.sweep_end[lane] == now {
                self.sweep_end[lane] = NEVER;
                (self.sweep[lane], self.sweep_rate[lane]) = (0.0, 0.0);
            }
            if self.turn[lane] != now {
                continue;
            }
            let Envelope { decay, sustain, .. } = self.envelope[lane];
            match self.stage[lane] {
                Stage::Attack => {
                    self.level.rest(lane, 1.0);
                    self.stage[lane] = if sustain == 0.0 { Stage::Last } else { Stage::Decay };
                    self.set_segment(lane, now, decay, sustain);
                }
                Stage::Decay => {
                    self.level.rest(lane, sustain);
                    self.stage[lane] = Stage::Sustain;
                    self.sustain(lane);
                }
                Stage::Sustain => self.turn[lane] = NEVER,
                Stage::Last => self.silence(lane),
            }
        }
        self.find_boundary();
    }

    pub(super) fn clear(&mut self) {
        (0..LANES).for_each(|lane| self.silence(lane));
        self.boundary = NEVER;
    }

    fn silence(&mut self, lane: usize) {
        self.sounding &= !(1 << lane);
        self.generation[lane] = self.generation[lane].wrapping_add(1);
        (self.left[lane], self.right[lane]) = (0.0, 0.0);
        (self.base[lane], self.scale[lane], self.rate[lane]) = (0.0, 0.0, 0.0);
        self.level.rest(lane, 0.0);
        (self.turn[lane], self.sweep_end[lane]) = (NEVER, NEVER);
    }

    fn find_boundary(&mut self) {
        self.boundary = self.turn.iter().chain(&self.sweep_end).copied().min().unwrap_or(NEVER);
    }
}

#[cfg(test)]
impl Group {
    /// As if every voice had begun at sample 0 and sounded until `now`.
    pub(super) fn jump(&mut self, now: u64) {
        for (phase, increment) in [(&mut self.phase, &self.increment), (&mut self.saw_phase, &self.saw_increment)] {
            for lane in 0..LANES {
                let wide = |words: &[Words; 2]| u64::from(words[0][lane]) << 32 | u64::from(words[1][lane]);
                let moved = wide(phase).wrapping_add(wide(increment).wrapping_mul(now));
                (phase[0][lane], phase[1][lane]) = ((moved >> 32) as u32, moved as u32);
            }
        }
        for lane in 0..LANES {
            if self.sounding >> lane & 1 == 1 {
                self.turn[lane] = now + 1;
            }
        }
        self.find_boundary();
    }
}
