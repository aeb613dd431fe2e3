//! The discrete Fourier transform of many frames at once, one frame per lane.
//!
//! Stockham's self-sorting form: a pass of radix R reads element q + s(p + mj) for j < R, and
//! writes output k of the butterfly, times w_n^{pk}, to q + s(Rp + k). Here n = R m is the length
//! left to transform and s is the product of the radices so far. An element is [re; N lanes], [im;
//! N lanes].

use super::lanes::Lanes;

/// The passes of a complex transform.
#[derive(Debug)]
pub(super) struct Fft {
    pub(super) len: usize,
    pub(super) passes: Vec<Pass>,
}

#[derive(Debug)]
pub(super) struct Pass {
    pub(super) radix: usize,
    /// m and s of the form above.
    pub(super) groups: usize,
    pub(super) stride: usize,
    /// [m][R - 1] of w_n^{pk} for k from 1.
    pub(super) twiddles: Vec<[f32; 2]>,
    /// w_R^{j} for j < R, for radices without their own butterfly.
    roots: Vec<[f32; 2]>,
}

/// The input of a pass.
pub(super) trait Source<V: Lanes> {
    /// # Safety
    /// `index` is below the transform's length; the machine has the instruction set of `V`.
    unsafe fn get(&self, index: usize) -> Complex<V>;
}

#[derive(Clone, Copy)]
pub(super) struct Complex<V> {
    pub(super) re: V,
    pub(super) im: V,
}

/// Elements written by an earlier pass.
#[derive(Clone, Copy)]
pub(super) struct Elements(pub(super) *const f32);

impl<V: Lanes> Source<V> for Elements {
    /// # Safety
    /// The machine has the instruction set of `V`.
    #[inline(always)]
    unsafe fn get(&self, index: usize) -> Complex<V> {
        // SAFETY: the caller's promise.
        unsafe {
            let at = self.0.add(index * 2 * V::N);
            Complex { re: V::load(at), im: V::load(at.add(V::N)) }
        }
    }
}

impl Fft {
    pub(super) fn new(len: usize) -> Self {
        let mut passes = Vec::new();
        let (mut left, mut stride) = (len, 1);
        for radix in radices(len) {
            let groups = left / radix;
            let twiddles = (0..groups)
                .flat_map(|p| (1..radix).map(move |k| (p, k)))
                .map(|(p, k)| root(p * k % left, left))
                .collect();
            let roots =
                if matches!(radix, 2..=5 | 8) { Vec::new() } else { (0..radix).map(|j| root(j, radix)).collect() };
            passes.push(Pass { radix, groups, stride, twiddles, roots });
            (left, stride) = (groups, stride * radix);
        }
        Self { len, passes }
    }

    /// Transforms the elements of `source`; returns the buffer that holds the result.
    ///
    /// # Safety
    /// Both buffers hold `len` elements of 2 N floats; the machine has the instruction set of `V`.
    #[inline(always)]
    pub(super) unsafe fn run<V: Lanes>(&self, source: &impl Source<V>, buffers: [*mut f32; 2]) -> *mut f32 {
        let [mut to, mut from] = buffers;
        // SAFETY: the caller's promise; each pass reads and writes elements below `len`.
        unsafe {
            match self.passes.split_first() {
                None => {
                    let only = source.get(0);
                    only.re.store(to);
                    only.im.store(to.add(V::N));
                }
                Some((first, rest)) => {
                    first.run(source, to);
                    for pass in rest {
                        (to, from) = (from, to);
                        pass.run::<V>(&Elements(from), to);
                    }
                }
            }
        }
        to
    }
}

/// Returns the radices 8, 5, 4, 3 and 2 where they divide `len`, then its other prime factors. A
/// factor 8 * 2 becomes 4 * 4.
fn radices(len: usize) -> Vec<usize> {
    let twos = len.trailing_zeros() as usize;
    let (eights, fours) = match (twos / 3, twos % 3) {
        (eights, 0) => (eights, 0),
        (0, 1) => return std::iter::once(2).chain(radices(len / 2)).collect(),
        (eights, 1) => (eights - 1, 2),
        (eights, _) => (eights, 1),
    };
    let mut found = vec![4; fours];
    found.extend(vec![8; eights]);
    let (mut left, mut factor) = (len >> twos, 3);
    while left > 1 {
        while left.is_multiple_of(factor) {
            found.push(factor);
            left /= factor;
        }
        factor += 2;
    }
    found
}

/// Returns e^{-2 pi i j / n}, correctly rounded except for the library's cosine.
pub(super) fn root(j: usize, n: usize) -> [f32; 2] {
    let angle = std::f64::consts::TAU * j as f64 / n as f64;
    [angle.cos() as f32, -angle.sin() as f32]
}

impl Pass {
    /// # Safety
    /// As [`Fft::run`].
    #[inline(always)]
    unsafe fn run<V: Lanes>(&self, source: &impl Source<V>, to: *mut f32) {
        // SAFETY: the caller's promise.
        unsafe {
            match self.radix {
                2 => self.each::<V, 2>(source, to),
                3 => self.each::<V, 3>(source, to),
                4 => self.each::<V, 4>(source, to),
                5 => self.each::<V, 5>(source, to),
                8 => self.each::<V, 8>(source, to),
                _ => self.any(source, to),
            }
        }
    }

    /// # Safety
    /// As [`Fft::run`], and `R` is the radix.
    #[inline(always)]
    unsafe fn each<V: Lanes, const R: usize>(&self, source: &impl Source<V>, to: *mut f32) {
        let (m, s) = (self.groups, self.stride);
        // SAFETY: the caller's promise; indices are below m s R, the length.
        unsafe {
            for p in 0..m {
                let twiddles = self.twiddles.as_ptr().add(p * (R - 1));
                for q in 0..s {
                    let mut x = [source.get(q + s * p); R];
                    for (j, x) in x.iter_mut().enumerate().skip(1) {
                        *x = source.get(q + s * (p + m * j));
                    }
                    let y = butterfly(x);
                    let at = to.add((q + s * R * p) * 2 * V::N);
                    y[0].store(at);
                    for (k, y) in y.iter().enumerate().skip(1) {
                        let y = if p == 0 { *y } else { y.times(*twiddles.add(k - 1)) };
                        y.store(at.add(k * s * 2 * V::N));
                    }
                }
            }
        }
    }

    /// Computes a butterfly by definition.
    ///
    /// # Safety
    /// As [`Fft::run`].
    #[inline(always)]
    unsafe fn any<V: Lanes>(&self, source: &impl Source<V>, to: *mut f32) {
        let (m, s, radix) = (self.groups, self.stride, self.radix);
        // SAFETY: the caller guarantees the instruction set of `V`; source and `to` hold all elements of the pass.
        unsafe {
            for p in 0..m {
                for q in 0..s {
                    for k in 0..radix {
                        let mut sum = source.get(q + s * p);
                        for j in 1..radix {
                            let x = source.get(q + s * (p + m * j)).times(self.roots[j * k % radix]);
                            sum = sum.plus(x);
                        }
                        if p > 0 && k > 0 {
                            sum = sum.times(self.twiddles[p * (radix - 1) + k - 1]);
                        }
                        sum.store(to.add((q + s * (radix * p + k)) * 2 * V::N));
                    }
                }
            }
        }
    }
}

impl<V: Lanes> Complex<V> {
    /// # Safety
    /// The machine has the instruction set of `V`.
    #[inline(always)]
    unsafe fn store(self, to: *mut f32) {
        // SAFETY: the caller's promise.
        unsafe {
            self.re.store(to);
            self.im.store(to.add(V::N));
        }
    }

    /// # Safety
    /// The machine has the instruction set of `V`.
    #[inline(always)]
    unsafe fn plus(self, other: Self) -> Self {
        // SAFETY: the caller guarantees the instruction set of `V`.
        unsafe { Self { re: self.re.add(other.re), im: self.im.add(other.im) } }
    }

    /// # Safety
    /// The machine has the instruction set of `V`.
    #[inline(always)]
    unsafe fn minus(self, other: Self) -> Self {
        // SAFETY: the caller guarantees the instruction set of `V`.
        unsafe { Self { re: self.re.sub(other.re), im: self.im.sub(other.im) } }
    }

    /// Returns `self - i other`
    ///
    /// # Safety
    /// The machine has the instruction set of `V`.
    #[inline(always)]
    unsafe fn minus_i(self, other: Self) -> Self {
        // SAFETY: the caller guarantees the instruction set of `V`.
        unsafe { Self { re: self.re.add(other.im), im: self.im.sub(other.re) } }
    }

    /// Returns `self + i other`
    ///
    /// # Safety
    /// The machine has the instruction set of `V`.
    #[inline(always)]
    unsafe fn plus_i(self, other: Self) -> Self {
        // SAFETY: the caller guarantees the instruction set of `V`.
        unsafe { Self { re: self.re.sub(other.im), im: self.im.add(other.re) } }
    }

    /// Returns `self + other * factor`
    ///
    /// # Safety
    /// The machine has the instruction set of `V`.
    #[inline(always)]
    unsafe fn plus_scaled(self, other: Self, factor: f32) -> Self {
        // SAFETY: the caller guarantees the instruction set of `V`.
        unsafe {
            let factor = V::splat(factor);
            Self { re: other.re.mul_add(factor, self.re), im: other.im.mul_add(factor, self.im) }
        }
    }

    /// # Safety
    /// The machine has the instruction set of `V`.
    #[inline(always)]
    unsafe fn scaled(self, factor: f32) -> Self {
        // SAFETY: the caller guarantees the instruction set of `V`.
        unsafe {
            let factor = V::splat(factor);
            Self { re: self.re.mul(factor), im: self.im.mul(factor) }
        }
    }

    /// # Safety
    /// The machine has the instruction set of `V`.
    #[inline(always)]
    unsafe fn times(self, [re, im]: [f32; 2]) -> Self {
        // SAFETY: the caller guarantees the instruction set of `V`.
        unsafe {
            let (re, im) = (V::splat(re), V::splat(im));
            Self { re: self.im.neg_mul_add(im, self.re.mul(re)), im: self.im.mul_add(re, self.re.mul(im)) }
        }
    }
}

/// Returns the transform of `R` elements.
///
/// # Safety
/// The machine has the instruction set of `V`.
#[inline(always)]
unsafe fn butterfly<V: Lanes, const R: usize>(x: [Complex<V>; R]) -> [Complex<V>; R] {
    let mut y = x;
    // SAFETY: the caller's promise.
    unsafe {
        match R {
            2 => (y[0], y[1]) = (x[0].plus(x[1]), x[0].minus(x[1])),
            3 => {
                const SIN: f32 = 0.866_025_4;
                let (sum, difference) = (x[1].plus(x[2]), x[1].minus(x[2]).scaled(SIN));
                let middle = x[0].plus_scaled(sum, -0.5);
                y[0] = x[0].plus(sum);
                (y[1], y[2]) = (middle.minus_i(difference), middle.plus_i(difference));
            }
            4 => {
                let (a, b) = (x[0].plus(x[2]), x[0].minus(x[2]));
                let (c, d) = (x[1].plus(x[3]), x[1].minus(x[3]));
                (y[0], y[2]) = (a.plus(c), a.minus(c));
                (y[1], y[3]) = (b.minus_i(d), b.plus_i(d));
            }
            5 => {
                const COS: [f32; 2] = [0.309_017, -0.809_017];
                const SIN: [f32; 2] = [0.951_056_5, 0.587_785_24];
                let (a, b) = (x[1].plus(x[4]), x[2].plus(x[3]));
                let (c, d) = (x[1].minus(x[4]), x[2].minus(x[3]));
                y[0] = x[0].plus(a.plus(b));
                let near = x[0].plus_scaled(a, COS[0]).plus_scaled(b, COS[1]);
                let far = x[0].plus_scaled(a, COS[1]).plus_scaled(b, COS[0]);
                let turn = c.scaled(SIN[0]).plus_scaled(d, SIN[1]);
                (y[1], y[4]) = (near.minus_i(turn), near.plus_i(turn));
                let turn = c.scaled(SIN[1]).plus_scaled(d, -SIN[0]);
                (y[2], y[3]) = (far.minus_i(turn), far.plus_i(turn));
            }
            8 => {
                const H: f32 = std::f32::consts::FRAC_1_SQRT_2;
                let (a, b) = (x[0].plus(x[4]), x[0].minus(x[4]));
                let (c, d) = (x[2].plus(x[6]), x[2].minus(x[6]));
                let (e, f) = (x[1].plus(x[5]), x[1].minus(x[5]));
                let (g, h) = (x[3].plus(x[7]), x[3].minus(x[7]));
                let (u, v) = (a.plus(c), a.minus(c));
                let (w, z) = (e.plus(g), e.minus(g));
                (y[0], y[4]) = (u.plus(w), u.minus(w));
                (y[2], y[6]) = (v.minus_i(z), v.plus_i(z));
                // w8 f + w8^3 h = H ((f - h) - i (f + h)), and w8^3 f + w8 h = -H ((f - h) + i (f + h)).
                let (difference, sum) = (f.minus(h), f.plus(h));
                let (down, up) = (difference.minus_i(sum), difference.plus_i(sum));
                let (low, high) = (b.minus_i(d), b.plus_i(d));
                (y[1], y[5]) = (low.plus_scaled(down, H), low.plus_scaled(down, -H));
                (y[3], y[7]) = (high.plus_scaled(up, -H), high.plus_scaled(up, H));
            }
            _ => unreachable!("`Pass::run` has no such radix"),
        }
    }
    y
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn radices_multiply_to_the_length() {
        for len in 1..3000 {
            assert_eq!(radices(len).iter().product::<usize>(), len);
        }
        assert_eq!(radices(512), [8, 8, 8]);
        assert_eq!(radices(200), [8, 5, 5]);
        assert_eq!(radices(1024), [4, 4, 8, 8]);
        assert_eq!(radices(256), [4, 8, 8]);
    }
}
