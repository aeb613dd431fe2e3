//! `cargo xtask bench`: runs `melisma bench`, records the figures, compares them with a record, and
//! writes those of README.md and of the pages in `docs`.
//!
//! Records of two days differ by the machine's load, but ratios to peers measured in the same run
//! do not. `--against` therefore compares ratios, and the exit code is 3 if a row lost more than
//! [`LOSS`] of its ratio to any peer. `--binaries` measures two builds in turns instead.

pub mod figure;
pub mod gate;
mod machine;
mod pair;
mod peers;
mod ratio;
#[path = "../../crates/melisma-bench/src/record.rs"]
mod record;

use crate::process::{cargo, output, run as execute};
use crate::table::{Align::Left, Align::Right, Table};
use crate::tree;
use anyhow::{Context, Result, bail};
use gate::Verdict;
use pair::{Build, Pair};
use ratio::{Change, changes, ratio};
use record::{ROOMS, Record, Row};
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

/// The room with a quality sheet.
const SHEET_ROOM: &str = "synth";
/// The share of a ratio that may be lost.
const LOSS: f64 = 0.10;

/// The rooms that `melisma bench` measures alone, beside [`ROOMS`].
const PARTS: [&str; 2] = ["snac/encode", "serve/speech"];

#[derive(clap::Args)]
pub struct Arguments {
    /// Rooms to measure; without any, all of them and the parts that are measured alone
    #[arg(value_name = "ROOM")]
    rooms: Vec<String>,
    /// Compare the ratios to peers with those of this record
    #[arg(long, value_name = "FILE")]
    against: Option<PathBuf>,
    /// Measure two builds of `melisma` in turns and compare them row by row
    #[arg(long, num_args = 2, value_names = ["OLD", "NEW"], conflicts_with_all = ["against", "record"])]
    binaries: Vec<PathBuf>,
    /// How often each of the two builds is measured
    #[arg(long, value_name = "N", default_value_t = 5, requires = "binaries")]
    rounds: usize,
    /// Write the figures of README.md and of the pages in docs from the records, and measure nothing
    #[arg(long, exclusive = true)]
    fill: bool,
    /// Install the peers into target/peers-venv, measure beside them, record, and write docs/benchmarks.md
    #[arg(long, conflicts_with_all = ["against", "binaries"])]
    peers: bool,
    /// Measure a few rows in about two minutes and compare their ratios with this machine's record
    #[arg(long, conflicts_with_all = ["rooms", "against", "binaries", "peers", "record"])]
    gate: bool,
    /// With --gate, fail if a ratio was lost, or none to numpy could be compared
    #[arg(long, requires = "gate")]
    strict: bool,
    /// Store the figures as bench/record/MACHINE/ROOM.json, with - for / in ROOM
    #[arg(long)]
    record: bool,
    /// The machine's name in the record, instead of one made from its CPU or GPU
    #[arg(long, value_name = "NAME")]
    machine: Option<String>,
    /// Further arguments for `melisma bench`, such as `--device cpu`
    #[arg(last = true, value_name = "ARGUMENT")]
    rest: Vec<String>,
}

impl Arguments {
    fn keeps_records(&self) -> bool {
        self.record || self.peers
    }
}

pub fn run(arguments: &Arguments) -> Result<ExitCode> {
    if let [old, new] = &arguments.binaries[..] {
        return in_turns(arguments, [old, new]);
    }
    if arguments.fill {
        figure::write()?;
        return Ok(ExitCode::SUCCESS);
    }
    if arguments.gate {
        return Ok(match gate::check()? {
            Verdict::NoRecord { machine, .. } => {
                println!(
                    "\nnothing to compare with: bench/record has no folder {machine}; `cargo xtask bench --record` makes it"
                );
                ExitCode::SUCCESS
            }
            Verdict::NoPeer { why } => {
                println!("\nno ratio to numpy was compared: {why}");
                ExitCode::from(if arguments.strict { 3 } else { 0 })
            }
            Verdict::Compared { lost, .. } => ExitCode::from(if arguments.strict && lost > 0 { 3 } else { 0 }),
        });
    }
    let record = arguments.against.as_deref().map(read).transpose()?;
    let python = if arguments.peers { Some(peers::python()?) } else { None };
    execute(&mut cargo(["build", "--release", "-p", "melisma-cli"]))?;
    let mut rows = Vec::new();
    for room in rooms(arguments) {
        let measured = measure(&tree::target().join("release/melisma"), room, &arguments.rest, python.as_deref())?;
        println!("\n{room}");
        show(&measured.rows);
        if arguments.keeps_records() {
            store(room, &measured, arguments.machine.as_deref())?;
        }
        rows.extend(measured.rows);
        if room == SHEET_ROOM {
            sheet(arguments)?;
        }
    }
    if arguments.peers {
        figure::write()?;
    }
    match record {
        Some(record) => compare(&record, &rows),
        None => Ok(ExitCode::SUCCESS),
    }
}

fn rooms(arguments: &Arguments) -> Vec<&str> {
    match arguments.rooms.is_empty() {
        true => ROOMS.into_iter().chain(PARTS).collect(),
        false => arguments.rooms.iter().map(String::as_str).collect(),
    }
}

fn in_turns(arguments: &Arguments, [old, new]: [&PathBuf; 2]) -> Result<ExitCode> {
    let mut pair = Pair::default();
    for round in 0..arguments.rounds {
        for build in pair::order(round) {
            let program = if build == Build::Old { old } else { new };
            for room in rooms(arguments) {
                println!("round {} of {}: {} bench {room}", round + 1, arguments.rounds, program.display());
                pair.add(build, &measure(program, room, &arguments.rest, None)?.rows)?;
            }
        }
    }
    println!();
    pair.report()
}

/// Measures `room` beside the peers that `python` has, or else the first Python on the path.
fn measure(program: &Path, room: &str, rest: &[String], python: Option<&Path>) -> Result<Record> {
    let mut command = Command::new(program);
    command.args(["bench", room, "--json"]).args(rest);
    if let Some(python) = python {
        command.env("MELISMA_PYTHON", python);
    }
    let figures = output(&mut command)?;
    serde_json::from_str(&figures).with_context(|| format!("the output of `melisma bench {room} --json`"))
}

/// Measures the quality sheet; a record stores it as a table and a picture.
fn sheet(arguments: &Arguments) -> Result<()> {
    let program = tree::target().join("release/melisma");
    let picture = tree::target().join("sheet.png");
    let found = Command::new(program)
        .args(["bench", "sheet", "--json", "--force", "--picture"])
        .arg(&picture)
        .output()
        .context("melisma bench sheet")?;
    let figures: Value = serde_json::from_slice(&found.stdout).context("the output of `melisma bench sheet --json`")?;
    let table = figures["table"].as_str().context("`melisma bench sheet --json` has no `table`")?;
    println!("\nquality\n{table}");
    if arguments.keeps_records() {
        let machine = arguments.machine.clone().unwrap_or_else(|| machine::name("cpu"));
        let folder = tree::root().join("bench/record").join(machine);
        fs::create_dir_all(&folder).with_context(|| tree::shown(&folder))?;
        let [text, drawn] = ["synth-quality.txt", "synth-quality.png"].map(|name| folder.join(name));
        fs::write(&text, table).with_context(|| tree::shown(&text))?;
        fs::copy(&picture, &drawn).with_context(|| tree::shown(&drawn))?;
        println!("recorded in {} and {}", tree::shown(&text), tree::shown(&drawn));
    }
    if figures["holds"] != true {
        bail!("a figure of the quality sheet is outside of its limit");
    }
    Ok(())
}

fn read(path: &Path) -> Result<Vec<Row>> {
    let text = fs::read_to_string(path).with_context(|| path.display().to_string())?;
    let record: Record = serde_json::from_str(&text).with_context(|| path.display().to_string())?;
    Ok(record.rows)
}

fn store(room: &str, record: &Record, machine: Option<&str>) -> Result<()> {
    let machine = machine.map_or_else(|| machine::name(&record.device), str::to_string);
    let name = format!("{}.json", room.replace('/', "-"));
    let path = tree::root().join("bench/record").join(machine).join(name);
    let folder = path.parent().context("a record has a folder")?;
    fs::create_dir_all(folder).with_context(|| tree::shown(folder))?;
    fs::write(&path, format!("{:#}\n", serde_json::to_value(record)?)).with_context(|| tree::shown(&path))?;
    println!("recorded in {}", tree::shown(&path));
    Ok(())
}

fn show(rows: &[Row]) {
    let mut table = Table::new([
        ("name", Left),
        ("median", Right),
        ("spread", Right),
        ("unit", Left),
        ("of ceiling", Right),
        ("peers (x: our factor)", Left),
    ]);
    for row in rows {
        let share = row.ceiling.map_or("-".into(), |ceiling| format!("{:.2}", row.median / ceiling));
        let peers = row.peers.iter().map(|peer| match ratio(row, peer.median) {
            Some(ratio) => format!("{} {:.4} ({ratio:.2}x)", peer.name, peer.median),
            None => format!("{} {:.4}", peer.name, peer.median),
        });
        table.push([
            row.name.clone(),
            format!("{:.4}", row.median),
            format!("{:.4}", row.spread),
            row.unit.clone(),
            share,
            peers.collect::<Vec<_>>().join(", "),
        ]);
    }
    print!("{}", table.text());
}

fn compare(before: &[Row], now: &[Row]) -> Result<ExitCode> {
    let changes = changes(before, now);
    if changes.is_empty() {
        bail!("the record has no row with a peer to compare with");
    }
    let lost = |change: &Change| change.factor() < 1.0 - LOSS;
    print_changes(&changes, &lost);
    let n_lost = changes.iter().filter(|change| lost(change)).count();
    println!("\n{} ratios compared, {n_lost} lost more than {:.0} %", changes.len(), LOSS * 100.0);
    Ok(ExitCode::from(if n_lost == 0 { 0 } else { 3 }))
}

fn print_changes(changes: &[Change], lost: &dyn Fn(&Change) -> bool) {
    let mut table =
        Table::new([("name", Left), ("peer", Left), ("before", Right), ("now", Right), ("change", Right), ("", Left)]);
    for change in changes {
        table.push([
            change.row.to_string(),
            change.peer.to_string(),
            format!("{:.3}", change.before),
            change.now.map_or("-".into(), |now| format!("{now:.3}")),
            change.now.map_or("not measured".into(), |_| format!("{:+.1} %", (change.factor() - 1.0) * 100.0)),
            if lost(change) { "LOST" } else { "" }.into(),
        ]);
    }
    print!("\n{}", table.text());
}
