//! The peers of `cargo xtask bench --peers`: the packages of docs/peers.md, in a venv of their own.

use crate::process::{exists, works};
use crate::venv;
use anyhow::Result;
use std::path::PathBuf;
use std::process::Command;

const PACKAGES: [&str; 13] = [
    "numpy==2.4.6",
    "torch==2.11.0",
    "torchaudio==2.11.0",
    "librosa==0.11.0",
    "soundfile==0.13.1",
    "h5py==3.16.0",
    "onnxruntime==1.31.1",
    "snac==1.2.1",
    "transformers==5.22.2",
    "pyyaml==6.0.3",
    "zstandard==0.25.0",
    "lz4==4.4.5",
    "zipnn==0.5.4",
];
/// Peers that run on a GPU only.
const OF_GPU: [&str; 2] = ["nvidia-nvcomp-cu13==6.0.0.12", "flashmel==0.1.0"];
/// Programs that are peers, which a system's package manager installs.
const PROGRAMS: [&str; 2] = ["fluidsynth", "opusdec"];

/// Returns the Python that has all peers of this machine, and names the programs that are missing.
pub fn python() -> Result<PathBuf> {
    for program in PROGRAMS.into_iter().filter(|program| !exists(program)) {
        println!("{program} is missing: apt install fluidsynth fluid-soundfont-gm opus-tools");
    }
    let mut packages = PACKAGES.to_vec();
    if works(Command::new("nvidia-smi").arg("--list-gpus")) {
        packages.extend(OF_GPU);
    }
    venv::python_in("peers-venv", &packages)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree;

    #[test]
    fn the_page_about_peers_names_each() {
        let page = std::fs::read_to_string(tree::root().join("docs/peers.md")).unwrap();
        for package in PACKAGES.iter().chain(&OF_GPU).chain(&PROGRAMS) {
            let name = package.split("==").next().unwrap();
            assert!(page.contains(&format!("`{name}`")), "docs/peers.md lacks {name}");
        }
    }
}
