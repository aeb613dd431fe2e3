use half::bf16;

use super::{Pass, Rotary, Scaling, reference};
use crate::language::tokens::{CacheShape, Tokens};
use crate::random::SplitMix64;
use crate::suite::{Bench, suite};
use crate::{Device, Tensor};

suite!(matches_reference, a_cache_of_bf16, rows_of_several_sequences, worked_example, nothing, refusals);

const LLAMA3: Scaling = Scaling::Llama3 { factor: 32.0, low: 1.0, high: 4.0, context: 8192.0 };

fn rotary(n_heads: usize, cache: CacheShape, scaling: Scaling) -> Rotary {
    Rotary { n_heads, cache, theta: 500_000.0, scaling, n_positions: 100 }
}

/// Runs into a cache of NaN, so that everything that was not written shows.
fn run(bench: &Bench, rotary: &Rotary, tokens: &mut Tokens, qkv: &[f32]) -> (Vec<f32>, Vec<f32>) {
    let cache = bench.tensor(&vec![f32::NAN; rotary.cache.n_floats().unwrap()]);
    let (turned, cache) = run_into(bench, rotary, tokens, qkv, cache);
    (turned, cache.to_vec(&bench.queue).unwrap())
}

fn run_into(bench: &Bench, rotary: &Rotary, tokens: &mut Tokens, qkv: &[f32], mut cache: Tensor) -> (Vec<f32>, Tensor) {
    let mut qkv = bench.tensor(qkv);
    let plan = rotary.plan(&bench.device, &bench.budget).unwrap();
    tokens.send(&bench.queue).unwrap();
    plan.run(&bench.queue, tokens, Pass { qkv: qkv.view_mut().unwrap(), cache: &mut cache }).unwrap();
    (qkv.to_vec(&bench.queue).unwrap(), cache)
}

fn none(bench: &Bench, cache: CacheShape) -> Tokens {
    Tokens::new(cache, 8, &bench.device, &bench.budget).unwrap()
}

fn close(found: &[f32], expected: &[f64], what: &str) {
    for (index, (&found, expected)) in found.iter().zip(expected).enumerate() {
        // The angle is rounded to f32: at position 99 its error is up to 4e-6.
        assert!((f64::from(found) - expected).abs() < 1e-5, "{what}, channel {index}: {found}, not {expected}");
    }
}

fn matches_reference(bench: &Bench) {
    for (n_heads, n_keys, head_dim) in [(3, 1, 128), (6, 2, 8), (1, 1, 2), (4, 4, 66)] {
        for scaling in [Scaling::None, Scaling::Linear { factor: 4.0 }, LLAMA3] {
            let cache = CacheShape { n_pages: 9, page_len: 16, n_heads: n_keys, head_dim };
            let rotary = rotary(n_heads, cache, scaling);
            let pages = [8, 1, 7, 2, 0, 3, 5];
            let mut tokens = none(bench, cache);
            for position in [0, 1, 15, 16, 40, 99] {
                tokens.clear();
                tokens.push(&pages, position..position + 1).unwrap();
                let qkv = SplitMix64::new(position as u64).floats((n_heads + 2 * n_keys) * head_dim);
                let (turned, filled) = run(bench, &rotary, &mut tokens, &qkv);
                let heads: Vec<_> = qkv.chunks(head_dim).map(|head| reference::turn(&rotary, position, head)).collect();
                for (head, expected) in heads[..n_heads].iter().enumerate() {
                    close(&turned[head * head_dim..][..head_dim], expected, "query");
                }
                let page = pages[position / 16];
                for head in 0..n_keys {
                    let at = |start: usize| &filled[start + position % 16 * head_dim..][..head_dim];
                    close(at(cache.keys(page, head)), &heads[n_heads + head], "key");
                    let value = &qkv[(n_heads + n_keys + head) * head_dim..][..head_dim];
                    assert_eq!(at(cache.values(page, head)), value);
                }
                assert_eq!(filled.iter().filter(|x| !x.is_nan()).count(), 2 * n_keys * head_dim);
            }
        }
    }
}

/// A GPU rounds keys and values for such a cache.
fn a_cache_of_bf16(bench: &Bench) {
    let cache = CacheShape { n_pages: 4, page_len: 4, n_heads: 2, head_dim: 8 };
    let rotary = rotary(4, cache, LLAMA3);
    let mut tokens = none(bench, cache);
    tokens.push(&[2, 0], 3..6).unwrap();
    let qkv = SplitMix64::new(6).floats(3 * 64);
    let halves = bench.tensor(&vec![bf16::NAN; cache.n_floats().unwrap()]);
    if let Device::Cpu(_) = bench.device {
        let (mut qkv, mut halves) = (bench.tensor(&qkv), halves);
        let pass = Pass { qkv: qkv.view_mut().unwrap(), cache: &mut halves };
        let plan = rotary.plan(&bench.device, &bench.budget).unwrap();
        assert!(plan.run(&bench.queue, &tokens, pass).unwrap_err().to_string().contains("bf16, not f32"));
        return;
    }
    let (turned, filled) = run(bench, &rotary, &mut tokens, &qkv);
    let (same, halves) = run_into(bench, &rotary, &mut tokens, &qkv, halves);
    assert_eq!(same, turned);
    for (half, exact) in halves.to_vec::<bf16>(&bench.queue).unwrap().into_iter().zip(filled) {
        assert!(half.is_nan() && exact.is_nan() || half == bf16::from_f32(exact), "{half}, not {exact}");
    }
}

/// A row has the same bits alone.
fn rows_of_several_sequences(bench: &Bench) {
    let cache = CacheShape { n_pages: 4, page_len: 4, n_heads: 2, head_dim: 8 };
    let rotary = rotary(4, cache, LLAMA3);
    let mut all = none(bench, cache);
    all.push(&[2, 0], 3..6).unwrap();
    all.push(&[1], 2..3).unwrap();
    let qkv = SplitMix64::new(5).floats(4 * 64);
    let (whole, filled) = run(bench, &rotary, &mut all, &qkv);
    for (row, (pages, position)) in [(&[2u32, 0][..], 3), (&[2, 0], 4), (&[2, 0], 5), (&[1], 2)].into_iter().enumerate()
    {
        let mut one = none(bench, cache);
        one.push(pages, position..position + 1).unwrap();
        let (turned, alone) = run(bench, &rotary, &mut one, &qkv[row * 64..][..64]);
        assert_eq!(turned, whole[row * 64..][..64]);
        assert!(alone.iter().zip(&filled).all(|(alone, whole)| alone.is_nan() || alone == whole));
    }
}

fn worked_example(bench: &Bench) {
    let cache = CacheShape { n_pages: 1, page_len: 2, n_heads: 1, head_dim: 2 };
    let mut tokens = none(bench, cache);
    tokens.push(&[0], 0..2).unwrap();
    let (turned, _) = run(bench, &rotary(1, cache, Scaling::None), &mut tokens, &[1.0, 0.0].repeat(6));
    assert_eq!((turned[0], turned[1]), (1.0, 0.0));
    assert_eq!((turned[6], turned[7]), (1f32.cos(), 1f32.sin()));
}

fn nothing(bench: &Bench) {
    let cache = CacheShape { n_pages: 1, page_len: 2, n_heads: 1, head_dim: 2 };
    let (turned, filled) = run(bench, &rotary(1, cache, Scaling::None), &mut none(bench, cache), &[]);
    assert!(turned.is_empty() && filled.iter().all(|x| x.is_nan()));
}

fn refusals(bench: &Bench) {
    let cache = CacheShape { n_pages: 60, page_len: 2, n_heads: 1, head_dim: 2 };
    let plan = |rotary: Rotary| rotary.plan(&bench.device, &bench.budget);
    let good = rotary(1, cache, Scaling::None);
    assert!(plan(Rotary { n_heads: 0, ..good }).is_err());
    assert!(plan(Rotary { theta: 0.0, ..good }).is_ok(), "one channel: theta is not used");
    assert!(plan(Rotary { scaling: Scaling::Linear { factor: 0.0 }, ..good }).is_err());
    assert!(plan(Rotary { cache: CacheShape { head_dim: 3, ..cache }, ..good }).is_err());
    let plan = plan(good).unwrap();
    let mut tokens = none(bench, cache);
    tokens.push(&(0..60).collect::<Vec<_>>(), 100..101).unwrap();
    let (mut qkv, mut floats) = (bench.tensor(&[0.0f32; 6]), bench.tensor(&vec![0.0f32; cache.n_floats().unwrap()]));
    let mut run = |tokens: &Tokens, len: usize| {
        let pass = Pass { qkv: qkv.view_mut().unwrap().first(len).unwrap(), cache: &mut floats };
        plan.run(&bench.queue, tokens, pass)
    };
    assert!(run(&tokens, 6).unwrap_err().to_string().contains("position 100 of at most 100"));
    tokens.clear();
    tokens.push(&[0], 0..1).unwrap();
    assert!(run(&tokens, 4).is_err());
    assert!(run(&none(bench, CacheShape { n_pages: 1, ..cache }), 0).is_err());
}
