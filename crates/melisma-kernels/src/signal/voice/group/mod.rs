//! Sixteen voices side by side: one vector per quantity, and the times at which envelope segments
//! end.

pub(super) mod aim;
mod life;
mod oscillator;

use super::sound::{Envelope, N_PARTIALS, Segment, Source, Voice, audible};
use super::{Control, TICK, UNIT, math, step};

/// Lanes of a group, as many as in the widest vector.
pub(super) const LANES: usize = 16;

pub(super) use oscillator::Oscillator;

type Floats = [f32; LANES];
type Words = [u32; LANES];

/// The inner loop of a group.
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

/// A quantity that is linear between evaluations.
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

    /// Sets a line from its expected current value to `target` within a tick.
    #[inline(always)]
    fn aim(&mut self, lane: usize, target: f32) {
        let value = self.target[lane];
        (self.value[lane], self.target[lane]) = (value, target);
        self.slope[lane] = (target - value) * (1.0 / TICK as f32);
    }

    fn rest(&mut self, lane: usize, value: f32) {
        (self.value[lane], self.slope[lane], self.target[lane]) = (value, 0.0, value);
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    Attack,
    Decay,
    Sustain,
    /// To silence; then the lane is free.
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
    /// Samples from now to the end of the level's line, set if they differ from those to the end of
    /// the tick.
    pub(super) line_len: Floats,
    pub(super) left: Floats,
    pub(super) right: Floats,

    /// The main oscillator, and the saw of a tone.
    pub(super) oscillators: [Oscillator; 2],
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
    /// Levels of the partials that are audible at the current frequency.
    pub(super) partial_levels: [Floats; N_PARTIALS],
    pub(super) partial_rates: [Floats; N_PARTIALS],

    /// The drum's phase at the end of the tick.
    pub(super) drum_target: Words,
    pub(super) drum_increment: Words,
    pub(super) drop: Floats,
    pub(super) drop_rate: Floats,

    pub(super) kind: Kind,
    pub(super) bus: usize,
    /// One bit per sounding lane.
    pub(super) sounding: u32,
    /// Whether a saw has two steps within reach.
    pub(super) is_close: bool,
    /// The next time at which a lane's segment ends.
    pub(super) boundary: u64,
    turn: [u64; LANES],
    sweep_end: [u64; LANES],
    stage: [Stage; LANES],
    envelope: [Envelope; LANES],
    /// Levels at the onset, for any frequency.
    onset_levels: [[f32; N_PARTIALS]; LANES],
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
            oscillators: [Oscillator::STILL; 2],
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
            onset_levels: [[0.0; N_PARTIALS]; LANES],
            generation: words,
        }
    }

    /// Turns a silent group into one of `kind`. A leftover filter state of another kind would decay
    /// through subnormal numbers, which are slow.
    pub(super) fn take(&mut self, kind: Kind, bus: usize) {
        (self.kind, self.bus, self.is_close) = (kind, bus, false);
        (self.sine, self.saw, self.state) = ([0.0; LANES], [0.0; LANES], [[0.0; LANES]; 2]);
    }

    pub(super) fn free_lane(&self) -> Option<usize> {
        (0..LANES).find(|lane| self.sounding >> lane & 1 == 0)
    }

    /// Begins a tick for one filtered lane, whose lines lead to `level` and `filter`.
    #[inline(always)]
    pub(super) fn begin_tick(&mut self, lane: usize, level: f32, filter: [f32; 3]) {
        self.level.aim(lane, level);
        for (line, target) in self.filter.iter_mut().zip(filter) {
            line.aim(lane, target);
        }
        if self.kind == Kind::Tone {
            self.oscillators.iter_mut().for_each(|oscillator| oscillator.begin_tick(lane));
        }
    }

    pub(super) fn is_releasing(&self, lane: usize) -> bool {
        self.stage[lane] == Stage::Last
    }

    /// Starts a voice at sample `now` in a free lane.
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
                // The sine starts at zero, the saw in the middle of its rise.
                self.oscillators[0].start(lane, 3 << 62, tone.increment, now);
                self.oscillators[1].start(lane, 1 << 63, tone.saw_increment, now);
                self.tune(lane, tone.increment, tone.saw_increment);
                // The filter takes halves.
                (self.sine[lane], self.saw[lane]) = (0.5 * tone.sine, 0.5 * tone.saw);
                self.start_filter(lane, &tone.filter, now, control);
            }
            Source::Partials(partials) => {
                self.oscillators[0].start(lane, 0, partials.increment, now);
                self.onset_levels[lane] = partials.levels;
                self.partial_rates.iter_mut().zip(partials.rates).for_each(|(rates, rate)| rates[lane] = rate);
                self.tune(lane, partials.increment, 0);
                // SAFETY: a single lane needs no instruction set.
                let shape = unsafe { math::harmonics::<f32>(self.partial_levels.map(|levels| levels[lane])) };
                self.partials.iter_mut().zip(shape).for_each(|(line, value)| line.rest(lane, value));
            }
            Source::Drum(drum) => {
                self.drum_increment[lane] = drum.increment;
                (self.drop[lane], self.drop_rate[lane]) = (drum.drop, drum.rate);
                // The zero of the cosine that generates the sine.
                self.drum_target[lane] = 3 << 30;
            }
            Source::Noise(noise) => {
                self.seed[lane] = noise.seed;
                let [input, band, low] = noise.mix;
                (self.mix[0][lane], self.mix[1][lane], self.mix[2][lane]) = (2.0 * input, band, low);
                self.start_filter(lane, &noise.filter, now, control);
            }
        }
        self.stage[lane] = Stage::Attack;
        self.set_segment(lane, now, voice.envelope.attack, 1.0);
        if !now.is_multiple_of(TICK as u64) {
            // SAFETY: a single lane needs no instruction set.
            unsafe { aim::aim_slow::<f32>(self, lane, now, control) };
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
            // 2^-60 of a sweep is negligible; after this its age may wrap.
            self.sweep_end[lane] = now + (60.0 / f64::from(filter.rate)).min(1e9) as u64;
        }
        // SAFETY: a single lane needs no instruction set.
        let coefficients = unsafe { aim::coefficients::<f32>(self, lane, now as u32, control) };
        for (line, value) in self.filter.iter_mut().zip(coefficients) {
            line.rest(lane, value);
        }
    }

    /// Sets the frequencies of tones and partials from sample `now` on.
    pub(super) fn retune(&mut self, lane: usize, [increment, saw_increment]: [u64; 2], now: u64) {
        self.oscillators[0].retune(lane, increment, now);
        self.oscillators[1].retune(lane, saw_increment, now);
        self.tune(lane, increment, saw_increment);
    }

    /// Updates everything else that depends on frequencies.
    fn tune(&mut self, lane: usize, increment: u64, saw_increment: u64) {
        self.period[lane] = math::period(saw_increment);
        let levels = audible(self.onset_levels[lane], increment);
        self.partial_levels.iter_mut().zip(levels).for_each(|(levels, level)| levels[lane] = level);
        let close = (2.0 * step::REACH * step::PER_SAMPLE) as f32 / 4_294_967_296.0;
        self.is_close = (0..LANES).any(|lane| self.sounding >> lane & 1 == 1 && self.period[lane] < close);
    }
}

#[cfg(test)]
impl Group {
    /// Moves on as if every voice had begun at sample 0 and sounded until `now`.
    pub(super) fn jump(&mut self, now: u64) {
        self.oscillators.iter_mut().for_each(|oscillator| oscillator.jump(now));
        for lane in 0..LANES {
            if self.sounding >> lane & 1 == 1 {
                self.turn[lane] = now + 1;
            }
        }
        self.find_boundary();
    }
}
