use super::Noise;
use super::reference::deviate;
use crate::Tensor;
use crate::layer::step::{Row, Rows, Step, Timeline};
use crate::suite::{Bench, suite};

suite!(matches_reference, rows_without_noise, nothing, pieces_equal_the_whole, far_positions);

fn run(bench: &Bench, blocks: &[Timeline], list: &[Row], n_latents: usize) -> Vec<f32> {
    let plan = Noise { blocks }.plan(&bench.device, &bench.budget).unwrap();
    let mut rows = Rows::new(&bench.device, &bench.budget, list.len(), 8).unwrap();
    rows.set(&bench.queue, list).unwrap();
    let len = list.len() * n_latents * plan.per_latent();
    let dirty = Tensor::from_slice(&bench.budget, &vec![f32::NAN; len], &[len]).unwrap();
    let mut deviates = dirty.to(&bench.queue, &bench.budget).unwrap();
    plan.run(&bench.queue, Step { rows: &rows, n_latents }, deviates.view_mut().unwrap()).unwrap();
    deviates.to_vec(&bench.queue).unwrap()
}

const BLOCKS: [Timeline; 3] =
    [Timeline { rate: 8, lag: 28 }, Timeline { rate: 3, lag: 5 }, Timeline { rate: 512, lag: 4717 }];

fn matches_reference(bench: &Bench) {
    let rows = [(0, 4), (16, 1 << 40), (7, 9)].map(|(start, end)| Row {
        slot: start % 8,
        start,
        end,
        seed: start * 77_777_777_777 - 5,
        noise: 1,
        n_steps: 0,
    });
    let mut found = run(bench, &BLOCKS, &rows, 4).into_iter();
    for (block, timeline) in BLOCKS.iter().enumerate() {
        for row in &rows {
            let live = timeline.live(row, 4);
            for i in 0..4 * timeline.rate {
                let n = timeline.first(row) + i as i64;
                let expected = if live.contains(&i) { deviate(row.seed as u64, block as u32, n as u64) } else { 0.0 };
                let found = f64::from(found.next().unwrap());
                assert!((found - expected).abs() < 4e-6, "block {block}, {row:?}, {n}: {found}, not {expected}");
            }
        }
    }
    assert_eq!(found.next(), None);
}

fn rows_without_noise(bench: &Bench) {
    let rows = [Row { start: 100, noise: 0, ..Row::default() }];
    assert!(run(bench, &BLOCKS, &rows, 2).iter().all(|&deviate| deviate.to_bits() == 0));
}

fn nothing(bench: &Bench) {
    assert!(run(bench, &BLOCKS, &[], 4).is_empty());
    assert!(run(bench, &BLOCKS, &[Row::default()], 0).is_empty());
    assert!(run(bench, &[], &[Row::default()], 4).is_empty());
}

fn pieces_equal_the_whole(bench: &Bench) {
    let blocks = &BLOCKS[1..2];
    let row = |start: i64| Row { start, noise: 1, seed: -3, ..Row::default() };
    let whole = run(bench, blocks, &[row(0)], 30);
    let mut pieces = Vec::new();
    for (start, n) in [(0, 1), (1, 4), (5, 25)] {
        pieces.extend(run(bench, blocks, &[row(start)], n));
    }
    assert_eq!(pieces, whole);
}

fn far_positions(bench: &Bench) {
    let timeline = Timeline { rate: 4, lag: 0 };
    let start = i64::from(u32::MAX);
    let rows = [Row { start, noise: 1, seed: i64::MIN, ..Row::default() }];
    let found = run(bench, &[timeline], &rows, 2);
    for (i, &found) in found.iter().enumerate() {
        let expected = deviate(i64::MIN as u64, 0, start as u64 * 4 + i as u64);
        assert!((f64::from(found) - expected).abs() < 4e-6);
    }
}
