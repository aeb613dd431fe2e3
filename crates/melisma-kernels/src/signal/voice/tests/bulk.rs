//! Bulk rendering, the same cases on every device.

use super::super::reference::{Life, render as reference};
use super::super::{Block, Bulk, Control, Controls, Note, Plan, TICK, UNIT, Voices};
use super::voice;
use crate::random::SplitMix64;
use crate::suite::{Bench, suite};
use crate::{DType, Graph, Isa, Queue, Tensor};

suite!(
    is_the_sum_of_its_notes,
    has_the_same_bits_in_any_batch,
    has_the_same_bits_with_a_thread_per_voice,
    has_the_same_bits_from_a_graph,
    without_notes_is_silent,
    follows_its_controls,
    refuses
);

/// Returns notes of all kinds in `n_mixes` mixes.
fn notes(n_notes: usize, n_mixes: u32, seed: u64) -> Vec<Note> {
    let mut random = SplitMix64::new(seed);
    let note = |index: usize| {
        let onset = 64 + random.bits() % 1500;
        let release = random.bits().is_multiple_of(2).then(|| onset + random.bits() % 3000);
        Note { voice: voice(index / n_mixes as usize, &mut random), mix: index as u32 % n_mixes, onset, release }
    };
    (0..n_notes).map(note).collect()
}

fn run_bulk(bench: &Bench, bulk: Bulk, notes: &[Note]) -> Vec<f32> {
    let mut plan = bulk.plan(&bench.device, &bench.budget).unwrap();
    let mut out = Tensor::new(&bench.device, &bench.budget, DType::F32, &[bulk.n_mixes, bulk.len, 2]).unwrap();
    plan.load(&bench.queue, notes, Controls::Still(Control::default())).unwrap();
    plan.run(&bench.queue, out.view_mut().unwrap()).unwrap();
    let first = out.to_vec::<f32>(&bench.queue).unwrap();
    plan.run(&bench.queue, out.view_mut().unwrap()).unwrap();
    assert!(out.to_vec::<f32>(&bench.queue).unwrap() == first, "a second run differs");
    first
}

/// Within -100 dBFS of the reference on every device.
fn is_the_sum_of_its_notes(bench: &Bench) {
    let bulk = Bulk { n_mixes: 3, len: 4321, position: 64 };
    let notes = notes(40, 3, 5);
    let found = run_bulk(bench, bulk, &notes);
    let mut expected = vec![0.0; bulk.out_len()];
    for note in &notes {
        let life = Life { onset: note.onset, release: note.release, control: Control::default() };
        let sides = reference(&note.voice, life, bulk.len + 64);
        for (channel, side) in sides.iter().enumerate() {
            for (index, sample) in side[64..].iter().enumerate() {
                expected[2 * (note.mix as usize * bulk.len + index) + channel] += sample;
            }
        }
    }
    let peak = found.iter().zip(&expected).map(|(&a, b)| (f64::from(a) - b).abs()).fold(0.0, f64::max);
    assert!(20.0 * peak.log10() < -100.0, "{:.1} dBFS", 20.0 * peak.log10());
}

/// A mix does not depend on the other mixes or on their number.
fn has_the_same_bits_in_any_batch(bench: &Bench) {
    let bulk = Bulk { n_mixes: 1, len: 2100, position: 0 };
    let mut notes = notes(9, 1, 6);
    let alone = run_bulk(bench, bulk, &notes);
    assert!(alone.iter().any(|&sample| sample != 0.0));
    for note in notes.clone() {
        notes.extend((1..5).map(|mix| Note { mix, ..note }));
    }
    notes.extend(self::notes(70, 1, 7).into_iter().map(|note| Note { mix: 5, ..note }));
    let many = run_bulk(bench, Bulk { n_mixes: 7, ..bulk }, &notes);
    for mix in 0..5 {
        assert!(many[mix * alone.len()..][..alone.len()] == alone, "mix {mix}");
    }
    assert!(many[6 * alone.len()..].iter().all(|&sample| sample == 0.0));
    // One group for each mix is written without sums in memory.
    let plucks: Vec<Note> = (0..4).map(|mix| Note { mix, ..notes[1] }).collect();
    let together = run_bulk(bench, Bulk { n_mixes: 4, ..bulk }, &plucks);
    let single = run_bulk(bench, Bulk { n_mixes: 2, ..bulk }, &plucks[..1]);
    assert!(together[..alone.len()] == single[..alone.len()] && together[3 * alone.len()..] == single[..alone.len()]);
}

/// Compares both paths of a GPU; other devices have only one.
fn has_the_same_bits_with_a_thread_per_voice(bench: &Bench) {
    let bulk = Bulk { n_mixes: 3, len: 3000, position: 32 };
    let notes = notes(45, 3, 8);
    let mut found = Vec::new();
    for lanes in [usize::MAX, 0] {
        let mut plan = bulk.plan(&bench.device, &bench.budget).unwrap();
        plan.set_serial_lanes(lanes);
        let mut out = Tensor::new(&bench.device, &bench.budget, DType::F32, &[bulk.out_len()]).unwrap();
        plan.load(&bench.queue, &notes, Controls::Still(Control::default())).unwrap();
        plan.run(&bench.queue, out.view_mut().unwrap()).unwrap();
        found.push(out.to_vec::<f32>(&bench.queue).unwrap());
    }
    assert!(found[0] == found[1] && found[0].iter().any(|&sample| sample != 0.0));
}

fn has_the_same_bits_from_a_graph(bench: &Bench) {
    let bulk = Bulk { n_mixes: 2, len: 1500, position: 0 };
    let notes: Vec<Note> = notes(12, 2, 9);
    let expected = run_bulk(bench, bulk, &notes);
    let mut plan = bulk.plan(&bench.device, &bench.budget).unwrap();
    plan.load(&bench.queue, &notes, Controls::Still(Control::default())).unwrap();
    let out = Tensor::new(&bench.device, &bench.budget, DType::F32, &[bulk.out_len()]).unwrap();
    let work = |queue: &Queue, (plan, out): &mut (Plan, Tensor)| plan.run(queue, out.view_mut()?);
    let mut graph = Graph::capture(&bench.queue, (plan, out), work).unwrap();
    (0..2).for_each(|_| graph.launch(&bench.queue).unwrap());
    assert!(graph.state().1.to_vec::<f32>(&bench.queue).unwrap() == expected);
}

/// Moving controls, against a pool of CPU voices that gets them tick by tick.
fn follows_its_controls(bench: &Bench) {
    let bulk = Bulk { n_mixes: 2, len: 4000, position: 0 };
    let notes = notes(24, 2, 11);
    let n_controls = bulk.len.div_ceil(TICK) + 1;
    let control = |index: usize| Control {
        brightness: ((index % n_controls) as f32 * 0.05).sin(),
        motion: if index < n_controls { 1.0 } else { (index % 9) as f32 / 9.0 },
    };
    let controls: Vec<Control> = (0..2 * n_controls).map(control).collect();
    let mut plan = bulk.plan(&bench.device, &bench.budget).unwrap();
    let mut out = Tensor::new(&bench.device, &bench.budget, DType::F32, &[bulk.out_len()]).unwrap();
    plan.load(&bench.queue, &notes, Controls::Moving(&controls)).unwrap();
    plan.run(&bench.queue, out.view_mut().unwrap()).unwrap();
    let found = out.to_vec::<f32>(&bench.queue).unwrap();
    for mix in 0..2 {
        let controls = &controls[mix * n_controls..][..n_controls];
        let mut pool = Voices::new(Isa::best(), 24, 1);
        let own: Vec<&Note> = notes.iter().filter(|note| note.mix as usize == mix).collect();
        let mut slots = vec![None; own.len()];
        for now in 0..bulk.len {
            let tick = now / TICK;
            let at_onset = controls[tick + usize::from(!now.is_multiple_of(TICK))];
            for (note, slot) in own.iter().zip(&mut slots) {
                if note.onset == now as u64 {
                    *slot = pool.start(0, &note.voice, now as u64, at_onset).unwrap();
                }
                if let (Some(slot), true) = (*slot, note.release == Some(now as u64)) {
                    pool.release(slot, now as u64);
                }
            }
            pool.render(Block { position: now as u64, len: 1, controls: &controls[tick + 1..] });
            let expected = pool.bus(0).left[0] as f64 / f64::from(UNIT);
            let difference = (f64::from(found[2 * (mix * bulk.len + now)]) - expected).abs();
            assert!(difference < 1e-5, "mix {mix}, sample {now}: {difference}");
        }
    }
    assert!(plan.load(&bench.queue, &notes, Controls::Moving(&controls[1..])).is_err());
}

fn without_notes_is_silent(bench: &Bench) {
    assert!(run_bulk(bench, Bulk { n_mixes: 2, len: 77, position: 0 }, &[]).iter().all(|&sample| sample == 0.0));
    assert!(run_bulk(bench, Bulk { n_mixes: 0, len: 77, position: 0 }, &[]).is_empty());
    assert!(run_bulk(bench, Bulk { n_mixes: 1, len: 0, position: 0 }, &notes(3, 1, 1)).is_empty());
}

fn refuses(bench: &Bench) {
    let bulk = Bulk { n_mixes: 1, len: 100, position: 64 };
    let mut plan = bulk.plan(&bench.device, &bench.budget).unwrap();
    let good = notes(1, 1, 1)[0];
    for bad in [Note { mix: 1, ..good }, Note { onset: 63, ..good }] {
        assert!(plan.load(&bench.queue, &[bad], Controls::Still(Control::default())).is_err());
    }
    assert!(Bulk { position: 7, ..bulk }.plan(&bench.device, &bench.budget).is_err());
    assert!(matches!(bench.queue, Queue::Cpu(_) | Queue::Cuda(_)));
}
