//! An ONNX model optimised for this machine, then run by the engine that won.
//!
//! `cargo run --release -p melisma --example optimize_model` writes `model.onnx` and caches the engine in `cache/`.

use std::borrow::Cow;
use std::error::Error;
use std::fs;
use std::path::Path;

use melisma::config::Config;
use melisma::format::Value;
use melisma::onnx::{Dim, Graph, Model, Node, Opset, Tensor, ValueInfo};
use melisma::optimize::cache::{self, Cache};
use melisma::optimize::search::{Message, Request, Requested, Requirements, Search, Subject, Worker};
use melisma::{Budget, DType};

/// Builds y = relu(conv(x)), for signals of any length.
fn model() -> melisma::Result<Model> {
    let port = |name, channels| {
        let shape = [Dim::Known(1), Dim::Known(channels), Dim::Open];
        ValueInfo::tensor(name, DType::F32.code(), &shape)
    };
    let weights: Vec<f32> = (0..8 * 4 * 3).map(|n| (n as f32).sin() / 4.0).collect();
    let graph = Graph {
        name: "example".to_owned(),
        nodes: vec![
            Node::new("Conv", &["x", "w"], &["h"]).with("pads", vec![1i64, 1]),
            Node::new("Relu", &["h"], &["y"]),
        ],
        initializers: vec![Tensor::from_slice("w", &weights, &[8, 4, 3])?],
        inputs: vec![port("x", 4)],
        outputs: vec![port("y", 8)],
        ..Graph::default()
    };
    Model { ir_version: 8, opsets: vec![Opset { domain: String::new(), version: 17 }], graph, rest: Vec::new() }
        .checked()
}

fn main() -> Result<(), Box<dyn Error>> {
    let path = Path::new("model.onnx");
    fs::write(path, model()?.to_bytes()?)?;

    let config = Config::load_with_profile("field")?;
    let cache = Cache::open(Some(Path::new("cache")), cache::Options::new(1 << 30).with_threads(2));
    let say = |message: &Message| println!("{message}");
    // `Worker::Program` measures each candidate in a process of its own.
    let budget = Budget::limited(1 << 30);
    let worker = Worker::Here(budget.clone());
    let search = Search::with_cache(cache, &config, &budget, worker).with_say(&say);
    let requirements = Requirements::new(&config, Requested::default().with_engine("rten"))?;
    let request = Request::new(path.to_owned(), requirements.clone()).with_inputs(vec!["x=1x4x256".parse()?]);
    let report = search.optimize(&request)?.report;
    println!("{} candidates, {:.3} ms at the median", report.candidates.len(), 1e3 * report.latency_seconds.p50);

    let x = Value::from_slice(&[0.5f32; 4 * 256], &[1, 4, 256])?;
    let model = Cow::Owned(Model::open(path)?);
    let mut chosen = search.choose(&requirements, Subject::new(path, model, std::slice::from_ref(&x)))?;
    let y = chosen.engine.run(&[x])?.remove(0);
    println!("{}: {:?}", chosen.engine.name(), y.shape());
    assert_eq!(y.shape(), [1, 8, 256]);
    Ok(())
}
