//! The program, and what it may ask of a system.

use super::elf::Elf;
use super::target::{GLIBC, Target};
use super::tool::Tools;
use crate::process::run;
use crate::tree;
use anyhow::{Context, Result, bail};
use std::fs;
use std::path::{Path, PathBuf};

/// The largest program.
const MAX_BYTES: usize = 65_000_000;
/// The parts of the C library; CUDA and ONNX Runtime are loaded at run time.
const LIBRARIES: [&str; 8] = [
    "libc.so.6",
    "libm.so.6",
    "libdl.so.2",
    "librt.so.1",
    "libpthread.so.0",
    "libgcc_s.so.1",
    "ld-linux-x86-64.so.2",
    "ld-linux-aarch64.so.1",
];

/// Builds the program, and returns where it is.
pub fn build(tools: &Tools, target: Target) -> Result<PathBuf> {
    let triple = target.triple();
    let old = format!("{triple}.{}.{}", GLIBC.0, GLIBC.1);
    let arguments = ["zigbuild", "--locked", "--profile", "dist", "-p", "melisma-cli", "--target", &old];
    run(tools.command("cargo-zigbuild").args(arguments))?;
    let program = tree::target().join(triple).join("dist/melisma");
    check(&program, target)?;
    Ok(program)
}

/// Checks what a program or library for `target` needs.
pub fn check(file: &Path, target: Target) -> Result<()> {
    let bytes = fs::read(file).with_context(|| tree::shown(file))?;
    let elf = Elf::read(&bytes).with_context(|| tree::shown(file))?;
    let mut wrong = problems(&elf, target);
    if bytes.len() > MAX_BYTES {
        wrong.push(format!("it has {} bytes; {MAX_BYTES} are allowed", bytes.len()));
    }
    if !wrong.is_empty() {
        bail!("{} does not run everywhere: {}", tree::shown(file), wrong.join("; "));
    }
    let newest = elf.versions.iter().filter_map(|version| glibc(version)).max().unwrap_or_default();
    println!("{}: {} bytes, glibc {}.{}", tree::shown(file), bytes.len(), newest.0, newest.1);
    Ok(())
}

fn problems(elf: &Elf, target: Target) -> Vec<String> {
    let mut wrong = Vec::new();
    if elf.machine != target.machine() {
        wrong.push(format!("it is for machine {}, not for {}", elf.machine, target.name()));
    }
    let libraries = elf.libraries.iter().filter(|library| !LIBRARIES.contains(&&***library));
    wrong.extend(libraries.map(|library| format!("it is linked with {library}")));
    let newer = elf.versions.iter().filter(|version| glibc(version).is_some_and(|version| version > GLIBC));
    wrong.extend(newer.map(|version| format!("it needs {version}, newer than {}.{}", GLIBC.0, GLIBC.1)));
    wrong
}

/// Returns the version that a symbol of the C library has.
fn glibc(version: &str) -> Option<(u32, u32)> {
    let mut numbers = version.strip_prefix("GLIBC_")?.split('.').map(str::parse);
    Some((numbers.next()?.ok()?, numbers.next()?.ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn elf(machine: u16, library: &str, version: &str) -> Elf {
        let libraries = vec!["libc.so.6".to_owned(), library.to_owned()];
        Elf { machine, libraries, versions: vec!["GLIBC_2.2.5".to_owned(), version.to_owned()] }
    }

    #[test]
    fn old_systems_have_what_is_needed() {
        for version in ["GLIBC_2.28", "GLIBC_2.9", "GLIBC_PRIVATE", "GCC_3.0"] {
            assert_eq!(problems(&elf(62, "libm.so.6", version), Target::X86), [""; 0]);
        }
        assert_eq!(problems(&elf(183, "ld-linux-aarch64.so.1", "GLIBC_2.17"), Target::Arm), [""; 0]);
    }

    #[test]
    fn what_is_too_new_or_missing_there_is_named() {
        let one = |elf: &Elf| problems(elf, Target::X86).join("; ");
        assert!(one(&elf(62, "libm.so.6", "GLIBC_2.29")).contains("needs GLIBC_2.29, newer than 2.28"));
        assert!(one(&elf(62, "libm.so.6", "GLIBC_3.1")).contains("needs GLIBC_3.1"));
        assert!(one(&elf(62, "libcuda.so.1", "GLIBC_2.17")).contains("linked with libcuda.so.1"));
        assert!(one(&elf(183, "libm.so.6", "GLIBC_2.17")).contains("for machine 183, not for x86_64"));
    }
}
