use std::path::PathBuf;

use super::recorder::{recorded, value};
use super::*;
use crate::config::precision::Format;

#[test]
fn an_invalid_argument_is_invalid_input() {
    if let Err(error) = runtime() {
        return crate::golden::skip(error);
    }
    let of = |code| failed_run(&ort::Error::new_with_code(code, "indices element out of data bounds")).kind();
    assert_eq!(of(ErrorCode::InvalidArgument), ErrorKind::InvalidArgument);
    assert_eq!(of(ErrorCode::RuntimeException), ErrorKind::Device);
}

#[test]
fn tensorrt_is_told_workspace_precision_shapes_and_a_folder_of_its_own() {
    let tensorrt = |key: &str| TensorRt {
        cuda: Cuda { ordinal: 1, memory_limit: Some(3 << 30), ..Cuda::default() },
        workspace_bytes: 1 << 30,
        precision: Format::Fp16,
        shapes: vec![("mel".to_owned(), vec![1, 80, 3000]), ("n".to_owned(), vec![1])],
        folder: PathBuf::from("/cache").join(key),
        key: key.to_owned(),
    };
    let told = recorded(&Provider::TensorRt(tensorrt("a1")));
    let [(first, options), (second, cuda)] = &told[..] else { panic!("{told:?}") };
    assert_eq!((*first, *second), ("TensorrtExecutionProvider", "CUDAExecutionProvider"));
    for (key, expected) in [
        ("device_id", "1"),
        ("trt_max_workspace_size", "1073741824"),
        ("trt_fp16_enable", "1"),
        ("trt_int8_enable", "0"),
        ("trt_profile_min_shapes", "mel:1x80x3000,n:1"),
        ("trt_profile_opt_shapes", "mel:1x80x3000,n:1"),
        ("trt_profile_max_shapes", "mel:1x80x3000,n:1"),
        ("trt_engine_cache_enable", "1"),
        ("trt_engine_cache_path", "/cache/a1"),
        ("trt_engine_cache_prefix", "a1"),
        ("trt_timing_cache_path", "/cache/a1"),
    ] {
        assert_eq!(value(options, key), expected, "{key}");
    }
    assert_eq!(value(cuda, "gpu_mem_limit"), "3221225472");
    let other = recorded(&Provider::TensorRt(tensorrt("b2")));
    assert_ne!(value(&other[0].1, "trt_engine_cache_path"), value(options, "trt_engine_cache_path"));
    let whole = recorded(&Provider::TensorRt(TensorRt { precision: Format::Fp32, ..tensorrt("c") }));
    assert_eq!(["trt_fp16_enable", "trt_bf16_enable", "trt_int8_enable"].map(|key| value(&whole[0].1, key)), ["0"; 3]);
}

#[test]
fn cuda_is_told_the_memory_limit() {
    let limited = Cuda { memory_limit: Some(1 << 20), tf32: true, ..Cuda::default() };
    let told = recorded(&Provider::Cuda(limited));
    assert_eq!(value(&told[0].1, "gpu_mem_limit"), "1048576");
    assert_eq!(value(&told[0].1, "arena_extend_strategy"), "kSameAsRequested");
    assert_eq!(value(&told[0].1, "use_tf32"), "1");
    let free = recorded(&Provider::Cuda(Cuda::default()));
    assert!(!free[0].1.iter().any(|(key, _)| key == "gpu_mem_limit"));
    assert!(recorded(&Provider::Cpu).is_empty());
}

#[test]
fn cuda_is_told_how_cudnn_chooses_its_convolutions() {
    let options = |search, workspace| {
        let cuda = Cuda { cudnn: Cudnn { search, workspace }, ..Cuda::default() };
        let told = recorded(&Provider::Cuda(cuda)).remove(0).1;
        ["cudnn_conv_algo_search", "cudnn_conv_use_max_workspace", "cudnn_conv1d_pad_to_nc1d"]
            .map(|key| value(&told, key).to_owned())
    };
    assert_eq!(options(Algorithms::Exhaustive, Workspace::Largest), ["EXHAUSTIVE", "1", "1"]);
    assert_eq!(options(Algorithms::Heuristic, Workspace::Small), ["HEURISTIC", "0", "1"]);
}

#[test]
fn the_library_is_found_where_it_is_named_and_in_wheels() {
    let folder = tempfile::tempdir().unwrap();
    let capi = folder.path().join("lib/python3.11/site-packages/onnxruntime/capi");
    std::fs::create_dir_all(&capi).unwrap();
    let library = capi.join("libonnxruntime.so.1.31.1");
    std::fs::write(&library, b"").unwrap();
    std::fs::write(capi.join("libonnxruntime_providers_shared.so"), b"").unwrap();
    let find_in = |named: Option<PathBuf>, folder: PathBuf| library::find_in(named, [folder]);
    assert_eq!(find_in(None, capi.clone()).unwrap(), library);
    assert_eq!(find_in(Some(capi.clone()), PathBuf::new()).unwrap(), library);
    assert_eq!(find_in(Some(library.clone()), PathBuf::new()).unwrap(), library);
    let wrong = find_in(Some(folder.path().join("none")), capi).unwrap_err();
    assert!(wrong.to_string().starts_with("MELISMA_ONNXRUNTIME: no library at "), "never another: {wrong}");
    let missing = find_in(None, folder.path().to_owned()).unwrap_err();
    assert_eq!(missing.to_string(), "onnxruntime: its library was not found");
}

#[test]
fn what_is_there_is_not_installed_again() {
    let [there, named, neither] = [(true, true), (false, true), (false, false)]
        .map(|(is_there, is_named)| library::how_to_get_provider_of(is_there, is_named));
    assert_eq!(library::how_to_get_provider_of(true, false), there);
    assert!(there.contains("LD_LIBRARY_PATH") && named.ends_with("or unset it"), "{there}\n{named}");
    assert!([there, named].iter().all(|hint| !hint.contains("pip install")));
    assert!(neither.starts_with("pip install onnxruntime-gpu"), "{neither}");
}

#[test]
fn a_library_of_another_make_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("libonnxruntime.so");
    std::fs::write(&path, b"not a library").unwrap();
    let refused = library::load(&path).unwrap_err();
    assert!(refused.contains("libonnxruntime.so"), "{refused}");
    let libc = ["/lib/x86_64-linux-gnu/libc.so.6", "/lib/aarch64-linux-gnu/libc.so.6", "/lib64/libc.so.6"];
    if let Some(libc) = libc.iter().map(Path::new).find(|path| path.is_file()) {
        let refused = library::load(libc).unwrap_err();
        assert!(refused.contains("OrtGetApiBase"), "{refused}");
    }
}

/// Runs the golden models in the real library, if it is installed.
#[test]
fn golden_models_give_golden_outputs() {
    if let Err(error) = runtime() {
        return crate::golden::skip(error);
    }
    use crate::format::npy;
    use crate::golden::optimize as golden;
    let model = Model::open(golden("vocoder.onnx")).unwrap();
    let options = Options { threads: 2, ..Options::default() };
    let folder = tempfile::tempdir().unwrap();
    let mut engine = Onnxruntime::new(&model, &options, (&Provider::Cpu, Some(folder.path()))).unwrap();
    let x = npy::read(golden("vocoder.x.npy")).unwrap();
    let found = engine.run(std::slice::from_ref(&x)).unwrap();
    let expected = npy::read(golden("vocoder.y.npy")).unwrap();
    let pairs = found[0].as_slice::<f32>().unwrap().iter().zip(expected.as_slice::<f32>().unwrap());
    assert!(pairs.into_iter().all(|(a, b)| (a - b).abs() < 1e-6));
    let (again, during) = engine.profile(&[x]).unwrap();
    assert!(again[0].bytes() == found[0].bytes() && during.is_empty());
    let operators = engine.end_profile().unwrap();
    let n_nodes = |op: &str| model.graph.nodes.iter().filter(|node| node.op == op).count() as u64;
    let conv = operators.iter().find(|row| row.name == "ConvTranspose").unwrap();
    assert!(conv.seconds > 0.0 && conv.calls == n_nodes("ConvTranspose"), "of one run, not of both: {operators:?}");
    assert!(engine.end_profile().unwrap().is_empty(), "once");
    in_pieces(&options);
    let tensorrt = TensorRt {
        cuda: Cuda::default(),
        workspace_bytes: 1 << 20,
        precision: Format::Fp32,
        shapes: Vec::new(),
        folder: folder.path().to_owned(),
        key: "k".to_owned(),
    };
    for provider in [Provider::Cuda(Cuda::default()), Provider::TensorRt(tensorrt)] {
        if let Err(error) = Onnxruntime::new(&model, &options, (&provider, None)) {
            assert!(error.kind() == ErrorKind::Device && error.to_string().contains("ExecutionProvider"), "{error}");
        }
    }
}

/// Each piece is a run of the session, and the table includes all of them.
fn in_pieces(options: &Options) {
    use crate::engine::chunked::{Chunked, Reach};
    use crate::onnx::synthetic::{Snac, snac_decoder};
    let model = snac_decoder(&Snac { latent_dim: 8, dim: 16, strides: &[3, 2] }, 3).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let engine = Onnxruntime::new(&model, options, (&Provider::Cpu, Some(folder.path()))).unwrap();
    let mut pieces = Chunked::new(Box::new(engine), Reach::of(&model).unwrap(), 100);
    let x = [Value::zeros(DType::F32, &[1, 8, 1000]).unwrap()];
    pieces.run(&x).unwrap();
    pieces.profile(&x).unwrap();
    let operators = pieces.end_profile().unwrap();
    let conv = operators.iter().find(|row| row.name == "ConvTranspose").unwrap();
    assert_eq!(conv.calls, 10 * 2, "of ten pieces, not of twenty");
}

#[test]
fn tensorrt_is_known_by_the_name_of_its_library() {
    let (root, empty) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let folders = [empty.path().to_owned(), root.path().to_owned()];
    assert_eq!(library::find_tensorrt_in(&folders), None);
    let real = root.path().join("libnvinfer.so.10.3.0");
    std::fs::write(&real, b"").unwrap();
    std::os::unix::fs::symlink("libnvinfer.so.10.3.0", root.path().join("libnvinfer.so.10")).unwrap();
    std::os::unix::fs::symlink("libnvinfer.so.10", root.path().join("libnvinfer.so")).unwrap();
    let found = library::find_tensorrt_in(&folders).unwrap();
    assert_eq!(library::tensorrt_version_of(&found), "10.3.0");
    assert_eq!(library::tensorrt_version_of(&root.path().join("libnvinfer.so")), "10.3.0", "behind its links");
    std::fs::rename(&real, root.path().join("libnvinfer.so")).unwrap();
    assert_eq!(library::tensorrt_version_of(&root.path().join("libnvinfer.so")), "unknown");
}
