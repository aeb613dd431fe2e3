//! A machine's name for its records: `xeon-avx512-2c`, or the GPU's name (`nvidia-h200`) if a GPU was
//! used.

use crate::process::output;
use std::process::Command;
use std::{fs, thread};

/// Words of a model name that say nothing about speed.
const NOISE: &[&str] = &["intel", "amd", "nvidia", "cpu", "processor", "with", "graphics"];

/// Returns the name for figures measured on `device` (`cpu`, `cuda:0`).
pub fn name(device: &str) -> String {
    if !device.starts_with("cuda") {
        return cpu();
    }
    let index = device.split_once(':').map_or("0", |(_, index)| index);
    let query = ["--query-gpu=name", "--format=csv,noheader", "--id", index];
    output(Command::new("nvidia-smi").args(query)).map_or("gpu".into(), |model| format!("nvidia-{}", slug(&model)))
}

fn cpu() -> String {
    let facts = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let fact = |key: &str| {
        let line = facts.lines().find(|line| line.starts_with(key));
        line.and_then(|line| line.split_once(':')).map_or("", |(_, value)| value.trim())
    };
    let flags = fact("flags");
    let has = |flag: &str| flags.split(' ').any(|word| word == flag);
    let isa = if cfg!(target_arch = "aarch64") {
        "neon"
    } else if has("avx512f") {
        "avx512"
    } else if has("avx2") {
        "avx2"
    } else {
        "scalar"
    };
    let cores = thread::available_parallelism().map_or(1, usize::from);
    let model = slug(fact("model name"));
    let model = if model.is_empty() { std::env::consts::ARCH.into() } else { model };
    format!("{model}-{isa}-{cores}c")
}

/// Returns the words of a model name that say something: from
/// `Intel(R) Xeon(R) Platinum 8481C CPU @ 2.70GHz` remains `xeon-platinum-8481c`.
fn slug(model: &str) -> String {
    let model = model.to_lowercase().replace("(r)", " ").replace("(tm)", " ");
    let model = model.split('@').next().unwrap_or_default();
    let words = model.split(|c: char| !c.is_ascii_alphanumeric() && c != '-').filter(|word| !word.is_empty());
    let told = words.filter(|word| !NOISE.contains(word) && !word.ends_with("-core"));
    told.collect::<Vec<_>>().join("-")
}

#[cfg(test)]
mod tests {
    use super::slug;

    #[test]
    fn names_keep_what_tells_machines_apart() {
        assert_eq!(slug("Intel(R) Xeon(R) Processor"), "xeon");
        assert_eq!(slug("Intel(R) Xeon(R) Platinum 8481C CPU @ 2.70GHz"), "xeon-platinum-8481c");
        assert_eq!(slug("AMD EPYC 9654 96-Core Processor"), "epyc-9654");
        assert_eq!(slug("NVIDIA H200\n"), "h200");
    }
}
