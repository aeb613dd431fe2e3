//! Vectors whose lanes are voices. Every operation is one IEEE operation per lane, so a voice has the same bits in every
//! lane of every instruction set, and alone.

/// A vector of f32 with integers of the same width.
///
/// # Safety
/// The machine has the instruction set of the implementing type; pointers hold [`Lanes::N`] elements.
pub(super) trait Lanes: Copy {
    type Int: Copy;
    const N: usize;
    unsafe fn load(from: *const f32) -> Self;
    unsafe fn store(self, to: *mut f32);
    unsafe fn splat(value: f32) -> Self;
    unsafe fn add(self, other: Self) -> Self;
    unsafe fn sub(self, other: Self) -> Self;
    unsafe fn mul(self, other: Self) -> Self;
    unsafe fn div(self, other: Self) -> Self;
    unsafe fn min(self, other: Self) -> Self;
    unsafe fn max(self, other: Self) -> Self;
    /// `self * a + b`, rounded once.
    unsafe fn mul_add(self, a: Self, b: Self) -> Self;
    /// `b - self * a`, rounded once.
    unsafe fn neg_mul_add(self, a: Self, b: Self) -> Self;
    /// Toward zero; the value fits.
    unsafe fn truncate(self) -> Self::Int;
    /// To nearest, ties to even; the value fits.
    unsafe fn round(self) -> Self::Int;
    unsafe fn bits(self) -> Self::Int;
    unsafe fn from_bits(bits: Self::Int) -> Self;
    unsafe fn load_int(from: *const u32) -> Self::Int;
    unsafe fn store_int(int: Self::Int, to: *mut u32);
    unsafe fn splat_int(value: u32) -> Self::Int;
    unsafe fn add_int(a: Self::Int, b: Self::Int) -> Self::Int;
    unsafe fn sub_int(a: Self::Int, b: Self::Int) -> Self::Int;
    unsafe fn mul_int(a: Self::Int, b: Self::Int) -> Self::Int;
    unsafe fn and(a: Self::Int, b: Self::Int) -> Self::Int;
    unsafe fn xor(a: Self::Int, b: Self::Int) -> Self::Int;
    unsafe fn abs_int(a: Self::Int) -> Self::Int;
    unsafe fn shift_left<const BITS: u32>(a: Self::Int) -> Self::Int;
    unsafe fn shift_right<const BITS: u32>(a: Self::Int) -> Self::Int;
    /// As signed integers.
    unsafe fn to_float(int: Self::Int) -> Self;
    /// `(high, low) + (a, b)` as 64-bit numbers.
    unsafe fn add_wide(wide: [Self::Int; 2], other: [Self::Int; 2]) -> [Self::Int; 2];
    /// Entries of a table, each index below 16.
    unsafe fn look_up(table: &[f32; 16], index: Self::Int) -> Self;
}

/// One voice alone.
impl Lanes for f32 {
    type Int = u32;
    const N: usize = 1;

    #[inline(always)]
    unsafe fn load(from: *const f32) -> Self {
        // SAFETY: the caller's promise.
        unsafe { *from }
    }
    #[inline(always)]
    unsafe fn store(self, to: *mut f32) {
        // SAFETY: the caller's promise.
        unsafe { *to = self }
    }
    #[inline(always)]
    unsafe fn splat(value: f32) -> Self {
        value
    }
    #[inline(always)]
    unsafe fn add(self, other: Self) -> Self {
        self + other
    }
    #[inline(always)]
    unsafe fn sub(self, other: Self) -> Self {
        self - other
    }
    #[inline(always)]
    unsafe fn mul(self, other: Self) -> Self {
        self * other
    }
    #[inline(always)]
    unsafe fn div(self, other: Self) -> Self {
        self / other
    }
    #[inline(always)]
    unsafe fn min(self, other: Self) -> Self {
        if self < other { self } else { other }
    }
    #[inline(always)]
    unsafe fn max(self, other: Self) -> Self {
        if self > other { self } else { other }
    }
    #[inline(always)]
    unsafe fn mul_add(self, a: Self, b: Self) -> Self {
        f32::mul_add(self, a, b)
    }
    #[inline(always)]
    unsafe fn neg_mul_add(self, a: Self, b: Self) -> Self {
        f32::mul_add(-self, a, b)
    }
    #[inline(always)]
    unsafe fn truncate(self) -> u32 {
        self as i32 as u32
    }
    #[inline(always)]
    unsafe fn round(self) -> u32 {
        self.round_ties_even() as i32 as u32
    }
    #[inline(always)]
    unsafe fn bits(self) -> u32 {
        self.to_bits()
    }
    #[inline(always)]
    unsafe fn from_bits(bits: u32) -> Self {
        f32::from_bits(bits)
    }
    #[inline(always)]
    unsafe fn load_int(from: *const u32) -> u32 {
        // SAFETY: the caller's promise.
        unsafe { *from }
    }
    #[inline(always)]
    unsafe fn store_int(int: u32, to: *mut u32) {
        // SAFETY: the caller's promise.
        unsafe { *to = int }
    }
    #[inline(always)]
    unsafe fn splat_int(value: u32) -> u32 {
        value
    }
    #[inline(always)]
    unsafe fn add_int(a: u32, b: u32) -> u32 {
        a.wrapping_add(b)
    }
    #[inline(always)]
    unsafe fn sub_int(a: u32, b: u32) -> u32 {
        a.wrapping_sub(b)
    }
    #[inline(always)]
    unsafe fn mul_int(a: u32, b: u32) -> u32 {
        a.wrapping_mul(b)
    }
    #[inline(always)]
    unsafe fn and(a: u32, b: u32) -> u32 {
        a & b
    }
    #[inline(always)]
    unsafe fn xor(a: u32, b: u32) -> u32 {
        a ^ b
    }
    #[inline(always)]
    unsafe fn abs_int(a: u32) -> u32 {
        (a as i32).unsigned_abs()
    }
    #[inline(always)]
    unsafe fn shift_left<const BITS: u32>(a: u32) -> u32 {
        a << BITS
    }
    #[inline(always)]
    unsafe fn shift_right<const BITS: u32>(a: u32) -> u32 {
        a >> BITS
    }
    #[inline(always)]
    unsafe fn to_float(int: u32) -> f32 {
        int as i32 as f32
    }
    #[inline(always)]
    unsafe fn add_wide([high, low]: [u32; 2], [a, b]: [u32; 2]) -> [u32; 2] {
        let (low, carry) = low.overflowing_add(b);
        [high.wrapping_add(a).wrapping_add(u32::from(carry)), low]
    }
    #[inline(always)]
    unsafe fn look_up(table: &[f32; 16], index: u32) -> f32 {
        table[index as usize & 15]
    }
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use std::arch::x86_64::*;

    use super::Lanes;

    /// What is one intrinsic of the same shape on both widths.
    macro_rules! plain {
        ($($name:ident($($argument:tt $(: $type:ty)?),*) -> $result:ty = $body:expr;)+) => { $(
            #[inline(always)]
            unsafe fn $name($($argument $(: $type)?),*) -> $result {
                // SAFETY: the trait's promise.
                unsafe { $body }
            }
        )+ };
    }

    impl Lanes for __m256 {
        type Int = __m256i;
        const N: usize = 8;
        plain! {
            load(from: *const f32) -> Self = _mm256_loadu_ps(from);
            splat(value: f32) -> Self = _mm256_set1_ps(value);
            add(self, other: Self) -> Self = _mm256_add_ps(self, other);
            sub(self, other: Self) -> Self = _mm256_sub_ps(self, other);
            mul(self, other: Self) -> Self = _mm256_mul_ps(self, other);
            div(self, other: Self) -> Self = _mm256_div_ps(self, other);
            min(self, other: Self) -> Self = _mm256_min_ps(self, other);
            max(self, other: Self) -> Self = _mm256_max_ps(self, other);
            mul_add(self, a: Self, b: Self) -> Self = _mm256_fmadd_ps(self, a, b);
            neg_mul_add(self, a: Self, b: Self) -> Self = _mm256_fnmadd_ps(self, a, b);
            truncate(self) -> __m256i = _mm256_cvttps_epi32(self);
            round(self) -> __m256i = _mm256_cvtps_epi32(self);
            bits(self) -> __m256i = _mm256_castps_si256(self);
            from_bits(bits: __m256i) -> Self = _mm256_castsi256_ps(bits);
            load_int(from: *const u32) -> __m256i = _mm256_loadu_si256(from.cast());
            splat_int(value: u32) -> __m256i = _mm256_set1_epi32(value as i32);
            add_int(a: __m256i, b: __m256i) -> __m256i = _mm256_add_epi32(a, b);
            sub_int(a: __m256i, b: __m256i) -> __m256i = _mm256_sub_epi32(a, b);
            mul_int(a: __m256i, b: __m256i) -> __m256i = _mm256_mullo_epi32(a, b);
            and(a: __m256i, b: __m256i) -> __m256i = _mm256_and_si256(a, b);
            xor(a: __m256i, b: __m256i) -> __m256i = _mm256_xor_si256(a, b);
            abs_int(a: __m256i) -> __m256i = _mm256_abs_epi32(a);
            to_float(int: __m256i) -> Self = _mm256_cvtepi32_ps(int);
        }
        #[inline(always)]
        unsafe fn store(self, to: *mut f32) {
            // SAFETY: the trait's promise, here and below.
            unsafe { _mm256_storeu_ps(to, self) }
        }
        #[inline(always)]
        unsafe fn store_int(int: __m256i, to: *mut u32) {
            // SAFETY: as above.
            unsafe { _mm256_storeu_si256(to.cast(), int) }
        }
        #[inline(always)]
        unsafe fn shift_left<const BITS: u32>(a: __m256i) -> __m256i {
            // SAFETY: as above.
            unsafe { _mm256_sllv_epi32(a, _mm256_set1_epi32(BITS as i32)) }
        }
        #[inline(always)]
        unsafe fn shift_right<const BITS: u32>(a: __m256i) -> __m256i {
            // SAFETY: as above.
            unsafe { _mm256_srlv_epi32(a, _mm256_set1_epi32(BITS as i32)) }
        }
        #[inline(always)]
        unsafe fn add_wide([high, low]: [__m256i; 2], [a, b]: [__m256i; 2]) -> [__m256i; 2] {
            // SAFETY: as above.
            unsafe {
                let sum = _mm256_add_epi32(low, b);
                // No carry gives all ones, which is -1, where the larger of both is the sum itself.
                let no_carry = _mm256_cmpeq_epi32(_mm256_max_epu32(sum, b), sum);
                let high = _mm256_add_epi32(_mm256_add_epi32(high, a), _mm256_set1_epi32(1));
                [_mm256_add_epi32(high, no_carry), sum]
            }
        }
        #[inline(always)]
        unsafe fn look_up(table: &[f32; 16], index: __m256i) -> Self {
            // SAFETY: as above.
            unsafe {
                let low = _mm256_permutevar8x32_ps(_mm256_loadu_ps(table.as_ptr()), index);
                let high = _mm256_permutevar8x32_ps(_mm256_loadu_ps(table.as_ptr().add(8)), index);
                // Bit 3 of the index, moved to the sign.
                _mm256_blendv_ps(low, high, _mm256_castsi256_ps(_mm256_slli_epi32::<28>(index)))
            }
        }
    }

    impl Lanes for __m512 {
        type Int = __m512i;
        const N: usize = 16;
        plain! {
            load(from: *const f32) -> Self = _mm512_loadu_ps(from);
            splat(value: f32) -> Self = _mm512_set1_ps(value);
            add(self, other: Self) -> Self = _mm512_add_ps(self, other);
            sub(self, other: Self) -> Self = _mm512_sub_ps(self, other);
            mul(self, other: Self) -> Self = _mm512_mul_ps(self, other);
            div(self, other: Self) -> Self = _mm512_div_ps(self, other);
            min(self, other: Self) -> Self = _mm512_min_ps(self, other);
            max(self, other: Self) -> Self = _mm512_max_ps(self, other);
            mul_add(self, a: Self, b: Self) -> Self = _mm512_fmadd_ps(self, a, b);
            neg_mul_add(self, a: Self, b: Self) -> Self = _mm512_fnmadd_ps(self, a, b);
            truncate(self) -> __m512i = _mm512_cvttps_epi32(self);
            round(self) -> __m512i = _mm512_cvtps_epi32(self);
            bits(self) -> __m512i = _mm512_castps_si512(self);
            from_bits(bits: __m512i) -> Self = _mm512_castsi512_ps(bits);
            load_int(from: *const u32) -> __m512i = _mm512_loadu_si512(from.cast());
            splat_int(value: u32) -> __m512i = _mm512_set1_epi32(value as i32);
            add_int(a: __m512i, b: __m512i) -> __m512i = _mm512_add_epi32(a, b);
            sub_int(a: __m512i, b: __m512i) -> __m512i = _mm512_sub_epi32(a, b);
            mul_int(a: __m512i, b: __m512i) -> __m512i = _mm512_mullo_epi32(a, b);
            and(a: __m512i, b: __m512i) -> __m512i = _mm512_and_si512(a, b);
            xor(a: __m512i, b: __m512i) -> __m512i = _mm512_xor_si512(a, b);
            abs_int(a: __m512i) -> __m512i = _mm512_abs_epi32(a);
            to_float(int: __m512i) -> Self = _mm512_cvtepi32_ps(int);
        }
        #[inline(always)]
        unsafe fn store(self, to: *mut f32) {
            // SAFETY: the trait's promise, here and below.
            unsafe { _mm512_storeu_ps(to, self) }
        }
        #[inline(always)]
        unsafe fn store_int(int: __m512i, to: *mut u32) {
            // SAFETY: as above.
            unsafe { _mm512_storeu_si512(to.cast(), int) }
        }
        #[inline(always)]
        unsafe fn shift_left<const BITS: u32>(a: __m512i) -> __m512i {
            // SAFETY: as above.
            unsafe { _mm512_slli_epi32::<BITS>(a) }
        }
        #[inline(always)]
        unsafe fn shift_right<const BITS: u32>(a: __m512i) -> __m512i {
            // SAFETY: as above.
            unsafe { _mm512_srli_epi32::<BITS>(a) }
        }
        #[inline(always)]
        unsafe fn add_wide([high, low]: [__m512i; 2], [a, b]: [__m512i; 2]) -> [__m512i; 2] {
            // SAFETY: as above.
            unsafe {
                let sum = _mm512_add_epi32(low, b);
                let carry = _mm512_cmplt_epu32_mask(sum, b);
                let high = _mm512_add_epi32(high, a);
                [_mm512_mask_add_epi32(high, carry, high, _mm512_set1_epi32(1)), sum]
            }
        }
        #[inline(always)]
        unsafe fn look_up(table: &[f32; 16], index: __m512i) -> Self {
            // SAFETY: as above.
            unsafe { _mm512_permutexvar_ps(index, _mm512_loadu_ps(table.as_ptr())) }
        }
    }
}
