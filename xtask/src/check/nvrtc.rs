//! Compiles every `.cu` below `crates/` with NVRTC for each supported architecture, and holds each
//! kernel to its budget.
//!
//! The options are read from the production launch code; the only headers are our own `.cuh` files, in memory.

mod budget;
mod log;

use super::outcome::Outcome;
use crate::process::exchange;
use crate::table::{Align::Left, Align::Right, Table};
use crate::{tree, venv};
use anyhow::{Context, Result, bail};
use serde_json::{Map, Value, json};
use std::fs;
use std::path::PathBuf;
use std::process::Command;

const PACKAGES: &[&str] = &["nvidia-cuda-nvrtc==13.0.88"];
const ARCHITECTURES: &[&str] = &["sm_80", "sm_87", "sm_90"];
/// Added to the production options: only our headers, and figures in the log.
const OPTIONS: &[&str] = &["--no-source-include", "--ptxas-options=-v"];
/// Kernels below this folder need a budget; those of the shim's self-test only have to compile.
const HELD: &str = "/src/";
/// The file with the production options.
const LAUNCHER: &str = "crates/melisma-kernels/src/device/cuda/nvrtc.rs";
const COMPILER: &str = include_str!("nvrtc.py");

pub fn check() -> Result<Outcome> {
    let sources = with_variants(texts(tree::sources("cu")?, tree::shown)?);
    if sources.is_empty() {
        return Ok(Outcome::Skipped("no .cu files found".into()));
    }
    let headers = texts(tree::sources("cuh")?, |path| path.file_name().unwrap_or_default().to_string_lossy().into())?;
    let answer = compile(&headers, &sources)?;

    let mut rows = Vec::new();
    let mut wrong = Vec::new();
    for result in &answer {
        let text = sources.get(&result.source).and_then(Value::as_str).unwrap_or_default();
        judge(result, text, &mut rows, &mut wrong);
    }
    let [registers, shared, stack, spill] = ["registers", "shared", "stack", "spill"].map(|name| (name, Right));
    let left = |name| (name, Left);
    let mut table =
        Table::new([left("file"), left("kernel"), left("arch"), registers, shared, stack, spill, left("budget")]);
    let n_kernels = rows.len() / ARCHITECTURES.len();
    rows.into_iter().for_each(|row| table.push(row));
    print!("{}", table.text());
    if !wrong.is_empty() {
        println!();
        for line in &wrong {
            println!("{line}");
        }
        bail!("{} problems; the first: {}", wrong.len(), wrong[0].lines().next().unwrap_or_default());
    }
    Ok(Outcome::Counted(format!("{n_kernels} kernels in {} files", sources.len())))
}

/// One file compiled for one architecture.
struct Compiled {
    source: String,
    architecture: String,
    /// The compiler's message; `None` means success.
    failure: Option<String>,
    log: String,
}

fn judge(result: &Compiled, text: &str, rows: &mut Vec<[String; 8]>, wrong: &mut Vec<String>) {
    let Compiled { source, architecture, .. } = result;
    if let Some(failure) = &result.failure {
        wrong.push(format!("{source}: does not compile for {architecture}\n{failure}"));
        return;
    }
    for warning in log::warnings(&result.log) {
        println!("{source}: {architecture}: {warning}");
    }
    let usages = log::usages(&result.log);
    if usages.is_empty() {
        wrong.push(format!("{source}: no kernel in it for {architecture}"));
    }
    for usage in usages {
        let budget = budget::find(text, &usage.kernel);
        rows.push([
            source.rsplit('/').next().unwrap_or(source).into(),
            usage.kernel.clone(),
            architecture.clone(),
            usage.registers.to_string(),
            usage.shared.to_string(),
            usage.stack.to_string(),
            usage.spill.to_string(),
            budget.as_ref().map_or("none".into(), |budget| format!("{}, {}", budget.registers, budget.spill)),
        ]);
        let problem = match budget {
            Err(_) if !source.contains(HELD) => continue,
            Err(error) => format!("{source}: {error:#}"),
            Ok(budget) => match budget.exceeded_by(&usage) {
                None => continue,
                Some(excess) => format!("{source}: {} on {architecture}: {excess}", usage.kernel),
            },
        };
        if !wrong.contains(&problem) {
            wrong.push(problem);
        }
    }
}

/// Compiles the sources; those that compiled before, from the same texts, have their answers in `target/nvrtc`.
fn compile(headers: &Map<String, Value>, sources: &Map<String, Value>) -> Result<Vec<Compiled>> {
    let launcher = fs::read_to_string(tree::root().join(LAUNCHER)).context(LAUNCHER)?;
    let mut options = production_options(&launcher).with_context(|| format!("{LAUNCHER} has no `const OPTIONS`"))?;
    options.extend(OPTIONS);
    let folder = tree::target().join("nvrtc");
    fs::create_dir_all(&folder).with_context(|| tree::shown(&folder))?;
    let shared = json!([headers, ARCHITECTURES, options, PACKAGES, COMPILER]).to_string();
    let place = |name: &str, text: &Value| folder.join(tree::hash(format!("{shared} {name} {text}").as_bytes()));
    let (mut answer, mut others) = (Vec::<Value>::new(), Map::new());
    for (name, text) in sources {
        let known = fs::read_to_string(place(name, text)).ok();
        match known.and_then(|known| serde_json::from_str::<Vec<Value>>(&known).ok()) {
            Some(known) => answer.extend(known),
            None => {
                others.insert(name.clone(), text.clone());
            }
        }
    }
    if !others.is_empty() {
        let request = json!({
            "headers": headers, "sources": others, "architectures": ARCHITECTURES, "options": options
        });
        let found = answers(&request)?;
        for (name, text) in &others {
            let own: Vec<&Value> = found.iter().filter(|value| value["source"] == name.as_str()).collect();
            if own.len() == ARCHITECTURES.len() && own.iter().all(|value| value["compiled"] == true) {
                let path = place(name, text);
                fs::write(&path, json!(own).to_string()).with_context(|| tree::shown(&path))?;
            }
        }
        answer.extend(found);
    }
    answer.sort_by_key(|value| value["source"].to_string());
    let text = |value: &Value, key: &str| value[key].as_str().unwrap_or_default().to_string();
    Ok(answer
        .iter()
        .map(|value| Compiled {
            source: text(value, "source"),
            architecture: text(value, "architecture"),
            failure: (value["compiled"] != true).then(|| text(value, "log")),
            log: text(value, "log"),
        })
        .collect())
}

/// Returns what the compiler says to a request, see `nvrtc.py`.
fn answers(request: &Value) -> Result<Vec<Value>> {
    let python = venv::python(PACKAGES)?;
    let answer =
        exchange(Command::new(python).arg("-c").arg(COMPILER), &request.to_string()).context("compiling with NVRTC")?;
    serde_json::from_str(&answer).context("the answer of nvrtc.py")
}

/// Returns the strings of `const OPTIONS: [&str; N] = ["...", ...]` in the launcher's source.
fn production_options(launcher: &str) -> Option<Vec<&str>> {
    let (_, rest) = launcher.split_once("const OPTIONS:")?;
    let (_, rest) = rest.split_once('=')?;
    let (_, rest) = rest.split_once('[')?;
    let (list, _) = rest.split_once(']')?;
    Some(list.split('"').skip(1).step_by(2).collect())
}

fn texts(paths: Vec<PathBuf>, name: impl Fn(&std::path::Path) -> String) -> Result<Map<String, Value>> {
    let mut map = Map::new();
    for path in paths {
        let text = fs::read_to_string(&path).with_context(|| tree::shown(&path))?;
        if map.insert(name(&path), text.into()).is_some() {
            bail!("two files are called {}", name(&path));
        }
    }
    Ok(map)
}

/// Adds variants: a file with the line `// variants: A, B` is compiled unchanged, with A defined, and with
/// B defined.
fn with_variants(sources: Map<String, Value>) -> Map<String, Value> {
    let mut all = Map::new();
    for (name, text) in sources {
        let text = text.as_str().unwrap_or_default().to_owned();
        let list = text.lines().find_map(|line| line.strip_prefix("// variants: ")).unwrap_or_default();
        for variant in list.split(", ").filter(|variant| !variant.is_empty()) {
            all.insert(format!("{name} ({variant})"), format!("#define {variant}\n{text}").into());
        }
        all.insert(name, text.into());
    }
    all
}

#[cfg(test)]
mod tests {
    use super::{production_options, with_variants};

    #[test]
    fn variants_are_compiled_too() {
        let all = with_variants([("a.cu".to_owned(), "// variants: X, Y\nint z;".into())].into_iter().collect());
        assert_eq!(all.keys().collect::<Vec<_>>(), ["a.cu", "a.cu (X)", "a.cu (Y)"]);
        assert_eq!(all["a.cu (Y)"], "#define Y\n// variants: X, Y\nint z;");
    }

    #[test]
    fn the_launchers_options_are_read_from_its_source() {
        let source = "pub(super) const OPTIONS: [&str; 2] =\n    [\"--std=c++17\", \"--fmad=false\"];\nfn other() {}";
        assert_eq!(production_options(source).unwrap(), ["--std=c++17", "--fmad=false"]);
        assert_eq!(production_options("fn other() {}"), None);
    }
}
