use super::reference::quantize;
use super::{Level, Pass, Plan, Quantize};
use crate::layer::need;
use crate::layer::step::{Arena, OPEN, Row, Rows, Step, Timeline};
use crate::layer::streams::{self, Shape, drive};
use crate::random::SplitMix64;
use crate::suite::{Bench, suite};
use crate::{Budget, Cpu, Device, Isa};

suite!(
    matches_reference,
    one_element,
    nothing,
    model_shapes,
    large_frames,
    streams_join_and_leave,
    the_first_of_equals_wins,
    the_first_of_equals_in_two_lanes_wins,
    special_floats,
    need_is_what_the_plan_takes,
    refusals
);

struct Weights {
    codebook: Vec<f32>,
    in_weight: Vec<f32>,
    in_bias: Vec<f32>,
    out_weight: Vec<f32>,
    out_bias: Vec<f32>,
}

fn weights(n_levels: usize, [n_codes, n_channels, dim]: [usize; 3]) -> Vec<Weights> {
    let mut random = SplitMix64::new((n_codes + n_channels) as u64);
    let mut level = || Weights {
        codebook: random.floats(n_codes * dim),
        in_weight: random.floats(n_channels * dim),
        in_bias: random.floats(dim),
        out_weight: random.floats(n_channels * dim),
        out_bias: random.floats(n_channels),
    };
    (0..n_levels).map(|_| level()).collect()
}

/// The code orders of the published models, for strides (4, 2, 1) and (8, 4, 2, 1).
const THREE: [&[usize]; 3] = [&[0], &[1, 4], &[2, 3, 5, 6]];
const FOUR: [&[usize]; 4] = [&[0], &[1, 8], &[2, 5, 9, 12], &[3, 4, 6, 7, 10, 11, 13, 14]];

fn levels<'a>(weights: &'a [Weights], places: &[&'a [usize]]) -> Vec<Level<'a>> {
    let frame_latents = places.last().map_or(1, |places| places.len());
    let level = |(weights, places): (&'a Weights, &&'a [usize])| Level {
        stride: frame_latents / places.len(),
        places,
        codebook: &weights.codebook,
        in_weight: &weights.in_weight,
        in_bias: &weights.in_bias,
        out_weight: &weights.out_weight,
        out_bias: &weights.out_bias,
    };
    weights.iter().zip(places).map(level).collect()
}

/// Returns codes and margins, interleaved, of every stream.
fn run(bench: &Bench, layer: &Quantize<'_>, inputs: &[Vec<f32>], chunks: &[usize]) -> Vec<Vec<f32>> {
    let frame_latents = layer.frame_latents;
    let frame_codes: usize = layer.levels.iter().map(|level| level.places.len()).sum();
    let plan = layer.plan(&bench.device, &bench.budget).unwrap();
    // The driver counts frames where the layer counts latents.
    let shape = Shape {
        n_in: layer.n_channels,
        n_out: 2 * frame_codes,
        from: Timeline { rate: frame_latents, lag: layer.lag },
        to: Timeline { rate: 1, lag: layer.lag.div_ceil(frame_latents) },
        state_len: plan.state_len(),
    };
    drive(bench, shape, inputs, chunks, |step, arena, activations| {
        let mut rows = Rows::new(&bench.device, &bench.budget, step.rows.len(), inputs.len() + 2)?;
        let scale = |frames: i64| (frames * frame_latents as i64).min(OPEN);
        let scaled = |row: &Row| Row { start: scale(row.start), end: scale(row.end), ..*row };
        rows.set(&bench.queue, &step.rows.as_slice().iter().map(scaled).collect::<Vec<_>>())?;
        let step = Step { rows: &rows, n_latents: step.n_latents * frame_latents };
        let len = activations.y.len() / 2;
        let (mut codes, mut margins) = (bench.tensor(&vec![-1i32; len]), bench.tensor(&vec![-1f32; len]));
        let pass = Pass { x: activations.x, codes: codes.view_mut()?, margins: Some(margins.view_mut()?) };
        plan.run(&bench.queue, step, arena, pass)?;
        let (codes, margins) = (codes.to_vec::<i32>(&bench.queue)?, margins.to_vec::<f32>(&bench.queue)?);
        let both: Vec<f32> = codes.iter().zip(margins).flat_map(|(code, margin)| [*code as f32, margin]).collect();
        bench.queue.copy(both.as_slice().into(), activations.y)
    })
}

/// Inputs of streams of `lens` frames.
fn inputs(layer: &Quantize<'_>, lens: &[usize]) -> Vec<Vec<f32>> {
    let mut random = SplitMix64::new(7);
    lens.iter().map(|len| random.floats(len * layer.frame_latents * layer.n_channels)).collect()
}

/// Compares with the reference. A code may differ only where two cosines are closer than 1e-5; the
/// reference then goes on with our code. Checks that steps of other lengths and the portable code
/// give the same bits.
fn check_layer(bench: &Bench, layer: &Quantize<'_>, lens: &[usize]) {
    let inputs = inputs(layer, lens);
    let found = run(bench, layer, &inputs, &[2]);
    let (mut n_codes, mut ties) = (0, Vec::new());
    for (stream, (x, found)) in inputs.iter().zip(&found).enumerate() {
        quantize(layer, x, |index, cosines| {
            let (code, margin) = (found[2 * index] as usize, f64::from(found[2 * index + 1]));
            assert!(code < cosines.len(), "stream {stream}, code {index}: {code} of {}", cosines.len());
            let best = cosines.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            let others = cosines.iter().enumerate().filter(|(other, _)| *other != code);
            let expected = cosines[code] - others.map(|(_, cosine)| *cosine).fold(f64::NEG_INFINITY, f64::max);
            assert!(
                best - cosines[code] < 1e-5,
                "stream {stream}, code {index}: {code} has {}, not {best}",
                cosines[code]
            );
            assert!(margin == expected || (margin - expected).abs() < 1e-5, "code {index}: {margin}, not {expected}");
            n_codes += 1;
            if best != cosines[code] {
                ties.push((stream, index, best - cosines[code]));
            }
            code
        });
    }
    assert!(ties.len() <= 1 + n_codes / 100, "{n_codes} codes, ties {ties:?}");
    for chunks in [&[1][..], &[16], &[2, 0, 3, 1]] {
        assert_eq!(streams::bits(&run(bench, layer, &inputs, chunks)), streams::bits(&found), "{chunks:?}");
    }
    let portable = Bench::new(Device::Cpu(Cpu { isa: Isa::SCALAR, threads: 1 }));
    assert_eq!(streams::bits(&run(&portable, layer, &inputs, &[1])), streams::bits(&found));
}

fn check(bench: &Bench, places: &[&[usize]], sizes: [usize; 3], lens: &[usize]) {
    let weights = weights(places.len(), sizes);
    let frame_latents = places.last().map_or(1, |places| places.len());
    for lag in [0, frame_latents + 1] {
        let levels = levels(&weights, places);
        let layer = Quantize { n_channels: sizes[1], dim: sizes[2], frame_latents, levels: &levels, lag };
        check_layer(bench, &layer, lens);
    }
}

fn matches_reference(bench: &Bench) {
    check(bench, &THREE, [50, 33, 8], &[3, 5]);
    check(bench, &FOUR, [7, 64, 3], &[2]);
}

fn one_element(bench: &Bench) {
    check(bench, &[&[0]], [1, 1, 1], &[1, 0, 3]);
    check(bench, &[&[0]], [2, 1, 1], &[5]);
}

fn nothing(bench: &Bench) {
    check(bench, &THREE, [5, 8, 2], &[0]);
    check(bench, &THREE, [5, 8, 2], &[]);
}

fn model_shapes(bench: &Bench) {
    check(bench, &THREE, [4096, 768, 8], &[2]);
    check(bench, &FOUR, [4096, 1024, 8], &[1]);
}

/// More latents than groups, strides that do not divide each other, 80 KiB of shared memory, and
/// one code whose cosine is within 2e-7 of the next.
fn large_frames(bench: &Bench) {
    let places: [&[usize]; 2] = [&[0, 3], &[1, 2, 4]];
    let weights = weights(2, [20, 2048, 4]);
    let mut levels = levels(&weights, &places);
    (levels[0].stride, levels[1].stride) = (3, 2);
    let layer = Quantize { n_channels: 2048, dim: 4, frame_latents: 6, levels: &levels, lag: 4 };
    check_layer(bench, &layer, &[3]);
}

fn streams_join_and_leave(bench: &Bench) {
    check(bench, &THREE, [300, 20, 4], &[7, 1, 12, 0, 4]);
}

/// Rows 32 .. are multiples of rows 0 .. by powers of two, which have the same direction.
fn the_first_of_equals_wins(bench: &Bench) {
    let mut weights = weights(3, [32, 20, 4]);
    for weights in &mut weights {
        let rows = weights.codebook.clone();
        for scale in [2.0, 1.0, 0.5] {
            weights.codebook.extend(rows.iter().map(|x| scale * x));
        }
    }
    let layer = Quantize { n_channels: 20, dim: 4, frame_latents: 4, levels: &levels(&weights, &THREE), lag: 1 };
    let found = run(bench, &layer, &inputs(&layer, &[30]), &[4]);
    for pair in found[0].chunks(2) {
        assert!(pair[0] < 32.0 && pair[1] == 0.0, "{pair:?}");
    }
    assert!(found[0].chunks(2).any(|pair| pair[0] > 16.0));
}

/// Rows 20 apart are equal. 32 rows share a vector, so the first of two has the later lane.
fn the_first_of_equals_in_two_lanes_wins(bench: &Bench) {
    let mut weights = weights(3, [32, 20, 4]);
    for weights in &mut weights {
        weights.codebook.extend_from_within(12 * 4..);
    }
    let layer = Quantize { n_channels: 20, dim: 4, frame_latents: 4, levels: &levels(&weights, &THREE), lag: 1 };
    let found = run(bench, &layer, &inputs(&layer, &[30]), &[4]);
    for pair in found[0].chunks(2) {
        assert!(pair[0] < 32.0 && (pair[1] == 0.0) == (pair[0] >= 12.0), "{pair:?}");
    }
    assert!(found[0].chunks(2).any(|pair| pair[1] == 0.0));
}

/// A frame with NaN, infinities or numbers whose squares overflow gets valid codes; its neighbours do not change.
fn special_floats(bench: &Bench) {
    let weights = weights(3, [40, 20, 4]);
    let layer = Quantize { n_channels: 20, dim: 4, frame_latents: 4, levels: &levels(&weights, &THREE), lag: 3 };
    let plain = inputs(&layer, &[5]);
    let expected = run(bench, &layer, &plain, &[2]);
    let len = expected[0].len() / 5;
    for value in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY, 3e38, 0.0] {
        let mut x = plain.clone();
        x[0][2 * 80..3 * 80].fill(value);
        let found = run(bench, &layer, &x, &[2]);
        let codes = found[0].chunks(2).map(|pair| pair[0]);
        assert!(codes.clone().all(|code| (0.0..40.0).contains(&code)), "{value}: {:?}", codes.collect::<Vec<_>>());
        for frame in [0, 1, 3, 4] {
            assert_eq!(found[0][frame * len..][..len], expected[0][frame * len..][..len], "{value}, frame {frame}");
        }
    }
}

fn need_is_what_the_plan_takes(bench: &Bench) {
    let weights = weights(3, [40, 20, 4]);
    let layer = Quantize { n_channels: 20, dim: 4, frame_latents: 4, levels: &levels(&weights, &THREE), lag: 5 };
    let need = need::quantize([20, 4], 4, &[[1, 40], [2, 40], [4, 40]], 5);
    let plan = |budget: &Budget| layer.plan(&bench.device, budget).unwrap();
    streams::check_need(bench, need, plan, Plan::state_len);
}

fn refusals(bench: &Bench) {
    let weights = weights(3, [10, 4, 2]);
    let good = levels(&weights, &THREE);
    let layer = Quantize { n_channels: 4, dim: 2, frame_latents: 4, levels: &good, lag: 1 };
    let refused = |layer: Quantize<'_>| layer.plan(&bench.device, &bench.budget).unwrap_err().to_string();
    assert!(refused(Quantize { frame_latents: 0, ..layer }).contains("0 latents"));
    assert!(refused(Quantize { frame_latents: 8, ..layer }).contains("strides of level 0"));
    assert!(refused(Quantize { n_channels: 3, ..layer }).contains("in_weight of level 0"));
    let change = |change: fn(&mut Level<'_>)| {
        let mut levels = levels(&weights, &THREE);
        change(&mut levels[1]);
        refused(Quantize { levels: &levels, ..layer })
    };
    assert!(change(|level| level.places = &[1, 7]).contains("not 0 to 6"));
    assert!(change(|level| level.places = &[0, 4]).contains("not 0 to 6"));
    assert!(change(|level| level.codebook = &[]).contains("codebook of level 1"));
    assert!(change(|level| level.codebook = &[0.0; 3]).contains("codebook of level 1"));
    assert!(change(|level| level.in_bias = &[0.0; 3]).contains("in_bias of level 1"));
    assert!(change(|level| level.out_bias = &[]).contains("out_bias of level 1"));

    let plan = layer.plan(&bench.device, &bench.budget).unwrap();
    let mut rows = Rows::new(&bench.device, &bench.budget, 1, 1).unwrap();
    rows.set(&bench.queue, &[Row::default()]).unwrap();
    let attempt = |n_latents: usize, [n_codes, n_margins, slot_len]: [usize; 3]| {
        let (x, mut arena) = (bench.tensor(&vec![0f32; n_latents * 4]), bench.tensor(&vec![0f32; slot_len]));
        let (mut codes, mut margins) = (bench.tensor(&vec![0i32; n_codes]), bench.tensor(&vec![0f32; n_margins]));
        let arena = Arena { floats: arena.view_mut().unwrap(), slot_len, offset: 0 };
        let margins = Some(margins.view_mut().unwrap());
        let pass = Pass { x: x.view().unwrap(), codes: codes.view_mut().unwrap(), margins };
        plan.run(&bench.queue, Step { rows: &rows, n_latents }, arena, pass)
    };
    let state_len = plan.state_len();
    assert!(attempt(4, [7, 7, state_len]).is_ok());
    assert!(attempt(6, [7, 7, state_len]).unwrap_err().to_string().contains("whole frames"));
    assert!(attempt(4, [6, 7, state_len]).unwrap_err().to_string().contains("codes"));
    assert!(attempt(4, [7, 8, state_len]).unwrap_err().to_string().contains("margins"));
    assert!(attempt(4, [7, 7, state_len - 1]).unwrap_err().to_string().contains("arena"));
}
