//! `--memory-limit` holds in `mel`, `encode` of a corpus, and `dataset build`, `verify` and `merge`, and one that is too
//! small says what is needed.

use crate::sandbox::Sandbox;
use crate::sound::{noise, wav};

const MIB: f64 = 1_048_576.0;

/// Bytes of a size as tables show it.
fn bytes(text: &str) -> f64 {
    let end = text.find(|c: char| c.is_ascii_alphabetic()).unwrap();
    let scale = match &text[end..] {
        "GiB" => 1024.0 * MIB,
        "MiB" => MIB,
        "KiB" => 1024.0,
        _ => 1.0,
    };
    text[..end].parse::<f64>().unwrap() * scale
}

/// Runs `args` with a limit that is too small, then with the least that the refusal names, and looks at the peaks.
fn holds(sandbox: &Sandbox, args: &[&str]) {
    let run =
        |limit: &str| sandbox.run(&[&["--device", "cpu", "--verbose", "--memory-limit", limit][..], args].concat());
    let ran = run("48KiB");
    assert_ne!(ran.code, 0, "{args:?}");
    let least = ran.stderr.split("use --memory-limit ").nth(1).unwrap_or_else(|| panic!("{args:?}: {}", ran.stderr));
    let least = least.split_whitespace().next().unwrap().trim_end_matches(',');
    let ran = run(least);
    assert_eq!(ran.code, 0, "{args:?} with {least}: {}", ran.stderr);
    let all = ran.stderr.lines().find(|line| line.split_whitespace().next() == Some("all")).unwrap();
    let peak = bytes(all.split_whitespace().nth(3).unwrap());
    let resident = ran.stderr.split("peak resident memory of the process: ").nth(1).unwrap();
    let resident = bytes(resident.lines().next().unwrap());
    let limit = bytes(least);
    assert!(peak > 0.0 && peak <= limit, "{args:?}: {peak} bytes of {limit}");
    assert!(resident <= limit + 96.0 * MIB, "{args:?}: {resident} bytes resident, the limit is {limit}");
}

#[test]
fn mel_holds_its_limit() {
    let sandbox = Sandbox::new();
    let samples = noise(3, 300_000);
    std::fs::write(sandbox.path("a.wav"), wav(22_050, &samples)).unwrap();
    std::fs::write(sandbox.path("b.wav"), wav(16_000, &samples[..60_000])).unwrap();
    holds(&sandbox, &["mel", "a.wav", "-o", "a.npy"]);
    holds(&sandbox, &["mel", "a.wav", "-o", "a.png"]);
    holds(&sandbox, &["mel", "a.wav", "b.wav", "-o", "ab.safetensors"]);
    holds(&sandbox, &["mel", "a.wav", "b.wav", "-o", "folder"]);
}

#[test]
fn dataset_commands_hold_their_limit() {
    let sandbox = Sandbox::new();
    std::fs::create_dir(sandbox.path("w")).unwrap();
    let samples = noise(5, 200_000);
    for name in ["a", "b", "c", "dd"] {
        std::fs::write(sandbox.path(&format!("w/{name}.wav")), wav(22_050, &samples)).unwrap();
    }
    let build = ["dataset", "build", "w", "--segment", "4s", "--threads", "2", "-o"];
    for (name, shard) in [("1.h5", "1/2"), ("2.h5", "2/2")] {
        holds(&sandbox, &[&build[..], &[name, "--shard", shard]].concat());
    }
    holds(&sandbox, &["dataset", "verify", "1.h5"]);
    holds(&sandbox, &["dataset", "merge", "1.h5", "2.h5", "-o", "all.h5"]);
    let whole = sandbox.run(&[&build[..], &["whole.h5"]].concat());
    assert_eq!(whole.code, 0, "{}", whole.stderr);
    assert!(std::fs::read(sandbox.path("all.h5")).unwrap() == std::fs::read(sandbox.path("whole.h5")).unwrap());
}

#[test]
fn a_corpus_of_tokens_holds_its_limit() {
    let sandbox = Sandbox::new();
    std::fs::create_dir(sandbox.path("w")).unwrap();
    for name in ["a", "b", "c", "dd"] {
        std::fs::write(sandbox.path(&format!("w/{name}.wav")), wav(22_050, &noise(5, 30_000))).unwrap();
    }
    let model = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../golden/snac/tiny24");
    let encode = ["encode", "w", "--model", model.to_str().unwrap(), "--threads", "2", "-o"];
    for (name, shard) in [("1.safetensors", "1/2"), ("2.safetensors", "2/2")] {
        holds(&sandbox, &[&encode[..], &[name, "--shard", shard]].concat());
    }
    holds(&sandbox, &["dataset", "merge", "1.safetensors", "2.safetensors", "-o", "all.safetensors"]);
    assert_eq!(sandbox.run(&[&encode[..], &["whole.safetensors"]].concat()).code, 0);
    let read = |name: &str| std::fs::read(sandbox.path(name)).unwrap();
    assert!(read("all.safetensors") == read("whole.safetensors"));
}
