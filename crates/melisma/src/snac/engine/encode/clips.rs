//! Clips in a batch: each takes a slot, joins between two steps and leaves after its last code.

use std::cmp::Reverse;

use melisma_kernels::Device;

use super::super::core::CLIP_FRAMES;
use super::super::ring::Ticket;
use super::super::slots::Position;
use super::EncodeEngine;
use super::open_stream::OpenStream;
use crate::Result;
use crate::snac::codes::Codes;

/// A clip that is being encoded.
struct Clip<'a> {
    /// Its place in the caller's list.
    index: usize,
    slot: usize,
    position: Position,
    /// Samples that are still to be read.
    rest: &'a [f32],
    /// Latents of the padded clip.
    end: i64,
    /// Frames until its last code.
    n_left: usize,
}

/// A step on its way, and the clips of its rows.
struct Pending {
    ticket: Ticket,
    indices: Vec<usize>,
}

impl EncodeEngine {
    /// Encodes a whole clip.
    ///
    /// # Errors
    /// `InvalidArgument` when a sample is not finite; otherwise the device failed.
    pub fn encode(&mut self, samples: &[f32]) -> Result<Codes> {
        OpenStream::default().check(samples)?;
        let spare = self.core.batch.capacity.spare();
        Ok(self.encode_in(vec![spare], &[samples])?.remove(0))
    }

    /// Encodes clips of any lengths in one batch: clips join and leave between steps. Gives their codes in the order
    /// of the clips.
    ///
    /// On a GPU they share the steps, in slots that have no stream; on the CPU, where a step of one clip uses all threads,
    /// they follow one another.
    ///
    /// # Errors
    /// `InvalidArgument` when a sample is not finite (the message names the clip); otherwise the device failed.
    pub fn encode_batch(&mut self, clips: &[&[f32]]) -> Result<Vec<Codes>> {
        for (index, clip) in clips.iter().enumerate() {
            OpenStream::default().check(clip).map_err(|error| error.at(format_args!("clip {index}")))?;
        }
        let spare = self.core.batch.capacity.spare();
        let mut slots: Vec<usize> = match self.core.batch.queue.device() {
            Device::Cpu(_) => Vec::new(),
            Device::Cuda(_) => self.core.streams.free().collect(),
        };
        if slots.is_empty() {
            slots.push(spare);
        }
        self.encode_in(slots, clips)
    }

    /// Encodes checked clips, the longest first, with at most one in each of `slots`.
    fn encode_in(&mut self, mut slots: Vec<usize>, clips: &[&[f32]]) -> Result<Vec<Codes>> {
        let mut codes = vec![Vec::new(); clips.len()];
        let mut order: Vec<usize> = (0..clips.len()).filter(|&index| !clips[index].is_empty()).collect();
        order.sort_by_key(|&index| Reverse(clips[index].len()));
        let mut waiting = order.into_iter();
        let mut live: Vec<Clip<'_>> = Vec::new();
        let mut before: Option<Pending> = None;
        loop {
            while let Some(slot) = slots.pop() {
                let Some(index) = waiting.next() else { break };
                self.core.batch.clear(slot)?;
                live.push(self.clip(index, slot, clips[index]));
            }
            let now = if live.is_empty() { None } else { Some(self.step_clips(&mut live)?) };
            if let Some(Pending { ticket, indices }) = before.take() {
                let collected = self.core.batch.ring.collect(ticket)?;
                for (row, index) in indices.into_iter().enumerate() {
                    codes[index].extend_from_slice(collected.of(row));
                }
            }
            if now.is_none() {
                break;
            }
            before = now;
            live.retain(|clip| {
                if clip.n_left == 0 {
                    slots.push(clip.slot);
                }
                clip.n_left > 0
            });
        }
        Ok(codes.into_iter().map(|codes| Codes::valid(&self.core.config, codes)).collect())
    }

    fn clip<'a>(&self, index: usize, slot: usize, samples: &'a [f32]) -> Clip<'a> {
        let end = self.end(samples.len());
        let n_left = self.frames_left(0, end);
        Clip { index, slot, position: Position::default(), rest: samples, end, n_left }
    }

    /// Starts a step of all `clips`. It is not longer than the shortest of them needs, unless that is less than a clip's
    /// usual step.
    fn step_clips(&mut self, clips: &mut [Clip<'_>]) -> Result<Pending> {
        let left = || clips.iter().map(|clip| clip.n_left);
        let most = left().max().unwrap_or(0).min(self.core.batch.capacity.n_frames / clips.len());
        let n_frames = left().min().unwrap_or(0).max(CLIP_FRAMES).min(most);
        let (len, n_latents) = (n_frames * self.frame_len(), n_frames * self.core.config.frame_latents());
        self.core.rows.clear();
        self.core.rows.extend(clips.iter().map(|clip| clip.position.row(clip.slot, clip.end)));
        let zeros = &self.zeros;
        self.core.batch.set_input(clips.iter().flat_map(|clip| padded(clip.rest, len, zeros)))?;
        let ticket = self.core.run(n_latents, &())?;
        for clip in clips.iter_mut() {
            clip.position.advance(n_latents);
            clip.rest = &clip.rest[clip.rest.len().min(len)..];
            clip.n_left -= clip.n_left.min(n_frames);
        }
        Ok(Pending { ticket, indices: clips.iter().map(|clip| clip.index).collect() })
    }
}

/// Returns the first `len` of `samples`, and zeros where there are fewer.
pub(super) fn padded<'a>(samples: &'a [f32], len: usize, zeros: &'a [f32]) -> impl Iterator<Item = &'a [f32]> {
    let samples = &samples[..samples.len().min(len)];
    let missing = std::iter::successors(Some(len - samples.len()), move |&missing| missing.checked_sub(zeros.len()));
    std::iter::once(samples).chain(missing.map(move |missing| &zeros[..missing.min(zeros.len())]))
}
