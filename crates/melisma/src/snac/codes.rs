//! Codes of a clip, and the order in which a frame's codes are written in a row.

use super::config::Config;
use super::populate::{Populated, populate};
use crate::{Error, Result};

/// Codes, one list for each level; whole frames, every code inside its codebook.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Codes {
    levels: Vec<Vec<i32>>,
    n_frames: usize,
}

impl Codes {
    /// Checks `levels` against a model's shape.
    ///
    /// # Errors
    /// `InvalidArgument` when the number of levels, their lengths or a code does not fit; the message names it.
    pub fn new(config: &Config, levels: Vec<Vec<i32>>) -> Result<Self> {
        if levels.len() != config.vq_strides.len() {
            let message = format!("{} levels of codes, the model has {}", levels.len(), config.vq_strides.len());
            return Err(Error::invalid(message));
        }
        let n_frames = levels[0].len();
        for (index, (codes, per_frame)) in levels.iter().zip(config.frame_codes()).enumerate() {
            if Some(codes.len()) != n_frames.checked_mul(per_frame) {
                let message =
                    format!("level {index} has {} codes, {n_frames} frames need {per_frame} each", codes.len());
                return Err(Error::invalid(message));
            }
            if let Some(at) = codes.iter().position(|&code| !(0..config.codebook_size as i32).contains(&code)) {
                let last = config.codebook_size - 1;
                return Err(Error::invalid(format!("level {index}, code {at} is {}; 0 to {last} exist", codes[at])));
            }
        }
        Ok(Self { levels, n_frames })
    }

    /// Codes from frames written in a row, in the order of [`slots`].
    ///
    /// # Errors
    /// Those of [`Codes::new`], and `InvalidArgument` when `frames` ends inside a frame.
    pub fn from_frames(config: &Config, frames: &[i32]) -> Result<Self> {
        let slots = slots(config);
        if !frames.len().is_multiple_of(slots.len()) {
            return Err(Error::invalid(format!("{} codes are not whole frames of {}", frames.len(), slots.len())));
        }
        if config.vq_strides == [4, 2, 1] {
            let populated = populate(frames, config.codebook_size as i32);
            if populated.valid == [true; 3] {
                return Ok(Self { n_frames: populated.levels[0].len(), levels: populated.levels.into() });
            }
        }
        let mut levels: Vec<Vec<i32>> = config.vq_strides.iter().map(|_| Vec::new()).collect();
        for frame in frames.chunks_exact(slots.len()) {
            for (slot, code) in slots.iter().zip(frame) {
                levels[slot.level].push(*code);
            }
        }
        Self::new(config, levels)
    }

    /// Codes of a population that a [`Populator`](super::Populator) found valid.
    pub(super) fn from_population(populated: &Populated) -> Self {
        Self { n_frames: populated.levels[0].len(), levels: populated.levels.to_vec() }
    }

    /// Frames in a row, in the order of [`slots`].
    pub fn to_frames(&self, config: &Config) -> Vec<i32> {
        let slots = slots(config);
        let per_frame: Vec<usize> = config.frame_codes().collect();
        let code = |frame: usize, slot: &Slot| self.levels[slot.level][frame * per_frame[slot.level] + slot.index];
        (0..self.n_frames).flat_map(|frame| slots.iter().map(move |slot| code(frame, slot))).collect()
    }

    /// Frames.
    pub fn n_frames(&self) -> usize {
        self.n_frames
    }

    /// One list for each level.
    pub fn levels(&self) -> &[Vec<i32>] {
        &self.levels
    }

    /// The codes of the frames `start..end` on each level.
    pub(super) fn frames(&self, start: usize, end: usize) -> Vec<&[i32]> {
        let per_frame = |codes: &Vec<i32>| codes.len() / self.n_frames.max(1);
        self.levels.iter().map(|codes| &codes[start * per_frame(codes)..end * per_frame(codes)]).collect()
    }
}

/// One place in a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Slot {
    /// Level, coarsest first.
    pub level: usize,
    /// Which of the level's codes in the frame.
    pub index: usize,
}

/// The order of a frame's codes in a row: by the time at which they start, coarse before fine. For three levels with
/// strides 4, 2, 1 this is L0, L1, L2, L2, L1, L2, L2, the order of Orpheus.
pub fn slots(config: &Config) -> Vec<Slot> {
    let per_level = config.frame_codes().enumerate();
    let mut slots: Vec<Slot> =
        per_level.flat_map(|(level, n)| (0..n).map(move |index| Slot { level, index })).collect();
    slots.sort_by_key(|slot| (slot.index * config.vq_strides[slot.level], slot.level));
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
    fn frames_come_back() {
        for config in [Config::snac_24khz(), Config::snac_32khz()] {
            let frames: Vec<i32> = (0..3 * slots(&config).len() as i32).collect();
            let codes = Codes::from_frames(&config, &frames).unwrap();
            assert_eq!((codes.n_frames(), codes.to_frames(&config)), (3, frames));
        }
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
        }
        assert!(Codes::from_frames(&config, &[0; 8]).is_err());
        assert!(Codes::new(&config, vec![vec![0], vec![0], vec![0; 4]]).is_err());
        assert!(Codes::new(&config, vec![vec![0]]).is_err());
    }
}
