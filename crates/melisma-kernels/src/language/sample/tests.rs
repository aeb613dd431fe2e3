use super::{Candidates, Key, Sample, reference};
use crate::random::SplitMix64;
use crate::suite::{Bench, suite};
use crate::{Cpu, Device, Isa, Result};

suite!(
    matches_reference,
    devices_draw_the_same,
    draws_follow_the_weights,
    keys_matter,
    greedy,
    equal_logits,
    special_floats,
    refusals,
);

/// Tokens of Orpheus' vocabulary, all of which `--free` draws from.
const ORPHEUS: usize = 156_940;
const PLAIN: Sample = Sample { repetition_penalty: 1.0, temperature: 1.0, top_k: 0, top_p: 1.0, min_p: 0.0 };

fn bits(seen: &[bool]) -> Vec<u64> {
    let word = |seen: &[bool]| seen.iter().rev().fold(0, |word, &seen| (word << 1) | u64::from(seen));
    seen.chunks(64).map(word).collect()
}

fn weigh(bench: &Bench, sample: Sample, logits: &[f32], seen: &[bool]) -> Vec<u32> {
    let (mut weights, logits) = (vec![7; logits.len()], bench.tensor(logits));
    let candidates = Candidates { logits: logits.view().unwrap(), seen: &bits(seen) };
    sample.plan(&bench.device).unwrap().weigh(&bench.queue, candidates, &mut weights).unwrap();
    weights
}

/// Draws once for each key.
fn draw_all(bench: &Bench, sample: Sample, (logits, seen): (&[f32], &[bool]), keys: &[Key]) -> Result<Vec<usize>> {
    let logits = bench.tensor(logits);
    let candidates = Candidates { logits: logits.view()?, seen: &bits(seen) };
    let draws: Vec<_> = keys.iter().map(|&key| (candidates, key)).collect();
    sample.plan(&bench.device)?.run(&bench.queue, &draws)?.into_iter().collect()
}

fn draw(bench: &Bench, sample: Sample, logits: &[f32], key: Key) -> usize {
    draw_all(bench, sample, (logits, &vec![false; logits.len()]), &[key]).unwrap()[0]
}

fn matches_reference(bench: &Bench) {
    let samples = [
        PLAIN,
        Sample { temperature: 0.6, top_p: 0.9, repetition_penalty: 1.1, ..PLAIN },
        Sample { temperature: 0.0, repetition_penalty: 1.3, ..PLAIN },
        Sample { top_k: 5, ..PLAIN },
        Sample { top_k: 1, top_p: 0.1, ..PLAIN },
        Sample { min_p: 0.05, ..PLAIN },
        Sample { top_p: 0.0, ..PLAIN },
        Sample { temperature: 1.7, top_k: 40, top_p: 0.8, min_p: 0.1, repetition_penalty: 0.8 },
    ];
    for n in [1, 2, 33, 64, 65, 4097, ORPHEUS] {
        let mut random = SplitMix64::new(n as u64);
        let logits: Vec<f32> = random.floats(n).iter().map(|x| 8.0 * x).collect();
        let seen: Vec<bool> = (0..n).map(|_| random.below(3) == 0).collect();
        let some = if n == ORPHEUS { &samples[1..2] } else { &samples[..] };
        for &sample in some {
            let weights = weigh(bench, sample, &logits, &seen);
            let total: f64 = weights.iter().map(|&weight| f64::from(weight)).sum();
            let expected = reference::probabilities(&sample, &logits, &seen);
            for (token, (&weight, expected)) in weights.iter().zip(expected).enumerate() {
                let found = f64::from(weight) / total;
                assert!((found - expected).abs() < 1e-6, "{sample:?}, {token} of {n}: {found}, not {expected}");
                assert!(weight > 0 || expected < 1e-9, "{sample:?}, {token} of {n} is dropped");
                assert!(weight == 0 || expected > 0.0, "{sample:?}, {token} of {n} stays");
            }
        }
    }
}

/// Equal logits have equal weights, and draw equal tokens, whatever their number and the device.
fn devices_draw_the_same(bench: &Bench) {
    let cpu = Bench::new(Device::Cpu(Cpu { isa: Isa::SCALAR, threads: 1 }));
    let keys: Vec<Key> = (0..5).map(|position| Key { seed: 3, sentence: 1, position }).collect();
    for n in [3, 63, 127, 129, 1000, 4097, ORPHEUS] {
        let mut random = SplitMix64::new(n as u64);
        let logits: Vec<f32> = random.floats(n).iter().map(|x| 12.0 * x).collect();
        let seen: Vec<bool> = (0..n).map(|_| random.below(3) == 0).collect();
        let orpheus = Sample { temperature: 0.6, top_p: 0.9, repetition_penalty: 1.1, ..PLAIN };
        let all = Sample { temperature: 1.7, top_k: n / 2, top_p: 0.8, min_p: 0.01, repetition_penalty: 0.8 };
        let samples = [orpheus, PLAIN, all, Sample { temperature: 0.0, ..all }, Sample { top_p: 0.0, ..PLAIN }];
        for &sample in samples.iter().take(if n == ORPHEUS { 1 } else { samples.len() }) {
            let of = |bench| draw_all(bench, sample, (&logits, &seen), &keys).unwrap();
            assert_eq!(of(bench), of(&cpu), "{sample:?} of {n}");
            assert_eq!(weigh(bench, sample, &logits, &seen), weigh(&cpu, sample, &logits, &seen), "{sample:?} of {n}");
        }
    }
}

/// 20,000 draws from four tokens.
fn draws_follow_the_weights(bench: &Bench) {
    let mut counts = [0; 4];
    let probabilities = [0.5f32, 0.25, 0.2, 0.05];
    let logits = probabilities.map(f32::ln);
    let keys: Vec<Key> = (0..20_000).map(|position| Key { seed: 7, sentence: 3, position }).collect();
    for token in draw_all(bench, PLAIN, (&logits, &[false; 4]), &keys).unwrap() {
        counts[token] += 1;
    }
    for (count, p) in counts.into_iter().zip(probabilities) {
        assert!((count as f32 / 20_000.0 - p).abs() < 0.01, "{counts:?}");
    }
}

fn keys_matter(bench: &Bench) {
    let logits = vec![0.0; 1000];
    let keys = [(0, 0, 0), (1, 0, 0), (0, 1, 0), (0, 0, 1)];
    let tokens = keys.map(|(seed, sentence, position)| {
        let key = Key { seed, sentence, position };
        let token = draw(bench, PLAIN, &logits, key);
        assert_eq!(draw(bench, PLAIN, &logits, key), token);
        token
    });
    assert!((1..4).all(|index| !tokens[..index].contains(&tokens[index])), "{tokens:?}");
}

fn greedy(bench: &Bench) {
    let sample = Sample { temperature: 0.0, ..PLAIN };
    assert_eq!(draw(bench, sample, &[0.0, 1.0, 2.0], Key::default()), 2);
    let sample = Sample { repetition_penalty: 3.0, ..sample };
    assert_eq!(weigh(bench, sample, &[0.0, 1.0, 2.0], &[false, false, true]), [0, 1 << 31, 0]);
    assert_eq!(draw(bench, sample, &[3.0, 5.0, 5.0], Key::default()), 1);
}

/// Equal logits stay or go together.
fn equal_logits(bench: &Bench) {
    let weights = weigh(bench, Sample { top_k: 2, ..PLAIN }, &[1.0, 2.0, 1.0, 0.0], &[false; 4]);
    assert!(weights[0] > 0 && weights[0] == weights[2] && weights[3] == 0);
    let weights = weigh(bench, Sample { top_p: 0.5, ..PLAIN }, &[1.0; 4], &[false; 4]);
    assert_eq!(weights, [1 << 31; 4]);
}

fn special_floats(bench: &Bench) {
    let weights = weigh(bench, PLAIN, &[-1e30, 1e30, -0.0], &[true; 3]);
    assert_eq!(weights, [0, 1 << 31, 0]);
    for bad in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
        let refused = draw_all(bench, PLAIN, (&[0.0, bad], &[false; 2]), &[Key::default()]).unwrap_err();
        assert_eq!(refused.to_string(), format!("logit 1 of 2 is {bad}"));
    }
    // The others are drawn.
    let (good, bad) = (bench.tensor(&[1.0f32, 9.0]), bench.tensor(&[f32::NAN, 1.0, 2.0]));
    let of = |logits| (Candidates { logits, seen: &[0] }, Key::default());
    let draws = [of(good.view().unwrap()), of(bad.view().unwrap()), of(good.view().unwrap())];
    let greedy = Sample { temperature: 0.0, ..PLAIN }.plan(&bench.device).unwrap();
    let drawn = greedy.run(&bench.queue, &draws).unwrap();
    assert!(matches!(drawn[..], [Ok(1), Err(_), Ok(1)]), "{drawn:?}");
    assert!(greedy.run(&bench.queue, &[]).unwrap().is_empty());
}

fn refusals(bench: &Bench) {
    for sample in [
        Sample { repetition_penalty: 0.0, ..PLAIN },
        Sample { temperature: -1.0, ..PLAIN },
        Sample { temperature: f32::INFINITY, ..PLAIN },
        Sample { top_p: 1.1, ..PLAIN },
        Sample { min_p: f32::NAN, ..PLAIN },
    ] {
        assert!(sample.plan(&bench.device).is_err(), "{sample:?}");
    }
    let plan = PLAIN.plan(&bench.device).unwrap();
    let run = |logits: &[f32], seen: &[u64]| {
        let logits = bench.tensor(logits);
        plan.run(&bench.queue, &[(Candidates { logits: logits.view().unwrap(), seen }, Key::default())])
    };
    assert!(run(&[], &[]).is_err());
    assert!(run(&[0.0], &[]).is_err());
}
