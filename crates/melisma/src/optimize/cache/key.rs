//! The parts that an engine depends on, by name, and the hash over them.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// Everything that an engine depends on. Paths and times are excluded: a moved model is the same
/// model.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Parts(BTreeMap<String, String>);

/// The name of an entry: 64 hexadecimal digits.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Key(String);

impl Parts {
    /// Adds a part.
    #[must_use]
    pub fn with(mut self, name: &str, value: impl ToString) -> Self {
        self.0.insert(name.to_owned(), value.to_string());
        self
    }

    /// Returns the value of a part.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }

    /// Returns all parts, by name.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(name, value)| (name.as_str(), value.as_str()))
    }

    /// Returns all parts in plain words. The stored notation of some is Rust's and must not change,
    /// because the key is its hash.
    pub fn in_words(&self) -> BTreeMap<&str, String> {
        self.iter().map(|(name, value)| (name, plain(value))).collect()
    }

    /// Returns the key: a hash over all parts.
    pub fn key(&self) -> Key {
        let mut hasher = blake3::Hasher::new_derive_key("melisma optimize key v1");
        for text in self.0.iter().flat_map(|(name, value)| [name, value]) {
            hasher.update(&(text.len() as u64).to_le_bytes()).update(text.as_bytes());
        }
        Key(hasher.finalize().to_hex().to_string())
    }

    /// Returns the parts that differ, as `name: theirs -> ours`.
    pub fn changes_from(&self, other: &Self) -> Vec<String> {
        let names: std::collections::BTreeSet<&String> = self.0.keys().chain(other.0.keys()).collect();
        let show =
            |parts: &Self, name: &String| parts.0.get(name).map_or_else(|| "none".to_owned(), |text| plain(text));
        let changed = names.into_iter().filter(|name| self.0.get(*name) != other.0.get(*name));
        changed.map(|name| format!("{name}: {} -> {}", show(other, name), show(self, name))).collect()
    }
}

/// Returns `Some(64)` as `64`, `Of(64)` as `64`, `None` as `none`, `AsNeeded` as `as needed`, `(12, 4)` as `12.4`.
fn plain(value: &str) -> String {
    let inside = |open: &str| value.strip_prefix(open).and_then(|rest| rest.strip_suffix(')'));
    match value {
        "None" | "Off" | "Short" => value.to_lowercase(),
        "AsNeeded" => "as needed".to_owned(),
        _ => match (inside("Some(").or(inside("Of(")), inside("(")) {
            (Some(inner), _) => inner.to_owned(),
            (None, Some(version)) if version.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b',' | b' ')) => {
                version.replace(", ", ".")
            }
            _ => value.to_owned(),
        },
    }
}

impl Key {
    /// Parses a key; `None` if `text` does not have the form of one.
    pub fn parse(text: &str) -> Option<Self> {
        let is_key = text.len() == 64 && text.bytes().all(|digit| matches!(digit, b'0'..=b'9' | b'a'..=b'f'));
        is_key.then(|| Self(text.to_owned()))
    }

    /// Returns its digits.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_values_cannot_be_confused() {
        let key = |name: &str, value: &str| Parts::default().with(name, value).key();
        assert_ne!(key("ab", "c"), key("a", "bc"));
        assert_ne!(key("a", ""), Parts::default().key());
        assert_eq!(Parts::default().with("a", 1).with("b", 2).key(), Parts::default().with("b", 2).with("a", 1).key());
        assert_eq!(Key::parse(key("a", "b").as_str()), Some(key("a", "b")));
        for text in ["", "..", &"g".repeat(64), &"A".repeat(64), &"a".repeat(63)] {
            assert_eq!(Key::parse(text), None, "{text}");
        }
    }

    #[test]
    fn changes_are_named() {
        let old = Parts::default().with("engine", "rten 0.26").with("model", "x");
        let new = Parts::default().with("engine", "rten 0.27").with("model", "x").with("threads", 2);
        assert_eq!(new.changes_from(&old), ["engine: rten 0.26 -> rten 0.27", "threads: none -> 2"]);
    }

    #[test]
    fn values_are_shown_in_plain_words() {
        let old = Parts::default().with("chunking", "AsNeeded").with("driver", "(12, 4)").with("tensorrt", "None");
        let new =
            Parts::default().with("chunking", "Of(64)").with("driver", "none").with("tensorrt", "Some(1073741824)");
        let changes = ["chunking: as needed -> 64", "driver: 12.4 -> none", "tensorrt: none -> 1073741824"];
        assert_eq!(new.changes_from(&old), changes);
        assert_eq!((new.in_words()["chunking"].as_str(), new.get("chunking")), ("64", Some("Of(64)")));
    }
}
