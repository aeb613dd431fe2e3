//! Rhythms: patterns of a bar, in sixteenths.

use super::random::Random;

/// Sixteenths of a bar of four beats.
pub(super) const BAR: u32 = 16;

/// A note's place in its bar and its length, in sixteenths.
pub(super) type Slot = (u32, u32);

const SPARSE: [&[Slot]; 4] = [&[(0, 12)], &[(4, 8)], &[(0, 6), (8, 6)], &[(8, 7)]];
const EVEN: [&[Slot]; 4] = [
    &[(0, 4), (4, 4), (8, 8)],
    &[(0, 6), (6, 2), (8, 6)],
    &[(2, 2), (4, 4), (8, 4), (12, 4)],
    &[(0, 8), (8, 4), (12, 3)],
];
const BUSY: [&[Slot]; 4] = [
    &[(0, 2), (2, 2), (4, 4), (8, 2), (10, 2), (12, 4)],
    &[(0, 3), (3, 3), (6, 2), (8, 4), (12, 2), (14, 2)],
    &[(0, 4), (4, 2), (6, 2), (8, 3), (11, 3), (14, 2)],
    &[(2, 2), (4, 2), (6, 2), (8, 4), (12, 4)],
];

/// Returns the melody's rhythm of one bar; `density` percent decides how full it is, and whether there is any.
pub(super) fn melody(random: &mut Random, density: u32) -> &'static [Slot] {
    if !random.chance((40 + density).min(100)) {
        return &[];
    }
    match random.below(100) {
        roll if roll + 60 < density => random.pick(&BUSY),
        roll if roll < density => random.pick(&EVEN),
        _ => random.pick(&SPARSE),
    }
}

/// Draws the kicks of one bar: most often on the first beat, less often on the others.
pub(super) fn kicks(random: &mut Random, density: u32) -> Vec<u32> {
    let mut places = Vec::new();
    for (beat, share) in [(0, 160), (2, 110), (1, 50), (3, 50)] {
        if random.chance((density * share / 100).min(100)) {
            places.push(beat * 4);
        }
    }
    if !places.is_empty() && random.chance(density / 5) {
        places.push(14);
    }
    places.sort_unstable();
    places
}

/// Draws the hats of one bar, off the beats.
pub(super) fn hats(random: &mut Random, density: u32) -> Vec<u32> {
    (0..4).map(|beat| beat * 4 + 2).filter(|_| random.chance(density)).collect()
}
