//! What was built, tried on the oldest Debian that has what it needs: packages extracted into a folder, which becomes
//! the root. It has neither a compiler nor Rust. What is for another machine runs in an emulator. The wheel for this
//! machine is tried on its own Python.

use super::release::Release;
use super::target::{GLIBC, Target};
use crate::process::{exists, find, output, run};
use crate::{tree, venv};
use anyhow::{Context, Result, bail, ensure};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Debian's releases whose C library is at least as new as what programs are built for, the oldest first.
const SUITES: &[&str] = &["buster", "bullseye", "bookworm"];
/// Those whose Python the wheel supports, and that Python.
const PYTHON_SUITES: &[&str] = &["bookworm"];
const PYTHON: &str = "3.11";
const NUMPY: &str = "numpy==2.4.6";
/// Where releases are that have left the mirrors.
const ARCHIVE: &str = "http://archive.debian.org/debian";
/// Weights to pack.
const WEIGHTS: &str = "golden/llama/head_64/model.safetensors";
/// What the wheel does in its trial.
const SCRIPT: &str = include_str!("trial.py");
/// Mounts what programs expect, for this process alone, tells the kernel what runs programs of the format `$FORMAT`,
/// and runs the rest of its arguments with `$0` as the root.
const ENTER: &str = r#"mount --rbind /proc "$0/proc" &&
if [ -n "$FORMAT" ]; then
    mount -t binfmt_misc none "$0/formats" && printf %s "$FORMAT" > "$0/formats/register"
fi &&
exec env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root chroot "$0" "$@""#;
/// Extracts the packages that debootstrap fetched into `$0`, also those that it leaves to its second stage.
const EXTRACT: &str = r#"for package in "$0"/var/cache/apt/archives/*.deb; do
    dpkg-deb --fsys-tarfile "$package" | tar --extract --keep-directory-symlink --directory "$0" || exit
done"#;

/// Runs the program for `target`, which says that it is of `commit`: the demo, and commands.
pub fn run_program(target: Target, program: &Path, commit: &str) -> Result<()> {
    let debian = Debian::ready(target, SUITES, None)?;
    for compiler in ["cc", "gcc", "rustc"] {
        ensure!(!debian.root.join("usr/bin").join(compiler).exists(), "{} has a {compiler}", tree::shown(&debian.root));
    }
    fs::copy(program, debian.root.join("melisma")).with_context(|| tree::shown(program))?;
    let weights = tree::root().join(WEIGHTS);
    fs::copy(&weights, debian.root.join("weights.safetensors")).with_context(|| tree::shown(&weights))?;
    let melisma = |arguments: &[&str]| {
        let mut command = debian.command("/melisma");
        command.args(arguments);
        command
    };
    let version = output(&mut melisma(&["--version"]))?;
    ensure!(version.contains(commit), "`--version` names no commit {commit}: {version}");
    println!("Debian {}, {}: {}", debian.version()?, target.debian(), version.trim());
    run(&mut melisma(&["demo", "-o", "/tmp/demo", "--force", "--device", "cpu"]))?;
    run(&mut melisma(&["synth", "preset:focus", "-o", "/tmp/in.wav", "--seconds", "2", "--force"]))?;
    run(&mut melisma(&["encode", "/tmp/in.wav", "-o", "/tmp/tokens.json", "--force"]))?;
    run(&mut melisma(&["decode", "/tmp/tokens.json", "-o", "/tmp/out.wav", "--force"]))?;
    run(&mut melisma(&["speak", "Hello.", "-o", "/tmp/hello.wav", "--force"]))?;
    run(&mut melisma(&["pack", "/weights.safetensors", "-o", "/tmp/packed.safetensors", "--force"]))?;
    run(&mut melisma(&["unpack", "/tmp/packed.safetensors", "-o", "/tmp/weights.safetensors", "--force"]))
}

/// Installs the wheel for `target` and runs a script with it: this machine's in a venv, others beside Debian's Python.
pub fn run_wheel(target: Target, wheel: &Path, release: &Release) -> Result<()> {
    let python = venv::python_in("dist-try-venv", &[NUMPY])?;
    let mut pip = Command::new(&python);
    pip.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps"]);
    let mut command = if target.is_host() {
        run(pip.arg("--force-reinstall").arg(wheel))?;
        let script = tree::target().join("dist-try-venv/trial.py");
        fs::write(&script, SCRIPT).with_context(|| tree::shown(&script))?;
        let mut command = Command::new(&python);
        command.arg(&script);
        command
    } else {
        let debian = Debian::ready(target, PYTHON_SUITES, Some("python3"))?;
        let packages = debian.root.join("packages");
        tree::renew(&packages)?;
        let platform = format!("manylinux_{}_{}_{}", GLIBC.0, GLIBC.1, target.name());
        pip.args(["--only-binary=:all:", "--python-version", PYTHON, "--platform", &platform, "--target"]);
        run(pip.arg(&packages).arg(NUMPY).arg(wheel))?;
        let script = debian.root.join("trial.py");
        fs::write(&script, SCRIPT).with_context(|| tree::shown(&script))?;
        println!("Debian {}, {}:", debian.version()?, target.debian());
        let mut command = debian.command("env");
        command.args(["PYTHONPATH=/packages", "python3", "/trial.py"]);
        command
    };
    run(command.arg(release.version))
}

/// A Debian in a folder, in which programs of `target` run.
struct Debian {
    root: PathBuf,
    /// What tells the kernel to run them by an emulator; empty where it needs none.
    format: String,
}

impl Debian {
    /// Fetches the first of `suites` that can be had, with `package`.
    fn ready(target: Target, suites: &[&str], package: Option<&str>) -> Result<Self> {
        for tool in ["unshare", "chroot"] {
            ensure!(exists(tool), "{tool} is missing; on Debian it is part of util-linux or coreutils");
        }
        ensure!(output(Command::new("id").arg("-u"))?.trim() == "0", "a trial on Debian needs root; run it with sudo");
        let name = [Some("dist-debian"), Some(target.debian()), package].into_iter().flatten().collect::<Vec<_>>();
        let root = tree::target().join(name.join("-"));
        if !root.join("complete").is_file() {
            fetch(&root, target, suites, package)?;
        }
        let formats = root.join("formats");
        fs::create_dir_all(&formats).with_context(|| tree::shown(&formats))?;
        let format = if target.is_host() { String::new() } else { emulated(target, &emulator(target, &root)?) };
        Ok(Self { root, format })
    }

    fn version(&self) -> Result<String> {
        let version = fs::read_to_string(self.root.join("etc/debian_version")).context("etc/debian_version")?;
        Ok(version.trim().to_owned())
    }

    /// Returns a command that runs `program` there. An emulator is registered in a user namespace, so that the kernel
    /// forgets it with the command.
    fn command(&self, program: &str) -> Command {
        let mut command = Command::new("unshare");
        if !self.format.is_empty() {
            command.args(["--user", "--map-root-user"]);
        }
        command.args(["--mount", "sh", "-c", ENTER]).arg(&self.root).arg(program).env("FORMAT", &self.format);
        command
    }
}

/// Fetches the first of `suites` that can be had into the folder `root`.
fn fetch(root: &Path, target: Target, suites: &[&str], package: Option<&str>) -> Result<()> {
    ensure!(find("debootstrap").is_some(), "debootstrap is missing; on Debian it is the package debootstrap");
    for (suite, mirror) in suites.iter().flat_map(|suite| [(*suite, None), (*suite, Some(ARCHIVE))]) {
        tree::renew(root)?;
        // Extracted, not set up: its own programs need not run here.
        let mut command = Command::new("debootstrap");
        command.args(["--foreign", "--variant=minbase", "--arch", target.debian()]);
        command.args(package.map(|package| format!("--include={package}"))).arg(suite).arg(root).args(mirror);
        if let Err(error) = run(&mut command) {
            println!("note: no Debian {suite} at {}: {error:#}", mirror.unwrap_or("the mirror"));
            continue;
        }
        if package.is_some() {
            run(Command::new("sh").args(["-c", EXTRACT]).arg(root))?;
        }
        // In a container debootstrap makes it a link to /proc itself.
        let proc = root.join("proc");
        if proc.is_symlink() {
            fs::remove_file(&proc).with_context(|| tree::shown(&proc))?;
            fs::create_dir(&proc).with_context(|| tree::shown(&proc))?;
        }
        let done = root.join("complete");
        return fs::write(&done, suite).with_context(|| tree::shown(&done));
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

/// Returns the line by which the kernel runs programs for `target` by the program `emulator`: the first bytes of their
/// files, ELF of 64 bits, little-endian, a program or a library, and which of their bits count.
fn emulated(target: Target, emulator: &str) -> String {
    let [low, high] = target.machine().to_le_bytes();
    let head = [&b"\x7fELF\x02\x01\x01"[..], &[0; 9], &[2, 0, low, high]].concat();
    let mask = [&[0xff; 7][..], &[0], &[0xff; 8], &[0xfe, 0xff, 0xff, 0xff]].concat();
    let escaped = |bytes: &[u8]| bytes.iter().map(|byte| format!("\\x{byte:02x}")).collect::<String>();
    format!(":melisma:M::{}:{}:{emulator}:", escaped(&head), escaped(&mask))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_emulator_is_registered_for_programs_of_its_machine() {
        assert_eq!(
            emulated(Target::Arm, "/qemu"),
            r":melisma:M::\x7f\x45\x4c\x46\x02\x01\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x02\x00\xb7\x00:\xff\xff\xff\xff\xff\xff\xff\x00\xff\xff\xff\xff\xff\xff\xff\xff\xfe\xff\xff\xff:/qemu:"
        );
    }
}
