//! The definition for one sample, in f64.

use super::cpu::philox4x32;

pub(super) fn deviate(seed: u64, block: u32, n: u64) -> f64 {
    let index = n / 4;
    let words = philox4x32([index as u32, (index >> 32) as u32, block, 0], [seed as u32, (seed >> 32) as u32]);
    let pair = if n % 4 < 2 { [words[0], words[1]] } else { [words[2], words[3]] };
    let [radius, angle] = pair.map(|word| f64::from(word >> 8));
    let radius = (-2.0 * ((radius + 1.0) / 16_777_216.0).ln()).sqrt();
    let angle = std::f64::consts::TAU * angle / 16_777_216.0;
    if n.is_multiple_of(2) { radius * angle.cos() } else { radius * angle.sin() }
}
