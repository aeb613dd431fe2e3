//! Test driver for layers with state: streams of different lengths join and leave while others go
//! on.

use crate::layer::need::Need;
use crate::layer::plan::Plan;
use crate::layer::step::{Activations, Arena, OPEN, Row, Rows, Step, Timeline};
use crate::random::SplitMix64;
use crate::suite::Bench;
use crate::{Budget, Device, Result, Space};

/// The shape of a layer.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Shape {
    pub(crate) n_in: usize,
    pub(crate) n_out: usize,
    /// Timeline of the inputs.
    pub(crate) from: Timeline,
    /// Timeline of the outputs.
    pub(crate) to: Timeline,
    pub(crate) state_len: usize,
}

/// Makes inputs of several streams; the lengths are in latents.
pub(crate) fn inputs(shape: Shape, lens: &[usize], seed: u64) -> Vec<Vec<f32>> {
    let mut random = SplitMix64::new(seed);
    lens.iter().map(|len| random.floats(len * shape.from.rate * shape.n_in)).collect()
}

/// Runs `streams`, `[N · rate, n_in]` each, through a layer in steps of `chunks` latents,
/// repeatedly. Stream i joins at step i. Checks that outputs outside a stream are zero, and returns
/// the others.
pub(crate) fn drive(
    bench: &Bench,
    shape: Shape,
    streams: &[Vec<f32>],
    chunks: &[usize],
    mut run: impl FnMut(Step<'_>, Arena<'_>, Activations<'_>) -> Result<()>,
) -> Vec<Vec<f32>> {
    let (budget, queue) = (&bench.budget, &bench.queue);
    let n_slots = streams.len() + 2;
    let offset = 3;
    let slot_len = offset + shape.state_len + 1;
    let ends: Vec<usize> = streams.iter().map(|x| x.len() / shape.n_in / shape.from.rate).collect();
    let mut outputs: Vec<Vec<f32>> = ends.iter().map(|end| vec![f32::NAN; end * shape.to.rate * shape.n_out]).collect();
    let mut arena = bench.tensor::<f32>(&vec![0.0; n_slots * slot_len]);
    let mut rows = Rows::new(&bench.device, budget, streams.len(), n_slots).unwrap();
    let mut at = vec![(0_usize, 0_i64); streams.len()];
    for index in 0.. {
        let n_latents = chunks[index % chunks.len()];
        let last = |stream: usize| ends[stream] + shape.to.lag.div_ceil(shape.to.rate);
        let taking: Vec<usize> =
            (0..streams.len()).filter(|&stream| stream <= index && at[stream].0 < last(stream)).collect();
        if taking.is_empty() && index >= streams.len() {
            break;
        }
        let row = |&stream: &usize| {
            let (start, n_steps) = at[stream];
            // The end becomes known in the step that reaches it.
            let end = if start + n_latents >= ends[stream] { ends[stream] as i64 } else { OPEN };
            let slot = (n_slots - 1 - stream) as i64;
            Row { slot, n_steps, start: start as i64, end, seed: stream as i64, noise: 1 }
        };
        let list: Vec<Row> = taking.iter().map(row).collect();
        rows.set(queue, &list).unwrap();
        let (len_in, len_out) = (n_latents * shape.from.rate, n_latents * shape.to.rate);
        let mut x = vec![0.0; taking.len() * len_in * shape.n_in];
        for (stream, (row, x)) in taking.iter().zip(list.iter().zip(x.chunks_mut((len_in * shape.n_in).max(1)))) {
            for (i, x) in x.chunks_mut(shape.n_in).enumerate() {
                let position = shape.from.first(row) + i as i64;
                if (0..(ends[*stream] * shape.from.rate) as i64).contains(&position) {
                    let from = position as usize * shape.n_in;
                    x.copy_from_slice(&streams[*stream][from..from + shape.n_in]);
                }
            }
        }
        let x = bench.tensor(&x);
        let mut y = bench.tensor(&vec![f32::NAN; taking.len() * len_out * shape.n_out]);
        let step = Step { rows: &rows, n_latents };
        let part = Arena { floats: arena.view_mut().unwrap(), slot_len, offset };
        run(step, part, Activations { x: x.view().unwrap(), y: y.view_mut().unwrap() }).unwrap();
        let y = y.to_vec::<f32>(queue).unwrap();
        for (i, (stream, row)) in taking.iter().zip(&list).enumerate() {
            let live = shape.to.live(row, n_latents);
            for (j, values) in y[i * len_out * shape.n_out..][..len_out * shape.n_out].chunks(shape.n_out).enumerate() {
                if live.contains(&j) {
                    let to = (shape.to.first(row) + j as i64) as usize * shape.n_out;
                    if to < outputs[*stream].len() {
                        outputs[*stream][to..to + shape.n_out].copy_from_slice(values);
                    }
                } else {
                    assert!(
                        values.iter().all(|&value| value == 0.0),
                        "stream {stream}, {row:?}, output {j}: {values:?}"
                    );
                }
            }
            at[*stream].0 += n_latents;
            at[*stream].1 += 1;
        }
    }
    let arena = arena.to_vec::<f32>(queue).unwrap();
    for (slot, floats) in arena.chunks(slot_len).enumerate() {
        assert!(floats[..offset] == [0.0; 3] && floats[slot_len - 1] == 0.0, "slot {slot}: a neighbour was written");
    }
    outputs
}

/// Runs streams of `lens` latents through `plan` and compares them with `expected`, the reference
/// for one stream; steps of different lengths must give the same bits.
pub(crate) fn check(
    bench: &Bench,
    (name, plan): (&str, &Plan),
    shape: Shape,
    (lens, seed): (&[usize], u64),
    (expected, tolerance): (impl Fn(&[f32]) -> Vec<f64>, f64),
) {
    let inputs = inputs(shape, lens, seed);
    let expected: Vec<Vec<f64>> = inputs.iter().map(|x| expected(x)).collect();
    let run = |chunks: &[usize]| {
        drive(bench, shape, &inputs, chunks, |step, arena, activations| {
            plan.run(&bench.queue, step, arena, activations)
        })
    };
    let found = run(&[4]);
    compare(name, &found, &expected, tolerance);
    for chunks in [&[1][..], &[64], &[2, 0, 5, 1]] {
        assert_eq!(bits(&run(chunks)), bits(&found), "{chunks:?}");
    }
}

/// Compares with the reference, whose values are of order 1.
pub(crate) fn compare(name: &str, found: &[Vec<f32>], expected: &[Vec<f64>], tolerance: f64) {
    assert_eq!(found.len(), expected.len());
    for (stream, (found, expected)) in found.iter().zip(expected).enumerate() {
        assert_eq!(found.len(), expected.len(), "{name}, stream {stream}");
        for (index, (&found, &expected)) in found.iter().zip(expected).enumerate() {
            let error = (f64::from(found) - expected).abs();
            assert!(
                error <= tolerance * expected.abs().max(1.0),
                "{name}, stream {stream}, index {index}: {found}, not {expected}"
            );
        }
    }
}

pub(crate) fn bits(streams: &[Vec<f32>]) -> Vec<Vec<u32>> {
    streams.iter().map(|x| x.iter().map(|x| x.to_bits()).collect()).collect()
}

/// Checks that a plan takes the memory that `need` says.
pub(crate) fn check_need<P>(
    bench: &Bench,
    need: Need,
    plan: impl FnOnce(&Budget) -> P,
    state_len: impl FnOnce(&P) -> usize,
) {
    let budget = Budget::unlimited();
    let plan = plan(&budget);
    let (space, weights, n_copies) = match bench.device {
        Device::Cpu(_) => (Space::Host, need.weights, 1),
        Device::Cuda(_) => (Space::Device, need.device_weights, 2),
    };
    assert_eq!(budget.usage(space).now, weights as u64);
    assert_eq!(state_len(&plan) * size_of::<f32>(), n_copies * need.state);
}
