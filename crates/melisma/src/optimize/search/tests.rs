mod answer;
mod choose;
mod evidence;
mod memory;

use std::cell::RefCell;
use std::path::{Path, PathBuf};

use super::candidate::{EngineSettings, chunk, engines, prepare};
use super::measure::{Program, Sets, Spec, Task};
use super::*;
use crate::config::precision::Format;
use crate::config::{Config, Sources};
use crate::engine::{Engine, EngineName, Options, Port, rten};
use crate::format::{Value, npy};
use crate::golden::optimize as golden;
use crate::onnx::Model;
use crate::optimize::cache::{Cache, Health, Miss, Options as CacheOptions};
use crate::runtime::memory::Budget;
use crate::{ErrorKind, Remedy, Result};

fn config(flags: &[(&'static str, &str)]) -> Config {
    Config::of_flags(&[&[("device", "cpu")][..], flags].concat())
}

fn requirements(precision: Wanted, tolerance: f64) -> Requirements {
    Requirements { precision, tolerance, engine: Some(EngineName::Rten), objective: None }
}

fn request(inputs: &[&str]) -> Request {
    Request {
        model: golden("vocoder.onnx"),
        inputs: inputs.iter().map(|text| text.parse().unwrap()).collect(),
        requirements: requirements(Wanted::Fp32, 1e-3),
        calibrate: None,
        remeasure: false,
    }
}

fn with_search<R>(root: &Path, config: &Config, work: impl FnOnce(&Search<'_>) -> R) -> (R, Vec<String>) {
    let cache = Cache::open(Some(root), CacheOptions { limit_bytes: 1 << 30, threads: 2 });
    let said = RefCell::new(Vec::new());
    let say = |message: &Message| said.borrow_mut().push(message.to_string());
    let budget = Budget::unlimited();
    let worker = Worker::Here(budget.clone());
    let result = work(&Search { config, budget: &budget, cache, worker, free_bytes: None, say: &say });
    (result, said.into_inner())
}

fn optimize(root: &Path, config: &Config, request: &Request) -> Result<Outcome> {
    with_search(root, config, |search| search.optimize(request)).0
}

#[test]
fn the_second_call_is_a_hit() {
    let (root, config) = (tempfile::tempdir().unwrap(), config(&[]));
    let request = request(&["x=1x3x64"]);
    let first = optimize(root.path(), &config, &request).unwrap();
    assert_eq!(first.miss, Some(Miss::Unknown));
    assert_eq!((first.report.candidate.engine, first.report.reference.as_str()), (EngineName::Rten, "rten"));
    assert!(
        first.report.latency_seconds.p50 > 0.0 && first.report.latency_seconds.p99 >= first.report.latency_seconds.p50
    );
    assert!(first.entry.folder.join("model.packed").is_file());
    let second = optimize(root.path(), &config, &request).unwrap();
    assert_eq!((second.miss, &second.report.candidate, &second.key), (None, &first.report.candidate, &first.key));
    let other = optimize(root.path(), &config, &self::request(&["x=1x3x65"])).unwrap();
    assert!(matches!(&other.miss, Some(Miss::Changed(parts)) if parts[0].starts_with("inputs: ")));
}

#[test]
fn a_cached_engine_is_measured_again_when_asked() {
    let (root, config) = (tempfile::tempdir().unwrap(), config(&[]));
    let again = Request { remeasure: true, ..request(&["x=1x3x64"]) };
    let first = optimize(root.path(), &config, &again).unwrap();
    assert_eq!(first.miss, Some(Miss::Unknown), "nothing is cached yet");
    let second = optimize(root.path(), &config, &again).unwrap();
    assert_eq!((second.miss, &second.key), (Some(Miss::Asked), &first.key));
    assert_eq!(optimize(root.path(), &config, &request(&["x=1x3x64"])).unwrap().miss, None);
}

#[test]
fn an_engine_that_gives_something_else_is_set_aside_and_made_again() {
    let (root, config) = (tempfile::tempdir().unwrap(), config(&[]));
    let request = request(&["x=1x3x64"]);
    let first = optimize(root.path(), &config, &request).unwrap();
    let path = first.entry.folder.join("manifest.json");
    let mut manifest = first.entry.manifest.clone();
    manifest.self_check[0].values[3] = Some(7.0);
    let text = serde_json::to_vec(&manifest).unwrap();
    std::fs::write(&path, &text).unwrap();
    std::fs::write(path.with_file_name("seal"), blake3::hash(&text).to_hex().as_bytes()).unwrap();
    let (again, said) = with_search(root.path(), &config, |search| search.optimize(&request).unwrap());
    assert!(again.miss.is_some());
    assert!(said.iter().any(|line| line.contains("set aside: self-check: output `y` is")), "{said:?}");
    let cache = Cache::open(Some(root.path()), CacheOptions { limit_bytes: 1 << 30, threads: 1 });
    assert!(
        cache.list().iter().any(|entry| matches!(&entry.health, Health::SetAside(why) if why.contains("self-check")))
    );
}

#[test]
fn accuracy_is_what_an_independent_comparison_says() {
    let (root, config) = (tempfile::tempdir().unwrap(), config(&[]));
    let x = golden("vocoder.x.npy");
    let outcome = optimize(root.path(), &config, &request(&[&format!("x={}", x.display())])).unwrap();
    let model = prepare::cached(&outcome.entry.folder, &Budget::unlimited()).unwrap();
    let candidate = &outcome.report.candidate;
    let options = candidate.options();
    let found = rten::build(&model, &options).unwrap().run(&[npy::read(&x).unwrap()]).unwrap();
    // The golden file contains onnxruntime's output, so the reference is independent.
    let expected = npy::read(golden("vocoder.y.npy")).unwrap();
    let (found, expected) = (found[0].as_slice::<f32>().unwrap(), expected.as_slice::<f32>().unwrap());
    let max_abs = found.iter().zip(expected).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
    assert!(max_abs < 1e-5, "{max_abs}");
    let compared = outcome.report.accuracy;
    assert!((compared.max_abs - f64::from(max_abs)).abs() < 1e-5 && compared.cosine > 0.999_999);
}

/// Returns two products with a curve between them, which both lower precisions change.
fn perceptron() -> Model {
    use crate::onnx::{Graph, Node, Tensor, ValueInfo};
    let weights = |name: &str, seed: u32| {
        let value = |i: u32| (i.wrapping_mul(2_654_435_761).wrapping_mul(seed) >> 8) as f32 / (1 << 23) as f32 - 1.0;
        Tensor::from_slice(name, &(0..96 * 96).map(|i: u32| value(i.wrapping_mul(97))).collect::<Vec<_>>(), &[96, 96])
    };
    let port = |name: &str| ValueInfo::tensor(name, 1, &[6, 96].map(crate::onnx::Dim::Known));
    let graph = Graph {
        nodes: vec![
            Node::new("MatMul", &["x", "a"], &["h"]),
            Node::new("Tanh", &["h"], &["t"]),
            Node::new("MatMul", &["t", "b"], &["y"]),
        ],
        initializers: vec![weights("a", 3).unwrap(), weights("b", 7).unwrap()],
        inputs: vec![port("x")],
        outputs: vec![port("y")],
        ..Graph::default()
    };
    Model::of(graph)
}

/// Computes each figure from its definition, over the outputs of the lowered and of the original
/// model.
#[test]
fn the_accuracy_of_lower_precisions_is_what_an_independent_comparison_says() {
    let root = tempfile::tempdir().unwrap();
    let (config, model) = (config(&[("threads", "1")]), perceptron());
    let path = root.path().join("model.onnx");
    std::fs::write(&path, model.to_bytes().unwrap()).unwrap();
    let request = Request { model: path, requirements: requirements(Wanted::Auto, 0.5), ..request(&[]) };
    let report = optimize(root.path(), &config, &request).unwrap().report;
    let sets = Sets::make(&model, &request).unwrap();
    let run = |model: &Model| {
        let mut engine = rten::build(model, &Options::default()).unwrap();
        let mut output = |set: &Vec<Value>| {
            let outputs = engine.run(set).unwrap();
            outputs[0].as_slice::<f32>().unwrap().iter().map(|x| f64::from(*x)).collect::<Vec<f64>>()
        };
        sets.values.iter().map(&mut output).collect::<Vec<_>>()
    };
    assert_eq!(sets.values.len(), 3, "several draws");
    let exact = run(&model);
    let mut errors = Vec::new();
    for format in [Format::Fp32, Format::Fp16, Format::Int8] {
        let aim = prepare::Aim { values: &sets.values[0], tolerance: 0.5, threads: 1 };
        let found = run(&prepare::prepared(&model, format, aim).unwrap());
        let sum = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
        let largest = |values: &[f64]| values.iter().map(|x| x.abs()).fold(0.0, f64::max);
        let (mut max_abs, mut relative, mut cosine) = (0.0_f64, 0.0_f64, 1.0_f64);
        for (found, exact) in found.iter().zip(&exact) {
            let differences: Vec<f64> = found.iter().zip(exact).map(|(a, b)| a - b).collect();
            max_abs = max_abs.max(largest(&differences));
            relative = relative.max(largest(&differences) / largest(exact));
            cosine = cosine.min(sum(found, exact) / (sum(found, found).sqrt() * sum(exact, exact).sqrt()));
        }
        let measured = report.candidates.iter().find(|measured| measured.candidate.precision == format).unwrap();
        let accuracy = measured.outcome.unwrap().accuracy;
        assert_eq!((accuracy.max_abs, accuracy.relative), (max_abs, relative), "{format}");
        assert!((accuracy.cosine - cosine).abs() < 1e-14, "{format}: {} beside {cosine}", accuracy.cosine);
        errors.push(max_abs);
    }
    assert!(errors[0] < errors[1] && errors[1] < errors[2], "each is coarser: {errors:?}");
}

#[test]
fn what_cannot_be_is_refused_by_name() {
    let root = tempfile::tempdir().unwrap();
    let plain = config(&[]);
    let refused = |config: &Config, request: &Request| {
        let error = optimize(root.path(), config, request).unwrap_err();
        (error.kind(), format!("{error}; {}", error.hint().unwrap_or_default()))
    };
    let named = |engine: EngineName| {
        let requirements = Requirements { engine: Some(engine), ..requirements(Wanted::Fp32, 1e-3) };
        Request { requirements, ..request(&["x=1x3x64"]) }
    };
    let cases: [(Request, &str); 3] = [
        (request(&["z=1x3x64"]), "the model has no input `z`; its inputs are x"),
        (request(&[]), "input `x`: its shape f32[1, 3, time] is not fixed; give the shape of `x`"),
        (request(&["x=1x4x64"]), "input `x`: f32[1, 3, time] is expected"),
    ];
    for (request, message) in cases {
        let found = refused(&plain, &request);
        assert!(found.1.starts_with(message), "{found:?}");
    }
    let (_, text) = refused(&plain, &named(EngineName::OnnxruntimeTensorrt));
    assert!(text.contains("onnxruntime"), "never another engine in its place: {text}");
    let small = config(&[("memory_limit", "1MiB"), ("profile", "emergency")]);
    let (kind, text) = refused(&small, &request(&["x=1x3x64"]));
    assert!(kind == ErrorKind::Memory && text.contains("use the profile field, or use a memory limit of "), "{text}");
    let missing = Request { model: golden("none.onnx"), ..request(&["x=1"]) };
    assert_eq!(refused(&plain, &missing).0, ErrorKind::Io);
}

#[test]
fn calibration_takes_sets_and_refuses_what_is_no_number() {
    let (root, folder) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let x = npy::read(golden("vocoder.x.npy")).unwrap();
    for set in ["a", "b"] {
        std::fs::create_dir(folder.path().join(set)).unwrap();
        std::fs::write(folder.path().join(set).join("x.npy"), npy::encode(&x)).unwrap();
    }
    let request = Request { calibrate: Some(folder.path().to_owned()), ..request(&[]) };
    let config = config(&[]);
    let first = optimize(root.path(), &config, &request).unwrap();
    assert_eq!(optimize(root.path(), &config, &request).unwrap().key, first.key);
    let mut broken = x.clone();
    broken.as_mut_slice::<f32>().unwrap()[5] = f32::NAN;
    std::fs::write(folder.path().join("b/x.npy"), npy::encode(&broken)).unwrap();
    let refused = optimize(root.path(), &config, &request).unwrap_err();
    assert!(refused.to_string().ends_with("b/x.npy: element 5 is NaN, not a number to measure with"), "{refused}");
}

#[test]
fn shapes_of_sets_are_those_that_are_given() {
    let (root, folder) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let x = npy::read(golden("vocoder.x.npy")).unwrap();
    let write = |set: &str, shape: &[usize]| {
        std::fs::create_dir_all(folder.path().join(set)).unwrap();
        let value = Value::zeros(x.dtype(), shape).unwrap();
        std::fs::write(folder.path().join(set).join("x.npy"), npy::encode(&value)).unwrap();
    };
    write("a", &[1, 3, 32]);
    let refused = |inputs: &[&str]| {
        let request = Request { calibrate: Some(folder.path().to_owned()), ..request(inputs) };
        let error = optimize(root.path(), &config(&[]), &request).unwrap_err();
        format!("{error}; {}", error.hint().unwrap_or_default())
    };
    assert!(refused(&["x=1x3x64"]).ends_with("give the inputs the shapes of the calibration data"));
    let other = format!("x={}", golden("vocoder.x.npy").display());
    assert!(refused(&[&other]).ends_with("give the inputs the shapes of the calibration data"), "of a file too");
    write("b", &[1, 3, 33]);
    assert!(refused(&[]).ends_with("give all sets the shapes of the first"));
}

/// Measurements with some values need not hold for others, and an invalid file is an error even if
/// an engine is cached.
#[test]
fn files_of_values_are_never_taken_for_others() {
    let (root, folder) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let x = npy::read(golden("vocoder.x.npy")).unwrap();
    let path = folder.path().join("x.npy");
    let parts = |precision: Wanted, change: f32| {
        let mut changed = x.clone();
        changed.as_mut_slice::<f32>().unwrap()[5] = change;
        std::fs::write(&path, npy::encode(&changed)).unwrap();
        let request =
            Request { requirements: requirements(precision, 1e-3), ..request(&[&format!("x={}", path.display())]) };
        key::parts(&config(&[]), &request).map(|parts| parts.key())
    };
    assert_eq!(parts(Wanted::Fp32, 0.1).unwrap(), parts(Wanted::Fp32, 0.1).unwrap());
    for precision in [Wanted::Fp32, Wanted::Fp16, Wanted::Int8, Wanted::Auto] {
        assert_ne!(parts(precision, 0.1).unwrap(), parts(precision, 0.2).unwrap());
    }
    assert!(parts(Wanted::Fp32, f32::NAN).unwrap_err().to_string().contains("element 5 is NaN"));
    let request = request(&[&format!("x={}", path.display())]);
    std::fs::write(&path, npy::encode(&x)).unwrap();
    optimize(root.path(), &config(&[]), &request).unwrap();
    let wide = Value::zeros(crate::DType::F64, x.shape()).unwrap();
    std::fs::write(&path, npy::encode(&wide)).unwrap();
    let refused = optimize(root.path(), &config(&[]), &request).unwrap_err().to_string();
    assert!(refused.contains("f32[1, 3, time] is expected"), "{refused}");
}

#[test]
fn a_device_that_is_asked_for_is_never_replaced() {
    let cpu = config(&[]);
    let refused = engines::available(&cpu, Some(EngineName::OnnxruntimeCuda)).unwrap_err();
    assert!(refused.to_string().contains("does not work on cpu"), "{refused}");
    let gpu = Config::load(&Sources { flags: vec![("device", "--device", "cuda".to_owned())], ..Sources::default() });
    for named in [None, Some(EngineName::Rten), Some(EngineName::Melisma), Some(EngineName::Onnxruntime)] {
        assert!(engines::available(gpu.as_ref().unwrap(), named).is_err(), "{named:?}");
    }
}

#[test]
fn the_key_holds_everything_that_matters() {
    let base = key::parts(&config(&[]), &request(&["x=1x3x64"])).unwrap();
    let any = Requirements { engine: None, ..requirements(Wanted::Fp32, 1e-3) };
    let memory = Requirements { objective: Some(Objective::Memory), ..requirements(Wanted::Fp32, 1e-3) };
    let changed = [
        key::parts(&config(&[]), &request(&["x=1x3x65"])).unwrap(),
        key::parts(&config(&[]), &Request { requirements: requirements(Wanted::Fp16, 1e-3), ..request(&["x=1x3x64"]) })
            .unwrap(),
        key::parts(&config(&[]), &Request { requirements: requirements(Wanted::Fp32, 1e-2), ..request(&["x=1x3x64"]) })
            .unwrap(),
        key::parts(&config(&[]), &Request { requirements: any, ..request(&["x=1x3x64"]) }).unwrap(),
        key::parts(&config(&[]), &Request { requirements: memory, ..request(&["x=1x3x64"]) }).unwrap(),
        key::parts(&config(&[]), &Request { model: golden("control.onnx"), ..request(&["x=1x3x64"]) }).unwrap(),
        key::parts(&config(&[("threads", "7")]), &request(&["x=1x3x64"])).unwrap(),
        key::parts(&config(&[("profile", "training")]), &request(&["x=1x3x64"])).unwrap(),
        key::parts(&config(&[("memory_limit", "1GiB")]), &request(&["x=1x3x64"])).unwrap(),
    ];
    let keys: std::collections::HashSet<_> = changed.iter().chain([&base]).map(|parts| parts.key()).collect();
    assert_eq!(keys.len(), changed.len() + 1);
    for part in ["model", "inputs", "engines", "device", "driver", "cpu_features", "tensorrt_library", "melisma"] {
        assert!(base.get(part).is_some_and(|value| !value.is_empty()), "{part}");
    }
}

#[test]
fn models_with_branches_keep_their_open_shapes() {
    let model = Model::open(golden("control.onnx")).unwrap();
    let ports = Port::inputs(&model).unwrap();
    let values: Vec<Value> =
        ports.iter().map(|port| npy::read(golden(&format!("control.{}.npy", port.name))).unwrap()).collect();
    let aim = prepare::Aim { values: &values, tolerance: 1e-3, threads: 1 };
    let prepared = prepare::prepared(&model, Format::Fp32, aim).unwrap();
    assert_eq!(prepared.graph.inputs, model.graph.inputs);
    let options = Options::default();
    let run = |model: &Model| rten::build(model, &options).unwrap().run(&values).unwrap();
    assert_eq!(compare(&run(&prepared), &run(&model)).unwrap().max_abs, 0.0);
}
