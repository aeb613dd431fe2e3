//! Renders many mixes of many notes at once, all known in advance: for whole phrases and datasets,
//! on every device.

use super::cuda::OnCuda;
use super::group::Kind;
use super::note::{Arrangement, Bulk, ControlChanges, Controls, Note};
use super::player::{Player, share};
use super::{Control, TICK};
use crate::memory::view::check_len;
use crate::queue::kernel_span;
use crate::{Budget, Device, Error, Queue, Result, ViewMut};

/// The most notes at full level that one mix may have at once on a GPU: their sum fits 32 bits.
const MAX_GAIN: f64 = 32.0;

/// A plan for one device. Notes are loaded once and can be run repeatedly.
#[derive(Debug)]
pub struct Plan {
    bulk: Bulk,
    notes: Vec<Note>,
    lanes: Vec<u32>,
    moves: ControlChanges,
    on: On,
}

#[derive(Debug)]
enum On {
    Cpu(Vec<Player>),
    Cuda(Box<OnCuda>),
}

impl Bulk {
    /// Returns the number of floats of the output: `[n_mixes, len, 2]`.
    pub fn out_len(&self) -> usize {
        2 * self.n_mixes * self.len
    }

    /// Plans the rendering.
    ///
    /// # Errors
    /// A size is too large, or the device cannot compile the kernel.
    pub fn plan(self, device: &Device, budget: &Budget) -> Result<Plan> {
        let fits = self.n_mixes < 1 << 31
            && self.len < 1 << 31
            && self.n_mixes.checked_mul(self.len).is_some_and(|n| n < 1 << 40);
        if !fits || !self.position.is_multiple_of(TICK as u64) {
            let Self { n_mixes, len, position } = self;
            return Err(Error::invalid(format!("voice: bad range: {n_mixes} mixes of {len} samples from {position}"))
                .with_hint("begin at a multiple of 32 and render in shorter parts"));
        }
        let on = match device {
            Device::Cpu(_) => On::Cpu(Vec::new()),
            Device::Cuda(cuda) => On::Cuda(Box::new(OnCuda::new(cuda, budget)?)),
        };
        let moves = ControlChanges { controls: vec![Control::default()], per_mix: 1 };
        Ok(Plan { bulk: self, notes: Vec::new(), lanes: Vec::new(), moves, on })
    }
}

impl Plan {
    /// Loads these notes for the following runs. Memory grows to the largest set.
    ///
    /// # Errors
    /// A value is outside its range, or there is not enough memory.
    pub fn load(&mut self, queue: &Queue, notes: &[Note], controls: Controls<'_>) -> Result<()> {
        for note in notes {
            note.voice.check()?;
            if note.mix as usize >= self.bulk.n_mixes || note.onset < self.bulk.position {
                let (mix, onset) = (note.mix, note.onset);
                return Err(Error::invalid(format!("voice: bad note of mix {mix} at sample {onset}")));
            }
        }
        self.notes.clear();
        self.notes.extend_from_slice(notes);
        let kind = |note: &Note| Kind::of(&note.voice.source) as u32;
        self.moves.load(controls, self.bulk)?;
        match (&mut self.on, queue) {
            (On::Cpu(players), Queue::Cpu(queue)) => {
                self.notes.sort_by_key(|note| note.mix);
                share(players, &self.notes, self.bulk, queue.cpu());
                Ok(())
            }
            (On::Cuda(on), Queue::Cuda(queue)) => {
                self.notes.sort_by_key(|note| (kind(note), note.mix, note.onset));
                check_gains(&self.notes, self.bulk.n_mixes)?;
                let (group, is_alone) = arrange(&self.notes, &mut self.lanes, self.bulk.n_mixes);
                let arranged =
                    Arrangement { notes: &self.notes, lanes: &self.lanes, group, is_alone, moves: &self.moves };
                on.load(queue, self.bulk, &arranged)
            }
            _ => Err(other_device()),
        }
    }

    /// Renders into `out`, `[n_mixes, len, 2]` floats.
    ///
    /// # Errors
    /// `out` has the wrong length or place, or the device fails.
    pub fn run(&mut self, queue: &Queue, out: ViewMut<'_, f32>) -> Result<()> {
        check_len("voice: output", out.len(), self.bulk.out_len())?;
        let _span = kernel_span!(queue, "voice", [self.notes.len(), self.bulk.len], out.len() * size_of::<f32>());
        match (&mut self.on, queue) {
            (On::Cpu(players), Queue::Cpu(_)) => {
                let (bulk, notes, moves) = (self.bulk, &self.notes, &self.moves);
                queue.each(players, |player| player.render(bulk, notes, moves));
                let out = out.host()?;
                out.fill(0.0);
                for player in players {
                    for (&[mix, ..], samples) in player.mixes.iter().zip(player.out.chunks_exact((2 * bulk.len).max(1)))
                    {
                        out[2 * mix * bulk.len..][..2 * bulk.len].copy_from_slice(samples);
                    }
                }
                Ok(())
            }
            (On::Cuda(on), Queue::Cuda(queue)) => on.run(queue, self.bulk, out.cuda()?),
            _ => Err(other_device()),
        }
    }
}

fn other_device() -> Error {
    Error::invalid("voice: the queue is of another device than the plan")
}

/// Rejects mixes whose voices could add up to more than fits on a GPU. Most mixes pass whenever
/// their notes sound; for the others, the notes that sound together are counted.
///
/// # Errors
/// `Unsupported` names the mix and the sample.
pub fn check_gains(notes: &[Note], n_mixes: usize) -> Result<()> {
    let gain = |note: &Note| f64::from(note.voice.gain[0].max(note.voice.gain[1]));
    let mut gains = vec![0.0; n_mixes];
    notes.iter().for_each(|note| gains[note.mix as usize] += gain(note));
    let loud = notes.iter().filter(|note| gains[note.mix as usize] > MAX_GAIN);
    let mut changes: Vec<(u32, u64, f64)> =
        loud.flat_map(|note| [(note.mix, note.onset, gain(note)), (note.mix, note.end(), -gain(note))]).collect();
    // At the same sample, ends are sorted before starts.
    changes.sort_by(|a, b| (a.0, a.1).cmp(&(b.0, b.1)).then(a.2.total_cmp(&b.2)));
    for mix in changes.chunk_by(|a, b| a.0 == b.0) {
        let mut sum = 0.0;
        for &(mix, at, change) in mix {
            sum += change;
            if sum > MAX_GAIN {
                return Err(Error::unsupported(format!(
                    "voice: the gains of mix {mix} at sample {at} add up to more than {MAX_GAIN} on a GPU"
                ))
                .with_hint("spread its notes over several mixes, or use the CPU"));
            }
        }
    }
    Ok(())
}

/// Fills lanes with notes sorted by kind and mix; returns the group size and whether every mix is
/// one group.
fn arrange(notes: &[Note], lanes: &mut Vec<u32>, n_mixes: usize) -> (u32, bool) {
    const EMPTY: u32 = u32::MAX;
    const WARP: usize = 32;
    lanes.clear();
    let same = |a: &Note, b: &Note| Kind::of(&a.voice.source) == Kind::of(&b.voice.source) && a.mix == b.mix;
    let most = notes.chunk_by(same).map(<[Note]>::len).max().unwrap_or(0);
    let group = most.next_power_of_two().clamp(8, WARP);
    let (mut n_groups, mut index, mut last_kind) = (0, 0, None);
    for run in notes.chunk_by(same) {
        let kind = Kind::of(&run[0].voice.source);
        if last_kind.is_some_and(|last| last != kind) {
            lanes.resize(lanes.len().next_multiple_of(WARP), EMPTY);
        }
        last_kind = Some(kind);
        lanes.extend(index..index + run.len() as u32);
        index += run.len() as u32;
        lanes.resize(lanes.len().next_multiple_of(group), EMPTY);
        n_groups += run.len().div_ceil(group);
    }
    lanes.resize(lanes.len().next_multiple_of(WARP), EMPTY);
    let n_runs = notes.chunk_by(same).count();
    (group as u32, n_groups == n_mixes && n_runs == n_mixes)
}

#[cfg(test)]
impl Plan {
    /// Sets from how many lanes on a GPU gives each voice a thread of its own.
    pub(super) fn set_serial_lanes(&mut self, lanes: usize) {
        if let On::Cuda(on) = &mut self.on {
            on.serial_lanes = lanes;
        }
    }
}
