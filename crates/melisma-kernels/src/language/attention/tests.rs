use half::bf16;

use super::{Attention, Pass, reference};
use crate::language::tokens::{CacheShape, Tokens};
use crate::random::SplitMix64;
use crate::suite::{Bench, suite};
use crate::{Cpu, DType, Device};

suite!(
    matches_reference,
    many_pages,
    long_pages,
    prompts_and_tokens_give_the_same_bits,
    batches_give_the_same_bits,
    threads_give_the_same_bits,
    large_scores,
    a_first_token,
    what_lies_beyond_is_not_read,
    nothing,
    refusals,
);

/// Runs with a cache of f32, and where a GPU takes it with one of bf16; the numbers of `cache` are such. Returns what each
/// finds.
fn run(bench: &Bench, attention: Attention, tokens: &mut Tokens, [qkv, cache]: [&[f32]; 2]) -> Vec<Vec<f32>> {
    let halves: Vec<bf16> = cache.iter().map(|&x| bf16::from_f32(x)).collect();
    assert!(cache.iter().zip(&halves).all(|(x, half)| x.is_nan() || *x == half.to_f32()));
    let mut caches = vec![bench.tensor(cache)];
    if matches!(bench.device, Device::Cuda(_)) && attention.cache.head_dim.is_multiple_of(8) {
        caches.push(bench.tensor(&halves));
    }
    let qkv = bench.tensor(qkv);
    tokens.send(&bench.queue).unwrap();
    let of = |cache: &crate::Tensor| {
        let mut y = bench.tensor(&vec![f32::NAN; tokens.len() * attention.n_heads * attention.cache.head_dim]);
        let pass = Pass { qkv: qkv.view().unwrap(), cache, y: y.view_mut().unwrap() };
        attention.plan(&bench.device, cache.dtype()).unwrap().run(&bench.queue, tokens, pass).unwrap();
        y.to_vec(&bench.queue).unwrap()
    };
    caches.iter().map(of).collect()
}

/// Returns numbers that bf16 has too.
fn halves(random: &mut SplitMix64, n: usize) -> Vec<f32> {
    random.floats(n).into_iter().map(|x| bf16::from_f32(x).to_f32()).collect()
}

fn none(bench: &Bench, cache: CacheShape) -> Tokens {
    Tokens::new(cache, 8, &bench.device, &bench.budget).unwrap()
}

fn shape(n_keys: usize, head_dim: usize) -> CacheShape {
    CacheShape { n_pages: 7, page_len: 8, n_heads: n_keys, head_dim }
}

/// Compares the tokens at `positions` of a sequence with the given pages.
fn check(bench: &Bench, attention: Attention, pages: &[u32], positions: &[usize]) {
    let Attention { n_heads, cache } = attention;
    let CacheShape { page_len, n_heads: n_keys, head_dim, .. } = cache;
    let mut random = SplitMix64::new(head_dim as u64);
    let floats = halves(&mut random, cache.n_floats().unwrap());
    for &position in positions {
        let qkv = random.floats((n_heads + 2 * n_keys) * head_dim);
        let mut tokens = none(bench, cache);
        tokens.push(pages, position..position + 1).unwrap();
        let found = run(bench, attention, &mut tokens, [&qkv, &floats]);
        for (head, y) in found.iter().flat_map(|y| y.chunks(head_dim).enumerate()) {
            let key_head = head / (n_heads / n_keys);
            let place = |start: &dyn Fn(u32) -> usize, j: usize| start(pages[j / page_len]) + j % page_len * head_dim;
            let slice = |start: &dyn Fn(u32) -> usize| -> Vec<&[f32]> {
                (0..=position).map(|j| &floats[place(start, j)..][..head_dim]).collect()
            };
            let keys = slice(&|page| cache.keys(page, key_head));
            let values = slice(&|page| cache.values(page, key_head));
            let expected = reference::attend(&qkv[head * head_dim..][..head_dim], &keys, &values);
            for (index, (&found, expected)) in y.iter().zip(expected).enumerate() {
                assert!(
                    (f64::from(found) - expected).abs() < 1e-5,
                    "{n_heads}:{n_keys} of {head_dim} at {position}, head {head}, {index}: {found}, not {expected}"
                );
            }
        }
    }
}

fn matches_reference(bench: &Bench) {
    let shapes = match bench.device {
        Device::Cpu(_) => [(3, 1, 128), (6, 2, 16), (1, 1, 2), (4, 4, 40), (2, 1, 64), (5, 1, 33)],
        Device::Cuda(_) => [(3, 1, 128), (6, 2, 16), (1, 1, 4), (4, 4, 40), (9, 1, 64), (5, 1, 136)],
    };
    for (n_heads, n_keys, head_dim) in shapes {
        let attention = Attention { n_heads, cache: shape(n_keys, head_dim) };
        check(bench, attention, &[4, 0, 6, 1, 5], &[0, 1, 7, 8, 23, 39]);
    }
}

/// More pages than a GPU's block has warps.
fn many_pages(bench: &Bench) {
    let cache = CacheShape { n_pages: 20, page_len: 4, n_heads: 2, head_dim: 8 };
    let pages: Vec<u32> = (0..20).map(|n| n * 7 % 20).collect();
    check(bench, Attention { n_heads: 6, cache }, &pages, &[31, 32, 66, 79]);
}

/// Pages of which a GPU takes some tokens at a time.
fn long_pages(bench: &Bench) {
    let cache = CacheShape { n_pages: 13, page_len: 70, n_heads: 1, head_dim: 24 };
    let pages: Vec<u32> = (0..13).map(|n| n * 5 % 13).collect();
    check(bench, Attention { n_heads: 3, cache }, &pages, &[30, 31, 32, 63, 64, 69, 70, 200, 909]);
}

fn prompts_and_tokens_give_the_same_bits(bench: &Bench) {
    let cache = shape(2, 16);
    let (attention, row_len) = (Attention { n_heads: 6, cache }, 10 * 16);
    let mut random = SplitMix64::new(1);
    let (qkv, floats) = (random.floats(40 * row_len), halves(&mut random, cache.n_floats().unwrap()));
    let pages = [3, 2, 5, 0, 6];
    let mut tokens = none(bench, cache);
    tokens.push(&pages, 0..40).unwrap();
    let prompt = run(bench, attention, &mut tokens, [&qkv, &floats]);
    for position in 0..40 {
        tokens.clear();
        tokens.push(&pages, position..position + 1).unwrap();
        let one = run(bench, attention, &mut tokens, [&qkv[position * row_len..][..row_len], &floats]);
        for (one, prompt) in one.iter().zip(&prompt) {
            assert_eq!(one, &prompt[position * 96..][..96], "position {position}");
        }
    }
}

fn batches_give_the_same_bits(bench: &Bench) {
    let cache = shape(1, 24);
    let (attention, row_len) = (Attention { n_heads: 3, cache }, 5 * 24);
    let mut random = SplitMix64::new(2);
    let (qkv, floats) = (random.floats(3 * row_len), halves(&mut random, cache.n_floats().unwrap()));
    let sequences = [(&[0u32, 1][..], 12), (&[2], 3), (&[3, 4, 5], 20)];
    let mut tokens = none(bench, cache);
    for (pages, position) in sequences {
        tokens.push(pages, position..position + 1).unwrap();
    }
    let batch = run(bench, attention, &mut tokens, [&qkv, &floats]);
    for (row, (pages, position)) in sequences.into_iter().enumerate() {
        tokens.clear();
        tokens.push(pages, position..position + 1).unwrap();
        let one = run(bench, attention, &mut tokens, [&qkv[row * row_len..][..row_len], &floats]);
        for (one, batch) in one.iter().zip(&batch) {
            assert_eq!(one, &batch[row * 72..][..72], "row {row}");
        }
    }
}

fn threads_give_the_same_bits(bench: &Bench) {
    let Device::Cpu(Cpu { isa, .. }) = bench.device else { return };
    let cache = shape(2, 16);
    let mut random = SplitMix64::new(3);
    let (qkv, floats) = (random.floats(20 * 128), halves(&mut random, cache.n_floats().unwrap()));
    let mut tokens = none(bench, cache);
    tokens.push(&[1, 2, 3], 0..20).unwrap();
    let mut of = |threads| {
        let bench = Bench::new(Device::Cpu(Cpu { isa, threads }));
        run(&bench, Attention { n_heads: 4, cache }, &mut tokens, [&qkv, &floats])
    };
    assert_eq!(of(1), of(3));
}

/// Scores of hundreds: the softmax is that of the largest.
fn large_scores(bench: &Bench) {
    let cache = CacheShape { n_pages: 2, page_len: 2, n_heads: 1, head_dim: 8 };
    let mut floats = vec![0.0; cache.n_floats().unwrap()];
    floats[..8].fill(-300.0);
    floats[8..16].fill(100.0);
    floats[16..24].fill(1.0);
    floats[24..32].copy_from_slice(&[2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0]);
    floats[32..40].fill(-900.0);
    let mut tokens = none(bench, cache);
    tokens.push(&[0, 1], 2..3).unwrap();
    for y in run(bench, Attention { n_heads: 1, cache }, &mut tokens, [&[1.0; 24], &floats]) {
        assert_eq!(y, [2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0]);
    }
}

fn a_first_token(bench: &Bench) {
    let cache = shape(1, 8);
    let floats = halves(&mut SplitMix64::new(4), cache.n_floats().unwrap());
    let mut tokens = none(bench, cache);
    tokens.push(&[2], 0..1).unwrap();
    for y in run(bench, Attention { n_heads: 1, cache }, &mut tokens, [&[1.0; 24], &floats]) {
        assert_eq!(y, floats[cache.values(2, 0)..][..8]);
    }
}

fn what_lies_beyond_is_not_read(bench: &Bench) {
    let cache = shape(1, 8);
    let mut floats = vec![f32::NAN; cache.n_floats().unwrap()];
    for start in [cache.keys(1, 0), cache.values(1, 0)] {
        floats[start..start + 3 * 8].fill(0.5);
    }
    let mut tokens = none(bench, cache);
    tokens.push(&[1], 2..3).unwrap();
    for y in run(bench, Attention { n_heads: 1, cache }, &mut tokens, [&[1.0; 24], &floats]) {
        assert!(y.iter().all(|y| (y - 0.5).abs() < 1e-6), "{y:?}");
    }
    tokens.clear();
    tokens.push(&[1], 3..4).unwrap();
    for y in run(bench, Attention { n_heads: 1, cache }, &mut tokens, [&[1.0; 24], &floats]) {
        assert!(y.iter().all(|y| y.is_nan()), "{y:?}");
    }
}

fn nothing(bench: &Bench) {
    let cache = shape(1, 8);
    let floats = vec![0.0; cache.n_floats().unwrap()];
    let found = run(bench, Attention { n_heads: 1, cache }, &mut none(bench, cache), [&[], &floats]);
    assert!(found.iter().all(Vec::is_empty));
}

fn refusals(bench: &Bench) {
    let cache = shape(2, 8);
    let refused = Attention { n_heads: 3, cache }.plan(&bench.device, DType::F32).unwrap_err();
    assert!(refused.to_string().contains("3 heads are not a multiple of 2 key heads"));
    assert!(Attention { n_heads: 0, cache }.plan(&bench.device, DType::F32).is_err());
    let other = Attention { n_heads: 2, cache }.plan(&bench.device, DType::F16).unwrap_err();
    assert!(other.to_string().contains("a cache of f16"), "{other}");
    let plan = Attention { n_heads: 2, cache }.plan(&bench.device, DType::F32).unwrap();
    let mut tokens = none(bench, cache);
    tokens.push(&[0], 0..1).unwrap();
    tokens.send(&bench.queue).unwrap();
    let n_floats = cache.n_floats().unwrap();
    let run = |tokens: &Tokens, lens: [usize; 3]| {
        let [x, cache, mut y] = lens.map(|len| bench.tensor(&vec![0.0f32; len]));
        let pass = Pass { qkv: x.view().unwrap(), cache: &cache, y: y.view_mut().unwrap() };
        plan.run(&bench.queue, tokens, pass)
    };
    assert!(run(&tokens, [48, n_floats, 16]).is_ok());
    assert!(run(&tokens, [47, n_floats, 16]).is_err());
    assert!(run(&tokens, [48, n_floats - 1, 16]).is_err());
    assert!(run(&tokens, [48, n_floats, 15]).is_err());
    assert!(run(&none(bench, shape(2, 4)), [0, n_floats, 0]).is_err());
    if let Device::Cuda(_) = bench.device {
        let of = |head_dim, page_len, dtype| {
            let cache = CacheShape { n_pages: 1, page_len, n_heads: 1, head_dim };
            Attention { n_heads: 2, cache }.plan(&bench.device, dtype).unwrap_err().to_string()
        };
        assert!(of(6, 8, DType::F32).contains("heads of 6 channels on a GPU"));
        assert!(of(12, 8, DType::BF16).contains("heads of 12 channels and a cache of bf16"));
        assert!(of(8, 7000, DType::F32).contains("pages of 7000 tokens do not fit"));
        tokens.clear();
        tokens.push(&[0], 0..1).unwrap();
        assert!(run(&tokens, [48, n_floats, 16]).unwrap_err().to_string().contains("not sent"));
    }
}
