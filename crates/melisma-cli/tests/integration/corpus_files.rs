//! Folders of audio files that become corpora of tokens.

use std::path::Path;

use serde_json::Value;

use crate::sandbox::Sandbox;
use crate::sound::{noise, wav};

pub fn model() -> String {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../golden/snac/tiny24").to_str().unwrap().to_owned()
}

pub fn corpus(sandbox: &Sandbox, n: usize) {
    std::fs::create_dir(sandbox.path("w")).unwrap();
    for i in 0..n {
        let rate = [24_000, 16_000, 44_100][i % 3];
        std::fs::write(sandbox.path(&format!("w/{i:03}.wav")), wav(rate, &noise(i as u64, 2500 + 1531 * (i % 9))))
            .unwrap();
    }
}

pub fn encode(sandbox: &Sandbox, more: &[&str]) -> (i32, Value, String) {
    let model = model();
    let mut args = vec!["encode", "--json", "--device", "cpu", "--model", &model];
    args.extend(more);
    let ran = sandbox.run(&args);
    (ran.code, serde_json::from_str(&ran.stdout).unwrap_or_default(), ran.stderr)
}

pub fn bytes(sandbox: &Sandbox, name: &str) -> Vec<u8> {
    std::fs::read(sandbox.path(name)).unwrap()
}

pub fn lines(sandbox: &Sandbox, name: &str) -> Vec<Value> {
    let text = std::fs::read_to_string(sandbox.path(name)).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}
