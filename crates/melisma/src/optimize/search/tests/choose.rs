//! The engine for a run: which cached one is chosen, for any flags that built it, and why.

use std::borrow::Cow;

use super::*;
use crate::config::Profile;
use crate::engine::onnxruntime::recorder::{recorded, value};
use crate::onnx::{Dim, Node, ValueInfo};
use crate::optimize::cache::Parts;
use crate::optimize::search::choose::pick;

/// A cache with engines for the perceptron, built with these flags.
struct Shelf {
    root: tempfile::TempDir,
    config: Config,
    model: Model,
    path: PathBuf,
}

impl Shelf {
    fn new() -> Self {
        let root = tempfile::tempdir().unwrap();
        let (model, path) = (perceptron(), root.path().join("perceptron.onnx"));
        std::fs::write(&path, model.to_bytes().unwrap()).unwrap();
        Self { root, config: config(&[("threads", "1")]), model, path }
    }

    fn request(&self, requirements: Requirements) -> Request {
        Request { model: self.path.clone(), inputs: Vec::new(), requirements, calibrate: None, remeasure: false }
    }

    fn optimize(&self, requirements: Requirements) -> Outcome {
        optimize(self.root.path(), &self.config, &self.request(requirements)).unwrap()
    }

    fn choose(&self, config: &Config, requirements: &Requirements) -> (Chosen, Vec<String>) {
        let values = Sets::make(&self.model, &self.request(requirements.clone())).unwrap().values.remove(0);
        let subject = Subject { path: &self.path, model: Cow::Borrowed(&self.model), values: &values };
        with_search(self.root.path(), config, |search| search.choose(requirements, subject).unwrap())
    }

    fn reason(&self, config: &Config, requirements: &Requirements) -> String {
        let (chosen, _) = self.choose(config, requirements);
        assert!(chosen.cached.is_none(), "{chosen}");
        chosen.reason
    }

    /// Replaces the figures of an entry, as if another machine or another day had measured them.
    fn change(&self, outcome: &Outcome, change: impl FnOnce(&mut Report)) {
        let mut report = outcome.report.clone();
        change(&mut report);
        let mut manifest = outcome.entry.manifest.clone();
        manifest.plan = report.json().unwrap();
        seal(&outcome.entry.folder, &manifest);
    }
}

pub(super) fn seal(folder: &Path, manifest: &crate::optimize::cache::Manifest) {
    let text = serde_json::to_vec(manifest).unwrap();
    std::fs::write(folder.join("manifest.json"), &text).unwrap();
    std::fs::write(folder.join("seal"), blake3::hash(&text).to_hex().as_bytes()).unwrap();
}

fn any(precision: Wanted, tolerance: f64) -> Requirements {
    Requirements { precision, tolerance, engine: None, objective: None }
}

#[test]
fn an_engine_is_found_whichever_flags_made_it() {
    let shelf = Shelf::new();
    let none = shelf.choose(&shelf.config, &any(Wanted::Fp32, 1e-3)).0;
    assert_eq!((none.reason.as_str(), none.candidate.engine), ("no engine is cached for this model", EngineName::Rten));
    let made = shelf.optimize(requirements(Wanted::Fp32, 0.25));
    let (found, _) = shelf.choose(&shelf.config, &any(Wanted::Fp32, 1e-3));
    let cached = found.cached.as_ref().unwrap();
    assert_eq!((&cached.key, &found.candidate), (&made.key, &made.report.candidate));
    assert!(found.reason.starts_with("the only cached engine that qualifies; measured p50 "), "{}", found.reason);
    assert!(found.to_string().starts_with(&format!("rten, fp32, 1 thread, cached as {}: ", &made.key[..12])));
    let keys = found.keys();
    assert_eq!(
        (&keys["cached"], &keys["cache_key"], &keys["precision"]),
        (&true.into(), &made.key.into(), &"fp32".into())
    );
}

#[test]
fn the_terms_decide_what_qualifies() {
    let shelf = Shelf::new();
    let made = shelf.optimize(requirements(Wanted::Fp32, 1e-3));
    let lower = |precision: Format, relative: f64| {
        shelf.change(&made, |report| {
            report.candidates[0].candidate.precision = precision;
            report.candidate = report.candidates[0].candidate.clone();
            report.accuracy.relative = relative;
        });
    };
    lower(Format::Fp16, 5e-4);
    let fp32 = shelf.reason(&shelf.config, &any(Wanted::Fp32, 1e-3));
    assert_eq!(
        fp32,
        format!("no cached engine qualifies: {}: its precision is fp16, fp32 was asked for", &made.key[..12])
    );
    for precision in [Wanted::Fp16, Wanted::Int8, Wanted::Auto] {
        assert!(shelf.choose(&shelf.config, &any(precision, 1e-3)).0.cached.is_some(), "{precision}");
    }
    let reason = shelf.reason(&shelf.config, &any(Wanted::Auto, 1e-4));
    assert!(reason.ends_with("its error of 5.0e-4 is above the tolerance of 1.0e-4"), "{reason}");
    let reason = shelf.reason(&config(&[("profile", "training")]), &any(Wanted::Auto, 1e-3));
    assert!(reason.ends_with("its precision is fp16, auto was asked for"), "{reason}");
    let named = Requirements { engine: Some(EngineName::Melisma), ..any(Wanted::Auto, 1e-3) };
    let values = Sets::make(&shelf.model, &shelf.request(named.clone())).unwrap().values.remove(0);
    let subject = Subject { path: &shelf.path, model: Cow::Borrowed(&shelf.model), values: &values };
    let refused = with_search(shelf.root.path(), &shelf.config, |search| search.choose(&named, subject)).0;
    assert!(refused.unwrap_err().kind() == ErrorKind::Unsupported, "never another engine in its place");
}

/// Entries say `melisma` if they predate the separate names of our two engines.
#[test]
fn entries_of_the_common_name_are_understood() {
    let (root, config) = (tempfile::tempdir().unwrap(), config(&[("threads", "1")]));
    let ours = |engine| Requirements { engine: Some(engine), ..any(Wanted::Fp32, 1e-3) };
    let request = Request { requirements: ours(EngineName::Melisma), ..request(&["x=1x3x64"]) };
    let made = optimize(root.path(), &config, &request).unwrap();
    assert_eq!(made.report.candidate.engine, EngineName::MelismaChain, "new entries name the engine");
    let mut manifest = made.entry.manifest.clone();
    manifest.plan["candidate"]["engine"] = "melisma".into();
    manifest.plan["candidates"][0]["engine"] = "melisma".into();
    seal(&made.entry.folder, &manifest);
    let model = Model::open(&request.model).unwrap();
    let values = Sets::make(&model, &request).unwrap().values.remove(0);
    let choose = |requirements: &Requirements| {
        let subject = Subject { path: &request.model, model: Cow::Borrowed(&model), values: &values };
        with_search(root.path(), &config, |search| search.choose(requirements, subject).unwrap()).0
    };
    for requirements in [any(Wanted::Fp32, 1e-3), ours(EngineName::Melisma)] {
        let chosen = choose(&requirements);
        assert!(chosen.cached.is_some() && chosen.engine.name() == EngineName::MelismaChain, "{chosen}");
    }
    assert!(choose(&ours(EngineName::MelismaMixed)).cached.is_none(), "it may be the other one");
}

#[test]
fn what_was_made_elsewhere_or_takes_too_much_does_not_qualify() {
    let shelf = Shelf::new();
    let made = shelf.optimize(requirements(Wanted::Fp32, 1e-3));
    let fp32 = any(Wanted::Fp32, 1e-3);
    let reason = |config: &Config| shelf.reason(config, &fp32).split_once(": ").unwrap().1[14..].to_owned();
    shelf.change(&made, |report| report.engine_version = "0.1".to_owned());
    assert_eq!(reason(&shelf.config), format!("made with rten 0.1, found {}", rten::VERSION));
    shelf.change(&made, |report| report.inputs[0].shape[0] = 7);
    assert_eq!(reason(&shelf.config), "made for other shapes: x=7x96, not x=6x96");
    let more = |report: &mut Report| {
        report.candidates[0].candidate.threads = 2;
        report.candidate.threads = 2;
    };
    shelf.change(&made, more);
    assert_eq!(reason(&shelf.config), "it uses 2 threads, 1 are allowed");
    let peak = |program_bytes: Option<u64>| {
        shelf.change(&made, |report| (report.peak_bytes, report.program_bytes) = (Some(3 << 30), program_bytes));
    };
    let limited = config(&[("threads", "1"), ("memory_limit", "1GiB")]);
    peak(None);
    assert_eq!(reason(&limited), "it needs 3GiB; the memory limit is 1GiB");
    peak(Some(1 << 30));
    assert_eq!(reason(&limited), "it needs 2GiB; the memory limit is 1GiB");
    peak(Some(2 << 30));
    assert!(shelf.choose(&limited, &fp32).0.cached.is_some(), "the limit does not count the program itself");
    let parts = made.entry.manifest.parts.clone();
    let now = key::machine(&shelf.config).unwrap();
    let other = parts.clone().with("cpu", "another");
    assert!(key::machine_change(&other, &now, EngineName::Rten).unwrap().starts_with("cpu: another -> "));
    let other = parts.with("driver", "another");
    assert_eq!(key::machine_change(&other, &now, EngineName::Rten), None, "the CPU does not need it");
    assert!(key::machine_change(&other, &now, EngineName::OnnxruntimeCuda).unwrap().starts_with("driver: "));
}

#[test]
fn the_fastest_of_several_is_taken_and_a_damaged_one_never() {
    let shelf = Shelf::new();
    let (slow, fast) =
        (shelf.optimize(requirements(Wanted::Fp32, 1e-3)), shelf.optimize(requirements(Wanted::Fp32, 1e-2)));
    let speed = |outcome: &Outcome, seconds: f64| {
        shelf.change(outcome, |report| {
            for measured in &mut report.candidates {
                measured.outcome.as_mut().unwrap().latency_seconds.p50 = seconds;
            }
        });
    };
    speed(&slow, 2.0);
    speed(&fast, 1.0);
    let fp32 = any(Wanted::Fp32, 1e-3);
    let (first, _) = shelf.choose(&shelf.config, &fp32);
    assert_eq!(first.cached.unwrap().key, fast.key);
    assert!(first.reason.starts_with("the best of 2 cached engines that qualify"), "{}", first.reason);
    let path = fast.entry.folder.join("model.packed");
    let mut bytes = std::fs::read(&path).unwrap();
    bytes[30] ^= 4;
    std::fs::write(&path, bytes).unwrap();
    let (second, said) = shelf.choose(&shelf.config, &fp32);
    assert_eq!(second.cached.unwrap().key, slow.key);
    assert_eq!(said, ["note: the entry was set aside: model.packed: its content changed"]);
    assert!(!fast.entry.folder.exists());
}

/// The self-check runs the model, which would make a cached engine slower than none.
#[test]
fn an_engine_that_passed_is_not_run_again_until_something_changes() {
    let shelf = Shelf::new();
    let made = shelf.optimize(requirements(Wanted::Fp32, 1e-3));
    let fp32 = any(Wanted::Fp32, 1e-3);
    let passed = made.entry.folder.join("passed");
    let recorded = std::fs::read(&passed).unwrap();
    // Outputs that no engine produces: any check quarantines the entry.
    let mut manifest = made.entry.manifest.clone();
    manifest.self_check[0].values[3] = Some(7.0);
    seal(&made.entry.folder, &manifest);
    let entry = crate::optimize::cache::Entry { folder: made.entry.folder.clone(), manifest, uncached: None };
    let state = key::state(&shelf.config, EngineName::Rten).unwrap();
    assert!(!entry.has_passed(&state), "the manifest changed");
    entry.record_pass(&state);
    assert!(shelf.choose(&shelf.config, &fp32).0.cached.is_some(), "it passed, and is not run");
    assert_ne!(std::fs::read(&passed).unwrap(), recorded);
    std::fs::write(&passed, &recorded).unwrap();
    let (chosen, said) = shelf.choose(&shelf.config, &fp32);
    assert!(chosen.cached.is_none(), "{chosen}");
    assert!(said[0].contains("set aside: self-check: output `y` is"), "{said:?}");
}

#[test]
fn a_pass_holds_for_the_same_files_and_the_same_state() {
    let shelf = Shelf::new();
    let entry = shelf.optimize(requirements(Wanted::Fp32, 1e-3)).entry;
    let state = key::state(&shelf.config, EngineName::Rten).unwrap();
    assert!(entry.has_passed(&state), "optimize reads back what it wrote");
    assert!(!entry.has_passed("another machine"));
    let passed = entry.folder.join("passed");
    let recorded = std::fs::read(&passed).unwrap();
    for damage in [&b""[..], b"yes", &recorded[1..], &[0xff; 64]] {
        std::fs::write(&passed, damage).unwrap();
        assert!(!entry.has_passed(&state));
    }
    entry.record_pass(&state);
    assert!(entry.has_passed(&state));
    let touch = |name: &str| {
        let file = std::fs::File::options().append(true).open(entry.folder.join(name)).unwrap();
        file.set_modified(std::time::SystemTime::now() - std::time::Duration::from_secs(9)).unwrap();
    };
    for name in ["model.packed", "input0.npy", "manifest.json"] {
        entry.record_pass(&state);
        touch(name);
        assert!(!entry.has_passed(&state), "{name} has another time");
    }
    entry.record_pass(&state);
    touch("used");
    assert!(entry.has_passed(&state), "every use changes it");
    std::fs::create_dir(entry.folder.join("tensorrt")).unwrap();
    std::fs::write(entry.folder.join("tensorrt/plan"), b"built").unwrap();
    assert!(!entry.has_passed(&state), "files of the engine itself count");
}

#[test]
fn a_model_that_the_embedded_engine_refuses_names_it() {
    let shelf = Shelf::new();
    let mut model = perceptron();
    model.graph.nodes[1].op = "Tanhh".to_owned();
    let subject = Subject { path: &shelf.path, model: Cow::Borrowed(&model), values: &[] };
    let fp32 = requirements(Wanted::Fp32, 1e-3);
    let choose = |requirements: &Requirements, subject: &Subject<'_>| {
        with_search(shelf.root.path(), &shelf.config, |search| search.choose(requirements, subject.clone())).0
    };
    let refused = choose(&fp32, &subject).unwrap_err();
    assert!(
        refused.to_string().contains("perceptron.onnx: rten: ") && refused.to_string().contains("Tanhh"),
        "{refused}"
    );
    if let Err(error) = crate::engine::onnxruntime::runtime() {
        return crate::golden::skip(error);
    }
    let any = any(Wanted::Fp32, 1e-3);
    let both = choose(&any, &subject).unwrap_err();
    assert!(both.hint().unwrap().ends_with("export the model without it"), "never the engine that refused: {both}");
    let both = both.to_string();
    assert!(both.contains("rten: ") && both.contains("; onnxruntime does not take the model: "), "{both}");
    // ONNX Runtime supports this operator, the embedded engine does not.
    let mut model = perceptron();
    model.graph.nodes = vec![Node::new("Det", &["m"], &["y"])];
    let square = |name: &str, shape: &[i64]| {
        let axes: Vec<_> = shape.iter().map(|&axis| Dim::Known(axis)).collect();
        ValueInfo::tensor(name, 1, &axes)
    };
    (model.graph.inputs, model.graph.outputs) = (vec![square("m", &[2, 3, 3])], vec![square("y", &[2])]);
    model.graph.initializers.clear();
    let subject = Subject { path: &shelf.path, model: Cow::Borrowed(&model), values: &[] };
    let chosen = choose(&any, &subject).unwrap();
    assert_eq!(chosen.candidate.engine, EngineName::Onnxruntime);
    assert_eq!(chosen.reason, "no engine is cached for this model; rten: no such operator: Det");
}

/// From the profile's choice to ONNX Runtime's options, without a GPU.
#[test]
fn emergency_takes_tensorrt_and_tells_it_so() {
    let measured = |engine: EngineName, p50: f64| Measured {
        candidate: Candidate { engine, precision: Format::Fp16, threads: 1, chunk: Chunk::Own },
        outcome: Some(Measurement {
            load_seconds: 1.0,
            first_seconds: 1.0,
            latency_seconds: Latency { p50, p90: p50, p99: p50, min: p50, runs: 9 },
            peak_bytes: None,
            accuracy: Accuracy::EXACT,
        }),
        refused: None,
    };
    let all = [
        measured(EngineName::OnnxruntimeCuda, 1.0),
        measured(EngineName::OnnxruntimeTensorrt, 2.0),
        measured(EngineName::Rten, 3.0),
    ];
    let told = |profile: Profile| {
        let config = config(&[("profile", &profile.to_string()), ("tensor_optimizations.use_tensorrt", "true")]);
        let chosen = pick::pick(profile, None, &all).unwrap();
        let settings = EngineSettings::new(&config, "/cache/key".into(), "key");
        recorded(&engines::provider(&perceptron(), &chosen.candidate, &settings).unwrap().unwrap())
    };
    let emergency = told(Profile::Emergency);
    assert_eq!(
        emergency.iter().map(|(name, _)| *name).collect::<Vec<_>>(),
        ["TensorrtExecutionProvider", "CUDAExecutionProvider"]
    );
    assert_eq!(value(&emergency[0].1, "trt_fp16_enable"), "1");
    assert_eq!(value(&emergency[0].1, "trt_profile_opt_shapes"), "x:6x96");
    assert_eq!(value(&emergency[1].1, "cudnn_conv_algo_search"), "EXHAUSTIVE");
    assert_eq!(value(&emergency[1].1, "cudnn_conv_use_max_workspace"), "1");
    let field = told(Profile::Field);
    assert_eq!((field.len(), field[0].0), (1, "CUDAExecutionProvider"));
    assert_eq!(value(&field[0].1, "cudnn_conv_algo_search"), "HEURISTIC");
}

#[test]
fn on_cuda_field_leaves_the_memory_that_others_hold_on_the_gpu() {
    let free = match &engines::probe().gpus {
        Ok(gpus) => gpus[0].free_bytes,
        Err(_) if std::env::var("REQUIRE_CUDA").is_ok_and(|value| value == "1") => panic!("no GPU"),
        Err(error) => return crate::golden::skip(error),
    };
    let told = |profile: &str, limit: &str| {
        let config = Config::of_flags(&[("device", "cuda:0"), ("profile", profile), ("memory_limit", limit)]);
        let root = tempfile::tempdir().unwrap();
        let settings = with_search(root.path(), &config, |search| search.settings(root.path(), &Parts::default())).0;
        assert_eq!(settings.memory_limit, config.memory_limit.value.bytes());
        settings.gpu_limit
    };
    assert_eq!(told("field", "none"), Some(free));
    assert_eq!(told("field", "1MiB"), Some(1 << 20));
    assert_eq!((told("emergency", "none"), told("training", "2MiB")), (None, Some(2 << 20)));
}
