use std::path::Path;

use melisma::config::Config;
use melisma::engine::{Engine, Options, rten};
use melisma::format::Value;
use melisma::onnx::synthetic::{Snac, snac_decoder};
use melisma::onnx::{Dim, Model, Tensor, ValueInfo, fingerprint, pass};
use melisma::optimize::cache::{self, Cache, Sample};
use melisma::optimize::search::{Latency, Requested, Requirements, Search, Worker};
use melisma::{Budget, DType};

use super::{COUNTS, Calls, FLOATS, PLACES, SHORT, each, float, limit};

#[test]
fn models_and_measurements() {
    limit();
    let mut calls = Calls::default();
    let small = Snac { latent_dim: 8, dim: 16, strides: &[2] };
    let model = snac_decoder(&small, 0).unwrap();
    each!(calls, "snac_decoder", latent_dim in [0, 1, 8, usize::MAX], dim in [0, 1, 16, usize::MAX], stride in [0, 1, 2, usize::MAX] => {
        snac_decoder(&Snac { latent_dim, dim, strides: &[stride] }, 0).map(drop)
    });
    each!(calls, "ValueInfo::tensor", dtype in [i32::MIN, 0, i32::MAX], n in [i64::MIN, -1, 0, i64::MAX] => {
        ValueInfo::tensor("x", dtype, &[Dim::Known(n)])
    });
    each!(calls, "Tensor::from_slice", a in COUNTS, b in COUNTS => Tensor::from_slice("t", &[1.0f32], &[a, b]).map(drop));
    each!(calls, "fix_shapes", a in COUNTS, b in COUNTS => {
        pass::fix_shapes(&mut model.clone(), &[("z".to_owned(), vec![1, a, b])])
    });
    each!(calls, "keep_list", tolerance in FLOATS => {
        let run = |_: &Model| Ok(vec![Value::from_slice(&[1.0f32], &[1])?]);
        pass::keep_list(&model, float(tolerance), &run).map(drop)
    });
    each!(calls, "open_within", limit in PLACES, threads in [0, 1, 3] => {
        let _ = Model::open_within(Path::new("/none.onnx"), limit);
        fingerprint(Path::new("/none.onnx"), threads).map(drop)
    });
    each!(calls, "evaluate", most_bytes in PLACES => rten::evaluate(&model, most_bytes).map(drop));
    each!(calls, "Options", threads in [0, 1, 3], len in [0, 1, 64] => {
        let mut engine = rten::build(&model, &Options::default().with_threads(threads))?;
        engine.run(&[Value::from_slice(&vec![0.5f32; 8 * len], &[1, 8, len])?]).map(drop)
    });
    each!(calls, "Sample", n in COUNTS, values in SHORT, tolerance in FLOATS => {
        let sample = Sample::take("y", &[n], values);
        let mut coarse = sample.clone();
        coarse.stride = n;
        let _ = coarse.check(&[n], values, float(tolerance));
        sample.check(&[n], values, float(tolerance)).is_ok()
    });
    let (config, budget) = (Config::default(), Budget::limited(1 << 28));
    each!(calls, "Requested::with_tolerance", tolerance in FLOATS => {
        Requirements::new(&config, Requested::default().with_tolerance(tolerance)).map(drop)
    });
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), model.to_bytes().unwrap()).unwrap();
    each!(calls, "Search::with_free_bytes", bytes in PLACES, threads in [0, 1, 3] => {
        let cache = Cache::open(None, cache::Options::new(bytes).with_threads(threads));
        let search = Search::with_cache(cache, &config, &budget, Worker::Here(budget.clone())).with_free_bytes(Some(bytes));
        search.open_for_run(file.path(), Requested::default(), |_| Ok(vec![Value::zeros(DType::F32, &[1, 8, 4])?])).map(drop)
    });
    each!(calls, "run_repeated", repeat in [0, 1, 2] => {
        let cache = Cache::open(None, cache::Options::new(0).with_threads(1));
        let search = Search::with_cache(cache, &config, &budget, Worker::Here(budget.clone()));
        let zeros = |_: &_| Ok(vec![Value::zeros(DType::F32, &[1, 8, 4])?]);
        let (mut chosen, inputs) = search.open_for_run(file.path(), Requested::default(), zeros)?;
        chosen.run_repeated(&inputs, repeat).map(drop)
    });
    each!(calls, "Latency::of", value in FLOATS, n in [0, 1, 2, 100] => Latency::of(&vec![value; n]));
    calls.end(150);
}
