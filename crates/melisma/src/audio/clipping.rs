//! Runs of samples at full scale, on each channel of a recording.

use super::Channel;
use crate::text::count;

/// The largest 16-bit sample; 24- and 32-bit ones count too if they are at least as large.
const FULL_SCALE: f32 = 32_767.0 / 32_768.0;
/// Samples at full scale in a row that count as clipped.
const CLIPPED_RUN: u64 = 3;

/// What was found in the frames that were read, in order, from the first one on.
#[derive(Debug, Default)]
pub(super) struct Clipping {
    /// The frame after the last one.
    at: u64,
    /// The length of each channel's current run.
    runs: Vec<u64>,
    n_runs: u64,
    n_samples: u64,
    /// The sample and the channel where the first run begins.
    first: Option<(u64, usize)>,
}

impl Clipping {
    /// Looks at `channel` of interleaved `frames` of `n_channels`, from frame `first` on. All
    /// channels are looked at before they are mixed.
    pub(super) fn add(&mut self, channel: Channel, first: u64, frames: &[f32], n_channels: usize) {
        if first != self.at || self.runs.len() != n_channels {
            self.runs = vec![0; n_channels];
        }
        self.at = first + (frames.len() / n_channels.max(1)) as u64;
        let is_loud = frames.iter().fold(false, |is_loud, sample| is_loud | (sample.abs() >= FULL_SCALE));
        if !is_loud {
            return self.runs.fill(0);
        }
        for (at, frame) in (first..).zip(frames.chunks_exact(n_channels.max(1))) {
            for (index, sample) in frame.iter().enumerate() {
                if matches!(channel, Channel::One(wanted) if wanted != index) {
                    continue;
                }
                let run = &mut self.runs[index];
                *run = if sample.abs() >= FULL_SCALE { *run + 1 } else { 0 };
                if *run == CLIPPED_RUN {
                    self.first.get_or_insert((at + 1 - CLIPPED_RUN, index));
                    self.n_runs += 1;
                    self.n_samples += CLIPPED_RUN;
                } else if *run > CLIPPED_RUN {
                    self.n_samples += 1;
                }
            }
        }
    }

    /// Returns words for the user, if anything is clipped.
    pub(super) fn note(&self) -> Option<String> {
        let (first, channel) = self.first?;
        let (samples, runs) = (count(self.n_samples, "sample"), count(self.n_runs, "run"));
        let channel = match self.runs.len() {
            0 | 1 => String::new(),
            _ => format!(" of channel {}", Channel::One(channel)),
        };
        Some(format!("clipped: {samples} at full scale in {runs}, the first at sample {first}{channel}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_channel_has_its_own_runs() {
        // Channel 2 is at full scale in frames 1 to 5; the mean of both never is.
        let frames: Vec<f32> = (0..8).flat_map(|at| [-0.5, if (1..6).contains(&at) { 1.0 } else { 0.0 }]).collect();
        let found = |channel: Channel, n_at_once: usize| {
            let mut clipping = Clipping::default();
            for (index, part) in frames.chunks(2 * n_at_once).enumerate() {
                clipping.add(channel, (index * n_at_once) as u64, part, 2);
            }
            clipping.note()
        };
        let note = "clipped: 5 samples at full scale in 1 run, the first at sample 1 of channel 2";
        for n_at_once in [1, 2, 3, 8] {
            assert_eq!(found(Channel::Mix, n_at_once).as_deref(), Some(note));
            assert_eq!(found(Channel::One(1), n_at_once).as_deref(), Some(note));
            assert_eq!(found(Channel::One(0), n_at_once), None);
        }
    }

    #[test]
    fn a_run_ends_at_a_quiet_block_and_at_a_seek() {
        let mut clipping = Clipping::default();
        for (first, sample) in [(0, 1.0), (2, 0.0), (4, 1.0), (100, 1.0)] {
            clipping.add(Channel::Mix, first, &[sample; 2], 1);
        }
        assert_eq!(clipping.note(), None);
        clipping.add(Channel::Mix, 102, &[-1.0], 1);
        assert!(clipping.note().unwrap().ends_with("3 samples at full scale in 1 run, the first at sample 100"));
    }
}
