//! Tiny language models against what `transformers` computes with them, and against themselves.

use std::ops::Range;
use std::path::{Path, PathBuf};
use std::slice::from_ref;
use std::sync::Arc;

use melisma::config::DeviceRequest;
use melisma::llama::{Batch, Choice, Input, Key, Model, Options, Rounding, Sample, Sampler};
use melisma::pack::Index;
use melisma::{Context, Existing, Result, pack};
use safetensors::SafeTensors;

use crate::repository;

pub const MODELS: [&str; 3] = ["three_to_one", "untied", "head_64"];
/// Largest difference of a logit from that of PyTorch, of logits up to 8: both sum in f32, in different orders.
const TOLERANCE: f32 = 1e-4;
pub const GREEDY: Sample = Sample { repetition_penalty: 1.0, temperature: 0.0, top_k: 0, top_p: 1.0, min_p: 0.0 };

pub fn folder(name: &str) -> PathBuf {
    repository::path("golden/llama").join(name)
}

/// Tensors of a golden file.
pub struct Golden(Vec<u8>);

impl Golden {
    pub fn open(path: &Path) -> Self {
        Self(std::fs::read(path).unwrap())
    }

    fn words<T>(&self, name: &str, of: impl Fn([u8; 4]) -> T) -> Vec<T> {
        let file = SafeTensors::deserialize(&self.0).unwrap();
        file.tensor(name).unwrap().data().as_chunks().0.iter().map(|&bytes| of(bytes)).collect()
    }

    pub fn tokens(&self, name: &str) -> Vec<u32> {
        self.words(name, u32::from_le_bytes)
    }

    pub fn floats(&self, name: &str) -> Vec<f32> {
        self.words(name, f32::from_le_bytes)
    }
}

fn cpu(threads: usize) -> Context {
    Context::builder().with_device(DeviceRequest::Cpu).with_threads(threads).build().unwrap()
}

pub fn open(context: &Context, folder: &Path) -> (Arc<Model>, Batch) {
    open_rounded(context, folder, Rounding::Off)
}

pub fn open_rounded(context: &Context, folder: &Path, rounding: Rounding) -> (Arc<Model>, Batch) {
    let model = Arc::new(Model::open_rounded_in(context, folder, rounding).unwrap());
    let batch = Batch::new_in(context, &model, Options { context: 256, n_cached: 1024 }).unwrap();
    (model, batch)
}

pub fn all(model: &Model) -> Vec<Range<u32>> {
    std::iter::once(0..model.config().n_tokens as u32).collect()
}

/// Returns the logits of an input of the last step.
pub fn after(context: &Context, batch: &Batch, input: usize) -> Vec<f32> {
    let logits = batch.logits(input).unwrap();
    let mut values = vec![0.0; logits.len()];
    context.queue().copy(logits, values[..].as_mut().into()).unwrap();
    values
}

/// Returns the logits after each of `cuts`, positions in `text`, in a new sequence.
pub fn logits(
    (context, batch): (&Context, &mut Batch),
    wanted: &[Range<u32>],
    text: &[u32],
    cuts: &[usize],
) -> Vec<Vec<f32>> {
    let sequence = batch.open();
    let mut first = 0;
    let step = |&cut: &usize| {
        let input = Input { sequence: &sequence, tokens: &text[first..=cut], wanted };
        batch.step(&[input]).unwrap();
        first = cut + 1;
        after(context, batch, 0)
    };
    let found = cuts.iter().map(step).collect();
    batch.close(sequence);
    found
}

pub fn text(name: &str) -> Vec<u32> {
    let golden = Golden::open(&folder(name).join("expected.safetensors"));
    [golden.tokens("prompt"), golden.tokens("greedy")].concat()
}

#[test]
fn logits_are_those_of_transformers() {
    for name in MODELS {
        let context = cpu(2);
        let (model, mut batch) = open(&context, &folder(name));
        let golden = Golden::open(&folder(name).join("expected.safetensors"));
        let cuts: Vec<usize> = golden.tokens("positions").into_iter().map(|cut| cut as usize).collect();
        let found = logits((&context, &mut batch), &all(&model), &text(name), &cuts).concat();
        for (index, (found, expected)) in found.iter().zip(golden.floats("logits")).enumerate() {
            assert!((found - expected).abs() < TOLERANCE, "{name}, index {index}: {found}, not {expected}");
        }
    }
}

/// Draws from the logits of the last step's only input.
pub fn draw(sampler: &mut Sampler, (batch, wanted): (&Batch, &[Range<u32>]), past: &[u32], key: Key) -> Result<u32> {
    sampler.draw(&[Choice { logits: batch.logits(0)?, wanted, past, key }])?.remove(0)
}

#[test]
fn greedy_text_is_that_of_transformers() {
    for name in MODELS {
        let context = cpu(2);
        let (model, mut batch) = open(&context, &folder(name));
        let golden = Golden::open(&folder(name).join("expected.safetensors"));
        let mut sampler = Sampler::new_in(&context, GREEDY, usize::MAX).unwrap();
        let (sequence, wanted) = (batch.open(), all(&model));
        let mut past = golden.tokens("prompt");
        let n_prompt = past.len();
        let mut first = 0;
        for position in 0..200 {
            let input = Input { sequence: &sequence, tokens: &past[first..], wanted: &wanted };
            batch.step(&[input]).unwrap();
            first = past.len();
            let key = Key { seed: 1, sentence: 0, position };
            past.push(draw(&mut sampler, (&batch, &wanted), &past, key).unwrap());
        }
        assert_eq!(past[n_prompt..], golden.tokens("greedy"), "{name}");
    }
}

/// A sequence has the same bits in one step and token by token, alone and beside others, and when only some logits are
/// computed.
pub fn cuts_and_neighbours(context: &Context, (model, mut batch): (Arc<Model>, Batch), text: &[u32]) -> Vec<f32> {
    let (wanted, n) = (all(&model), text.len());
    let whole = logits((context, &mut batch), &wanted, text, &[n - 1]).remove(0);
    let each: Vec<usize> = (0..n).collect();
    let one_by_one = logits((context, &mut batch), &wanted, text, &each);
    assert!(one_by_one[n - 1] == whole, "token by token");

    let some = [7..9, 30..31, 0..64];
    let [a, b, c] = [(); 3].map(|()| batch.open());
    let half = n / 2;
    let inputs = [
        Input { sequence: &a, tokens: &text[..half], wanted: &wanted },
        Input { sequence: &b, tokens: text, wanted: &some },
        Input { sequence: &c, tokens: &text[..1], wanted: &wanted },
    ];
    batch.step(&inputs).unwrap();
    let after = |batch: &Batch, input| after(context, batch, input);
    assert!(after(&batch, 0) == one_by_one[half - 1], "beside others");
    let picked: Vec<f32> =
        some.iter().flat_map(|range| &whole[range.start as usize..range.end as usize]).copied().collect();
    assert!(after(&batch, 1) == picked, "some logits");
    assert!(after(&batch, 2) == one_by_one[0], "beside others");
    batch.close(b);
    let inputs = [
        Input { sequence: &c, tokens: &text[1..2], wanted: &wanted },
        Input { sequence: &a, tokens: &text[half..=half], wanted: &wanted },
    ];
    batch.step(&inputs).unwrap();
    assert!((after(&batch, 0), after(&batch, 1)) == (one_by_one[1].clone(), one_by_one[half].clone()), "in turns");
    assert_eq!((batch.len(&a).unwrap(), batch.len(&c).unwrap()), (half + 1, 2));
    whole
}

#[test]
fn cuts_neighbours_and_threads_change_no_bit() {
    for name in MODELS {
        let (folder, text) = (folder(name), &text(name)[..150]);
        let [one, three] = [1, 3].map(|threads| {
            let context = cpu(threads);
            cuts_and_neighbours(&context, open(&context, &folder), text)
        });
        assert!(one == three, "{name}");
    }
}

#[test]
fn packed_weights_give_the_same_bits() {
    for name in ["three_to_one", "head_64"] {
        let copy = tempfile::tempdir().unwrap();
        std::fs::copy(folder(name).join("config.json"), copy.path().join("config.json")).unwrap();
        let packed = copy.path().join("model.packed.safetensors");
        pack::pack_file(folder(name).join("model.safetensors"), &packed, Existing::Refuse).unwrap();
        let context = cpu(2);
        let text = &text(name)[..40];
        let of = |folder: &Path| {
            let (model, mut batch) = open(&context, folder);
            logits((&context, &mut batch), &all(&model), text, &[39])
        };
        assert_eq!(of(copy.path()), of(&folder(name)));
        let renamed = copy.path().join("voice.packed.safetensors");
        let plain = copy.path().join("voice.safetensors");
        for (from, to) in [(&packed, &plain), (&plain, &renamed)] {
            std::fs::rename(from, to).unwrap();
            assert_eq!(of(copy.path()), of(&folder(name)), "under any name");
        }
        std::fs::copy(&renamed, copy.path().join("other.packed.safetensors")).unwrap();
        let error = Model::open_in(&context, copy.path()).unwrap_err().to_string();
        assert!(
            error.ends_with(": several packed models: other.packed.safetensors, voice.packed.safetensors"),
            "{error}"
        );
    }
}

/// Packed shards and their index give the bits of the plain ones.
#[test]
fn packed_shards_give_the_same_bits() {
    let copy = tempfile::tempdir().unwrap();
    for entry in std::fs::read_dir(folder("untied")).unwrap() {
        let path = entry.unwrap().path();
        std::fs::copy(&path, copy.path().join(path.file_name().unwrap())).unwrap();
    }
    let index = Index::open(copy.path().join("model.safetensors.index.json")).unwrap();
    assert_eq!(index.shards.len(), 2);
    index.write_packed(Existing::Refuse).unwrap();
    for (name, _) in &index.shards {
        let plain = copy.path().join(name);
        pack::pack_file(&plain, pack::packed_path(&plain), Existing::Refuse).unwrap();
        std::fs::remove_file(plain).unwrap();
    }
    std::fs::remove_file(copy.path().join("model.safetensors.index.json")).unwrap();
    let context = cpu(2);
    let of = |folder: &Path| {
        let (model, mut batch) = open(&context, folder);
        logits((&context, &mut batch), &all(&model), &text("untied")[..40], &[39])
    };
    assert_eq!(of(copy.path()), of(&folder("untied")));
}

#[test]
fn steps_that_cannot_be_are_refused_and_change_nothing() {
    let context = cpu(1);
    let model = Arc::new(Model::open_in(&context, folder("untied")).unwrap());
    let mut batch = Batch::new_in(&context, &model, Options { context: 100, n_cached: 128 }).unwrap();
    let (wanted, a, b) = (all(&model), batch.open(), batch.open());
    let tokens = vec![5; 101];
    let refused = |batch: &mut Batch, inputs: &[Input<'_>], expected: &str| {
        let error = batch.step(inputs).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}, expected {expected}");
    };
    let wanted = &wanted[..];
    refused(&mut batch, &[Input { sequence: &a, tokens: &[], wanted }], "no tokens");
    refused(
        &mut batch,
        &[Input { sequence: &a, tokens: &tokens, wanted }],
        "101 tokens after 0 do not fit into a context of 100",
    );
    refused(&mut batch, &[Input { sequence: &a, tokens: &[1, 99], wanted }], "token 99 of a vocabulary of 99");
    refused(
        &mut batch,
        &[Input { sequence: &a, tokens: &[1], wanted }, Input { sequence: &a, tokens: &[2], wanted }],
        "occurs twice",
    );
    refused(&mut batch, &[Input { sequence: &a, tokens: &[1], wanted: from_ref(&(0..100)) }], "logits of 0..100");
    refused(
        &mut batch,
        &[Input { sequence: &a, tokens: &tokens[..65], wanted }, Input { sequence: &b, tokens: &tokens[..65], wanted }],
        "this step needs 4",
    );
    assert_eq!((batch.len(&a).unwrap(), batch.room()), (0, 128));
    batch
        .step(&[
            Input { sequence: &a, tokens: &tokens[..64], wanted },
            Input { sequence: &b, tokens: &tokens[..64], wanted },
        ])
        .unwrap();
    refused(&mut batch, &[Input { sequence: &a, tokens: &[1], wanted }], "0 free pages");
    batch.close(b);
    batch.step(&[Input { sequence: &a, tokens: &[1], wanted }]).unwrap();
    assert_eq!((batch.len(&a).unwrap(), batch.room()), (65, 0));
    let error = Batch::new_in(&context, &model, Options { context: 513, n_cached: 128 }).unwrap_err();
    assert!(error.to_string().contains("a context of 513 tokens; the model has at most 512"), "{error}");
}

/// Copies a model, with `change` made to its configuration and weights.
fn changed(name: &str, change: impl Fn(&mut String, &mut Vec<u8>)) -> tempfile::TempDir {
    let copy = tempfile::tempdir().unwrap();
    let mut config = std::fs::read_to_string(folder(name).join("config.json")).unwrap();
    let mut weights = std::fs::read(folder(name).join("model.safetensors")).unwrap();
    change(&mut config, &mut weights);
    std::fs::write(copy.path().join("config.json"), config).unwrap();
    std::fs::write(copy.path().join("model.safetensors"), weights).unwrap();
    copy
}

#[test]
fn damaged_models_are_refused() {
    let opened = |change: &dyn Fn(&mut String, &mut Vec<u8>)| {
        let copy = changed("three_to_one", change);
        Model::open_in(&cpu(1), copy.path()).map(|_| ()).unwrap_err().to_string()
    };
    let config = |from: &'static str, to: &'static str| {
        opened(&move |config: &mut String, _: &mut Vec<u8>| *config = config.replace(from, to))
    };
    for (error, expected) in [
        (config("\"vocab_size\": 128", "\"vocab_size\": 136"), "embed_tokens.weight: expected the shape [136, 48]"),
        (
            config("\"num_hidden_layers\": 2", "\"num_hidden_layers\": 3"),
            "model.layers.2.self_attn.q_proj.weight: this",
        ),
        (config("\"num_hidden_layers\": 2", "\"num_hidden_layers\": 1"), "model.layers.1"),
        (config("\"tie_word_embeddings\": true", "\"tie_word_embeddings\": false"), "lm_head.weight: this tensor is"),
        (config("silu", "gelu"), "hidden_act"),
        (opened(&|_, weights| weights.truncate(5000)), "model.safetensors"),
        (opened(&|_, weights| weights.clear()), "model.safetensors"),
    ] {
        assert!(error.contains(expected), "{error}, expected {expected}");
    }
    let empty = tempfile::tempdir().unwrap();
    assert!(Model::open_in(&cpu(1), empty.path()).unwrap_err().to_string().contains("config.json"));
    std::fs::copy(folder("untied").join("config.json"), empty.path().join("config.json")).unwrap();
    let error = Model::open_in(&cpu(1), empty.path()).unwrap_err();
    assert!(error.to_string().contains("no model.safetensors in this folder"), "{error}");
}

/// A NaN in the weights is an error of the draw, never a token.
#[test]
fn damaged_numbers_are_never_a_token() {
    let copy = changed("three_to_one", |_, weights| {
        let end = weights.len();
        weights[end - 4..].copy_from_slice(&f32::NAN.to_le_bytes());
    });
    let context = cpu(1);
    let (model, mut batch) = open(&context, copy.path());
    let (wanted, sequence) = (all(&model), batch.open());
    batch.step(&[Input { sequence: &sequence, tokens: &[1, 2], wanted: &wanted }]).unwrap();
    for temperature in [0.0, 1.0] {
        let mut sampler = Sampler::new_in(&context, Sample { temperature, ..GREEDY }, usize::MAX).unwrap();
        let error = draw(&mut sampler, (&batch, &wanted), &[1, 2], Key::default()).unwrap_err();
        assert!(error.to_string().contains("is NaN"), "{error}");
    }
}

#[test]
fn samplers_weigh_as_transformers_does() {
    let golden = Golden::open(&folder("sampler.safetensors"));
    let cases: Vec<serde_json::Value> =
        serde_json::from_slice(&std::fs::read(folder("sampler.json")).unwrap()).unwrap();
    let (logits, past) = (golden.floats("logits"), golden.tokens("past"));
    for (window, name) in [(usize::MAX, "all"), (8, "last_8")] {
        for (case, expected) in cases.iter().zip(golden.floats(name).chunks(logits.len())) {
            let number = |key: &str| case[key].as_f64().unwrap() as f32;
            let sample = Sample {
                repetition_penalty: number("repetition_penalty"),
                temperature: number("temperature"),
                top_k: case["top_k"].as_u64().unwrap() as usize,
                top_p: number("top_p"),
                min_p: number("min_p"),
            };
            let mut sampler = Sampler::new_in(&cpu(1), sample, window).unwrap();
            let wanted = &[0..100, 100..300];
            let choice = Choice { logits: logits[..].into(), wanted, past: &past, key: Key::default() };
            let weights = sampler.weigh(choice).unwrap();
            let total: f32 = weights.iter().map(|&weight| weight as f32).sum();
            for (token, (&weight, &expected)) in weights.iter().zip(expected).enumerate() {
                let found = weight as f32 / total;
                assert!((found - expected).abs() < 1e-5, "{case}, token {token}: {found}, not {expected}");
                assert_eq!(weight > 0, expected > 0.0, "{case}, token {token}");
            }
        }
    }
}

/// In speech only the tokens of a slot can be drawn.
#[test]
fn a_draw_stays_within_the_wanted_tokens() {
    let context = cpu(1);
    let (_, mut batch) = open(&context, &folder("three_to_one"));
    let (sequence, wanted) = (batch.open(), [100..116, 3..4]);
    batch.step(&[Input { sequence: &sequence, tokens: &[1, 2, 3], wanted: &wanted }]).unwrap();
    let mut sampler = Sampler::new_in(&context, Sample { temperature: 100.0, ..GREEDY }, 64).unwrap();
    let choice = |position| Choice {
        logits: batch.logits(0).unwrap(),
        wanted: &wanted,
        past: &[1, 2, 3],
        key: Key { position, ..Key::default() },
    };
    let choices: Vec<_> = (0..500).map(choice).collect();
    let drawn: Vec<u32> = sampler.draw(&choices).unwrap().into_iter().collect::<Result<_>>().unwrap();
    assert!(drawn.iter().all(|token| wanted.iter().any(|range| range.contains(token))));
    assert!(drawn.contains(&3) && drawn.contains(&100) && drawn.contains(&115));
    assert!(sampler.draw(&[Choice { wanted: from_ref(&(0..1)), ..choice(0) }]).is_err());
}
