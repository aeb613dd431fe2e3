use super::*;
use crate::config::policy::{Chunking, Placement, TensorRt};
use crate::config::precision::{Format, Lowering};
use crate::config::{Policy, Precision};

fn load(yaml: &str) -> Result<Config> {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("melisma.yaml");
    std::fs::write(&path, yaml).unwrap();
    Config::load(&Sources { file: Some(path), ..Sources::default() })
}

/// Returns the message after the path, and the hint.
fn refusal(yaml: &str) -> (String, String) {
    let error = load(yaml).unwrap_err();
    let message = error.to_string();
    let (_, message) = message.split_once("melisma.yaml:").unwrap_or_else(|| panic!("no file in {message}"));
    (message.to_owned(), error.hint().unwrap_or_default().to_owned())
}

fn seed() -> String {
    crate::golden::TENSOR_OPTIMIZATIONS.to_owned()
}

#[test]
fn the_seeds_yaml_loads_as_it_stands() {
    let policy = Policy::new(&load(&seed()).unwrap());
    let expected = Policy {
        precision: Precision { engine: Lowering::To(Format::Fp16), ..Precision::default() },
        chunking: Chunking::Rows(512),
        placement: Placement::InPlace,
        tensorrt: Some(TensorRt { workspace_bytes: 1 << 30 }),
    };
    assert_eq!(policy, expected);
}

#[test]
fn each_key_of_the_seed_has_its_effect() {
    let with = |from: &str, to: &str| {
        assert!(seed().contains(from), "{from}");
        Policy::new(&load(&seed().replace(from, to)).unwrap())
    };
    let whole = Policy::new(&load(&seed()).unwrap());
    let off = with("  enabled: true", "  enabled: false");
    assert_eq!((off.precision, off.chunking), (Precision::default(), Chunking::Off));
    assert_eq!((off.placement, off.tensorrt), (Placement::Separate, None));
    assert_eq!(with("memory_efficient: true", "memory_efficient: false").placement, Placement::Separate);
    assert_eq!(with("mixed_precision: true", "mixed_precision: false").precision.engine, Lowering::Never);
    assert_eq!(with("\"fp16\"", "int8").precision.engine, Lowering::To(Format::Int8));
    assert_eq!(with("\"fp16\"", "fp32").precision.engine, Lowering::Never);
    assert_eq!(with("use_tensorrt: true", "use_tensorrt: false").tensorrt, None);
    assert_eq!(with("1073741824", "256MiB").tensorrt, Some(TensorRt { workspace_bytes: 256 << 20 }));
    assert_eq!(with("chunk_large_tensors: true", "chunk_large_tensors: false").chunking, Chunking::Off);
    assert_eq!(with("chunk_size: 512 ", "chunk_size: auto").chunking, Chunking::Auto);
    assert_eq!(with("chunk_size: 512 ", "chunk_size: 64").chunking, Chunking::Rows(64));
    assert_eq!(whole.precision.audible, Precision::default().audible, "what is heard stays FP32");
}

#[test]
fn profiles_mean_what_they_say() {
    let of = |profile| Config::with_profile(profile).unwrap();
    let emergency = of(Profile::Emergency);
    assert_eq!(emergency.threads.value, Threads::Auto);
    assert_eq!(Policy::new(&emergency).chunking, Chunking::Off);
    assert!(Policy::new(&emergency).tensorrt.is_some());
    let field = of(Profile::Field);
    assert_eq!(Policy::new(&field).chunking, Chunking::Auto);
    assert_eq!(field.threads.origin, Origin::Default);
    let training = of(Profile::Training);
    let policy = Policy::new(&training);
    assert_eq!((training.threads.value, policy.tensorrt), (Threads::Count(1), None));
    assert_eq!((policy.chunking, policy.placement), (Chunking::Rows(512), Placement::InPlace));
    assert_eq!(policy.precision, Precision::default());
    assert_eq!(training.threads.origin, Origin::Profile(Profile::Training));
}

#[test]
fn later_layers_win_and_say_where_from() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("melisma.yaml");
    std::fs::write(&path, "profile: training\n\nthreads: 3\nmemory_limit: 6GiB\nprecision: bf16\ntf32: true\n")
        .unwrap();
    let config = Config::load(&Sources {
        file: Some(path.clone()),
        environment: Environment::of([
            ("MELISMA_MEMORY_LIMIT", "2GB"),
            ("MELISMA_THREADS", "5"),
            ("MELISMA_TENSOR_OPTIMIZATIONS_CHUNK_SIZE", "7"),
            ("MELISMA_CACHE_LIMIT", ""),
        ]),
        flags: vec![("threads", "--threads", "4".into())],
    })
    .unwrap();
    assert_eq!(config.threads, Setting { value: Threads::Count(4), origin: Origin::Flag("--threads") });
    assert_eq!(config.memory_limit.value.bytes(), Some(2_000_000_000));
    assert_eq!(config.memory_limit.origin, Origin::Env("MELISMA_MEMORY_LIMIT".into()));
    assert_eq!(config.tf32, Setting { value: true, origin: Origin::File { path: path.clone(), line: 6 } });
    assert_eq!(config.chunk_size.value, ChunkSize::Rows(std::num::NonZeroU64::new(7).unwrap()));
    assert_eq!(config.use_tensorrt, Setting { value: false, origin: Origin::Profile(Profile::Training) });
    assert_eq!(config.cache_limit.origin, Origin::Default);
    let json = config.json();
    assert_eq!(json["memory_limit"]["value"], 2_000_000_000u64);
    assert_eq!(json["tf32"]["from"], format!("{}:6", path.display()));
    assert_eq!(config.table().text().lines().count(), Config::KEYS.len() + 1);
}

#[test]
fn a_profile_flag_lies_under_the_file() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("melisma.yaml");
    std::fs::write(&path, "profile: training\nthreads: 2\n").unwrap();
    let flags = vec![("profile", "--profile", "emergency".into())];
    let config = Config::load(&Sources { file: Some(path), flags, ..Sources::default() }).unwrap();
    assert_eq!(config.profile, Setting { value: Profile::Emergency, origin: Origin::Flag("--profile") });
    assert_eq!(config.threads.value, Threads::Count(2));
    assert_eq!(config.chunk_large_tensors, Setting { value: false, origin: Origin::Profile(Profile::Emergency) });
}

#[test]
fn errors_name_the_line_and_the_key() {
    let cases = [
        ("threads: 1\ndevise: cpu\n", "2: the key `devise` does not exist", "did you mean `device`?"),
        (
            "mixed_precision: true\n",
            "1: the key `mixed_precision` does not exist",
            "it belongs under `tensor_optimizations:`",
        ),
        ("colour: blue\n", "1: the key `colour` does not exist", "the keys here are device, profile, threads"),
        (
            "tensor_optimizations:\n  enabled: true\n  chunksize: 5\n",
            "3: the key `tensor_optimizations.chunksize` does not exist",
            "did you mean `tensor_optimizations.chunk_size`?",
        ),
        ("tensor_optimizations: yes\n", "1: `tensor_optimizations` is a section", "put its keys below it"),
        ("\nthreads: many\n", "2: `threads`: expected a number of threads or `auto`, found the text `many`", ""),
        ("threads: \"4\"\n", "1: `threads`: expected a number", ""),
        ("threads: 0\n", "1: `threads`: 0 threads", "write 1 or more"),
        ("threads: -1\n", "1: `threads`: expected a number of threads or `auto`, found the number -1", ""),
        ("threads: 99999\n", "1: `threads`: 99999 threads are more than", ""),
        (
            "threads: 1.5\n",
            "1: `threads`: expected a number of threads or `auto`, found a number that is not whole",
            "",
        ),
        ("threads:\n", "1: `threads`: expected a number of threads or `auto`, found nothing", ""),
        ("threads: [1, 2]\n", "1: `threads`: expected a number of threads or `auto`, found a list", ""),
        ("threads:\n  deep: 1\n", "2: the key `threads.deep` does not exist", ""),
        ("memory_limit: 0\n", "1: `memory_limit`: a memory limit of 0", "write a size such as 6GiB"),
        ("memory_limit: 12 parsecs\n", "1: `memory_limit`: `12 parsecs` is not a size", "write bytes"),
        ("tf32: yes\n", "1: `tf32`: expected true or false, found the text `yes`", ""),
        ("device: gpu\n", "1: `device`: expected auto, cpu, cuda or cuda:N, found the text `gpu`", ""),
        ("threads: 1\nthreads: 2\n", "2: the key `threads` is written twice", "keep one"),
        ("a: [1\nb: }\n", "2: this is not YAML", "lines such as"),
        ("threads: 'open\n", "2: this is not YAML", "lines such as"),
        ("just words\n", "1: this is not YAML with keys", "lines such as"),
        ("- threads\n", "1: this is not YAML with keys", "lines such as"),
        ("tensor_optimizations:\n  chunk_size: 0\n", "2: `tensor_optimizations.chunk_size`: a chunk of 0", "1 or more"),
    ];
    for (yaml, message, hint) in cases {
        let found = refusal(yaml);
        assert!(found.0.starts_with(message), "{yaml:?}: {found:?}");
        assert!(found.1.contains(hint), "{yaml:?}: {found:?}");
    }
}

#[test]
fn hostile_files_are_refused() {
    let deep = format!("threads: {}", "[".repeat(100_000));
    let bomb = "a: &a [x,x,x,x]\nb: &b [*a,*a,*a,*a]\nc: &c [*b,*b,*b,*b]\nd: [*c,*c,*c,*c]\n";
    let many: String = (0..50_000).map(|i| format!("k{i}: 1\n")).collect();
    for yaml in [deep.as_str(), bomb, &many, &"x".repeat(2 << 20), "a: 1\n---\nb: 2\n", "<<: {threads: 1}\n"] {
        let error = load(yaml).unwrap_err();
        assert!(error.to_string().len() < 400, "{error}");
    }
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("melisma.yaml");
    std::fs::write(&path, b"threads: 1\n\xff\xfe").unwrap();
    let error = Config::load(&Sources { file: Some(path), ..Sources::default() }).unwrap_err();
    assert!(error.to_string().ends_with("melisma.yaml:2: this is not UTF-8 text"), "{error}");
}

#[test]
fn empty_files_and_comments_are_no_settings() {
    for yaml in ["", "# nothing\n", "---\n", "\n\n"] {
        assert_eq!(load(yaml).unwrap().threads, Config::default().threads, "{yaml:?}");
    }
}

#[test]
fn files_are_found_where_the_environment_says() {
    let home = tempfile::tempdir().unwrap();
    let home_text = home.path().to_str().unwrap();
    let sources = |environment| Sources { environment, ..Sources::default() };
    let none = Config::load(&sources(Environment::of([("HOME", home_text)]))).unwrap();
    assert_eq!(none.file, None);
    assert_eq!(none.cache_dir.value, Some(home.path().join(".cache/melisma")));

    std::fs::create_dir_all(home.path().join(".config/melisma")).unwrap();
    std::fs::write(home.path().join(".config/melisma/melisma.yaml"), "threads: 2\n").unwrap();
    let found = Config::load(&sources(Environment::of([("HOME", home_text), ("XDG_CACHE_HOME", "/c")]))).unwrap();
    assert_eq!(found.threads.value, Threads::Count(2));
    assert_eq!(found.cache_dir.value, Some("/c/melisma".into()));
    let moved = Environment::of([("HOME", home_text), ("XDG_CONFIG_HOME", "/nowhere"), ("MELISMA_CACHE_DIR", "/d")]);
    let moved = Config::load(&sources(moved)).unwrap();
    assert_eq!((moved.file, moved.cache_dir.value), (None, Some("/d".into())));
    let named = Config::load(&sources(Environment::of([("MELISMA_CONFIG", "/no/such/file")]))).unwrap_err();
    assert!(named.to_string().contains("no such configuration file"), "{named}");
    let empty = Environment::of([("HOME", home_text), ("MELISMA_CONFIG", ""), ("XDG_CACHE_HOME", "")]);
    let empty = Config::load(&sources(empty)).unwrap();
    assert_eq!(empty.threads.value, Threads::Count(2), "an empty variable is none");
    assert_eq!(empty.cache_dir.value, Some(home.path().join(".cache/melisma")));

    let own = home.path().join("own.yaml");
    std::fs::write(&own, "threads: 3\n").unwrap();
    let other = home.path().join(".config/melisma/melisma.yaml");
    let environment = Environment::of([("MELISMA_CONFIG", other.to_str().unwrap())]);
    let both = Config::load(&Sources { file: Some(own.clone()), environment, ..Sources::default() }).unwrap();
    assert_eq!((both.file, both.threads.value), (Some(own), Threads::Count(3)), "a flag is stronger than a variable");
}

#[test]
fn tolerance_and_precision_come_from_any_layer() {
    let of = |yaml: &str| load(yaml).unwrap().tolerance.value.value();
    assert_eq!((of(""), of("tolerance: 1e-2\n"), of("tolerance: 0.5\n"), of("tolerance: 0\n")), (1e-3, 1e-2, 0.5, 0.0));
    for wrong in ["-1", "nan", "much", "[1]"] {
        let (message, _) = refusal(&format!("tolerance: {wrong}\n"));
        assert!(message.starts_with("1: `tolerance`: expected a tolerance such as 1e-3, found "), "{message}");
    }
    let environment = Environment::of([("MELISMA_TOLERANCE", "2e-2"), ("MELISMA_PRECISION", "int8")]);
    let config = Config::load(&Sources { environment, ..Sources::default() }).unwrap();
    assert_eq!(config.tolerance.value.value(), 2e-2);
    assert_eq!(Policy::new(&config).precision.engine, Lowering::To(Format::Int8));
}

#[test]
fn words_from_variables_and_flags_are_checked_too() {
    let environment = Environment::of([("MELISMA_TF32", "maybe")]);
    let error = Config::load(&Sources { environment, ..Sources::default() }).unwrap_err();
    assert_eq!(error.to_string(), "MELISMA_TF32: expected true or false, found the text `maybe`");
    let flags = vec![("memory_limit", "--memory-limit", "0".into())];
    let error = Config::load(&Sources { flags, ..Sources::default() }).unwrap_err();
    assert_eq!(error.to_string(), "--memory-limit: a memory limit of 0 leaves no room for any work");
}

#[test]
fn keys_of_fronts_are_known_but_not_the_librarys() {
    let config = load("threads: 2\nquiet: true\nupstream:\n  api: chat\n").unwrap();
    assert_eq!(config.threads.value, Threads::Count(2));
    assert!(config.json().get("quiet").is_none());
    assert_eq!(refusal("upstream:\n  apis: chat\n").1, "did you mean `upstream.api`?");
    let flags = vec![("thread", "--thread", "4".into())];
    let error = Config::load(&Sources { flags, ..Sources::default() }).unwrap_err();
    assert_eq!(error.to_string(), "--thread: the key `thread` does not exist");
}
