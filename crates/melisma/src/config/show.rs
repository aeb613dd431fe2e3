//! The output of `--print-config`.

use serde_json::{Map, Value, json};

use super::field::Field;
use super::{Config, Origin, Section, Setting};
use crate::text::table::{Align, Table};

/// A key with its value and origin, ready to print.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Entry<'a> {
    /// The key; keys of a section are written `section.key`.
    pub key: &'static str,
    /// The value as written in the file.
    pub value: String,
    /// The value as JSON, with sizes in bytes.
    pub json: Value,
    /// Its origin.
    pub origin: &'a Origin,
}

impl<'a> Entry<'a> {
    /// The entry of `key`.
    pub fn new<T: Field>(key: &'static str, setting: &'a Setting<T>) -> Self {
        Self { key, value: setting.value.show(), json: setting.value.json(), origin: &setting.origin }
    }
}

impl Config {
    /// All keys with their values and origins.
    #[doc(hidden)]
    pub fn table(&self) -> Table {
        table(self.entries())
    }

    /// All keys as one object: key to `{value, from}`.
    pub fn json(&self) -> Value {
        json(self.entries())
    }
}

/// A table of `entries`, those of nested sections last.
pub fn table(mut entries: Vec<Entry<'_>>) -> Table {
    entries.sort_by_key(|entry| entry.key.contains('.'));
    let mut table = Table::new([("key", Align::Left), ("value", Align::Left), ("from", Align::Left)]);
    for entry in entries {
        table.push([entry.key.to_owned(), entry.value, entry.origin.to_string()]);
    }
    table
}

/// `entries` as one object: key to `{value, from}`.
pub fn json(entries: Vec<Entry<'_>>) -> Value {
    let entry =
        |entry: Entry<'_>| (entry.key.to_owned(), json!({ "value": entry.json, "from": entry.origin.to_string() }));
    Value::Object(entries.into_iter().map(entry).collect::<Map<_, _>>())
}
