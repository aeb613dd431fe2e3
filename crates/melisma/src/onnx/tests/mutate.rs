//! Mutated models: reading and running may fail, but never panic.

use super::*;
use crate::engine::{Engine, Options, rten};
use crate::format::Value;
use crate::random::SplitMix64;

/// Returns one to four changes: bits, bytes, cuts, copies and enlarged numbers.
fn mutated(bytes: &[u8], random: &mut SplitMix64) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    for _ in 0..1 + random.below(4) {
        let at = random.below(bytes.len());
        match random.below(6) {
            0 => bytes[at] ^= 1 << random.below(8),
            1 => bytes[at] = random.bits() as u8,
            2 => bytes.truncate(at.max(1)),
            3 => {
                let end = (at + random.below(32)).min(bytes.len());
                bytes.drain(at..end);
            }
            4 => {
                let piece = bytes[at..(at + random.below(32)).min(bytes.len())].to_vec();
                let to = random.below(bytes.len());
                bytes.splice(to..to, piece);
            }
            _ => {
                let many = [0xff; 9];
                bytes.splice(at..at, many.into_iter().take(random.below(10)).chain([0x7f]));
            }
        }
        if bytes.is_empty() {
            bytes.push(0);
        }
    }
    bytes
}

/// Changes that the format allows: extreme attributes, other operators, swapped values.
fn rewired(bytes: &[u8], random: &mut SplitMix64) -> Vec<u8> {
    const EXTREMES: [i64; 9] = [0, -1, 1, 3, 1 << 20, 1 << 31, 1 << 40, i64::MAX, i64::MIN];
    const OPERATORS: [&str; 8] = ["Concat", "Expand", "ConstantOfShape", "Tile", "Range", "Reshape", "Pad", "MatMul"];
    let mut model = Model::from_bytes(bytes).unwrap();
    let graph = &mut model.graph;
    let names: Vec<String> = graph.nodes.iter().flat_map(|node| node.inputs.clone()).collect();
    for _ in 0..1 + random.below(3) {
        let at = random.below(graph.nodes.len());
        let node = &mut graph.nodes[at];
        match random.below(5) {
            0 => {
                let Some(attribute) = node.attributes.first_mut() else { continue };
                match &mut attribute.content {
                    Content::Int(int) => *int = EXTREMES[random.below(9)],
                    Content::Ints(ints) => ints.iter_mut().for_each(|int| *int = EXTREMES[random.below(9)]),
                    _ => {}
                }
            }
            1 => node.op = OPERATORS[random.below(8)].to_owned(),
            2 if !node.inputs.is_empty() => {
                let input = random.below(node.inputs.len());
                node.inputs[input].clone_from(&names[random.below(names.len())]);
            }
            3 => {
                let tensor = random.below(graph.initializers.len());
                graph.initializers[tensor].shape.insert(0, 1);
            }
            _ => node.inputs.truncate(random.below(node.inputs.len() + 1)),
        }
    }
    model.to_bytes().unwrap()
}

fn check(n_models: u64, mut then: impl FnMut(Model)) -> [usize; 2] {
    let mut counts = [0; 2];
    for seed in 0..n_models {
        let source = if seed % 2 == 0 { VOCODER } else { CONTROL };
        let mut random = SplitMix64::new(seed);
        let bytes = if seed % 4 < 2 { mutated(source, &mut random) } else { rewired(source, &mut random) };
        match Model::from_bytes(&bytes) {
            Ok(model) => {
                counts[0] += 1;
                let again = Model::from_bytes(&model.to_bytes().unwrap()).unwrap();
                // NaN is not equal to itself, so bytes are compared.
                assert_eq!(again.to_bytes().unwrap(), model.to_bytes().unwrap(), "seed {seed}");
                then(model);
            }
            Err(error) => {
                counts[1] += 1;
                assert!(!error.to_string().is_empty());
            }
        }
    }
    counts
}

/// Runs the model with the inputs that it declares, if they are small.
fn run(model: &Model) {
    let Ok(mut engine) = rten::build(model, &Options::default()) else { return };
    let values: Option<Vec<Value>> = engine
        .inputs()
        .iter()
        .map(|port| {
            let shape = port.shape.as_ref()?.iter().map(|dim| match dim {
                Dim::Known(len) if (0..64).contains(len) => Some(*len as usize),
                Dim::Known(_) => None,
                _ => Some(20),
            });
            Value::zeros(port.dtype, &shape.collect::<Option<Vec<_>>>()?).ok()
        })
        .collect();
    if let Some(values) = values {
        // The result does not matter, only that it does not panic.
        let _ = engine.run(&values);
    }
}

#[test]
fn changed_models_do_not_panic() {
    let [good, bad] = check(400, |_| {});
    assert!(good > 20 && bad > 20, "{good} read, {bad} refused");
}

#[test]
fn changed_models_do_not_crash_the_engine() {
    check(60, |model| run(&model));
}

#[test]
#[ignore = "extended: ten thousand changed models through the engine"]
fn ten_thousand_changed_models_do_not_crash() {
    let [good, bad] = check(10_000, |model| run(&model));
    println!("{good} read, {bad} refused");
}
