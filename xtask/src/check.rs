//! `cargo xtask check`: the steps, one line each in [`STEPS`], and the report at the end.

mod aarch64;
mod api;
mod beside;
mod capacity;
mod clippy;
mod corpora;
mod cuda12;
mod dataset;
mod docs;
mod examples;
mod features;
mod fmt;
mod formats;
mod fuzz;
mod golden;
mod guide;
mod hygiene;
mod licences;
mod miri;
mod neon;
mod nvrtc;
mod onnx;
mod outcome;
mod package;
pub mod page;
mod python;
mod ray;
mod serve;
mod shim;
mod speak;
mod tally;
mod test;
mod voice;

pub use hygiene::anchor;

use crate::bench::{self, gate::Verdict};
use crate::table::{Align::Left, Align::Right, Table};
use anyhow::{Result, bail};
use beside::Beside;
use outcome::Outcome;
use std::fs;
use std::process::ExitCode;
use std::time::Instant;

#[derive(clap::Args)]
pub struct Arguments {
    /// Steps to run, by name; without any, all steps of the tier
    #[arg(value_name = "STEP")]
    steps: Vec<String>,
    /// Also run the steps that take long or need more tools
    #[arg(long)]
    extended: bool,
    /// Stop at the first step that fails
    #[arg(long)]
    fail_fast: bool,
    /// Print the steps and what they do, and run none
    #[arg(long)]
    list: bool,
}

#[derive(Clone, Copy, PartialEq)]
enum Tier {
    Always,
    Extended,
}

struct Step {
    name: &'static str,
    tier: Tier,
    about: &'static str,
    run: fn() -> Result<Outcome>,
}

const fn always(name: &'static str, about: &'static str, run: fn() -> Result<Outcome>) -> Step {
    Step { name, tier: Tier::Always, about, run }
}

const fn extended(name: &'static str, about: &'static str, run: fn() -> Result<Outcome>) -> Step {
    Step { name, tier: Tier::Extended, about, run }
}

fn gate() -> Result<Outcome> {
    Ok(match bench::gate::check()? {
        Verdict::NoPeer { why } => Outcome::Skipped(format!("no ratio to numpy was compared: {why}")),
        Verdict::NoRecord { machine, n } => {
            Outcome::Skipped(format!("{n} ratios, nothing to compare with: bench/record has no folder {machine}"))
        }
        Verdict::Compared { n, lost } => Outcome::Counted(format!("{n} ratios, {lost} lost")),
    })
}

/// All steps, in the order in which they run.
const STEPS: &[Step] = &[
    always("fmt", "formatting", fmt::check),
    always("clippy", "lints, warnings are errors", clippy::check),
    always("docs", "API documentation, warnings are errors", docs::check),
    always("test", "every test of the workspace", test::check),
    always("examples", "every example of the library runs", examples::check),
    always("features", "the library without any of its optional parts", features::check),
    always("nvrtc", "every .cu compiled for sm_80, sm_87 and sm_90, within its budgets", nvrtc::check),
    always("aarch64", "the build for 64-bit Arm Linux", aarch64::check),
    always("licences", "licences, bans and sources of all dependencies", licences::check),
    always("dataset", "datasets as h5py, numpy and safetensors read them", dataset::check),
    always("python", "the Python package: its tests on the oldest Python, and its stubs", python::check),
    always("page", "the server's page in a browser", page::check),
    always("guide", "README and guide: their blocks run, options and messages exist, the site is whole", guide::check),
    always("shim", "the CUDA suites and tests on the CPU, through the host shim", shim::check),
    always("golden", "golden files against their manifest", golden::check),
    always(
        "hygiene",
        "what tracked files may not contain: edges, sizes, budgets, links, words, figures",
        hygiene::check,
    ),
    extended("long", "the tests that take long: mutations, soaks, kills, figures", test::check_long),
    extended("features-long", "the library with each of its optional parts, and packages alone", features::check_long),
    extended("cuda12", "the build against CUDA 12.6", cuda12::check),
    extended("neon", "the tests of the kernels on 64-bit Arm, in an emulator", neon::check),
    extended("apple", "the libraries for macOS", aarch64::check_apple),
    extended("shim-long", "all cases of the CUDA tests, through the host shim", shim::check_long),
    extended("corpora", "the WAV files that hound and scipy are tested with", corpora::check),
    extended("formats", "MP3 and Opus beside LAME and libopus, both ways, and speech at other speeds", formats::check),
    extended(
        "python-long",
        "the newest Python, and the release wheel with torch: its tests, 100,000 random calls, figures",
        python::check_long,
    ),
    extended(
        "ray",
        "jobs on a Ray cluster whose nodes, workers and driver die, and the job files of Slurm and Kubernetes",
        ray::check,
    ),
    extended(
        "speak",
        "a tiny voice, trained by transformers on recordings, speaks as transformers generates",
        speak::check,
    ),
    extended("voice", "the built-in voice beside its teacher: words, DNSMOS, and 1,000 lengths", voice::check),
    extended(
        "guide-long",
        "the blocks of the guide that need packages, models or devices, and its notebook",
        guide::check_long,
    ),
    extended("onnx", "the onnx package's test models through the embedded engine", onnx::check),
    extended("page-long", "the server's page in a browser, for minutes", page::check_long),
    extended("miri", "undefined behaviour in melisma-kernels, on a nightly compiler", miri::check),
    extended("fuzz", "every parser of untrusted bytes, on mutated inputs", fuzz::check),
    extended(
        "serve",
        "the server with clients of several kinds, its audio in other programs, and requests from its OpenAPI document",
        serve::check,
    ),
    extended("capacity", "seven starts of the server beside a busy core find the same capacity", capacity::check),
    extended("gate", "the speed of a few rows against this machine's record; printed, never a failure", gate),
    extended("package", "every crate packaged, and the library built from its package", package::check),
];

struct Report {
    table: Table,
    passed: usize,
    failed: usize,
    skipped: usize,
}

pub fn run(arguments: &Arguments) -> Result<ExitCode> {
    if arguments.list {
        list();
        return Ok(ExitCode::SUCCESS);
    }
    let table = Table::new([("step", Left), ("seconds", Right), ("of CPU", Right), ("result", Left), ("", Left)]);
    let mut report = Report { table, passed: 0, failed: 0, skipped: 0 };
    let steps = chosen(arguments)?;
    // One after the other where the first failure ends the check, or somebody asked for few.
    let is_apart = |step: &&Step| beside::takes(step) && arguments.steps.is_empty() && !arguments.fail_fast;
    let (apart, steps): (Vec<_>, Vec<_>) = steps.into_iter().partition(is_apart);
    let mut beside = beside::start(&apart)?;
    for step in steps {
        // Some of the long steps measure the machine.
        if step.tier == Tier::Extended {
            report.take(&mut beside)?;
        }
        report.run(step);
        if report.failed > 0 && arguments.fail_fast {
            break;
        }
    }
    report.take(&mut beside)?;
    print!("\n{}", report.table.text());
    println!("\n{} passed, {} failed, {} skipped", report.passed, report.failed, report.skipped);
    Ok(if report.failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

impl Report {
    fn run(&mut self, step: &Step) {
        println!("\n== {}: {}", step.name, step.about);
        let (start, before) = (Instant::now(), cpu_seconds());
        let result = (step.run)();
        let seconds = format!("{:.1}", start.elapsed().as_secs_f64());
        let cpu = format!("{:.1}", cpu_seconds() - before);
        let (word, detail) = match result {
            Ok(Outcome::Passed) => ("ok", String::new()),
            Ok(Outcome::Counted(figure)) => ("ok", figure),
            Ok(Outcome::Skipped(reason)) => ("SKIPPED", reason),
            Err(error) => ("FAILED", format!("{error:#}")),
        };
        let colon = if detail.is_empty() { "" } else { ": " };
        println!("== {}: {seconds} s ({cpu} s of CPU) {word}{colon}{detail}", step.name);
        let first = detail.lines().next().unwrap_or_default();
        self.add([step.name.into(), seconds, cpu, word.into(), first.into()]);
    }

    /// Waits for the steps beside the others, and adds their rows.
    fn take(&mut self, beside: &mut Vec<Beside>) -> Result<()> {
        for steps in beside.drain(..) {
            steps.finish()?.into_iter().for_each(|row| self.add(row));
        }
        Ok(())
    }

    /// Adds the row of a step: its name, seconds, those of the CPU, `ok`, `SKIPPED` or `FAILED`, and more.
    fn add(&mut self, row: [String; 5]) {
        *match &*row[3] {
            "ok" => &mut self.passed,
            "SKIPPED" => &mut self.skipped,
            _ => &mut self.failed,
        } += 1;
        self.table.push(row);
    }
}

/// Returns the CPU time of the programs that have ended, 0 where there is no `/proc`.
fn cpu_seconds() -> f64 {
    const TICKS_PER_SECOND: f64 = 100.0;
    // The fields after the program's name in parentheses: the state is the third one, the times are the 16th and 17th.
    let stat = fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let fields = stat.rsplit(')').next().unwrap_or_default().split_whitespace();
    fields.skip(13).take(2).filter_map(|ticks| ticks.parse::<f64>().ok()).sum::<f64>() / TICKS_PER_SECOND
}

fn chosen(arguments: &Arguments) -> Result<Vec<&'static Step>> {
    let names: Vec<&str> = STEPS.iter().map(|step| step.name).collect();
    if let Some(unknown) = arguments.steps.iter().find(|name| !names.contains(&name.as_str())) {
        bail!("no step is called `{unknown}`\nhint: the steps are {}", names.join(", "));
    }
    let named = |step: &Step| arguments.steps.iter().any(|name| name == step.name);
    let in_tier = |step: &Step| step.tier == Tier::Always || arguments.extended;
    Ok(STEPS.iter().filter(|step| if arguments.steps.is_empty() { in_tier(step) } else { named(step) }).collect())
}

fn list() {
    let tier = |step: &Step| if step.tier == Tier::Always { "" } else { "--extended" }.to_string();
    let mut table = Table::new([("step", Left), ("what it checks", Left), ("", Left)]);
    for step in STEPS {
        table.push([step.name.to_string(), step.about.to_string(), tier(step)]);
    }
    print!("{}", table.text());
}
