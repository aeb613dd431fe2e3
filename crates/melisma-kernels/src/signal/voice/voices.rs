//! A pool of voices on the CPU.

mod bus;
mod chunk;

use std::ops::Range;

use bus::LONGEST;
use chunk::{Pending, check, chunks};

pub use bus::{Block, Bus};

use super::cpu::{self, Stretch, Sums};
use super::group::{Group, Kind, LANES};
use super::{Control, Segment, UNIT, Voice};
use crate::device::isa::dispatch;
use crate::queue::{CpuQueue, Disjoint};
use crate::{Error, Isa, Queue, Result};

/// Samples of groups that justify waking a thread.
const LEAST_SHARED: usize = if cfg!(test) { 64 } else { 8192 };

/// Voices, in groups of one kind and bus. Nothing allocates after [`Voices::new`] and [`Voices::prepare`].
#[derive(Debug)]
pub struct Voices {
    isa: Isa,
    groups: Vec<Group>,
    /// Sounding groups, in any order.
    active: Vec<u32>,
    buses: Vec<Bus>,
    /// For each helper thread: its share of every bus.
    helpers: Vec<Vec<Bus>>,
}

/// One voice of a pool, until it ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Slot {
    group: u32,
    lane: u32,
    generation: u32,
}

impl Voices {
    /// The most samples in a block.
    pub const LONGEST: usize = LONGEST;

    /// Reserves room for at least `capacity` voices; the pool is larger because each kind and bus
    /// fills its own groups.
    pub fn new(isa: Isa, capacity: usize, n_buses: usize) -> Self {
        const N_KINDS: usize = 4;
        // Built now, not by the first note.
        super::step::table();
        let n_groups = capacity.div_ceil(LANES) + N_KINDS.max(n_buses);
        Self {
            isa,
            groups: vec![Group::new(); n_groups],
            active: Vec::with_capacity(n_groups),
            buses: new_buses(n_buses),
            helpers: Vec::new(),
        }
    }

    /// Returns the number of sounding voices.
    pub fn n_sounding(&self) -> usize {
        self.active.iter().map(|&group| self.groups[group as usize].sounding.count_ones() as usize).sum()
    }

    /// Returns the sum of a bus for the last block.
    pub fn bus(&self, bus: usize) -> &Bus {
        &self.buses[bus]
    }

    /// Returns all sums for the last block.
    pub fn buses(&self) -> &[Bus] {
        &self.buses
    }

    /// Writes the samples of a bus for the last block.
    ///
    /// # Panics
    /// The sides are longer than the block.
    pub fn write(&self, bus: usize, left: &mut [f32], right: &mut [f32]) {
        let Bus { left: left_sums, right: right_sums } = &self.buses[bus];
        for (sums, out) in [(&left_sums[..left.len()], left), (&right_sums[..right.len()], right)] {
            dispatch!(self.isa, samples(sums: &[i64], out: &mut [f32]));
        }
    }

    /// Starts a voice at sample `now`, which no block has rendered yet; returns `None` if all lanes
    /// sound. `control` is that of the tick's end.
    ///
    /// # Errors
    /// A value of `voice` is outside its range.
    pub fn start(&mut self, bus: usize, voice: &Voice, now: u64, control: Control) -> Result<Option<Slot>> {
        voice.check()?;
        let kind = Kind::of(&voice.source);
        let matches = |group: &Group| group.kind == kind && group.bus == bus && group.sounding != u32::from(u16::MAX);
        let found = self.active.iter().copied().find(|&index| matches(&self.groups[index as usize]));
        let index = match found {
            Some(index) => index,
            None => {
                let silent = self.groups.iter().position(|group| group.sounding == 0);
                let Some(silent) = silent else { return Ok(None) };
                let group = &mut self.groups[silent];
                group.take(kind, bus);
                if !self.active.contains(&(silent as u32)) {
                    self.active.push(silent as u32);
                }
                silent as u32
            }
        };
        let group = &mut self.groups[index as usize];
        let lane = group.free_lane().unwrap_or(0);
        group.start(lane, voice, now, control);
        Ok(Some(Slot { group: index, lane: lane as u32, generation: group.generation[lane] }))
    }

    fn find(&mut self, slot: Slot) -> Option<(&mut Group, usize)> {
        let group = self.groups.get_mut(slot.group as usize)?;
        sounds(group, slot).then_some((group, slot.lane as usize))
    }

    /// Returns whether the voice still sounds.
    pub fn is_sounding(&self, slot: Slot) -> bool {
        self.groups.get(slot.group as usize).is_some_and(|group| sounds(group, slot))
    }

    /// Returns whether the voice is fading out or silent.
    pub fn is_ending(&self, slot: Slot) -> bool {
        !self.is_sounding(slot) || self.groups[slot.group as usize].is_releasing(slot.lane as usize)
    }

    /// Returns the current level of the voice.
    pub fn level(&self, slot: Slot) -> f32 {
        if self.is_sounding(slot) { self.groups[slot.group as usize].level.value[slot.lane as usize] } else { 0.0 }
    }

    /// Releases the voice at sample `now`. A voice that has ended is ignored, here and below.
    pub fn release(&mut self, slot: Slot, now: u64) {
        if let Some((group, lane)) = self.find(slot) {
            group.release(lane, now);
        }
    }

    /// Fades the voice out from sample `now` on with `segment`.
    pub fn end(&mut self, slot: Slot, now: u64, segment: Segment) {
        if let Some((group, lane)) = self.find(slot) {
            group.end(lane, now, segment);
        }
    }

    /// Sets new frequencies from sample `now` on, in 2^-64 turns per sample; the second is for a
    /// tone's saw.
    pub fn retune(&mut self, slot: Slot, increments: [u64; 2], now: u64) {
        if let Some((group, lane)) = self.find(slot)
            && matches!(group.kind, Kind::Tone | Kind::Partials)
        {
            group.retune(lane, increments, now);
        }
    }

    /// Renders a block into the buses. Blocks must follow each other without gaps.
    ///
    /// # Panics
    /// The block is longer than [`Voices::LONGEST`] or has too few controls.
    pub fn render(&mut self, block: Block<'_>) {
        (0..self.buses.len()).for_each(|bus| self.render_bus(bus, block));
    }

    /// Renders a block into one bus only; every bus must get every block.
    ///
    /// # Panics
    /// As [`Voices::render`].
    pub fn render_bus(&mut self, bus: usize, block: Block<'_>) {
        self.render_by(bus, block, cpu::render);
    }

    /// Works like [`Voices::render`] with the same bits, but one voice at a time: the baseline for
    /// batching.
    pub fn render_singly(&mut self, block: Block<'_>) {
        (0..self.buses.len()).for_each(|bus| self.render_by(bus, block, cpu::render_singly));
    }

    fn render_by(&mut self, bus: usize, block: Block<'_>, render: fn(Isa, &mut Group, Stretch<'_>, &mut Sums)) {
        check(block);
        let Self { isa, groups, active, buses, .. } = self;
        let sums = &mut Sums::new();
        let out = &mut buses[bus];
        out.clear(block.len);
        for chunk in chunks(block) {
            let mut pending = Pending::new(*isa, chunk, sums, out);
            for &index in active.iter() {
                let group = &mut groups[index as usize];
                if group.bus == bus {
                    pending.add(|sums| render(*isa, group, chunk.stretch, sums));
                }
            }
            pending.flush();
        }
        active.retain(|&index| groups[index as usize].sounding != 0);
    }

    /// Returns whether a voice sounds on a bus.
    pub fn has_sound(&self, bus: usize) -> bool {
        self.active.iter().any(|&index| self.groups[index as usize].bus == bus)
    }

    /// Allocates what the threads of a CPU queue need; otherwise the first call with the queue
    /// does. Does nothing for other devices.
    pub fn prepare(&mut self, queue: &Queue) {
        if let Queue::Cpu(queue) = queue {
            let n_buses = self.buses.len();
            let n_helpers = self.helpers.len().max(queue.cpu().threads);
            self.helpers.resize_with(n_helpers, || new_buses(n_buses));
        }
    }

    /// Works like [`Voices::render`] with the same bits, on all threads of a CPU queue.
    ///
    /// # Errors
    /// The queue belongs to a different device.
    pub fn render_on(&mut self, queue: &Queue, block: Block<'_>) -> Result<()> {
        self.share(queue, 0..self.buses.len(), block)
    }

    /// Works like [`Voices::render_bus`] with the same bits, on all threads of a CPU queue.
    ///
    /// # Errors
    /// The queue belongs to a different device.
    pub fn render_bus_on(&mut self, queue: &Queue, bus: usize, block: Block<'_>) -> Result<()> {
        self.share(queue, bus..bus + 1, block)
    }

    fn share(&mut self, queue: &Queue, buses: Range<usize>, block: Block<'_>) -> Result<()> {
        self.prepare(queue);
        let Queue::Cpu(queue) = queue else {
            return Err(Error::invalid("voice: the pool is the CPU's, the queue is not"));
        };
        check(block);
        let n_groups = self.active.iter().filter(|&&index| buses.contains(&self.groups[index as usize].bus)).count();
        let n_parts = queue.cpu().threads.min(n_groups).min(n_groups * block.len / LEAST_SHARED);
        if n_parts <= 1 {
            buses.for_each(|bus| self.render_bus(bus, block));
            return Ok(());
        }
        self.fork(queue, buses, block, n_parts);
        let Self { active, groups, .. } = self;
        active.retain(|&index| groups[index as usize].sounding != 0);
        Ok(())
    }

    fn fork(&mut self, queue: &CpuQueue, wanted: Range<usize>, block: Block<'_>, n_parts: usize) {
        self.buses[wanted.clone()].iter_mut().for_each(|bus| bus.clear(block.len));
        let isa = self.isa;
        let groups = Disjoint::new(&mut self.groups);
        let helpers = Disjoint::new(&mut self.helpers);
        let active = &self.active;
        queue.run(n_parts, |part| {
            // SAFETY: each part has its own helper.
            let buses = unsafe { helpers.get(part) };
            let sums = &mut Sums::new();
            buses[wanted.clone()].iter_mut().for_each(|bus| bus.clear(block.len));
            for chunk in chunks(block) {
                for bus_index in wanted.clone() {
                    let mut pending = Pending::new(isa, chunk, sums, &mut buses[bus_index]);
                    for &index in active.iter().skip(part).step_by(n_parts) {
                        // SAFETY: a group belongs to one part, and `active` lists it once.
                        let group = unsafe { groups.get(index as usize) };
                        if group.bus == bus_index {
                            pending.add(|sums| cpu::render(isa, group, chunk.stretch, sums));
                        }
                    }
                    pending.flush();
                }
            }
        });
        for helper in &self.helpers[..n_parts] {
            let pairs = self.buses[wanted.clone()].iter_mut().zip(&helper[wanted.clone()]);
            pairs.for_each(|(bus, part)| bus.add(part));
        }
    }

    /// Ends all voices at once.
    pub fn clear(&mut self) {
        for &index in &self.active {
            self.groups[index as usize].clear();
        }
        self.active.clear();
    }
}

/// Returns whether the voice of `slot` is still the one that sounds in its lane of `group`.
fn sounds(group: &Group, slot: Slot) -> bool {
    group.generation[slot.lane as usize] == slot.generation && group.sounding >> slot.lane & 1 == 1
}

/// Creates buses one by one, because a clone would lose the capacity.
fn new_buses(n_buses: usize) -> Vec<Bus> {
    (0..n_buses).map(|_| Bus::new()).collect()
}

#[inline(always)]
fn samples(sums: &[i64], out: &mut [f32]) {
    sums.iter().zip(out).for_each(|(&sum, out)| *out = sum as f32 * (1.0 / UNIT));
}

#[cfg(test)]
impl Voices {
    /// Moves all voices on to sample `now`, a multiple of [`TICK`]; their oscillators keep time.
    pub(super) fn jump(&mut self, now: u64) {
        for &index in &self.active {
            self.groups[index as usize].jump(now);
        }
    }
}
