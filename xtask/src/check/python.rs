//! The Python package: built, assembled in `target/python` and tested on the oldest Python, and its
//! stubs are compared with it; the newest Python, and the release wheel with torch.

use super::outcome::Outcome;
use crate::executable::executables;
use crate::process::{output, run, works};
use crate::{front, tree, venv};
use anyhow::{Context, Result, ensure};
use std::borrow::Cow;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs, thread};

pub const PACKAGES: &[&str] = &["numpy==2.4.6", "mypy==2.4.1"];
/// The last minor version of Python 3 that is looked for.
const LATEST: u32 = 40;
/// Succeeds in a released Python that can make a venv.
const USABLE: &str = "import ensurepip, sys, venv; sys.exit(sys.version_info.releaselevel != 'final')";

/// Packages of the long tests and of the figures.
const LONG: &[&str] = &[
    "numpy==2.4.6",
    "torch==2.15.0",
    "snac==1.2.1",
    "h5py==3.16.0",
    "safetensors==0.8.0",
    "ml_dtypes==0.6.0",
    "tqdm==4.70.1",
    "openai==3.49.0",
    "transformers==5.22.2",
    "datasets==5.2.0",
];
/// In a folder of its own: next to a torch for another CUDA, other packages fail when they find it.
const TORCHAUDIO: &str = "torchaudio==2.11.0";

pub fn check() -> Result<Outcome> {
    let folder = assemble()?;
    let python = oldest()?;
    test(&python, &folder)?;
    run(module(&python, "mypy.stubtest", &folder).arg("melisma._melisma"))?;
    run(module(&python, "mypy", &folder).args(["--strict", "--no-incremental", "-p", "melisma"]))?;
    Ok(Outcome::Counted(format!("Python {}", version(&python)?)))
}

/// Runs all tests with the package in `folder`, in two processes, because most of a test's time is one thread's.
fn test(python: &Path, folder: &Path) -> Result<()> {
    let tests = tree::root().join("crates/melisma-py/tests");
    let mut halves = [Vec::new(), Vec::new()];
    for (index, name) in test_modules(&tests)?.into_iter().enumerate() {
        halves[index % 2].push(name);
    }
    let command = |names: &[String]| {
        let mut command = module(python, "unittest", folder);
        let path = env::join_paths([folder, &tests]).context("the path of the tests has a colon")?;
        command.args(names).env("PYTHONPATH", path);
        anyhow::Ok(command)
    };
    let [mut first, mut second] = [command(&halves[0])?, command(&halves[1])?];
    thread::scope(|scope| {
        let beside = scope.spawn(|| second.output());
        let result = run(&mut first);
        let output = beside.join().expect("it does not panic").context("the second half of the tests")?;
        println!("the second half:\n{}{}", text(&output.stdout), text(&output.stderr));
        ensure!(output.status.success(), "the second half of the tests ended with {}", output.status);
        result
    })
}

/// Returns the names of the files of tests in `folder`, in order.
fn test_modules(folder: &Path) -> Result<Vec<String>> {
    let paths = tree::files(folder)?;
    let here = paths.iter().filter(|path| path.parent() == Some(folder));
    let stems =
        here.filter(|path| path.extension().is_some_and(|suffix| suffix == "py")).filter_map(|path| path.file_stem());
    let mut names: Vec<_> = stems.map(|stem| stem.to_string_lossy().into_owned()).collect();
    names.retain(|name| name.starts_with("test_"));
    names.sort();
    ensure!(names.len() > 20, "{} files of tests in {}", names.len(), tree::shown(folder));
    Ok(names)
}

fn text(bytes: &[u8]) -> Cow<'_, str> {
    String::from_utf8_lossy(bytes)
}

/// Runs a module of Python with the package in `folder`.
fn module(python: &Path, name: &str, folder: &Path) -> Command {
    let mut command = Command::new(python);
    command.args(["-m", name]).current_dir(folder).env("PYTHONPATH", folder).env("PYTHONDONTWRITEBYTECODE", "1");
    command
}

/// Returns the version of a Python, as in 3.11.
fn version(python: &Path) -> Result<String> {
    let text = output(Command::new(python).args(["-c", "import sys; print('%d.%d' % sys.version_info[:2])"]))?;
    Ok(text.trim().to_owned())
}

/// Returns the newest released Python that is installed beyond `version`, on the path or by pyenv,
/// and its version.
fn newest(version: &str) -> Option<(PathBuf, String)> {
    let own: u32 = version.split('.').nth(1)?.parse().ok()?;
    let folders = folders();
    (own + 1..=LATEST).rev().find_map(|minor| {
        let name = format!("3.{minor}");
        let mut programs = folders.iter().map(|folder| folder.join(format!("python{name}")));
        Some((programs.find(|program| works(Command::new(program).args(["-c", USABLE])))?, name))
    })
}

/// Returns where interpreters are: pyenv does not put all of its own on the path.
fn folders() -> Vec<PathBuf> {
    let mut folders: Vec<PathBuf> = env::var_os("PATH").iter().flat_map(env::split_paths).collect();
    let root = env::var_os("PYENV_ROOT").map(PathBuf::from);
    let root = root.or_else(|| Some(PathBuf::from(env::var_os("HOME")?).join(".pyenv")));
    let versions = root.and_then(|root| fs::read_dir(root.join("versions")).ok());
    folders.extend(versions.into_iter().flatten().flatten().map(|version| version.path().join("bin")));
    folders
}

/// Returns the oldest Python that the package promises, where that is installed, else the shared
/// one.
fn oldest() -> Result<PathBuf> {
    let version = promised()?;
    let shared = venv::python(PACKAGES)?;
    let own = output(Command::new(&shared).arg("--version"))?;
    if own.starts_with(&format!("Python {version}.")) {
        return Ok(shared);
    }
    let interpreter = format!("python{version}");
    if works(Command::new(&interpreter).args(["-c", "import ensurepip, venv"])) {
        return venv::python_of(&interpreter, "oldest-venv", PACKAGES);
    }
    println!("{interpreter} with venv is not installed: the tests run on {} only", own.trim());
    Ok(shared)
}

/// Returns the version in the package's `requires-python`. The native module is built for the same
/// one.
fn promised() -> Result<String> {
    let read = |path: &str| fs::read_to_string(tree::root().join(path)).with_context(|| path.to_owned());
    let (package, workspace) = (read("crates/melisma-py/pyproject.toml")?, read("Cargo.toml")?);
    let quoted = |line: &str| Some(line.strip_prefix("requires-python = \">=")?.strip_suffix('"')?.to_owned());
    let version = package.lines().find_map(quoted).context("pyproject.toml has no requires-python = \">=3.N\"")?;
    let feature = format!("\"abi3-py{}\"", version.replace('.', ""));
    ensure!(workspace.contains(&feature), "pyproject.toml promises Python {version}, Cargo.toml lacks {feature}");
    Ok(version)
}

/// Builds the package into `target/python`, and returns that folder.
pub fn assemble() -> Result<PathBuf> {
    front::build()?;
    let folder = tree::target().join("python");
    let package = folder.join("melisma");
    tree::remove(&package)?;
    let source = tree::root().join("crates/melisma-py/python/melisma");
    for path in tree::files(&source)? {
        let target = package.join(path.strip_prefix(&source)?);
        if let Some(parent) = target.parent() {
            fs::create_dir_all(parent).with_context(|| tree::shown(parent))?;
        }
        fs::copy(&path, &target).with_context(|| tree::shown(&path))?;
    }
    let library = front::module();
    fs::copy(&library, package.join("_melisma.abi3.so")).with_context(|| tree::shown(&library))?;
    Ok(folder)
}

/// Tests the newest Python, and the release wheel as users install it, with the packages that it is used with.
pub fn check_long() -> Result<Outcome> {
    let newest = check_newest()?;
    let python = venv::python_in(venv::TORCH, LONG)?;
    let source = tree::root().join("crates/melisma-py");
    let wheels = tree::target().join("wheel");
    tree::remove(&wheels)?;
    let pip = |verb: &str| {
        let mut command = Command::new(&python);
        command.args(["-m", "pip", verb, "--quiet", "--disable-pip-version-check", "--no-deps"]);
        command
    };
    run(pip("wheel").arg("--wheel-dir").arg(&wheels).arg(&source))?;
    run(pip("install").args(["--force-reinstall", "--no-index", "--find-links"]).arg(&wheels).arg("melisma"))?;
    let torchaudio = tree::target().join("torchaudio");
    if !torchaudio.join("torchaudio").exists() {
        run(pip("install").arg("--target").arg(&torchaudio).arg(TORCHAUDIO))?;
    }
    let tests = source.join("tests");
    for folder in [&tests, &tests.join("extended")] {
        let mut command = Command::new(&python);
        command.args(["-m", "unittest", "discover", "--start-directory"]).arg(folder);
        command.current_dir(&wheels).env("TEST_CALLS", "100000").env("TEST_TORCHAUDIO", &torchaudio);
        run(command.env("PYTHONDONTWRITEBYTECODE", "1"))?;
    }
    let rust = executables(&["bench", "--no-run", "-p", "melisma-py", "--bench", "rust_seconds"])?;
    let rust = rust.first().context("melisma-py has no bench")?;
    let mut figures = Command::new(&python);
    figures.env("RUST_SECONDS", &rust.path);
    figures.arg(source.join("bench/figures.py")).current_dir(&wheels).env("TEST_TORCHAUDIO", &torchaudio);
    run(&mut figures)?;
    Ok(Outcome::Counted(newest))
}

/// Runs the tests on the newest Python beyond the oldest, and returns which one that is.
fn check_newest() -> Result<String> {
    let oldest = version(&oldest()?)?;
    let Some((newest, name)) = newest(&oldest) else {
        println!("SKIPPED: no Python newer than {oldest} with venv was found");
        return Ok(format!("SKIPPED: no Python newer than {oldest} was found"));
    };
    let interpreter = newest.to_str().context("the path of a Python is not UTF-8")?;
    test(&venv::python_of(interpreter, &format!("python{name}-venv"), &PACKAGES[..1])?, &assemble()?)?;
    Ok(format!("Python {name}"))
}
