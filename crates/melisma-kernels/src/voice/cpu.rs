//! The inner loops: a tick or less of all lanes of a vector.
//! More than 400 lines because every kind of voice has its loop here, built from the same inlined parts.

use super::group::{Group, Kind, LANES};
use super::lanes::Lanes;
use super::math::{cosine, exp2, filter, noise, saw};
use super::sound::N_PARTIALS;
use super::step::{Step, table};
use super::{Control, TICK};
use crate::isa::{Isa, Level};

/// Samples that are worked on at a time, a multiple of [`TICK`].
pub(super) const CHUNK: usize = 128;
/// Groups whose sums fit into 32 bits: 3.9 · 2^24 · 32 < 2^31.
pub(super) const GROUPS_PER_SUM: usize = 32;

/// Sums of lanes over groups, for every sample of a chunk.
#[derive(Debug, Clone)]
#[repr(C, align(64))]
pub(super) struct Sums {
    left: [[i32; LANES]; CHUNK],
    right: [[i32; LANES]; CHUNK],
}

impl Sums {
    pub(super) fn new() -> Self {
        Self { left: [[0; LANES]; CHUNK], right: [[0; LANES]; CHUNK] }
    }

    pub(super) fn clear(&mut self, len: usize) {
        self.left[..len].fill([0; LANES]);
        self.right[..len].fill([0; LANES]);
    }

    /// Adds the lanes up and to `left` and `right`.
    pub(super) fn add_to(&self, isa: Isa, left: &mut [i64], right: &mut [i64]) {
        add_lanes(isa, &self.left, left);
        add_lanes(isa, &self.right, right);
    }
}

fn add_lanes(isa: Isa, sums: &[[i32; LANES]], out: &mut [i64]) {
    let done = match isa.level() {
        // SAFETY: an `Isa` exists only on machines that have its features.
        #[cfg(target_arch = "x86_64")]
        Level::Avx2 | Level::Avx512 => unsafe { x86::add_lanes(sums, out) },
        _ => 0,
    };
    for (lanes, out) in sums[done..].iter().zip(&mut out[done..]) {
        *out += lanes.iter().map(|&lane| i64::from(lane)).sum::<i64>();
    }
}

/// A stretch of time: `len` samples from `now`, at most a chunk, with the controls of its ticks.
#[derive(Debug, Clone, Copy)]
pub(super) struct Stretch<'a> {
    pub(super) now: u64,
    pub(super) len: usize,
    pub(super) controls: &'a [Control],
}

/// Renders one group into `sums`.
pub(super) fn render(isa: Isa, group: &mut Group, stretch: Stretch<'_>, sums: &mut Sums) {
    debug_assert!(stretch.len <= CHUNK);
    match isa.level() {
        // SAFETY: an `Isa` exists only on machines that have its features, here and below.
        #[cfg(target_arch = "x86_64")]
        Level::Avx512 => unsafe { x86::avx512(group, stretch, sums) },
        // SAFETY: as above.
        #[cfg(target_arch = "x86_64")]
        Level::Avx2 => unsafe { x86::avx2(group, stretch, sums) },
        // SAFETY: a single lane needs no instruction set.
        _ => unsafe { pieces::<f32>(group, stretch, sums) },
    }
}

/// One voice at a time, with the instruction set's scalar operations: what batching is measured against.
pub(super) fn render_singly(isa: Isa, group: &mut Group, stretch: Stretch<'_>, sums: &mut Sums) {
    match isa.level() {
        // SAFETY: as in `render`.
        #[cfg(target_arch = "x86_64")]
        Level::Avx512 | Level::Avx2 => unsafe { x86::single(group, stretch, sums) },
        // SAFETY: as in `render`.
        _ => unsafe { pieces::<f32>(group, stretch, sums) },
    }
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use std::arch::x86_64::*;

    use super::{Group, LANES, Stretch, Sums, pieces};

    /// Adds up the lanes of eight samples at a time; how many samples that were.
    #[target_feature(enable = "avx2,fma,f16c")]
    pub(super) unsafe fn add_lanes(sums: &[[i32; LANES]], out: &mut [i64]) -> usize {
        let n = sums.len().min(out.len()) / 8;
        let mask = _mm256_set1_epi32(0xffff);
        for (rows, out) in sums.as_chunks::<8>().0.iter().zip(out.as_chunks_mut::<8>().0) {
            // Halves of 16 bits, whose sums fit into 32.
            let (mut low, mut high) = ([_mm256_setzero_si256(); 8], [_mm256_setzero_si256(); 8]);
            for (index, row) in rows.iter().enumerate() {
                // SAFETY: a row holds 16 integers.
                let [a, b] = unsafe {
                    [_mm256_loadu_si256(row.as_ptr().cast()), _mm256_loadu_si256(row.as_ptr().add(8).cast())]
                };
                low[index] = _mm256_add_epi32(_mm256_and_si256(a, mask), _mm256_and_si256(b, mask));
                high[index] = _mm256_add_epi32(_mm256_srai_epi32::<16>(a), _mm256_srai_epi32::<16>(b));
            }
            let (low, high) = (sum_rows(low), sum_rows(high));
            for (half, out) in out.as_chunks_mut::<4>().0.iter_mut().enumerate() {
                let part =
                    |x: __m256i| if half == 0 { _mm256_castsi256_si128(x) } else { _mm256_extracti128_si256::<1>(x) };
                let sum = _mm256_add_epi64(
                    _mm256_slli_epi64::<16>(_mm256_cvtepi32_epi64(part(high))),
                    _mm256_cvtepi32_epi64(part(low)),
                );
                // SAFETY: `out` holds 4 integers.
                unsafe {
                    let place = out.as_mut_ptr().cast::<__m256i>();
                    _mm256_storeu_si256(place, _mm256_add_epi64(_mm256_loadu_si256(place), sum));
                }
            }
        }
        n * 8
    }

    /// Lane i is the sum of row i.
    #[inline]
    #[target_feature(enable = "avx2,fma,f16c")]
    fn sum_rows(rows: [__m256i; 8]) -> __m256i {
        let [a, b, c, d, e, f, g, h] = rows;
        let first = _mm256_hadd_epi32(_mm256_hadd_epi32(a, b), _mm256_hadd_epi32(c, d));
        let second = _mm256_hadd_epi32(_mm256_hadd_epi32(e, f), _mm256_hadd_epi32(g, h));
        let low = _mm256_permute2x128_si256::<0x20>(first, second);
        _mm256_add_epi32(low, _mm256_permute2x128_si256::<0x31>(first, second))
    }

    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,f16c")]
    pub(super) unsafe fn avx512(group: &mut Group, stretch: Stretch<'_>, sums: &mut Sums) {
        // SAFETY: the caller has the instruction set, here and below.
        unsafe {
            if group.sounding < 1 << 8 {
                pieces::<__m256>(group, stretch, sums)
            } else {
                pieces::<__m512>(group, stretch, sums)
            }
        }
    }

    #[target_feature(enable = "avx2,fma,f16c")]
    pub(super) unsafe fn avx2(group: &mut Group, stretch: Stretch<'_>, sums: &mut Sums) {
        // SAFETY: as above.
        unsafe { pieces::<__m256>(group, stretch, sums) }
    }

    #[target_feature(enable = "avx2,fma,f16c")]
    pub(super) unsafe fn single(group: &mut Group, stretch: Stretch<'_>, sums: &mut Sums) {
        // SAFETY: as above.
        unsafe { pieces::<f32>(group, stretch, sums) }
    }
}

/// Cuts a stretch at ticks and where envelopes turn.
#[inline(always)]
unsafe fn pieces<V: Lanes>(group: &mut Group, stretch: Stretch<'_>, sums: &mut Sums) {
    const TICK_LEN: u64 = TICK as u64;
    let end = stretch.now + stretch.len as u64;
    let first_tick = stretch.now / TICK_LEN;
    let table = table();
    let mut now = stretch.now;
    while now < end {
        if now == group.boundary {
            group.turn(now);
            if group.sounding == 0 {
                return;
            }
        }
        let tick_end = (now / TICK_LEN + 1) * TICK_LEN;
        // SAFETY: the caller has the instruction set of `V`; `lanes` are the group's, and the piece is inside of the chunk.
        unsafe {
            if now.is_multiple_of(TICK_LEN) {
                if group.boundary < tick_end {
                    group.measure_lines(now);
                } else {
                    group.line_len = [TICK as f32; LANES];
                }
                let control = stretch.controls[(now / TICK_LEN - first_tick) as usize];
                for lane in lanes::<V>(group) {
                    aim_level::<V>(group, lane, now as u32);
                    aim_slow::<V>(group, lane, now, control);
                }
            }
            let next = end.min(tick_end).min(group.boundary);
            let piece = Piece { first: (now - stretch.now) as usize, len: (next - now) as usize, age: now as u32 };
            for lane in lanes::<V>(group) {
                match (group.kind, group.is_close) {
                    (Kind::Tone, false) => tone::<V, false>(group, lane, piece, table, sums),
                    (Kind::Tone, true) => tone::<V, true>(group, lane, piece, table, sums),
                    (Kind::Partials, _) => partials::<V>(group, lane, piece, sums),
                    (Kind::Drum, _) => drum::<V>(group, lane, piece, sums),
                    (Kind::Noise, _) => noises::<V>(group, lane, piece, sums),
                }
            }
            now = next;
        }
    }
}

/// The first lanes of the vectors that have a sounding one.
#[inline(always)]
fn lanes<V: Lanes>(group: &Group) -> impl Iterator<Item = usize> + use<V> {
    let sounding = group.sounding;
    let all = if V::N == LANES { u32::MAX } else { (1 << V::N) - 1 };
    (0..LANES).step_by(V::N).filter(move |lane| sounding >> lane & all != 0)
}

#[derive(Clone, Copy)]
struct Piece {
    /// Samples since the stretch's first.
    first: usize,
    len: usize,
    /// The first sample's number, its low word.
    age: u32,
}

/// At `now`, where a tick or a voice begins: lines toward the tick's end for all but the level.
#[inline(always)]
pub(super) unsafe fn aim_slow<V: Lanes>(group: &mut Group, lane: usize, now: u64, control: Control) {
    let tick = TICK as u64;
    let n = (tick - now % tick) as f32;
    let end = (now as u32).wrapping_add(n as u32);
    // SAFETY: the caller has the instruction set of `V`, and V::N lanes from `lane` are the group's; here and below.
    unsafe {
        match group.kind {
            Kind::Tone | Kind::Noise => {
                let targets = coefficients::<V>(group, lane, end, control);
                for (line, target) in group.filter.iter_mut().zip(targets) {
                    aim_line(line, lane, target, V::splat(1.0 / n));
                }
            }
            Kind::Partials => {
                let age = V::to_float(V::sub_int(V::splat_int(end), V::load_int(&group.onset[lane])));
                for k in 0..N_PARTIALS {
                    let fall =
                        V::load(&group.partial_rates[k][lane]).neg_mul_add(age, V::splat(0.0)).min(V::splat(0.0));
                    let target = V::load(&group.partial_levels[k][lane]).mul(exp2(fall));
                    aim_line(&mut group.partials[k], lane, target, V::splat(1.0 / n));
                }
            }
            Kind::Drum => aim_drum::<V>(group, lane, end, n),
        }
    }
}

#[inline(always)]
unsafe fn aim_line<V: Lanes>(line: &mut super::group::Line, lane: usize, target: V, inverse: V) {
    // SAFETY: as above.
    unsafe {
        let value = V::load(&line.target[lane]);
        value.store(&mut line.value[lane]);
        target.store(&mut line.target[lane]);
        target.sub(value).mul(inverse).store(&mut line.slope[lane]);
    }
}

/// Lines of the level, which may be shorter than the tick where a segment ends.
#[inline(always)]
pub(super) unsafe fn aim_level<V: Lanes>(group: &mut Group, lane: usize, now: u32) {
    // SAFETY: as above.
    unsafe {
        let n = V::load(&group.line_len[lane]);
        let age = V::to_float(V::sub_int(V::splat_int(now), V::load_int(&group.segment[lane]))).add(n);
        let fall = exp2(V::load(&group.rate[lane]).neg_mul_add(age, V::splat(0.0)).min(V::splat(0.0)));
        let target = V::load(&group.scale[lane]).mul_add(fall, V::load(&group.base[lane]));
        aim_line(&mut group.level, lane, target, V::splat(1.0).div(n));
    }
}

/// The filter's coefficients at the sample `when`.
#[inline(always)]
pub(super) unsafe fn coefficients<V: Lanes>(group: &Group, lane: usize, when: u32, control: Control) -> [V; 3] {
    // SAFETY: as above.
    unsafe {
        let samples = V::sub_int(V::splat_int(when), V::load_int(&group.onset[lane]));
        let fall = V::load(&group.sweep_rate[lane]).neg_mul_add(V::to_float(samples), V::splat(0.0)).min(V::splat(0.0));
        let octaves = V::load(&group.octaves[lane]).add(V::splat(control.brightness));
        let octaves = V::load(&group.sweep[lane]).mul_add(exp2(fall), octaves);
        let phase = V::mul_int(samples, V::load_int(&group.lfo_increment[lane]));
        let wave = cosine::<V>(V::add_int(phase, V::load_int(&group.lfo_phase[lane])));
        let depth = V::load(&group.lfo_depth[lane]).mul(V::splat(control.motion));
        filter(wave.mul_add(depth, octaves), V::load(&group.damping[lane]))
    }
}

#[inline(always)]
unsafe fn aim_drum<V: Lanes>(group: &mut Group, lane: usize, end: u32, n: f32) {
    // SAFETY: as above.
    unsafe {
        let samples = V::sub_int(V::splat_int(end), V::load_int(&group.onset[lane]));
        let fall = V::load(&group.drop_rate[lane]).neg_mul_add(V::to_float(samples), V::splat(0.0)).min(V::splat(0.0));
        let turns = V::load(&group.drop[lane]).mul(V::splat(1.0).sub(exp2(fall)));
        let part = turns.sub(V::to_float(turns.round()));
        let part = V::shift_left::<2>(part.mul(V::splat((1u32 << 30) as f32)).round());
        let steady = V::mul_int(samples, V::load_int(&group.drum_increment[lane]));
        let target = V::add_int(V::add_int(steady, part), V::splat_int(3 << 30));
        let phase = V::load_int(&group.drum_target[lane]);
        let increment = V::to_float(V::sub_int(target, phase)).div(V::splat(n)).round();
        V::store_int(phase, &mut group.phase[0][lane]);
        V::store_int(target, &mut group.drum_target[lane]);
        V::store_int(increment, &mut group.increment[0][lane]);
    }
}

/// What ends every voice's sample: level, limit, gains, sums.
struct Output<V: Lanes> {
    value: V,
    slope: V,
    left: V,
    right: V,
}

impl<V: Lanes> Output<V> {
    #[inline(always)]
    unsafe fn load(group: &Group, lane: usize) -> Self {
        // SAFETY: as above.
        unsafe {
            Self {
                value: V::load(&group.level.value[lane]),
                slope: V::load(&group.level.slope[lane]),
                left: V::load(&group.left[lane]),
                right: V::load(&group.right[lane]),
            }
        }
    }

    #[inline(always)]
    unsafe fn add(&mut self, sample: V, sums: &mut Sums, at: usize, lane: usize) {
        // SAFETY: as above; `at` is inside of the chunk.
        unsafe {
            let sample = sample.mul(self.value).min(V::splat(3.9)).max(V::splat(-3.9));
            self.value = self.value.add(self.slope);
            let left = sums.left.get_unchecked_mut(at).as_mut_ptr().add(lane).cast::<u32>();
            let right = sums.right.get_unchecked_mut(at).as_mut_ptr().add(lane).cast::<u32>();
            V::store_int(V::add_int(V::load_int(left), sample.mul(self.left).round()), left);
            V::store_int(V::add_int(V::load_int(right), sample.mul(self.right).round()), right);
        }
    }

    #[inline(always)]
    unsafe fn store(self, group: &mut Group, lane: usize) {
        // SAFETY: as above.
        unsafe { self.value.store(&mut group.level.value[lane]) }
    }
}

/// The state-variable filter with coefficients on lines.
struct Svf<V: Lanes> {
    state: [V; 2],
    coefficients: [V; 3],
    slopes: [V; 3],
}

impl<V: Lanes> Svf<V> {
    #[inline(always)]
    unsafe fn load(group: &Group, lane: usize) -> Self {
        // SAFETY: as above.
        unsafe {
            Self {
                state: [V::load(&group.state[0][lane]), V::load(&group.state[1][lane])],
                coefficients: std::array::from_fn(|i| V::load(&group.filter[i].value[lane])),
                slopes: std::array::from_fn(|i| V::load(&group.filter[i].slope[lane])),
            }
        }
    }

    /// Band-pass and low-pass of one sample.
    #[inline(always)]
    unsafe fn next(&mut self, input: V) -> [V; 2] {
        // SAFETY: as above.
        unsafe {
            let [s1, s2] = self.state;
            let [a1, a2, a3] = self.coefficients;
            let v3 = input.sub(s2);
            let v1 = s1.mul_add(a1, v3.mul(a2));
            let v2 = v3.mul_add(a3, s1.mul_add(a2, s2));
            self.state = [v1.add(v1).sub(s1), v2.add(v2).sub(s2)];
            for (value, slope) in self.coefficients.iter_mut().zip(self.slopes) {
                *value = value.add(slope);
            }
            [v1, v2]
        }
    }

    #[inline(always)]
    unsafe fn store(self, group: &mut Group, lane: usize) {
        // SAFETY: as above.
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

#[inline(always)]
unsafe fn load_wide<V: Lanes>(words: &[[u32; LANES]; 2], lane: usize) -> [V::Int; 2] {
    // SAFETY: as above.
    unsafe { [V::load_int(&words[0][lane]), V::load_int(&words[1][lane])] }
}

#[inline(always)]
unsafe fn store_wide<V: Lanes>(wide: [V::Int; 2], words: &mut [[u32; LANES]; 2], lane: usize) {
    // SAFETY: as above.
    unsafe {
        V::store_int(wide[0], &mut words[0][lane]);
        V::store_int(wide[1], &mut words[1][lane]);
    }
}

#[inline(always)]
unsafe fn tone<V: Lanes, const CLOSE: bool>(
    group: &mut Group,
    lane: usize,
    piece: Piece,
    table: &Step,
    sums: &mut Sums,
) {
    // SAFETY: as above.
    unsafe {
        let mut output = Output::<V>::load(group, lane);
        let mut svf = Svf::<V>::load(group, lane);
        let mut phase = load_wide::<V>(&group.phase, lane);
        let increment = load_wide::<V>(&group.increment, lane);
        let mut saw_phase = load_wide::<V>(&group.saw_phase, lane);
        let saw_increment = load_wide::<V>(&group.saw_increment, lane);
        let period = V::load(&group.period[lane]);
        let (sine_level, saw_level) = (V::load(&group.sine[lane]), V::load(&group.saw[lane]));
        for at in piece.first..piece.first + piece.len {
            let ramp = saw::<V, CLOSE>(table, saw_phase[0], period);
            let input = cosine::<V>(phase[0]).mul_add(sine_level, ramp.mul(saw_level));
            let [_, low] = svf.next(input);
            output.add(low, sums, at, lane);
            phase = V::add_wide(phase, increment);
            saw_phase = V::add_wide(saw_phase, saw_increment);
        }
        store_wide::<V>(phase, &mut group.phase, lane);
        store_wide::<V>(saw_phase, &mut group.saw_phase, lane);
        svf.store(group, lane);
        output.store(group, lane);
    }
}

#[inline(always)]
unsafe fn noises<V: Lanes>(group: &mut Group, lane: usize, piece: Piece, sums: &mut Sums) {
    // SAFETY: as above.
    unsafe {
        let mut output = Output::<V>::load(group, lane);
        let mut svf = Svf::<V>::load(group, lane);
        let mix: [V; 3] = std::array::from_fn(|i| V::load(&group.mix[i][lane]));
        let age = V::sub_int(V::splat_int(piece.age), V::load_int(&group.onset[lane]));
        let mut number = V::add_int(age, V::load_int(&group.seed[lane]));
        for at in piece.first..piece.first + piece.len {
            let input = noise::<V>(number);
            let [band, low] = svf.next(input);
            output.add(low.mul_add(mix[2], band.mul_add(mix[1], input.mul(mix[0]))), sums, at, lane);
            number = V::add_int(number, V::splat_int(1));
        }
        svf.store(group, lane);
        output.store(group, lane);
    }
}

#[inline(always)]
unsafe fn drum<V: Lanes>(group: &mut Group, lane: usize, piece: Piece, sums: &mut Sums) {
    // SAFETY: as above.
    unsafe {
        let mut output = Output::<V>::load(group, lane);
        let mut phase = V::load_int(&group.phase[0][lane]);
        let increment = V::load_int(&group.increment[0][lane]);
        for at in piece.first..piece.first + piece.len {
            output.add(cosine::<V>(phase), sums, at, lane);
            phase = V::add_int(phase, increment);
        }
        V::store_int(phase, &mut group.phase[0][lane]);
        output.store(group, lane);
    }
}

/// Σ a_k sin(k φ) from sin φ and cos φ by Clenshaw's recurrence.
#[inline(always)]
unsafe fn harmonics<V: Lanes>(levels: &[V; N_PARTIALS], sine: V, cosine: V) -> V {
    // SAFETY: as above.
    unsafe {
        let twice = cosine.add(cosine);
        let (mut b1, mut b2) = (levels[N_PARTIALS - 1], V::splat(0.0));
        for level in levels[..N_PARTIALS - 1].iter().rev() {
            (b1, b2) = (twice.mul_add(b1, level.sub(b2)), b1);
        }
        sine.mul(b1)
    }
}

#[inline(always)]
unsafe fn partials<V: Lanes>(group: &mut Group, lane: usize, piece: Piece, sums: &mut Sums) {
    // SAFETY: as above.
    unsafe {
        let mut output = Output::<V>::load(group, lane);
        let mut levels: [V; N_PARTIALS] = std::array::from_fn(|k| V::load(&group.partials[k].value[lane]));
        let slopes: [V; N_PARTIALS] = std::array::from_fn(|k| V::load(&group.partials[k].slope[lane]));
        let mut phase = load_wide::<V>(&group.phase, lane);
        let increment = load_wide::<V>(&group.increment, lane);
        for at in piece.first..piece.first + piece.len {
            let sine = cosine::<V>(V::sub_int(phase[0], V::splat_int(1 << 30)));
            let sum = harmonics(&levels, sine, cosine::<V>(phase[0]));
            for (level, slope) in levels.iter_mut().zip(slopes) {
                *level = level.add(slope);
            }
            output.add(sum, sums, at, lane);
            phase = V::add_wide(phase, increment);
        }
        store_wide::<V>(phase, &mut group.phase, lane);
        for (line, level) in group.partials.iter_mut().zip(levels) {
            level.store(&mut line.value[lane]);
        }
        output.store(group, lane);
    }
}
