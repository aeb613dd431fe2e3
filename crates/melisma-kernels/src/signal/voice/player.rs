//! Bulk rendering on the CPU: each thread plays its mixes one after the other.

use super::note::{Bulk, ControlChanges, Note};
use super::{Block, Slot, TICK, UNIT, Voices};
use crate::Cpu;

/// One thread's share of the mixes.
#[derive(Debug)]
pub(super) struct Player {
    voices: Voices,
    /// (mix, first note, number of notes), and the place of its samples.
    pub(super) mixes: Vec<[usize; 3]>,
    events: Vec<(u64, usize, bool)>,
    slots: Vec<Option<Slot>>,
    pub(super) out: Vec<f32>,
}

/// Distributes the mixes over players, one per thread.
pub(super) fn share(players: &mut Vec<Player>, notes: &[Note], bulk: Bulk, cpu: Cpu) {
    let largest = notes.chunk_by(|a, b| a.mix == b.mix).map(<[Note]>::len).max().unwrap_or(0);
    players.clear();
    players.extend((0..cpu.threads.max(1)).map(|_| Player {
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

const N_CONTROLS: usize = Voices::LONGEST / TICK + 1;

impl Player {
    pub(super) fn render(&mut self, bulk: Bulk, notes: &[Note], moves: &ControlChanges) {
        let still = [moves.controls[0]; N_CONTROLS];
        for place in 0..self.mixes.len() {
            let [mix, first, n_notes] = self.mixes[place];
            let notes = &notes[first..first + n_notes];
            let controls = moves.of(mix);
            self.plan(notes);
            let (mut now, end) = (bulk.position, bulk.position + bulk.len as u64);
            let mut n_done = 0;
            while now < end {
                let tick = ((now - bulk.position) / TICK as u64) as usize;
                let is_inside = !now.is_multiple_of(TICK as u64);
                let control = controls[(tick + usize::from(is_inside)).min(controls.len() - 1)];
                while n_done < self.events.len() && self.events[n_done].0 == now {
                    let (_, index, is_release) = self.events[n_done];
                    match (is_release, self.slots[index]) {
                        // `load` checked the values, and the pool has room for all voices.
                        (false, _) => {
                            self.slots[index] = self.voices.start(0, &notes[index].voice, now, control).ok().flatten()
                        }
                        (true, Some(slot)) => self.voices.release(slot, now),
                        (true, None) => {}
                    }
                    n_done += 1;
                }
                let next = self.events.get(n_done).map_or(end, |event| event.0.min(end));
                let len = (next.min(now + Voices::LONGEST as u64) - now) as usize;
                let controls = if controls.len() == 1 { &still } else { &controls[1 + tick..] };
                self.voices.render(Block { position: now, len, controls });
                let bus = self.voices.bus(0);
                let at = 2 * (place * bulk.len + (now - bulk.position) as usize);
                for (frame, (&left, &right)) in self.out[at..].chunks_exact_mut(2).zip(bus.left.iter().zip(&bus.right))
                {
                    frame.copy_from_slice(&[left as f32 * (1.0 / UNIT), right as f32 * (1.0 / UNIT)]);
                }
                now += len as u64;
            }
        }
    }

    /// Sorts onsets and releases.
    fn plan(&mut self, notes: &[Note]) {
        self.events.clear();
        for (index, note) in notes.iter().enumerate() {
            self.events.push((note.onset, index, false));
            self.events.extend(note.release.map(|release| (release.max(note.onset), index, true)));
        }
        self.events.sort_unstable_by_key(|&(at, index, is_release)| (at, is_release, index));
        self.slots.clear();
        self.slots.resize(notes.len(), None);
        self.voices.clear();
    }
}
