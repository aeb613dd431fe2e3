//! All lanes of a vector, several samples side by side.

use super::super::group::{Group, LANES};
use super::super::lanes::{Lanes, Number, Quad};
use super::super::math::{cosine, noise};
use super::super::sound::N_PARTIALS;
use super::super::step::Step;
use super::svf::{Svf, tone_input};
use super::{Piece, Sums};

/// Samples computed side by side before a filter takes them one by one.
const SIDE: usize = 4;

/// The last stage of every voice's sample: level, limit, gains, sums.
struct Output<V: Lanes> {
    value: V,
    slope: V,
    gains: [V; 2],
    sums: [*mut [i32; LANES]; 2],
    lane: usize,
}

impl<V: Lanes> Output<V> {
    /// # Safety
    /// The machine has the instruction set of `V` and the group has V::N lanes from `lane` on.
    #[inline(always)]
    unsafe fn load(group: &Group, lane: usize, sums: &mut Sums) -> Self {
        // SAFETY: the caller guarantees the instruction set of `V`, and V::N lanes from `lane` on.
        unsafe {
            Self {
                value: V::load(&group.level.value[lane]),
                slope: V::load(&group.level.slope[lane]),
                gains: [V::load(&group.left[lane]), V::load(&group.right[lane])],
                sums: sums.lanes(),
                lane,
            }
        }
    }

    /// # Safety
    /// The machine has the instruction set of `V`.
    #[inline(always)]
    unsafe fn add(&mut self, sample: V, at: usize) {
        // SAFETY: the caller guarantees the instruction set of `V`; `at` is inside the chunk, whose rows the sums have admitted.
        unsafe {
            let sample = sample.mul(self.value).min(V::splat(3.9)).max(V::splat(-3.9));
            self.value = self.value.add(self.slope);
            for side in 0..2 {
                let sum = self.sums[side].add(at).cast::<u32>().add(self.lane);
                V::store_int(V::add_int(V::load_int(sum), sample.mul(self.gains[side]).round()), sum);
            }
        }
    }

    /// # Safety
    /// The machine has the instruction set of `V`.
    #[inline(always)]
    unsafe fn store(self, group: &mut Group) {
        // SAFETY: the caller guarantees the instruction set of `V`.
        unsafe { self.value.store(&mut group.level.value[self.lane]) }
    }
}

/// # Safety
/// The machine has the instruction set of `V` and the group has V::N lanes from `lane` on.
#[inline(always)]
pub(super) unsafe fn tone<V: Lanes, const CLOSE: bool>(
    group: &mut Group,
    lane: usize,
    piece: Piece,
    table: &Step,
    sums: &mut Sums,
) {
    // SAFETY: the caller guarantees the instruction set of `V`, and V::N lanes from `lane` on.
    unsafe {
        let mut output = Output::<V>::load(group, lane, sums);
        let mut svf = Svf::<V>::load(group, lane);
        let mut phases = [0, 1].map(|i: usize| V::load_int(&group.oscillators[i].phase[lane]));
        let strides = [0, 1].map(|i: usize| V::load_int(&group.oscillators[i].stride[lane]));
        let figures = [V::load(&group.period[lane]), V::load(&group.sine[lane]), V::load(&group.saw[lane])];
        let end = piece.first + piece.len;
        let mut at = piece.first;
        while V::N > 1 && at + SIDE <= end {
            let wide = [Quad::<V>::steps(phases[0], strides[0]), Quad::<V>::steps(phases[1], strides[1])];
            let figures = [Quad::all(figures[0]), Quad::all(figures[1]), Quad::all(figures[2])];
            let inputs = tone_input::<Quad<V>, CLOSE>(table, wide, figures);
            for (i, input) in inputs.0.into_iter().enumerate() {
                let [_, low] = svf.next(input);
                output.add(low, at + i);
            }
            phases = [V::add_int(wide[0].0[3], strides[0]), V::add_int(wide[1].0[3], strides[1])];
            at += SIDE;
        }
        while at < end {
            let [_, low] = svf.next(tone_input::<V, CLOSE>(table, phases, figures));
            output.add(low, at);
            phases = [V::add_int(phases[0], strides[0]), V::add_int(phases[1], strides[1])];
            at += 1;
        }
        for (oscillator, phase) in group.oscillators.iter_mut().zip(phases) {
            V::store_int(phase, &mut oscillator.phase[lane]);
        }
        svf.store(group, lane);
        output.store(group);
    }
}

/// # Safety
/// The machine has the instruction set of `V` and the group has V::N lanes from `lane` on.
#[inline(always)]
pub(super) unsafe fn noises<V: Lanes>(group: &mut Group, lane: usize, piece: Piece, sums: &mut Sums) {
    // SAFETY: the caller guarantees the instruction set of `V`, and V::N lanes from `lane` on.
    unsafe {
        let mut output = Output::<V>::load(group, lane, sums);
        let mut svf = Svf::<V>::load(group, lane);
        let mix: [V; 3] = std::array::from_fn(|i| V::load(&group.mix[i][lane]));
        let age = V::sub_int(V::splat_int(piece.age), V::load_int(&group.onset[lane]));
        let mut number = V::add_int(age, V::load_int(&group.seed[lane]));
        // Hides the constant 1: otherwise it is rebuilt for every sample in a register whose last
        // value it waits for.
        let one = V::splat_int(std::hint::black_box(1));
        for at in piece.first..piece.first + piece.len {
            let half = noise::<V>(number);
            let [band, low] = svf.next(half);
            output.add(low.mul_add(mix[2], band.mul_add(mix[1], half.mul(mix[0]))), at);
            number = V::add_int(number, one);
        }
        svf.store(group, lane);
        output.store(group);
    }
}

/// # Safety
/// The machine has the instruction set of `V` and the group has V::N lanes from `lane` on.
#[inline(always)]
pub(super) unsafe fn drum<V: Lanes>(group: &mut Group, lane: usize, piece: Piece, sums: &mut Sums) {
    // SAFETY: the caller guarantees the instruction set of `V`, and V::N lanes from `lane` on.
    unsafe {
        let mut output = Output::<V>::load(group, lane, sums);
        let mut phase = V::load_int(&group.oscillators[0].phase[lane]);
        let stride = V::load_int(&group.oscillators[0].stride[lane]);
        for at in piece.first..piece.first + piece.len {
            output.add(cosine::<V>(phase), at);
            phase = V::add_int(phase, stride);
        }
        V::store_int(phase, &mut group.oscillators[0].phase[lane]);
        output.store(group);
    }
}

/// Returns sin φ, sin 2φ and cos 2φ.
///
/// # Safety
/// The machine has the instruction set of `V`.
#[inline(always)]
unsafe fn doubled<W: Number>(phase: W::Int) -> [W; 3] {
    // SAFETY: the caller guarantees the instruction set of `V`.
    unsafe {
        let sine = cosine::<W>(W::sub_int(phase, W::splat_int(1 << 30)));
        let twice = sine.add(sine);
        [sine, twice.mul(cosine::<W>(phase)), twice.neg_mul_add(sine, W::splat(1.0))]
    }
}

/// Coefficients of the partials' polynomials on lines. Not held in a closure: one that is not
/// inlined has no vectors.
struct Shape<V: Lanes> {
    value: [V; N_PARTIALS],
    slope: [V; N_PARTIALS],
}

impl<V: Lanes> Shape<V> {
    /// # Safety
    /// The machine has the instruction set of `V` and the group has V::N lanes from `lane` on.
    #[inline(always)]
    unsafe fn load(group: &Group, lane: usize) -> Self {
        // SAFETY: the caller guarantees the instruction set of `V`, and V::N lanes from `lane` on.
        unsafe {
            let mut shape = Self { value: [V::splat(0.0); N_PARTIALS], slope: [V::splat(0.0); N_PARTIALS] };
            for (k, line) in group.partials.iter().enumerate() {
                shape.value[k] = V::load(&line.value[lane]);
                shape.slope[k] = V::load(&line.slope[lane]);
            }
            shape
        }
    }

    /// Returns one sample, from the values of [`doubled`].
    ///
    /// # Safety
    /// The machine has the instruction set of `V`.
    #[inline(always)]
    unsafe fn next(&mut self, [sine, second, x]: [V; 3]) -> V {
        let p = &mut self.value;
        // SAFETY: the caller guarantees the instruction set of `V`.
        unsafe {
            let odd = p[3].mul_add(x, p[2]).mul_add(x, p[1]).mul_add(x, p[0]);
            let even = p[7].mul_add(x, p[6]).mul_add(x, p[5]).mul_add(x, p[4]);
            for (value, slope) in p.iter_mut().zip(self.slope) {
                *value = value.add(slope);
            }
            sine.mul_add(odd, second.mul(even))
        }
    }
}

/// # Safety
/// The machine has the instruction set of `V` and the group has V::N lanes from `lane` on.
#[inline(always)]
pub(super) unsafe fn partials<V: Lanes>(group: &mut Group, lane: usize, piece: Piece, sums: &mut Sums) {
    // SAFETY: the caller guarantees the instruction set of `V`, and V::N lanes from `lane` on.
    unsafe {
        let mut output = Output::<V>::load(group, lane, sums);
        let mut shape = Shape::<V>::load(group, lane);
        let mut phase = V::load_int(&group.oscillators[0].phase[lane]);
        let stride = V::load_int(&group.oscillators[0].stride[lane]);
        let end = piece.first + piece.len;
        let mut at = piece.first;
        while V::N > 1 && at + SIDE <= end {
            let phases = Quad::<V>::steps(phase, stride);
            let [sine, second, x] = doubled::<Quad<V>>(phases);
            for i in 0..SIDE {
                output.add(shape.next([sine.0[i], second.0[i], x.0[i]]), at + i);
            }
            phase = V::add_int(phases.0[3], stride);
            at += SIDE;
        }
        while at < end {
            output.add(shape.next(doubled::<V>(phase)), at);
            phase = V::add_int(phase, stride);
            at += 1;
        }
        V::store_int(phase, &mut group.oscillators[0].phase[lane]);
        for (line, value) in group.partials.iter_mut().zip(shape.value) {
            value.store(&mut line.value[lane]);
        }
        output.store(group);
    }
}
