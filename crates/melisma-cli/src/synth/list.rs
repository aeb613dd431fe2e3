//! `melisma synth --list` and `--print-preset`: presets, built in and in files.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use melisma::synth::{STYLES, Style};
use melisma::text::table::{Align, Table};
use melisma::{Error, Result};
use serde_json::{Value, json};

use super::piece;
use crate::args::SynthArgs;
use crate::session::Session;
use crate::terminal;

/// Lists the built-in presets, and those of a folder or a file.
pub fn run(session: &Session, args: &SynthArgs) -> Result<()> {
    let mut found: Vec<(String, Style)> =
        STYLES.into_iter().map(|style| (format!("preset:{}", style.name), style)).collect();
    match (args.score(), args.score().strip_prefix("preset:")) {
        ("", _) => {}
        (_, Some(_)) => found = piece::style(args)?.map(|style| (args.score().to_owned(), style)).into_iter().collect(),
        (folder, None) => {
            for path in files(Path::new(folder))? {
                match Style::open(&path) {
                    Ok(style) => found.push((format!("preset:{}", path.display()), style)),
                    Err(error) => session.say(&format!("note: not a preset: {error}")),
                }
            }
        }
    }
    let text = || {
        let mut table = Table::new([("preset", Align::Left), ("what it is", Align::Left)]);
        for (name, style) in &found {
            table.push([name.clone(), style.about.to_string()]);
        }
        table.text()
    };
    let presets: Vec<Value> = found.iter().map(|(name, style)| facts(name, style)).collect();
    session.print("cpu", text, json!({ "presets": presets }))
}

/// Prints a preset with its changes as the file that is opened as `preset:FILE.yaml`.
pub fn print(session: &Session, args: &SynthArgs) -> Result<()> {
    let style = piece::style(args)?.ok_or_else(|| {
        Error::invalid(format!("{}: only a preset can be printed", args.score()))
            .with_hint("name one, as in preset:focus")
    })?;
    session.print_asked("cpu", || style.to_yaml(), json!({ "yaml": style.to_yaml() }))
}

/// Returns the YAML files of a folder by name, or one that is named.
fn files(path: &Path) -> Result<Vec<PathBuf>> {
    let failed = |error| {
        Error::io(terminal::name(path), error).with_hint("name a folder of .yaml files, or a preset as in preset:focus")
    };
    if path.is_file() {
        return Ok(vec![path.to_owned()]);
    }
    let entries: std::io::Result<Vec<PathBuf>> =
        std::fs::read_dir(path).map_err(failed)?.map(|entry| Ok(entry?.path())).collect();
    let mut paths: Vec<PathBuf> = entries.map_err(failed)?;
    paths.retain(|path| Style::is_file(path));
    paths.sort();
    Ok(paths)
}

fn facts(name: &str, style: &Style) -> Value {
    let controls: BTreeMap<&str, f32> =
        style.controls.iter().map(|(control, value)| (control.name(), *value)).collect();
    json!({
        "preset": name, "about": style.about, "key": style.key(), "mode": style.mode.name(),
        "tempo": 60e6 / f64::from(style.beat_us), "voices": style.voices(), "controls": controls,
    })
}
