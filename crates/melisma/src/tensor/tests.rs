use std::path::{Path, PathBuf};

use half::f16;

use super::*;
use crate::config::policy::Placement;
use crate::config::{Chunking, Profile};
use crate::config::{Environment, Section, Sources};
use crate::runtime::memory::{Budget, Space};
use crate::{ErrorKind, pack};

/// Tools from the golden YAML file with replaced text and these variables.
fn seed<const N: usize>(replaced: [(&str, &str); N], variables: &[(&str, &str)]) -> TensorOptimizer {
    let mut yaml = crate::golden::TENSOR_OPTIMIZATIONS.to_owned();
    for (from, to) in replaced {
        assert!(yaml.contains(from), "{from}");
        yaml = yaml.replace(from, to);
    }
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("melisma.yaml");
    std::fs::write(&file, yaml).unwrap();
    let mut flags = vec![("device", "--device", "cpu".to_owned())];
    for &(key, value) in variables {
        let key = *Config::KEYS.iter().find(|known| **known == key).unwrap();
        flags.push((key, "--test", value.to_owned()));
    }
    let sources = Sources { file: Some(file), environment: Environment::default(), flags };
    TensorOptimizer::new(&Config::load(&sources).unwrap()).unwrap()
}

fn ramp(optimizer: &TensorOptimizer, shape: &[usize]) -> Tensor {
    let n: usize = shape.iter().product();
    let values: Vec<f32> = (0..n).map(|i| ((i * 7919) % 1009) as f32 / 1009.0 - 0.5).collect();
    Tensor::from_slice(optimizer.memory().budget(), &values, shape).unwrap()
}

fn floats(tensor: &Tensor) -> Vec<f32> {
    let mut out = vec![0.0; tensor.len()];
    lower::read(tensor, 0, &mut out).unwrap();
    out
}

fn host_peak(optimizer: &TensorOptimizer, name: &str) -> u64 {
    optimizer.memory().scopes()[name].peak[Space::Host as usize]
}

#[test]
fn each_key_of_the_seed_is_seen_in_the_tools() {
    let seeded = seed([], &[]);
    let tensor = |optimizer: &TensorOptimizer| optimizer.optimize_tensor(ramp(optimizer, &[8, 8]), None).unwrap();
    assert_eq!(tensor(&seeded).dtype(), DType::F16, "target_precision");
    let bf16 = seed([("\"fp16\"", "bf16")], &[]);
    assert_eq!(tensor(&bf16).dtype(), DType::BF16);
    for off in [("mixed_precision: true", "mixed_precision: false"), ("  enabled: true", "  enabled: false")] {
        assert_eq!(tensor(&seed([off], &[])).dtype(), DType::F32, "{off:?}");
    }
    let asked = seed([("  enabled: true", "  enabled: false")], &[]);
    let halves = asked.optimize_tensor(ramp(&asked, &[4]), DType::F16).unwrap();
    assert_eq!(halves.dtype(), DType::F16, "an explicitly requested type is used");

    let peak = |optimizer: &TensorOptimizer| {
        let y = ramp(optimizer, &[1000, 64]);
        optimizer.memory().track("scale", || drop(optimizer.combine(Operation::Multiply, y, 2.0).unwrap()));
        host_peak(optimizer, "scale")
    };
    assert_eq!(peak(&seeded), 256_000, "memory_efficient works in place");
    assert_eq!(peak(&seed([("memory_efficient: true", "memory_efficient: false")], &[])), 512_000);

    // A is converted 512 rows at a time, 64 rows at a time, or all at once.
    let peak = |optimizer: &TensorOptimizer| {
        let (a, b) = (ramp(optimizer, &[4096, 64]), ramp(optimizer, &[64, 8]));
        let y = optimizer.memory().track("product", || optimizer.mixed_precision(|scope| scope.matmul(&a, &b)));
        (host_peak(optimizer, "product"), floats(&y.unwrap()))
    };
    let (chunked, small, whole) = (
        peak(&seeded),
        peak(&seed([("chunk_size: 512 ", "chunk_size: 64")], &[])),
        peak(&seed([("chunk_large_tensors: true", "chunk_large_tensors: false")], &[])),
    );
    assert!(whole.0 - chunked.0 >= (4096 - 512) * 64 * 2, "{} and {}", whole.0, chunked.0);
    assert!(chunked.0 - small.0 >= (512 - 64) * 64 * 2, "{} and {}", chunked.0, small.0);
    assert!(chunked.1 == whole.1 && small.1 == whole.1, "chunks change no bit");
    assert_eq!(seeded.policy().tensorrt.unwrap().workspace_bytes, 1 << 30);
}

/// The default profile has no limit and no chunk size: free memory decides.
#[test]
fn chunks_follow_the_memory_that_is_free() {
    let with = |free: Option<u64>| {
        let sources = Sources {
            flags: vec![("device", "--device", "cpu".to_owned()), ("precision", "--precision", "fp16".to_owned())],
            ..Sources::default()
        };
        let optimizer = TensorOptimizer::new(&Config::load(&sources).unwrap()).unwrap();
        assert_eq!(optimizer.policy().chunking, Chunking::Auto);
        optimizer.with_available(Available { host: free, ..Available::default() })
    };
    let product = |optimizer: &TensorOptimizer| {
        let (a, b) = (ramp(optimizer, &[4096, 64]), ramp(optimizer, &[64, 8]));
        let y = optimizer.memory().track("product", || optimizer.mixed_precision(|scope| scope.matmul(&a, &b)));
        y.map(|y| (host_peak(optimizer, "product"), floats(&y)))
    };
    let whole = product(&with(None)).unwrap();
    let rows = 128;
    let short = product(&with(Some(4 * rows * 64 * 2))).unwrap();
    assert!(
        whole.0 - short.0 >= (4096 - rows) * 64 * 2,
        "a quarter of what is free holds {rows} rows: {short:?}",
        short = short.0
    );
    assert!(short.1 == whole.1, "chunks change no bit");
    let refused = product(&with(Some(100))).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Memory);
    let text = "a row with room to work in, in host memory, needs 512B; 100B of memory is free";
    assert_eq!(refused.to_string(), text);
}

#[test]
fn products_in_a_scope_keep_sums_in_fp32() {
    let optimizer = seed([], &[]);
    let (a, b) = (ramp(&optimizer, &[33, 500]), ramp(&optimizer, &[500, 17]));
    let exact = floats(&optimizer.matmul(&a, &b).unwrap());
    let lowered = optimizer.mixed_precision(|scope| {
        assert_eq!(scope.dtype(), DType::F16);
        scope.matmul(&a, &b).unwrap()
    });
    assert_eq!((lowered.dtype(), lowered.shape()), (DType::F16, &[33, 17][..]));
    let (a, b) = (floats(&a), floats(&b));
    let half = |x: f32| f64::from(f16::from_f32(x).to_f32());
    for (index, (&found, &exact)) in floats(&lowered).iter().zip(&exact).enumerate() {
        let (row, column) = (index / 17, index % 17);
        let sum: f64 = (0..500).map(|k| half(a[row * 500 + k]) * half(b[k * 17 + column])).sum();
        assert!((f64::from(found) - sum).abs() <= 2e-3 + 1e-3 * sum.abs(), "{index}: {found}, {sum}");
        assert!((found - exact).abs() < 0.05, "{index}: {found}, {exact}");
    }
}

#[test]
fn operations_are_the_same_in_every_chunk_and_type() {
    let whole = seed([("chunk_large_tensors: true", "chunk_large_tensors: false")], &[]);
    let chunked = seed([("chunk_size: 512 ", "chunk_size: 3")], &[]);
    for operation in Operation::ALL {
        for dtype in [DType::F32, DType::F16, DType::BF16] {
            for shape in [&[40, 13][..], &[2, 3, 5], &[5000], &[0, 4], &[]] {
                let run = |optimizer: &TensorOptimizer| {
                    let y = optimizer.optimize_tensor(ramp(optimizer, shape), dtype).unwrap();
                    let x = optimizer.combine(Operation::Add, ramp(optimizer, shape), 0.75).unwrap();
                    let y = optimizer.combine(operation, y, &x).unwrap();
                    let y = optimizer.combine(operation, y, -0.25).unwrap();
                    assert_eq!((y.dtype(), y.shape()), (dtype, shape));
                    floats(&y)
                };
                assert_eq!(run(&whole), run(&chunked), "{operation:?} {dtype:?} {shape:?}");
            }
        }
    }
    let y = ramp(&whole, &[1, 4]);
    assert_eq!(floats(&whole.combine(Operation::Maximum, y, 0.25).unwrap()).len(), 4);
    let refused = whole.combine(Operation::Add, ramp(&whole, &[4]), &ramp(&whole, &[2, 2])).unwrap_err();
    assert!(refused.to_string().contains("[4] and [2, 2] differ"), "{refused}");
}

#[test]
fn values_beyond_fp16_are_never_lost() {
    let optimizer = seed([], &[]);
    let large = || Tensor::from_slice(optimizer.memory().budget(), &[1.0f32, 70_000.0], &[2]).unwrap();
    assert_eq!(optimizer.optimize_tensor(large(), None).unwrap().dtype(), DType::F32);
    let refused = optimizer.optimize_tensor(large(), DType::F16).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Check);
    assert_eq!(refused.to_string(), "element 1 is 70000, which f16 cannot hold");
    let mut long = vec![1.0f32; 10_000];
    long[7] = 70_000.0;
    let long = Tensor::from_slice(optimizer.memory().budget(), &long, &[10_000]).unwrap();
    let refused = optimizer.optimize_tensor(long, DType::F16).unwrap_err();
    assert_eq!(refused.to_string(), "element 7 is 70000, which f16 cannot hold", "the rest does not hide it");
    let infinite = Tensor::from_slice(optimizer.memory().budget(), &[f32::INFINITY], &[1]).unwrap();
    assert_eq!(optimizer.optimize_tensor(infinite, DType::F16).unwrap().dtype(), DType::F16);
    let codes = Tensor::from_slice(optimizer.memory().budget(), &[1i64], &[1]).unwrap();
    assert_eq!(optimizer.optimize_tensor(codes, None).unwrap().dtype(), DType::I64, "only floats are lowered");
}

#[test]
fn memory_is_capped_and_chunks_make_room() {
    let limit = [("memory_limit", "800KB"), ("threads", "2")];
    let (emergency, field) = (
        seed([("chunk_large_tensors: true", "chunk_large_tensors: false")], &limit),
        seed([("chunk_size: 512 ", "chunk_size: auto")], &limit),
    );
    let product = |optimizer: &TensorOptimizer| {
        let (a, b) = (ramp(optimizer, &[1000, 128]), ramp(optimizer, &[128, 16]));
        optimizer.mixed_precision(|scope| scope.matmul(&a, &b)).map(|y| floats(&y))
    };
    let refused = product(&emergency).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Memory);
    assert!(refused.hint().unwrap().contains("chunk_large_tensors"), "{refused}");
    assert_eq!(product(&field).unwrap(), product(&seed([], &[])).unwrap());
    assert!(field.memory().budget().usage(Space::Host).peak <= 800_000);
    let too_large = Tensor::new(&Device::cpu().unwrap(), field.memory().budget(), DType::F32, &[1 << 20]);
    assert_eq!(too_large.unwrap_err().kind(), ErrorKind::Memory);
}

#[test]
fn apply_optimizes_inputs_and_tracks() {
    let optimizer = seed([], &[]);
    let inputs = vec![ramp(&optimizer, &[16, 16]), ramp(&optimizer, &[16, 16])];
    let y = optimizer.apply("model", inputs, |scope, inputs| {
        assert!(inputs.iter().all(|tensor| tensor.dtype() == DType::F16));
        scope.matmul(&inputs[0], &inputs[1])
    });
    assert_eq!(y.unwrap().shape(), [16, 16]);
    let summary = optimizer.memory().summary().to_string();
    assert!(summary.lines().any(|line| line.starts_with("model")), "{summary}");
}

#[test]
fn profiles_are_loaded_by_name() {
    let training = Config::load_with_profile("training").unwrap();
    assert_eq!(training.profile.value, Profile::Training);
    let policy = Policy::new(&training);
    assert_eq!((policy.chunking, policy.placement), (Chunking::Rows(512), Placement::InPlace));
    let refused = Config::load_with_profile("picnic").unwrap_err();
    assert!(refused.to_string().contains("picnic"), "{refused}");
}

/// Returns eight tensors of 100 kB in a safetensors file.
fn weights(directory: &Path) -> PathBuf {
    let mut json = serde_json::Map::new();
    let mut data = Vec::new();
    for index in 0..8u32 {
        let begin = data.len();
        data.extend((0..25_000u32).flat_map(|i| ((i + index) as f32 / 25_000.0).to_le_bytes()));
        json.insert(
            format!("layer.{index}"),
            serde_json::json!({ "dtype": "F32", "shape": [250, 100], "data_offsets": [begin, data.len()] }),
        );
    }
    let json = serde_json::Value::Object(json).to_string();
    let path = directory.join("w.safetensors");
    let bytes = [&(json.len() as u64).to_le_bytes(), json.as_bytes(), &data].concat();
    std::fs::write(&path, bytes).unwrap();
    path
}

/// Returns the same tensors as saved by PyTorch.
fn torch_weights(directory: &Path) -> PathBuf {
    let mut program = b"\x80\x02}".to_vec();
    let storages: Vec<Vec<u8>> = (0..8u32)
        .map(|index| (0..25_000u32).flat_map(|i| ((i + index) as f32 / 25_000.0).to_le_bytes()).collect())
        .collect();
    let names: Vec<String> = (0..8).map(|index| format!("m/data/{index}")).collect();
    for index in 0..8u8 {
        let digit = b'0' + index;
        program.extend_from_slice(b"X\x07\0\0\0layer.");
        program.push(digit);
        program.extend_from_slice(b"ctorch._utils\n_rebuild_tensor_v2\n((X\x07\0\0\0storagectorch\nFloatStorage\n");
        program.extend_from_slice(&[b"X\x01\0\0\0".as_slice(), &[digit], b"X\x03\0\0\0cpuM\xa8atQK\0"].concat());
        program.extend_from_slice(b"K\xfaKd\x86KdK\x01\x86\x89ccollections\nOrderedDict\n)RtRs");
    }
    program.push(b'.');
    let mut files: Vec<(&str, &[u8])> = vec![("m/data.pkl", &program)];
    files.extend(names.iter().zip(&storages).map(|(name, storage)| (name.as_str(), &storage[..])));
    let path = directory.join("w.bin");
    std::fs::write(&path, crate::format::checkpoint::tests::zip(&files)).unwrap();
    path
}

#[test]
fn large_files_are_loaded_under_a_small_limit() {
    let directory = tempfile::tempdir().unwrap();
    let plain = weights(directory.path());
    let packed = directory.path().join("w.packed.safetensors");
    let mut bytes = Vec::new();
    let source = std::fs::read(&plain).unwrap();
    pack::pack(&source, &mut bytes, &pack::Options::new(&Budget::unlimited()), &|_| {}).unwrap();
    std::fs::write(&packed, bytes).unwrap();
    let torch = torch_weights(directory.path());
    // A decoder's tables and blocks count too, and take more than these small tensors.
    for (path, limit, most) in [(&plain, "160KB", 150_000), (&packed, "2MB", 2_000_000), (&torch, "160KB", 150_000)] {
        let optimizer = seed([], &[("memory_limit", limit)]);
        let mut seen = Vec::new();
        let load = Weights::open(path).unwrap().load(&optimizer, |name, tensor| {
            let values = floats(&tensor);
            seen.push((name.to_owned(), tensor.dtype(), values[1]));
            Ok(())
        });
        load.unwrap();
        assert_eq!(seen.len(), 8);
        assert_eq!((seen[3].0.as_str(), seen[3].1), ("layer.3", DType::F16), "lowered by policy as it comes");
        assert!((seen[3].2 - 4.0 / 25_000.0).abs() < 1e-6);
        assert!(optimizer.memory().budget().usage(Space::Host).peak <= most, "{}", path.display());
        let mut kept = Vec::new();
        let refused = Weights::open(path).unwrap().load(&optimizer, |_, tensor| {
            kept.push(tensor);
            Ok(())
        });
        let refused = refused.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Memory);
        assert!(refused.to_string().contains("layer."), "{refused}");
    }
    let missing = Weights::open(directory.path().join("none")).unwrap_err();
    assert_eq!(missing.kind(), ErrorKind::Io);
}

#[test]
fn slices_are_changed_like_tensors() {
    fn check<T: Scalar + PartialEq + std::fmt::Debug>(optimizer: &TensorOptimizer, operation: Operation) {
        for len in [0, 1, 5000] {
            let y = optimizer.optimize_tensor(ramp(optimizer, &[len]), T::DTYPE).unwrap();
            let x = optimizer.combine(Operation::Add, ramp(optimizer, &[len]), 0.75).unwrap();
            let x = optimizer.optimize_tensor(x, T::DTYPE).unwrap();
            let [mut slice, other] = [&y, &x].map(|tensor| tensor.to_vec::<T>(optimizer.queue()).unwrap());
            optimizer.combine_slices(operation, &mut slice, Values::Each(&other)).unwrap();
            optimizer.combine_slices(operation, &mut slice, Values::All(-0.25)).unwrap();
            let y = optimizer.combine(operation, y, &x).unwrap();
            let y = optimizer.combine(operation, y, -0.25).unwrap();
            assert_eq!(slice, y.to_vec::<T>(optimizer.queue()).unwrap(), "{operation:?} of {len}");
        }
    }
    for optimizer in [seed([], &[]), seed([("chunk_size: 512 ", "chunk_size: 3")], &[])] {
        for operation in Operation::ALL {
            check::<f32>(&optimizer, operation);
            check::<f16>(&optimizer, operation);
            check::<half::bf16>(&optimizer, operation);
        }
        let error = optimizer.combine_slices(Operation::Add, &mut [1.0f32], Values::Each(&[])).unwrap_err();
        assert_eq!(
            (error.kind(), error.to_string().as_str()),
            (ErrorKind::InvalidArgument, "the slices differ in length: 1 and 0 elements")
        );
    }
    let limited = seed([("chunk_size: 512 ", "chunk_size: auto ")], &[("memory_limit", "1MiB")]);
    let (mut y, x) = (vec![f16::ONE; 1 << 18], vec![f16::ONE; 1 << 18]);
    let add = || limited.combine_slices(Operation::Add, &mut y, Values::Each(&x)).unwrap();
    limited.memory().track("pairs", add);
    assert!(host_peak(&limited, "pairs") <= 1 << 18, "{}", host_peak(&limited, "pairs"));
    let limited = seed([], &[("memory_limit", "4KiB")]);
    let mut floats = vec![1.0f32; 1 << 16];
    limited.combine_slices(Operation::Multiply, &mut floats, Values::All(2.0)).unwrap();
    assert!(floats.iter().all(|&float| float == 2.0), "floats on the CPU need no memory");
    let refused = limited.combine_slices(Operation::Add, &mut vec![f16::ONE; 1 << 16], Values::All(2.0)).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Memory);
}
