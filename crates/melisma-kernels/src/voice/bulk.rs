//! Many mixes of many notes at once, all known beforehand: for whole phrases and datasets, on every device.

use super::cuda::OnCuda;
use super::group::Kind;
use super::{Block, Control, TICK, UNIT, Voice, Voices};
use crate::queue::kernel_span;
use crate::view::check_len;
use crate::{Budget, Cpu, Device, Error, Queue, Result, ViewMut};

/// A voice with its life, in one of the mixes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Note {
    /// What it is.
    pub voice: Voice,
    /// Where it is heard.
    pub mix: u32,
    /// Its first sample.
    pub onset: u64,
    /// Where it is released, if it is.
    pub release: Option<u64>,
}

/// What is rendered: `len` samples of each of `n_mixes`, from sample `position`, a multiple of [`TICK`] that no note is
/// before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bulk {
    /// Mixes.
    pub n_mixes: usize,
    /// Samples of each.
    pub len: usize,
    /// The first sample's number.
    pub position: u64,
}

/// Notes of the largest level that one mix may have on a GPU: their sum fits into 32 bits.
const MOST_GAIN: f32 = 32.0;

/// Notes as a GPU's lanes take them.
pub(super) struct Arrangement<'a> {
    pub(super) notes: &'a [Note],
    /// A note's index for each lane, in groups of one mix and warps of one kind.
    pub(super) lanes: &'a [u32],
    pub(super) group: u32,
    pub(super) is_alone: bool,
    pub(super) control: Control,
}

/// A plan for one device. Notes are loaded, then run as often as wanted.
#[derive(Debug)]
pub struct Plan {
    bulk: Bulk,
    notes: Vec<Note>,
    lanes: Vec<u32>,
    control: Control,
    on: On,
}

#[derive(Debug)]
enum On {
    Cpu(Vec<Player>),
    Cuda(Box<OnCuda>),
}

/// One thread's share of the mixes.
#[derive(Debug)]
struct Player {
    cpu: Cpu,
    voices: Voices,
    /// (mix, first note, notes), and where its samples are.
    mixes: Vec<[usize; 3]>,
    events: Vec<(u64, usize, bool)>,
    slots: Vec<Option<super::Slot>>,
    out: Vec<f32>,
}

impl Bulk {
    /// Floats of the output: `[n_mixes, len, 2]`.
    pub fn out_len(&self) -> usize {
        2 * self.n_mixes * self.len
    }

    /// Plans it.
    ///
    /// # Errors
    /// A size is too large, or the device cannot compile the kernel.
    pub fn plan(self, device: &Device, budget: &Budget) -> Result<Plan> {
        let fits = self.n_mixes.checked_mul(self.len).is_some_and(|n| n < 1 << 40) && self.len < 1 << 31;
        if !fits || !self.position.is_multiple_of(TICK as u64) {
            let Self { n_mixes, len, position } = self;
            return Err(Error::invalid(format!("voice: {n_mixes} mixes of {len} samples from {position} on"))
                .with_hint("begin at a multiple of 32 and render in shorter parts"));
        }
        let on = match device {
            Device::Cpu(_) => On::Cpu(Vec::new()),
            Device::Cuda(cuda) => On::Cuda(Box::new(OnCuda::new(cuda, budget)?)),
        };
        Ok(Plan { bulk: self, notes: Vec::new(), lanes: Vec::new(), control: Control::default(), on })
    }
}

impl Plan {
    /// Takes these notes for the runs that follow. Memory grows to the largest set.
    ///
    /// # Errors
    /// A figure is outside of its range, or memory is short.
    pub fn load(&mut self, queue: &Queue, notes: &[Note], control: Control) -> Result<()> {
        for note in notes {
            note.voice.check()?;
            if note.mix as usize >= self.bulk.n_mixes || note.onset < self.bulk.position {
                let (mix, onset) = (note.mix, note.onset);
                return Err(Error::invalid(format!("voice: a note of mix {mix} at sample {onset}")));
            }
        }
        self.notes.clear();
        self.notes.extend_from_slice(notes);
        let kind = |note: &Note| Kind::of(&note.voice.source) as u32;
        self.control = control;
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
                let arranged = Arrangement { notes: &self.notes, lanes: &self.lanes, group, is_alone, control };
                on.load(queue, self.bulk, &arranged)
            }
            _ => Err(other_device()),
        }
    }

    /// Renders into `out`, `[n_mixes, len, 2]` floats.
    ///
    /// # Errors
    /// `out` has another length or place, or the device fails.
    pub fn run(&mut self, queue: &Queue, out: ViewMut<'_, f32>) -> Result<()> {
        check_len("voice: output", out.len(), self.bulk.out_len())?;
        let _span = kernel_span!(queue, "voice", [self.notes.len(), self.bulk.len], out.len() * size_of::<f32>());
        match (&mut self.on, queue) {
            (On::Cpu(players), Queue::Cpu(_)) => {
                let (bulk, notes, control) = (self.bulk, &self.notes, self.control);
                queue.each(players, |player| player.render(bulk, notes, control));
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

fn check_gains(notes: &[Note], n_mixes: usize) -> Result<()> {
    let mut gains = vec![0.0; n_mixes];
    for note in notes {
        let gain: &mut f32 = &mut gains[note.mix as usize];
        *gain += note.voice.gain[0].max(note.voice.gain[1]);
        if *gain > MOST_GAIN {
            return Err(Error::invalid(format!(
                "voice: the gains of mix {} add up to more than {MOST_GAIN}",
                note.mix
            ))
            .with_hint("spread its notes over several mixes"));
        }
    }
    Ok(())
}

/// Fills lanes with notes sorted by kind and mix; the group's size, and whether every mix is one group.
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

/// Gives the mixes to players, one for each thread.
fn share(players: &mut Vec<Player>, notes: &[Note], bulk: Bulk, cpu: Cpu) {
    let largest = notes.chunk_by(|a, b| a.mix == b.mix).map(<[Note]>::len).max().unwrap_or(0);
    players.clear();
    players.extend((0..cpu.threads.max(1)).map(|_| Player {
        cpu,
        voices: Voices::new(cpu.isa, largest, 1),
        mixes: Vec::new(),
        events: Vec::with_capacity(2 * largest),
        slots: Vec::with_capacity(largest),
        out: Vec::new(),
    }));
    let mut first = 0;
    for (index, run) in notes.chunk_by(|a, b| a.mix == b.mix).enumerate() {
        let player = index % players.len();
        players[player].mixes.push([run[0].mix as usize, first, run.len()]);
        first += run.len();
    }
    for player in players {
        player.out.resize(player.mixes.len() * 2 * bulk.len, 0.0);
    }
}

impl Player {
    fn render(&mut self, bulk: Bulk, notes: &[Note], control: Control) {
        const N_CONTROLS: usize = Voices::LONGEST / TICK + 1;
        let controls = [control; N_CONTROLS];
        debug_assert!(self.cpu.threads > 0);
        for (place, &[_, first, n_notes]) in self.mixes.iter().enumerate() {
            let notes = &notes[first..first + n_notes];
            self.events.clear();
            for (index, note) in notes.iter().enumerate() {
                self.events.push((note.onset, index, false));
                self.events.extend(note.release.map(|release| (release.max(note.onset), index, true)));
            }
            self.events.sort_unstable_by_key(|&(at, index, is_release)| (at, is_release, index));
            self.slots.clear();
            self.slots.resize(notes.len(), None);
            self.voices.clear();
            let out = &mut self.out[2 * place * bulk.len..][..2 * bulk.len];
            let (mut now, end) = (bulk.position, bulk.position + bulk.len as u64);
            let mut events = self.events.iter().peekable();
            while now < end {
                while let Some(&(_, index, is_release)) = events.next_if(|event| event.0 == now) {
                    match (is_release, self.slots[index]) {
                        // `load` checked the figures, and the pool has room for all.
                        (false, _) => {
                            self.slots[index] = self.voices.start(0, &notes[index].voice, now, control).ok().flatten()
                        }
                        (true, Some(slot)) => self.voices.release(slot, now),
                        (true, None) => {}
                    }
                }
                let next = events.peek().map_or(end, |event| event.0.min(end)).min(now + Voices::LONGEST as u64);
                let len = (next - now) as usize;
                self.voices.render(Block { position: now, len, controls: &controls });
                let bus = self.voices.bus(0);
                let at = 2 * (now - bulk.position) as usize;
                for (frame, (&left, &right)) in out[at..].chunks_exact_mut(2).zip(bus.left.iter().zip(&bus.right)) {
                    frame.copy_from_slice(&[left as f32 * (1.0 / UNIT), right as f32 * (1.0 / UNIT)]);
                }
                now = next;
            }
        }
    }
}
