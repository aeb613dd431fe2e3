//! The output of `--print-config`.

use serde_json::{Map, Value, json};

use super::{Config, Entry, Section};
use crate::text::table::{Align, Table};

impl Config {
    /// Returns all keys with their values and origins.
    #[doc(hidden)]
    pub fn table(&self) -> Table {
        table(self.entries())
    }

    /// Returns all keys as one object: key to `{value, from}`.
    pub fn json(&self) -> Value {
        json(self.entries())
    }
}

/// Returns a table of `entries`, those of nested sections last.
pub fn table(mut entries: Vec<Entry<'_>>) -> Table {
    entries.sort_by_key(|entry| entry.key.contains('.'));
    let mut table = Table::new([("key", Align::Left), ("value", Align::Left), ("from", Align::Left)]);
    for entry in entries {
        table.push([entry.key.to_owned(), entry.value, entry.origin.to_string()]);
    }
    table
}

/// Returns `entries` as one object: key to `{value, from}`.
pub fn json(entries: Vec<Entry<'_>>) -> Value {
    let entry =
        |entry: Entry<'_>| (entry.key.to_owned(), json!({ "value": entry.json, "from": entry.origin.to_string() }));
    Value::Object(entries.into_iter().map(entry).collect::<Map<_, _>>())
}
