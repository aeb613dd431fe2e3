//! What was built, tried on the oldest Debian that its mirror or archive has: packages extracted into a folder, which
//! becomes the root. It has neither a compiler nor Rust. The wheel is tried on this machine's Python.

use super::release::Release;
use super::target::Target;
use crate::process::{exists, find, output, run};
use crate::{tree, venv};
use anyhow::{Context, Result, bail, ensure};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Debian's releases whose C library is at least as new as what programs are built for, the oldest first.
const SUITES: [&str; 3] = ["buster", "bullseye", "bookworm"];
/// Where releases are that have left the mirrors.
const ARCHIVE: &str = "http://archive.debian.org/debian";
/// Weights to pack.
const WEIGHTS: &str = "golden/llama/head_64/model.safetensors";
/// Mounts what programs expect, for this process alone, and runs the rest of its arguments with `$0` as the root.
const ENTER: &str = r#"mount -t proc proc "$0/proc" &&
exec env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root chroot "$0" "$@""#;

/// Runs the program for `target`, which says that it is of `commit`: the demo on this machine's kind, else commands in
/// an emulator, where a program cannot start others.
pub fn run_on_debian(target: Target, program: &Path, commit: &str) -> Result<()> {
    for tool in ["unshare", "chroot"] {
        ensure!(exists(tool), "{tool} is missing; on Debian it is part of util-linux or coreutils");
    }
    let root = root(target)?;
    let debian = fs::read_to_string(root.join("etc/debian_version")).context("etc/debian_version")?;
    for compiler in ["cc", "gcc", "rustc"] {
        ensure!(!root.join("usr/bin").join(compiler).exists(), "{} has a {compiler}", tree::shown(&root));
    }
    fs::copy(program, root.join("melisma")).with_context(|| tree::shown(program))?;
    let emulator = if target.is_host() { None } else { Some(emulator(target, &root)?) };
    let melisma = |arguments: &[&str]| {
        let mut command = Command::new("unshare");
        command.args(["--mount", "sh", "-c", ENTER]).arg(&root).args(&emulator).arg("/melisma").args(arguments);
        command
    };
    let version = output(&mut melisma(&["--version"]))?;
    ensure!(version.contains(commit), "`--version` names no commit {commit}: {version}");
    println!("Debian {}, {}: {}", debian.trim(), target.debian(), version.trim());
    if emulator.is_none() {
        return run(&mut melisma(&["demo", "-o", "/tmp/demo", "--force", "--device", "cpu"]));
    }
    run(&mut melisma(&["synth", "preset:focus", "-o", "/tmp/in.wav", "--seconds", "2", "--force"]))?;
    run(&mut melisma(&["encode", "/tmp/in.wav", "-o", "/tmp/tokens.json", "--force"]))?;
    run(&mut melisma(&["decode", "/tmp/tokens.json", "-o", "/tmp/out.wav", "--force"]))?;
    run(&mut melisma(&["speak", "Hello.", "-o", "/tmp/hello.wav", "--force"]))?;
    let weights = tree::root().join(WEIGHTS);
    fs::copy(&weights, root.join("weights.safetensors")).with_context(|| tree::shown(&weights))?;
    run(&mut melisma(&["pack", "/weights.safetensors", "-o", "/tmp/packed.safetensors", "--force"]))?;
    run(&mut melisma(&["unpack", "/tmp/packed.safetensors", "-o", "/tmp/weights.safetensors", "--force"]))
}

/// Installs the wheel into a venv, imports it, and finds the licences of its parts.
pub fn import(wheel: &Path, release: &Release) -> Result<()> {
    const SCRIPT: &str = "\
import importlib.metadata, melisma
licences = [file for file in importlib.metadata.files('melisma') if file.name == 'licences.txt']
print(melisma.__version__, licences[0].locate().stat().st_size, 'bytes of licences', melisma.__file__)";
    let python = venv::python_in("dist-try-venv", &["numpy==2.4.6"])?;
    let pip = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps", "--force-reinstall"];
    run(Command::new(&python).args(pip).arg(wheel))?;
    let said = output(Command::new(&python).args(["-c", SCRIPT]).current_dir(tree::target()))?;
    println!("{}", said.trim());
    ensure!(said.split(' ').next() == Some(release.version), "the wheel is not of {}: {said}", release.version);
    Ok(())
}

/// Returns a folder with the packages of the oldest Debian that can be had.
fn root(target: Target) -> Result<PathBuf> {
    let root = tree::target().join(format!("dist-debian-{}", target.debian()));
    let done = root.join("complete");
    if done.is_file() {
        return Ok(root);
    }
    ensure!(find("debootstrap").is_some(), "debootstrap is missing; on Debian it is the package debootstrap");
    ensure!(output(Command::new("id").arg("-u"))?.trim() == "0", "a trial on Debian needs root; run it with sudo");
    for (suite, mirror) in SUITES.into_iter().flat_map(|suite| [(suite, None), (suite, Some(ARCHIVE))]) {
        tree::renew(&root)?;
        // Extracted, not set up: its own programs need not run here.
        let mut command = Command::new("debootstrap");
        command.args(["--foreign", "--variant=minbase", "--arch", target.debian(), suite]).arg(&root).args(mirror);
        match run(&mut command) {
            Ok(()) => {
                // In a container debootstrap makes it a link to /proc itself.
                let proc = root.join("proc");
                if proc.is_symlink() {
                    fs::remove_file(&proc).with_context(|| tree::shown(&proc))?;
                    fs::create_dir(&proc).with_context(|| tree::shown(&proc))?;
                }
                fs::write(&done, suite).with_context(|| tree::shown(&done))?;
                return Ok(root);
            }
            Err(error) => println!("note: no Debian {suite} at {}: {error:#}", mirror.unwrap_or("the mirror")),
        }
    }
    bail!("no Debian could be fetched; is its mirror reachable?")
}

/// Puts an emulator into the root and returns its path there.
fn emulator(target: Target, root: &Path) -> Result<String> {
    let name = format!("qemu-{}-static", target.name());
    let program = find(&name)
        .with_context(|| format!("{name} is missing; on Debian it is part of the package qemu-user-static"))?;
    fs::copy(&program, root.join(&name)).with_context(|| program.display().to_string())?;
    Ok(format!("/{name}"))
}
