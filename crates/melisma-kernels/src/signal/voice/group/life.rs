//! The levels of a group's lanes, from segment to segment.

use super::super::TICK;
use super::super::sound::{Envelope, Segment};
use super::{Group, LANES, NEVER, Stage, aim};

impl Group {
    pub(in crate::signal::voice) fn release(&mut self, lane: usize, now: u64) {
        if self.stage[lane] != Stage::Last {
            self.end(lane, now, self.envelope[lane].release);
        }
    }

    /// Moves the level to 0 within `segment`, then ends the voice.
    pub(in crate::signal::voice) fn end(&mut self, lane: usize, now: u64, segment: Segment) {
        self.stage[lane] = Stage::Last;
        self.set_segment(lane, now, segment, 0.0);
        self.find_boundary();
    }

    /// Moves the level from its current value to `end`.
    pub(super) fn set_segment(&mut self, lane: usize, now: u64, segment: Segment, end: f32) {
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

    /// Sets a line to the end of this tick, except at the start of a tick, when all lanes get
    /// theirs.
    fn aim_level(&mut self, lane: usize, now: u64) {
        if now.is_multiple_of(TICK as u64) {
            return;
        }
        self.line_len[lane] = self.to_line_end(lane, now);
        // SAFETY: a single lane needs no instruction set.
        unsafe { aim::aim_level::<f32>(self, lane, now as u32) };
    }

    fn to_line_end(&self, lane: usize, now: u64) -> f32 {
        let tick_end = (now / TICK as u64 + 1) * TICK as u64;
        (tick_end.min(self.turn[lane]) - now) as f32
    }

    /// Measures the lines that end inside the tick that begins at `now`.
    pub(in crate::signal::voice) fn measure_lines(&mut self, now: u64) {
        for lane in 0..LANES {
            self.line_len[lane] = self.to_line_end(lane, now);
        }
    }

    /// Moves lanes whose segment ends at `now` on to the next segment.
    pub(in crate::signal::voice) fn turn(&mut self, now: u64) {
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

    pub(in crate::signal::voice) fn clear(&mut self) {
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

    pub(super) fn find_boundary(&mut self) {
        self.boundary = self.turn.iter().chain(&self.sweep_end).copied().min().unwrap_or(NEVER);
    }
}
