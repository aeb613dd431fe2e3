//! Memory of `run` and `optimize` from the outside: what a model asks for is known before it is given, and limits hold.

use std::time::Duration;

use melisma::format::{Value, npy};
use melisma::onnx::{Dim, Graph, Model, Node, Opset, Tensor, ValueInfo, ValueType};
use melisma::runtime::machine::peak_resident_bytes_of;

use crate::sandbox::{Ran, Sandbox, golden_file};

const MIB: u64 = 1 << 20;

/// A run, and the most memory of it or of any process that it started.
struct Watched {
    ran: Ran,
    peak_bytes: u64,
}

/// Runs the program and looks at it and its children every millisecond.
fn watch(sandbox: &Sandbox, args: &[&str]) -> Watched {
    let (out, err) = (sandbox.path("stdout"), sandbox.path("stderr"));
    let mut command = sandbox.command(args);
    command.stdout(std::fs::File::create(&out).unwrap()).stderr(std::fs::File::create(&err).unwrap());
    let mut child = command.spawn().unwrap();
    let mut peak_bytes = 0;
    let status = loop {
        let children = format!("/proc/{0}/task/{0}/children", child.id());
        let children = std::fs::read_to_string(children).unwrap_or_default();
        let ids = children.split_whitespace().filter_map(|id| id.parse().ok()).chain([child.id()]);
        peak_bytes = ids.filter_map(peak_resident_bytes_of).max().unwrap_or(0).max(peak_bytes);
        if let Some(status) = child.try_wait().unwrap() {
            break status;
        }
        std::thread::sleep(Duration::from_millis(1));
    };
    let text = |path| std::fs::read_to_string(path).unwrap();
    let ran = Ran { code: status.code().unwrap_or(-1), stdout: text(&out), stderr: text(&err) };
    Watched { ran, peak_bytes }
}

fn any(name: &str, dtype: i32) -> ValueInfo {
    ValueInfo { name: name.to_owned(), r#type: ValueType::Tensor { dtype, shape: None }, rest: Vec::new() }
}

fn save(sandbox: &Sandbox, name: &str, graph: Graph) {
    let opsets = vec![Opset { domain: String::new(), version: 17 }];
    let model = Model { ir_version: 8, opsets, graph, rest: Vec::new() }.checked().unwrap();
    std::fs::write(sandbox.path(name), model.to_bytes().unwrap()).unwrap();
}

fn array(sandbox: &Sandbox, name: &str, value: &Value) {
    std::fs::write(sandbox.path(name), npy::encode(value)).unwrap();
}

fn ints(name: &str, values: &[i64]) -> Tensor {
    Tensor::from_slice(name, values, &[values.len()]).unwrap()
}

/// One node that makes 10 GiB and more of one number: its sizes are constants, or inputs.
fn bombs(sandbox: &Sandbox) -> Vec<(&'static str, Vec<&'static str>)> {
    let far = 60_000i64;
    let sizes = [("tile", "Tile", vec![1, 1, far, far]), ("pad", "Pad", vec![0, 0, far, far, 0, 0, 0, 0])];
    let x = any("x", 1);
    for (name, op, numbers) in &sizes {
        let node = Node::new(op, &["x", "n"], &["y"]);
        let graph = Graph { nodes: vec![node], outputs: vec![any("y", 1)], ..Graph::default() };
        let constant = vec![ints("n", numbers)];
        save(
            sandbox,
            &format!("{name}.onnx"),
            Graph { initializers: constant, inputs: vec![x.clone()], ..graph.clone() },
        );
        let inputs = vec![x.clone(), any("n", 7)];
        save(sandbox, &format!("{name}_input.onnx"), Graph { inputs, ..graph });
        array(sandbox, &format!("{name}.npy"), &Value::from_slice(numbers, &[numbers.len()]).unwrap());
    }
    let conv = Node::new("Conv", &["x", "w"], &["y"]).with("kernel_shape", vec![1i64, 1]).with("pads", vec![far; 4]);
    let axes = [Dim::Known(1), Dim::Known(1), Dim::Named("h".to_owned()), Dim::Named("w".to_owned())];
    let weight = Tensor::from_slice("w", &[1.0f32], &[1, 1, 1, 1]).unwrap();
    let graph = Graph {
        nodes: vec![conv],
        initializers: vec![weight],
        inputs: vec![ValueInfo::tensor("x", 1, &axes)],
        outputs: vec![any("y", 1)],
        ..Graph::default()
    };
    save(sandbox, "conv.onnx", graph);
    array(sandbox, "x.npy", &Value::from_slice(&[1.0f32], &[1, 1, 1, 1]).unwrap());
    vec![
        ("tile.onnx", vec!["x=x.npy"]),
        ("pad.onnx", vec!["x=x.npy"]),
        ("conv.onnx", vec!["x=x.npy"]),
        ("tile_input.onnx", vec!["x=x.npy", "n=tile.npy"]),
        ("pad_input.onnx", vec!["x=x.npy", "n=pad.npy"]),
    ]
}

#[test]
fn bombs_are_refused_at_once() {
    let sandbox = Sandbox::new();
    for (model, inputs) in bombs(&sandbox) {
        let inputs: Vec<&str> = inputs.iter().flat_map(|input| ["--input", input]).collect();
        let run = ["run", model, "-o", "out", "--device", "cpu", "--memory-limit", "256MiB"];
        let optimize = ["optimize", model, "--device", "cpu", "--memory-limit", "256MiB"];
        for args in [&run[..], &optimize] {
            let Watched { ran, peak_bytes } = watch(&sandbox, &[args, &inputs].concat());
            assert_eq!(ran.code, 4, "{args:?}: {}", ran.stderr);
            assert!(ran.stderr.contains("node `y` ("), "{args:?}: {}", ran.stderr);
            assert!(ran.stderr.contains("GiB for its output of shape [1, 1, "), "{args:?}: {}", ran.stderr);
            assert!(
                ran.stderr.contains("the memory limit is 256MiB\nhint: use --memory-limit "),
                "{args:?}: {}",
                ran.stderr
            );
            assert!(peak_bytes < 96 * MIB, "{args:?} took {peak_bytes} bytes");
        }
    }
    assert!(!sandbox.path("out").exists());
}

/// A tensor as often as its own sum says: nobody knows the size before it is summed.
fn counted(sandbox: &Sandbox) {
    let graph = Graph {
        nodes: vec![
            Node::new("ReduceSum", &["x"], &["sum"]).with("keepdims", 0i64),
            Node::new("Cast", &["sum"], &["whole"]).with("to", 7i64),
            Node::new("Unsqueeze", &["whole", "zero"], &["n"]),
            Node::new("Tile", &["x", "n"], &["y"]),
        ],
        initializers: vec![ints("zero", &[0])],
        inputs: vec![any("x", 1)],
        outputs: vec![any("y", 1)],
        ..Graph::default()
    };
    save(sandbox, "counted.onnx", graph);
    let values = |each: f32| Value::from_slice(&[each; 10_000], &[10_000]).unwrap();
    array(sandbox, "few.npy", &values(0.01));
    array(sandbox, "many.npy", &values(1000.0));
}

#[test]
fn what_depends_on_data_runs_under_a_hard_limit() {
    let sandbox = Sandbox::new();
    counted(&sandbox);
    let run = |x: &str| {
        let input = format!("x={x}");
        watch(&sandbox, &["run", "counted.onnx", "--input", &input, "-o", "out", "-f", "--memory-limit", "256MiB"])
    };
    let few = run("few.npy");
    assert_eq!(few.ran.code, 0, "{}", few.ran.stderr);
    let y = npy::read(sandbox.path("out/y.npy")).unwrap();
    assert!(y.len().is_multiple_of(10_000) && y.len() >= 990_000, "{y:?}");
    let many = run("many.npy");
    assert_eq!(many.ran.code, 4, "{}", many.ran.stderr);
    assert!(many.ran.stderr.contains("counted.onnx: node `y` (Tile): it needs 373GiB more"), "{}", many.ran.stderr);
    assert!(many.ran.stderr.contains("the memory limit is 256MiB\nhint: its size depends on"), "{}", many.ran.stderr);
    assert!(many.peak_bytes < (256 + 96) * MIB, "{}", many.peak_bytes);
    let args = ["optimize", "counted.onnx", "--input", "x=many.npy", "--memory-limit", "256MiB", "--device", "cpu"];
    let optimized = watch(&sandbox, &args);
    assert_eq!(optimized.ran.code, 4, "{}", optimized.ran.stderr);
    assert!(optimized.peak_bytes < (256 + 96) * MIB, "{}", optimized.peak_bytes);
}

/// Two values of `n` floats that are alive together, which no engine can cut.
fn turned(sandbox: &Sandbox, n: usize) {
    let graph = Graph {
        nodes: vec![
            Node::new("Tile", &["x", "n"], &["wide"]),
            Node::new("CumSum", &["wide", "zero"], &["sums"]),
            Node::new("Mul", &["wide", "sums"], &["squares"]),
            Node::new("ReduceMean", &["squares"], &["y"]).with("keepdims", 0i64),
        ],
        initializers: vec![ints("n", &[n as i64 / 100]), Tensor::from_slice("zero", &[0i64], &[]).unwrap()],
        inputs: vec![ValueInfo::tensor("x", 1, &[Dim::Known(100)])],
        outputs: vec![any("y", 1)],
        ..Graph::default()
    };
    save(sandbox, "turned.onnx", graph);
    array(sandbox, "x.npy", &Value::from_slice(&[0.5f32; 100], &[100]).unwrap());
}

/// The start of the process counts as part of the first run only.
#[test]
fn repeated_runs_in_a_process_of_their_own_are_timed_there() {
    let sandbox = Sandbox::new();
    counted(&sandbox);
    let ran = sandbox.run(&["run", "counted.onnx", "--input", "x=few.npy", "-o", "out", "--repeat", "5", "--json"]);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    let times = &serde_json::from_str::<serde_json::Value>(&ran.stdout).unwrap()["times"];
    let (first, latency) = (times["first_seconds"].as_f64().unwrap(), &times["latency_seconds"]);
    assert_eq!(latency["runs"], 5);
    assert!(2.0 * latency["p50"].as_f64().unwrap() < first, "{times}");
}

#[test]
fn activations_are_under_the_limit() {
    let sandbox = Sandbox::new();
    // 64 MiB each.
    turned(&sandbox, 16 << 20);
    let run = |limit: &str| {
        let args = ["run", "turned.onnx", "--input", "x=x.npy", "-o", "out", "-f", "--memory-limit", limit];
        watch(&sandbox, &args)
    };
    let fits = run("256MiB");
    assert_eq!(fits.ran.code, 0, "{}", fits.ran.stderr);
    assert!(fits.peak_bytes < (256 + 96) * MIB && fits.peak_bytes > 120 * MIB, "{}", fits.peak_bytes);
    let refused = run("100MiB");
    assert_eq!(refused.ran.code, 4, "{}", refused.ran.stderr);
    assert!(refused.peak_bytes < 96 * MIB, "{}", refused.peak_bytes);
    let hint = refused.ran.stderr.split("use --memory-limit ").nth(1).unwrap();
    let least = hint.split_whitespace().next().unwrap().to_owned();
    let again = run(&least);
    assert_eq!(again.ran.code, 0, "{least}: {}", again.ran.stderr);
    let bytes: u64 = least.strip_suffix("MiB").unwrap().parse::<u64>().unwrap() * MIB;
    assert!(again.peak_bytes < bytes + 96 * MIB, "{least}: {}", again.peak_bytes);
}

#[test]
fn optimize_stays_under_the_limit_or_refuses() {
    let sandbox = Sandbox::new();
    turned(&sandbox, 4 << 20);
    let optimize = |limit: &str| {
        let args = ["optimize", "turned.onnx", "--device", "cpu", "--threads", "1", "--engine", "rten"];
        watch(&sandbox, &[&args[..], &["--memory-limit", limit]].concat())
    };
    let fits = optimize("128MiB");
    assert_eq!(fits.ran.code, 0, "{}", fits.ran.stderr);
    assert!(fits.peak_bytes < (128 + 96) * MIB, "{}", fits.peak_bytes);
    let refused = optimize("12MiB");
    assert_eq!(refused.ran.code, 4, "{}", refused.ran.stderr);
    assert!(refused.peak_bytes < (12 + 96) * MIB, "{}", refused.peak_bytes);
    assert!(refused.ran.stderr.contains("node `wide` (Tile) needs 16MiB"), "{}", refused.ran.stderr);
}

/// The weights of a model are in memory once, and once more in the order that products read them; not as the file's bytes too.
#[test]
fn a_model_is_not_held_twice_while_it_is_read() {
    let sandbox = Sandbox::new();
    let (n, n_layers) = (1024, 12);
    let weights: Vec<f32> = (0..n * n).map(|i| (i % 13) as f32 * 1e-3).collect();
    let name = |layer: usize| if layer == 0 { "x".to_owned() } else { format!("h{layer}") };
    let node = |layer: usize| Node::new("MatMul", &[&name(layer), &format!("w{layer}")], &[&name(layer + 1)]);
    let graph = Graph {
        nodes: (0..n_layers).map(node).collect(),
        initializers: (0..n_layers)
            .map(|layer| Tensor::from_slice(&format!("w{layer}"), &weights, &[n, n]).unwrap())
            .collect(),
        inputs: vec![ValueInfo::tensor("x", 1, &[Dim::Known(1), Dim::Known(n as i64)])],
        outputs: vec![any(&name(n_layers), 1)],
        ..Graph::default()
    };
    save(&sandbox, "deep.onnx", graph);
    array(&sandbox, "x.npy", &Value::from_slice(&vec![1.0f32; n], &[1, n]).unwrap());
    let args = ["run", "deep.onnx", "--input", "x=x.npy", "-o", "out", "--device", "cpu", "--threads", "1"];
    let ran = watch(&sandbox, &args);
    assert_eq!(ran.ran.code, 0, "{}", ran.ran.stderr);
    let weights = (n_layers * n * n * 4) as u64;
    assert!(ran.peak_bytes < 2 * weights + 64 * MIB, "{} of {weights}", ran.peak_bytes);
    let y = std::fs::read(sandbox.path(&format!("out/{}.npy", name(n_layers)))).unwrap();
    let within = |limit| watch(&sandbox, &[&args[..], &["-f", "--memory-limit", limit]].concat());
    let lean = within("60MiB");
    assert_eq!(lean.ran.code, 0, "{}", lean.ran.stderr);
    assert!(lean.peak_bytes < weights + 48 * MIB && lean.peak_bytes < ran.peak_bytes - 24 * MIB, "{}", lean.peak_bytes);
    assert!(std::fs::read(sandbox.path(&format!("out/{}.npy", name(n_layers)))).unwrap() == y, "the same bits");
    let refused = within("50MiB");
    assert_eq!(refused.ran.code, 4);
    assert!(refused.ran.stderr.contains("its weights need 52MiB"), "{}", refused.ran.stderr);
}

/// One image becomes 256 and one again: 64 MiB between two convolutions.
fn fanned(sandbox: &Sandbox) {
    let (n, side) = (256, 256);
    let node = |input: &str, weight: &str, output: &str| {
        Node::new("Conv", &[input, weight], &[output]).with("kernel_shape", vec![1i64, 1])
    };
    let ones = vec![0.5f32; n];
    let graph = Graph {
        nodes: vec![node("x", "wide", "h"), node("h", "w", "y")],
        initializers: vec![
            Tensor::from_slice("wide", &ones, &[n, 1, 1, 1]).unwrap(),
            Tensor::from_slice("w", &ones, &[1, n, 1, 1]).unwrap(),
        ],
        inputs: vec![ValueInfo::tensor("x", 1, &[1, 1, side, side].map(Dim::Known))],
        outputs: vec![any("y", 1)],
        ..Graph::default()
    };
    save(sandbox, "fanned.onnx", graph);
    let side = side as usize;
    array(sandbox, "x.npy", &Value::from_slice(&vec![0.5f32; side * side], &[1, 1, side, side]).unwrap());
}

/// In every engine: nothing large is allocated before the refusal, and the limit that it names works.
#[test]
fn a_run_below_its_own_need_is_refused_in_every_engine() {
    let sandbox = Sandbox::new();
    fanned(&sandbox);
    let vocoder = golden_file("optimize/vocoder.onnx");
    array(&sandbox, "long.npy", &Value::from_slice(&vec![0.5f32; 3 * 200_000], &[1, 3, 200_000]).unwrap());
    let doctor = sandbox.json(&["doctor", "--json", "--device", "cpu"]);
    let has_onnxruntime = doctor["engines"]["onnxruntime"]["missing"].is_null();
    let mut cases = vec![
        ("fanned.onnx", "x=x.npy", "rten"),
        ("fanned.onnx", "x=x.npy", "melisma-mixed"),
        (&vocoder, "x=long.npy", "melisma-chain"),
    ];
    cases.extend(has_onnxruntime.then_some(("fanned.onnx", "x=x.npy", "onnxruntime")));
    for (model, input, engine) in cases {
        let run = |limit: &str| {
            let args = ["run", model, "--input", input, "-o", "out", "-f", "--device", "cpu", "--threads", "1"];
            watch(&sandbox, &[&args[..], &["--engine", engine, "--memory-limit", limit]].concat())
        };
        let refused = run("6MiB");
        assert_eq!(refused.ran.code, 4, "{engine}: {}", refused.ran.stderr);
        let (error, rest) = refused.ran.stderr.split_once('\n').unwrap();
        assert!(
            error.contains(" the run needs ") && error.ends_with("; the memory limit is 6MiB"),
            "{engine}: {error}"
        );
        assert!(rest.contains("\nnote: the limit counts what Melisma allocates, beside "), "{engine}: {rest}");
        assert!(refused.peak_bytes < 64 * MIB, "{engine}: {}", refused.peak_bytes);
        let least = rest.split("use --memory-limit ").nth(1).unwrap().split_whitespace().next().unwrap();
        let again = run(least);
        assert_eq!(again.ran.code, 0, "{engine} with {least}: {}", again.ran.stderr);
        let bytes = melisma::text::size::parse(least).unwrap();
        assert!(again.peak_bytes < bytes + 96 * MIB, "{engine} with {least}: {}", again.peak_bytes);
    }
}

/// A limit below the whole process but above what the model takes: `optimize` finds an engine, and `run` uses it.
#[test]
fn a_limit_means_the_same_to_optimize_and_to_run() {
    let sandbox = Sandbox::new();
    turned(&sandbox, 4 << 20);
    let flags = ["--device", "cpu", "--threads", "1", "--engine", "rten", "--json"];
    let optimized = |more: &[&str]| {
        let found = sandbox.json(&[&["optimize", "turned.onnx"], &flags[..], more].concat());
        ["allocated", "program", "peak"].map(|key| found["memory_bytes"][key].as_u64().unwrap())
    };
    let [allocated, program, peak] = optimized(&[]);
    assert!(allocated + program == peak && program > 8 * MIB, "{allocated} and {program} of {peak}");
    let limit = allocated + program / 2;
    let text = limit.to_string();
    let [again, _, whole] = optimized(&["--memory-limit", &text]);
    assert!(again <= limit && whole > limit, "{again} of {whole} under {limit}");
    let run = ["run", "turned.onnx", "--input", "x=x.npy", "-o", "out", "--memory-limit", &text];
    let chosen = sandbox.json(&[&run[..], &flags].concat());
    assert_eq!(chosen["cached"], true, "{}", chosen["reason"]);
}
