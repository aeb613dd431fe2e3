//! Codes of a clip, and the order in which a frame's codes are written in a row.

use std::ops::Range;

use super::config::{Config, level_codes};
use crate::{Error, Result};

/// Whole frames of codes, every code inside its codebook: checked once, when they are made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Codes {
    shape: Shape,
    /// `[F, S]`, in the order of language models: L0, L1, L2, L2, L1, L2, L2 for three levels.
    codes: Vec<i32>,
}

/// Some frames of [`Codes`]. `&Codes` converts into all of them.
#[derive(Debug, Clone, Copy)]
pub struct Frames<'a> {
    shape: &'a Shape,
    codes: &'a [i32],
}

/// The part of a configuration that codes depend on.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Shape {
    vq_strides: Vec<usize>,
    codebook_size: usize,
    n_slots: usize,
}

impl Shape {
    fn new(config: &Config) -> Self {
        Self {
            vq_strides: config.vq_strides.clone(),
            codebook_size: config.codebook_size,
            n_slots: config.n_slots().max(1),
        }
    }
}

impl Codes {
    /// Creates codes without frames.
    pub fn empty(config: &Config) -> Self {
        Self::valid(config, Vec::new())
    }

    /// Creates codes from one list for each level.
    ///
    /// # Errors
    /// `InvalidArgument` when the number of levels, their lengths or a code does not fit; the message names it.
    pub fn new(config: &Config, levels: Vec<Vec<i32>>) -> Result<Self> {
        check_levels(config, &levels).map_err(Error::invalid)?;
        config.check_codes()?;
        for (index, codes) in levels.iter().enumerate() {
            if let Some(at) = codes.iter().position(|&code| !in_codebook(config, code)) {
                return Err(outside(config, [index, at], codes[at]));
            }
        }
        let mut codes = Vec::with_capacity(levels.iter().map(Vec::len).sum());
        each_slot(config, &levels, |_, code| codes.push(code));
        Ok(Self::valid(config, codes))
    }

    /// Creates codes from frames written in a row, in the order of language models: L0, L1, L2, L2, L1, L2, L2 for
    /// three levels.
    ///
    /// # Errors
    /// `InvalidArgument` when `frames` ends inside a frame or a code does not exist; the message names it.
    pub fn from_frames(config: &Config, frames: &[i32]) -> Result<Self> {
        config.check_codes()?;
        let slots = slots(config);
        if !frames.len().is_multiple_of(slots.len()) {
            return Err(Error::invalid(format!("{} codes are not whole frames of {}", frames.len(), slots.len())));
        }
        if let Some(at) = frames.iter().position(|&code| !in_codebook(config, code)) {
            let (frame, slot) = (at / slots.len(), slots[at % slots.len()]);
            let per_frame = config.frame_codes().nth(slot.level).unwrap_or(1);
            return Err(outside(config, [slot.level, frame * per_frame + slot.index], frames[at]));
        }
        Ok(Self::valid(config, frames.to_vec()))
    }

    /// Returns whole frames whose codes were checked.
    pub(super) fn valid(config: &Config, codes: Vec<i32>) -> Self {
        Self { shape: Shape::new(config), codes }
    }

    /// Returns all frames.
    pub fn frames(&self) -> Frames<'_> {
        Frames { shape: &self.shape, codes: &self.codes }
    }

    /// Returns checked codes of other frames of this shape.
    pub(super) fn frames_like<'a>(&'a self, codes: &'a [i32]) -> Frames<'a> {
        Frames { shape: &self.shape, codes }
    }

    /// Returns the number of frames.
    pub fn n_frames(&self) -> usize {
        self.frames().len()
    }

    /// Returns one list for each level.
    pub fn levels(&self) -> Vec<Vec<i32>> {
        self.frames().levels()
    }

    /// Adds `frames` at the end.
    ///
    /// # Errors
    /// `InvalidArgument` when they are of a model of another shape.
    pub fn append(&mut self, frames: Frames<'_>) -> Result<()> {
        if *frames.shape != self.shape {
            return Err(frames.foreign(&self.shape));
        }
        self.codes.extend_from_slice(frames.codes);
        Ok(())
    }
}

impl<'a> From<&'a Codes> for Frames<'a> {
    fn from(codes: &'a Codes) -> Self {
        codes.frames()
    }
}

impl From<Frames<'_>> for Codes {
    fn from(frames: Frames<'_>) -> Self {
        Self { shape: frames.shape.clone(), codes: frames.codes.to_vec() }
    }
}

impl<'a> Frames<'a> {
    /// Returns the number of frames.
    pub fn len(self) -> usize {
        self.codes.len() / self.shape.n_slots
    }

    /// Returns whether it has no frames.
    pub fn is_empty(self) -> bool {
        self.codes.is_empty()
    }

    /// Returns the codes in a row, in the order of language models: L0, L1, L2, L2, L1, L2, L2 for three levels.
    pub fn as_slice(self) -> &'a [i32] {
        self.codes
    }

    /// Returns the frames of `range` that exist.
    pub fn range(self, range: Range<usize>) -> Self {
        let n_slots = self.shape.n_slots;
        let end = range.end.min(self.len());
        Self { codes: &self.codes[range.start.min(end) * n_slots..end * n_slots], ..self }
    }

    /// Returns the first `n` frames and the others, if there are any.
    pub fn split_at(self, n: usize) -> (Self, Self) {
        (self.range(0..n), self.range(n..self.len()))
    }

    /// Returns pieces of `n` frames, at least one; the last may have fewer.
    pub fn chunks(self, n: usize) -> impl Iterator<Item = Self> {
        self.codes.chunks(n.max(1).saturating_mul(self.shape.n_slots)).map(move |codes| Self { codes, ..self })
    }

    /// Returns one list for each level.
    pub(super) fn levels(self) -> Vec<Vec<i32>> {
        let strides = &self.shape.vq_strides;
        let order = slot_order(strides);
        let mut levels: Vec<Vec<i32>> =
            level_codes(strides).map(|per_frame| Vec::with_capacity(self.len() * per_frame)).collect();
        for frame in self.codes.chunks_exact(self.shape.n_slots) {
            for (slot, code) in order.iter().zip(frame) {
                levels[slot.level].push(*code);
            }
        }
        levels
    }

    /// Refuses frames of a model of another shape.
    pub(super) fn check(self, config: &Config) -> Result<()> {
        if self.shape.vq_strides == config.vq_strides && self.shape.codebook_size == config.codebook_size {
            return Ok(());
        }
        Err(self.foreign(&Shape::new(config)))
    }

    fn foreign(self, expected: &Shape) -> Error {
        let show = |shape: &Shape| format!("strides {:?} and codebooks of {}", shape.vq_strides, shape.codebook_size);
        Error::invalid(format!("codes for a model with {}, this one has {}", show(self.shape), show(expected)))
    }
}

/// Checks that there is a list for each level, each with the codes of the same frames; otherwise
/// says what is wrong.
pub(super) fn check_levels<T>(config: &Config, levels: &[Vec<T>]) -> std::result::Result<(), String> {
    if levels.len() != config.vq_strides.len() {
        return Err(format!("{} levels of codes, the model has {}", levels.len(), config.vq_strides.len()));
    }
    let n_frames = levels.first().map_or(0, Vec::len);
    for (index, (level, per_frame)) in levels.iter().zip(config.frame_codes()).enumerate() {
        if Some(level.len()) != n_frames.checked_mul(per_frame) {
            return Err(format!("level {index} has {} codes, {n_frames} frames need {per_frame} each", level.len()));
        }
    }
    Ok(())
}

/// Hands out slot and code of checked levels, frame after frame.
pub(super) fn each_slot<T: Copy>(config: &Config, levels: &[Vec<T>], mut found: impl FnMut(usize, T)) {
    let (slots, per_frame) = (slots(config), config.frame_codes().collect::<Vec<_>>());
    for frame in 0..levels.first().map_or(0, Vec::len) {
        for (index, slot) in slots.iter().enumerate() {
            found(index, levels[slot.level][frame * per_frame[slot.level] + slot.index]);
        }
    }
}

pub(super) fn in_codebook(config: &Config, code: i32) -> bool {
    (0..config.codebook_size as i32).contains(&code)
}

fn outside(config: &Config, [level, at]: [usize; 2], code: i32) -> Error {
    let last = config.codebook_size - 1;
    Error::invalid(format!("level {level}, code {at} is {code}; 0 to {last} exist"))
}

/// One place in a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Slot {
    /// Level, coarsest first.
    pub level: usize,
    /// Which of the level's codes in the frame.
    pub index: usize,
}

/// Returns the order of a frame's codes in a row: by the time at which they start, coarse before fine. For three
/// levels with strides 4, 2, 1 this is L0, L1, L2, L2, L1, L2, L2, the order of Orpheus.
pub fn slots(config: &Config) -> Vec<Slot> {
    slot_order(&config.vq_strides)
}

/// Returns [`slots`] of a model with `vq_strides`.
pub(crate) fn slot_order(vq_strides: &[usize]) -> Vec<Slot> {
    let per_level = level_codes(vq_strides).enumerate();
    let mut slots: Vec<Slot> =
        per_level.flat_map(|(level, n)| (0..n).map(move |index| Slot { level, index })).collect();
    slots.sort_by_key(|slot| (slot.index * vq_strides[slot.level], slot.level));
    slots
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_order_is_that_of_orpheus() {
        let order: Vec<_> = slots(&Config::snac_24khz()).iter().map(|slot| (slot.level, slot.index)).collect();
        assert_eq!(order, [(0, 0), (1, 0), (2, 0), (2, 1), (1, 1), (2, 2), (2, 3)]);
        assert_eq!(slots(&Config::snac_44khz()).len(), 15);
    }

    #[test]
    fn frames_and_levels_are_two_views_of_the_same_codes() {
        for config in [Config::snac_24khz(), Config::snac_32khz()] {
            let n_slots = slots(&config).len();
            let frames: Vec<i32> = (0..3 * n_slots as i32).collect();
            let codes = Codes::from_frames(&config, &frames).unwrap();
            assert_eq!((codes.n_frames(), codes.frames().as_slice()), (3, frames.as_slice()));
            assert_eq!(Codes::new(&config, codes.levels()).unwrap(), codes);
            let (first, rest) = codes.frames().split_at(1);
            assert_eq!((first.as_slice(), rest.as_slice()), frames.split_at(n_slots));
            let mut joined = Codes::empty(&config);
            codes.frames().chunks(2).for_each(|piece| joined.append(piece).unwrap());
            assert_eq!(joined, codes);
            assert_eq!(Codes::from(codes.frames()), codes);
        }
        let codes = Codes::from_frames(&Config::snac_24khz(), &[0, 1, 2, 3, 4, 5, 6]).unwrap();
        assert_eq!(codes.levels(), [vec![0], vec![1, 4], vec![2, 3, 5, 6]]);
    }

    #[test]
    fn code_4096_is_refused() {
        let config = Config::snac_24khz();
        assert!(Codes::from_frames(&config, &[4095; 7]).is_ok());
        for bad in [4096, -1] {
            let mut frames = [0; 14];
            frames[11] = bad;
            let error = Codes::from_frames(&config, &frames).unwrap_err();
            assert_eq!(error.to_string(), format!("level 1, code 3 is {bad}; 0 to 4095 exist"));
            let error = Codes::new(&config, vec![vec![0; 2], vec![0, 0, 0, bad], vec![0; 8]]).unwrap_err();
            assert_eq!(error.to_string(), format!("level 1, code 3 is {bad}; 0 to 4095 exist"));
        }
        assert!(Codes::from_frames(&config, &[0; 8]).is_err());
        assert!(Codes::new(&config, vec![vec![0], vec![0], vec![0; 4]]).is_err());
        assert!(Codes::new(&config, vec![vec![0]]).is_err());
    }

    #[test]
    fn codes_of_another_shape_are_refused() {
        let small = Config { codebook_size: 16, ..Config::snac_24khz() };
        let codes = Codes::from_frames(&Config::snac_24khz(), &[0; 7]).unwrap();
        assert!(codes.frames().check(&Config::snac_24khz()).is_ok());
        assert!(codes.frames().check(&Config::snac_44khz()).is_err());
        let error = codes.frames().check(&small).unwrap_err();
        assert!(error.to_string().ends_with("this one has strides [4, 2, 1] and codebooks of 16"), "{error}");
        assert!(Codes::empty(&small).append(codes.frames()).is_err());
    }
}
