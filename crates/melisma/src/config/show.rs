//! The output of `--print-config`.

use serde_json::{Map, Value, json};

use super::field::Field;
use super::{Config, Origin};
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
    pub(super) fn new(key: &'static str, value: &impl Field, origin: &'a Origin) -> Self {
        Self { key, value: value.show(), json: value.json(), origin }
    }
}

impl Config {
    /// All keys with their values and origins.
    #[doc(hidden)]
    pub fn table(&self) -> Table {
        let mut table = Table::new([("key", Align::Left), ("value", Align::Left), ("from", Align::Left)]);
        for entry in self.entries() {
            table.push([entry.key.to_owned(), entry.value, entry.origin.to_string()]);
        }
        table
    }

    /// All keys as one object: key to `{value, from}`.
    pub fn json(&self) -> Value {
        let entry =
            |entry: Entry<'_>| (entry.key.to_owned(), json!({ "value": entry.json, "from": entry.origin.to_string() }));
        Value::Object(self.entries().into_iter().map(entry).collect::<Map<_, _>>())
    }
}
