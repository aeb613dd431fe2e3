//! One sweep moves and checks every code. A frame is too short for threads.

use super::FRAME_CODES;

/// Spreads `frames`, `[n, 7]`, over levels of `[n]`, `[2n]`, `[4n]`; returns for each level whether
/// all its codes lie in `0..codebook_size`. Elements beyond the shortest slice are not touched.
pub fn populate(frames: &[i32], codebook_size: i32, levels: [&mut [i32]; 3]) -> [bool; 3] {
    let [coarse, middle, fine] = levels;
    let frames = frames.as_chunks::<FRAME_CODES>().0.iter();
    let (middle, fine) = (middle.as_chunks_mut::<2>().0, fine.as_chunks_mut::<4>().0);
    // As unsigned numbers, negative codes are large too.
    let limit = codebook_size.max(0) as u32;
    let outside = |code: i32| u32::from(code as u32 >= limit);
    let mut bad = [0u32; 3];
    for (&[a, b, c, d, e, f, g], ((coarse, middle), fine)) in frames.zip(coarse.iter_mut().zip(middle).zip(fine)) {
        *coarse = a;
        *middle = [b, e];
        *fine = [c, d, f, g];
        bad[0] |= outside(a);
        bad[1] |= outside(b) | outside(e);
        bad[2] |= outside(c) | outside(d) | outside(f) | outside(g);
    }
    bad.map(|bad| bad == 0)
}
