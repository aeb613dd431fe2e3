//! `melisma synth --list` and `--print-preset`: presets, built in and in files.

use std::collections::BTreeMap;

use melisma::synth::{STYLES, Style};
use melisma::text::table::{Align, Table};
use melisma::{Error, Result};
use serde_json::{Value, json};

use super::piece;
use crate::args::SynthArgs;
use crate::session::Session;

/// Lists the built-in presets, and those of a folder or a file.
pub fn run(session: &Session, args: &SynthArgs) -> Result<()> {
    let mut found: Vec<(String, Style)> =
        STYLES.into_iter().map(|style| (format!("preset:{}", style.name), style)).collect();
    match (args.score(), args.score().strip_prefix("preset:")) {
        ("", _) => {}
        (_, Some(_)) => found = piece::style(args)?.map(|style| (args.score().to_owned(), style)).into_iter().collect(),
        (folder, None) => {
            for (path, style) in Style::list(folder)? {
                match style {
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

fn facts(name: &str, style: &Style) -> Value {
    let controls: BTreeMap<&str, f32> =
        style.controls.iter().map(|(control, value)| (control.name(), *value)).collect();
    json!({
        "preset": name, "about": style.about, "key": style.key(), "mode": style.mode.name(),
        "tempo": 60e6 / f64::from(style.beat_us), "voices": style.voices(), "controls": controls,
    })
}
