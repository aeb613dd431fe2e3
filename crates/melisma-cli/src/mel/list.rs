//! `melisma mel --list`.

use melisma::Result;
use melisma::mel::{KEYS, Key, PRESETS};
use melisma::text::table::{Align, Table};
use serde_json::{Value, json};

use crate::args::MelSettings;
use crate::session::Session;

pub fn run(session: &Session, settings: &MelSettings) -> Result<()> {
    let config = super::config(settings)?;
    let left = |name| (name, Align::Left);
    let text = || {
        let mut presets = Table::new([left("preset"), left("what it gives")]);
        PRESETS.iter().for_each(|(name, meaning)| presets.push([(*name).to_owned(), (*meaning).to_owned()]));
        let mut keys = Table::new([left("key"), left("value"), left("allowed"), left("meaning")]);
        for key in KEYS {
            keys.push([key.name.to_owned(), key.value(&config), key.allowed.to_string(), key.meaning.to_owned()]);
        }
        format!("{}\nKeys of --set, with the values of `{}`:\n\n{}", presets.text(), config.preset, keys.text())
    };
    let preset = |(name, meaning): &(&str, &str)| json!({ "name": name, "meaning": meaning });
    let key = |key: &Key| {
        json!({
            "key": key.name, "value": key.value(&config), "allowed": key.allowed.to_string(), "meaning": key.meaning,
        })
    };
    let presets: Vec<Value> = PRESETS.iter().map(preset).collect();
    let keys: Vec<Value> = KEYS.iter().map(key).collect();
    session.print("cpu", text, json!({ "presets": presets, "preset": config.preset, "keys": keys }))
}
