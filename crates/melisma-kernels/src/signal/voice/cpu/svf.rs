//! The filter of a voice, and the input that a tone feeds into it.

use super::super::group::Group;
use super::super::lanes::{Lanes, Number};
use super::super::math::{cosine, saw};
use super::super::step::Step;

/// The state-variable filter with coefficients on lines. Its states are halves, so it takes half of
/// a sample: an output is then the sum of one state and the next. The two operations from one state
/// to the next wait for nothing else.
pub(super) struct Svf<V: Lanes> {
    state: [V; 2],
    coefficients: [V; 3],
    slopes: [V; 3],
}

impl<V: Lanes> Svf<V> {
    /// # Safety
    /// The machine has the instruction set of `V` and the group has V::N lanes from `lane` on.
    #[inline(always)]
    pub(super) unsafe fn load(group: &Group, lane: usize) -> Self {
        // SAFETY: the caller guarantees the instruction set of `V`, and V::N lanes from `lane` on.
        unsafe {
            Self {
                state: [V::load(&group.state[0][lane]), V::load(&group.state[1][lane])],
                coefficients: std::array::from_fn(|i| V::load(&group.filter[i].value[lane])),
                slopes: std::array::from_fn(|i| V::load(&group.filter[i].slope[lane])),
            }
        }
    }

    /// Sets coefficients and slopes starting with the next sample.
    #[inline(always)]
    pub(super) fn set(&mut self, coefficients: [V; 3], slopes: [V; 3]) {
        (self.coefficients, self.slopes) = (coefficients, slopes);
    }

    /// Returns band-pass and low-pass of one sample, given half of it.
    ///
    /// # Safety
    /// The machine has the instruction set of `V`.
    #[inline(always)]
    pub(super) unsafe fn next(&mut self, half: V) -> [V; 2] {
        // SAFETY: the caller guarantees the instruction set of `V`.
        unsafe {
            let [band, low] = self.state;
            let [keep, move_on, rest] = self.coefficients;
            let way = half.sub(low);
            let next = [way.mul_add(move_on, band.mul(keep)), way.mul_add(rest, band.mul_add(move_on, low))];
            self.state = next;
            for (value, slope) in self.coefficients.iter_mut().zip(self.slopes) {
                *value = value.add(slope);
            }
            [band.add(next[0]), low.add(next[1])]
        }
    }

    /// # Safety
    /// The machine has the instruction set of `V` and the group has V::N lanes from `lane` on.
    #[inline(always)]
    pub(super) unsafe fn store(self, group: &mut Group, lane: usize) {
        // SAFETY: the caller guarantees the instruction set of `V`, and V::N lanes from `lane` on.
        unsafe {
            for (row, value) in group.state.iter_mut().zip(self.state) {
                value.store(&mut row[lane]);
            }
            for (line, value) in group.filter.iter_mut().zip(self.coefficients) {
                value.store(&mut line.value[lane]);
            }
        }
    }
}

/// Returns half of sine and saw before the filter; `figures` are the saw's period and half of both
/// levels.
///
/// # Safety
/// The machine has the instruction set of `W`.
#[inline(always)]
pub(super) unsafe fn tone_input<W: Number, const CLOSE: bool>(
    table: &Step,
    [phase, saw_phase]: [W::Int; 2],
    [period, sine_level, saw_level]: [W; 3],
) -> W {
    // SAFETY: the caller guarantees the instruction set of `W`.
    unsafe {
        let ramp = saw::<W, CLOSE>(table, saw_phase, period);
        cosine::<W>(phase).mul_add(sine_level, ramp.mul(saw_level))
    }
}
