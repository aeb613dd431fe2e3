//! Tiny language models on a GPU: against `transformers`, against the CPU, and against themselves.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use half::{bf16, f16};
use melisma::config::DeviceRequest;
use melisma::format::safetensors::{Tensor, encode};
use melisma::llama::{Batch, Input, Key, Model, Options, Rounding, Sample, Sampler};
use melisma::snac::{self, Config};
use melisma::speak::synthetic::{self, Shape};
use melisma::{Context, DType, Existing, Remedy, pack};
use safetensors::{Dtype, SafeTensors};
use tempfile::TempDir;

use crate::gpu;
use crate::llama_golden::{
    GREEDY, Golden, MODELS, after, all, cuts_and_neighbours, draw, folder, logits, open, open_rounded, text,
};

/// Largest difference of a logit from that of the CPU or of PyTorch, of logits up to 8: a GPU multiplies floats in two
/// bf16 parts.
const TOLERANCE: f32 = 1e-3;

fn context() -> Option<Context> {
    let device = gpu::find()?;
    Some(Context::on(device, melisma::Budget::unlimited()).unwrap())
}

fn cpu() -> Context {
    Context::builder().with_device(DeviceRequest::Cpu).with_threads(2).build().unwrap()
}

/// Copies a golden model, with its matrices in bf16; norms keep their type, as they do on a GPU.
fn in_bf16(name: &str) -> TempDir {
    let copy = tempfile::tempdir().unwrap();
    for file in ["config.json", "model.safetensors.index.json"] {
        if folder(name).join(file).is_file() {
            std::fs::copy(folder(name).join(file), copy.path().join(file)).unwrap();
        }
    }
    let is_weights = |path: &Path| {
        let name = path.file_name().unwrap().to_string_lossy();
        name.starts_with("model") && name.ends_with(".safetensors")
    };
    for entry in std::fs::read_dir(folder(name)).unwrap() {
        let path = entry.unwrap().path();
        if is_weights(&path) {
            std::fs::write(copy.path().join(path.file_name().unwrap()), rounded(&std::fs::read(&path).unwrap()))
                .unwrap();
        }
    }
    copy
}

fn rounded(file: &[u8]) -> Vec<u8> {
    let file = SafeTensors::deserialize(file).unwrap();
    let names: BTreeSet<_> = file.names().into_iter().collect();
    let stored: Vec<_> = names
        .into_iter()
        .map(|name| {
            let view = file.tensor(name).unwrap();
            let (dtype, bytes) = match (view.dtype(), view.shape()) {
                (Dtype::F32, [_]) => (DType::F32, view.data().to_vec()),
                (Dtype::F16, [_]) => (DType::F16, view.data().to_vec()),
                (Dtype::F32, _) => {
                    let floats = view.data().as_chunks().0.iter().map(|&bytes| f32::from_le_bytes(bytes));
                    (DType::BF16, floats.flat_map(|float| bf16::from_f32(float).to_le_bytes()).collect())
                }
                (Dtype::F16, _) => {
                    let floats = view.data().as_chunks().0.iter().map(|&bytes| f16::from_le_bytes(bytes).to_f32());
                    (DType::BF16, floats.flat_map(|float| bf16::from_f32(float).to_le_bytes()).collect())
                }
                _ => (DType::BF16, view.data().to_vec()),
            };
            (name, dtype, view.shape().to_vec(), bytes)
        })
        .collect();
    let tensors = stored.iter().map(|(name, dtype, shape, bytes)| {
        let name = (*name).to_owned();
        Tensor { name, dtype: *dtype, shape: shape.clone(), bytes }
    });
    encode(tensors.collect(), &[("format", "pt")]).unwrap()
}

/// What `transformers` computes with a model whose matrices are bf16.
fn golden(name: &str) -> Golden {
    let rounded = folder(name).join("expected_bf16.safetensors");
    Golden::open(&if rounded.is_file() { rounded } else { folder(name).join("expected.safetensors") })
}

#[test]
fn logits_are_those_of_transformers_on_cuda() {
    let Some(context) = context() else { return };
    for name in MODELS {
        let (copy, golden) = (in_bf16(name), golden(name));
        let (model, mut batch) = open(&context, copy.path());
        let n_cuts = gpu::cases(6, 8);
        let cuts: Vec<usize> = golden.tokens("positions").into_iter().map(|cut| cut as usize).take(n_cuts).collect();
        let text = [golden.tokens("prompt"), golden.tokens("greedy")].concat();
        let found = logits((&context, &mut batch), &all(&model), &text, &cuts).concat();
        let expected = golden.floats("logits");
        assert_eq!(found.len() * 8, expected.len() * n_cuts);
        for (index, (found, expected)) in found.iter().zip(expected).enumerate() {
            assert!((found - expected).abs() < TOLERANCE, "{name}, index {index}: {found}, not {expected}");
        }
    }
}

#[test]
fn logits_are_those_of_the_cpu_on_cuda() {
    let (Some(context), cpu) = (context(), cpu()) else { return };
    for name in MODELS {
        let (copy, text) = (in_bf16(name), &text(name)[..gpu::cases(20, 150)]);
        let of = |context: &Context, folder: &Path| {
            let (model, mut batch) = open(context, folder);
            logits((context, &mut batch), &all(&model), text, &[9, text.len() - 1]).concat()
        };
        let found = of(&context, copy.path());
        for (index, (found, expected)) in found.iter().zip(of(&cpu, copy.path())).enumerate() {
            assert!((found - expected).abs() < TOLERANCE, "{name}, index {index}: {found}, not {expected}");
        }
    }
}

/// With bf16 asked for, what the weights are multiplied with and the past are rounded too: the logits, up to 8, differ
/// by what 8 bits of mantissa leave.
#[test]
fn rounded_logits_are_near_those_of_the_cpu_on_cuda() {
    let (Some(context), cpu) = (context(), cpu()) else { return };
    for name in MODELS {
        let (copy, text) = (in_bf16(name), &text(name)[..gpu::cases(20, 150)]);
        let of = |context: &Context, folder: &Path, rounding| {
            let (model, mut batch) = open_rounded(context, folder, rounding);
            logits((context, &mut batch), &all(&model), text, &[9, text.len() - 1]).concat()
        };
        let (found, exact) = (of(&context, copy.path(), Rounding::Bf16), of(&cpu, copy.path(), Rounding::Off));
        let worst = found.iter().zip(&exact).map(|(found, exact)| (found - exact).abs()).fold(0.0, f32::max);
        assert!((1e-4..0.1).contains(&worst), "{name}: {worst}");
        // Rounded on their way to the GPU, weights are the same.
        assert!(of(&context, &folder(name), Rounding::Bf16) == found, "{name}");
    }
}

#[test]
fn greedy_text_is_that_of_transformers_on_cuda() {
    let Some(context) = context() else { return };
    for name in MODELS {
        let (copy, golden) = (in_bf16(name), golden(name));
        let (model, mut batch) = open(&context, copy.path());
        let mut sampler = Sampler::new_in(&context, GREEDY, usize::MAX).unwrap();
        let (sequence, wanted) = (batch.open(), all(&model));
        let mut past = golden.tokens("prompt");
        let (n_prompt, n_tokens) = (past.len(), gpu::cases(20, 200));
        let mut first = 0;
        for position in 0..n_tokens {
            batch.step(&[Input { sequence: &sequence, tokens: &past[first..], wanted: &wanted }]).unwrap();
            first = past.len();
            let key = Key { seed: 1, sentence: 0, position };
            past.push(draw(&mut sampler, (&batch, &wanted), &past, key).unwrap());
        }
        assert_eq!(past[n_prompt..], golden.tokens("greedy")[..n_tokens as usize], "{name}");
    }
}

#[test]
fn cuts_and_neighbours_change_no_bit_on_cuda() {
    let Some(context) = context() else { return };
    for name in MODELS.iter().skip(gpu::cases(1, 0)).take(gpu::cases(1, 3)) {
        let (copy, text) = (in_bf16(name), text(name));
        for rounding in [Rounding::Off, Rounding::Bf16] {
            let opened = open_rounded(&context, copy.path(), rounding);
            cuts_and_neighbours(&context, opened, &text[..gpu::cases(70, 150)]);
        }
    }
}

/// Equal logits draw equal tokens on every device.
#[test]
fn tokens_are_those_of_the_cpu_on_cuda() {
    let (Some(context), cpu) = (context(), cpu()) else { return };
    let (model, mut batch) = open(&context, &folder("untied"));
    let (sequence, wanted) = (batch.open(), [3..60, 80..99]);
    batch.step(&[Input { sequence: &sequence, tokens: &text("untied")[..9], wanted: &wanted }]).unwrap();
    let host = after(&context, &batch, 0);
    assert_eq!((host.len(), model.config().n_tokens), (76, 99));
    let sample = Sample { repetition_penalty: 1.3, temperature: 0.8, top_k: 40, top_p: 0.95, min_p: 0.01 };
    let [mut here, mut there] = [&context, &cpu].map(|context| Sampler::new_in(context, sample, 5).unwrap());
    let past = [5, 81, 82, 4, 98, 7];
    for position in 0..gpu::cases(10, 100) {
        let key = Key { seed: 9, sentence: 2, position };
        let choice = |logits| melisma::llama::Choice { logits, wanted: &wanted, past: &past, key };
        let found = here.draw(&[choice(batch.logits(0).unwrap())]).unwrap().remove(0).unwrap();
        assert_eq!(found, there.draw(&[choice(host[..].into())]).unwrap().remove(0).unwrap(), "{position}");
    }
}

#[test]
fn packed_weights_give_the_same_bits_on_cuda() {
    let Some(context) = context() else { return };
    let (plain, packed) = (in_bf16("head_64"), tempfile::tempdir().unwrap());
    std::fs::copy(plain.path().join("config.json"), packed.path().join("config.json")).unwrap();
    let file = packed.path().join("model.packed.safetensors");
    pack::pack_file(plain.path().join("model.safetensors"), &file, Existing::Refuse).unwrap();
    let of = |folder: &Path| {
        let (model, mut batch) = open(&context, folder);
        logits((&context, &mut batch), &all(&model), &text("head_64")[..10], &[9]).concat()
    };
    assert!(of(packed.path()) == of(plain.path()));
}

#[test]
fn weights_are_never_rounded_without_being_asked_for_on_cuda() {
    let Some(context) = context() else { return };
    for name in ["three_to_one", "head_64"] {
        for rounding in [Rounding::Off, Rounding::Tf32] {
            let error = Model::open_rounded_in(&context, folder(name), rounding).unwrap_err();
            assert!(error.to_string().contains("a GPU computes language models in bf16"), "{error}");
            assert_eq!(Remedy::of(&error)[0], Remedy::UsePrecision(vec!["bf16".to_owned()]));
        }
    }
}

#[test]
fn weights_on_a_gpu_are_counted_on_cuda() {
    let Some(device) = gpu::find() else { return };
    for name in MODELS {
        let copy = in_bf16(name);
        let needed = Model::needed(copy.path(), &device).device;
        let budget = melisma::Budget::unlimited();
        let context = Context::on(device.clone(), budget.clone()).unwrap();
        let before = budget.usage(melisma::runtime::memory::Space::Device).now;
        let model = Model::open_in(&context, copy.path()).unwrap();
        let held = budget.usage(melisma::runtime::memory::Space::Device).now - before;
        // Norms are floats there.
        let norms = 2 * model.config().n_channels as u64 * (2 * model.config().n_layers as u64 + 1);
        assert_eq!(held, needed + norms, "{name}");
    }
    assert_eq!(Model::needed(folder("none"), &device).device, 0);
}

/// Microseconds that the kernels of a step take in a layer of Orpheus' size, and tokens per second of 28 of them.
#[test]
#[ignore = "extended: figures of this machine"]
fn on_cuda_kernels() {
    const N_LAYERS: usize = 4;
    const N_PAST: usize = 600;
    let Some(context) = context() else { return };
    let mut small = Config::snac_24khz();
    (small.encoder_dim, small.decoder_dim) = (8, 64);
    let (codec, folder) = (snac::Model::random(small, 0).unwrap(), tempfile::tempdir().unwrap());
    let shape =
        Shape { n_layers: N_LAYERS, n_channels: 3072, n_inner: 8192, n_heads: 24, n_key_heads: 8, ..Shape::default() };
    synthetic::write(folder.path(), &codec, Shape { context: 1024, ..shape }, 0).unwrap();
    let model = Arc::new(Model::open_rounded_in(&context, folder.path(), Rounding::Bf16).unwrap());
    let past: Vec<u32> = (0..N_PAST as u32).map(|at| 300 + at * 17 % 4096).collect();
    // 256 rows are a graph after the prompts.
    for n in [1, 8, 16, 64, 224] {
        let mut spans = Vec::new();
        // A batch launches the kernels of its first step one by one; the first batch also loads them.
        for _ in 0..2 {
            let options = Options { context: 700, n_cached: n * 704 };
            let mut batch = Batch::new_in(&context, &model, options).unwrap();
            let sequences: Vec<_> = (0..n).map(|_| batch.open()).collect();
            for tokens in [&past[..], &past[..1]] {
                context.queue().start_timing().unwrap();
                context.queue().device_spans().unwrap();
                let inputs = sequences.iter().map(|sequence| Input { sequence, tokens, wanted: &[] });
                batch.step(&inputs.collect::<Vec<_>>()).unwrap();
                spans = context.queue().device_spans().unwrap();
            }
            let start = std::time::Instant::now();
            for _ in 0..20 {
                let inputs = sequences.iter().map(|sequence| Input { sequence, tokens: &past[..1], wanted: &[] });
                batch.step(&inputs.collect::<Vec<_>>()).unwrap();
            }
            context.queue().synchronize().unwrap();
            let step = start.elapsed().as_secs_f64() / 20.0;
            let rate = n as f64 / (step * 28.0 / N_LAYERS as f64);
            println!(
                "{n} rows: {:.1} us a layer in a graph, {rate:.0} tokens/s of 28 layers",
                1e6 * step / N_LAYERS as f64
            );
        }
        for span in spans.iter().skip(spans.len() / N_LAYERS).take(spans.len() / N_LAYERS) {
            println!("{n} rows: {span:?}");
        }
    }
}
