//! How a request differs from the build that lies at its output, for messages that name what is another.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value};

/// The most settings that a message names.
const MOST: usize = 5;
/// The most characters of a value that a message shows.
const MAX_VALUE: usize = 32;

/// What is not the same.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::dataset) enum Change {
    /// Settings: what each was, and what it is.
    Settings(String),
    /// The files or their texts: the settings are the same.
    Files,
    /// Nobody knows: the earlier build does not say what its settings are.
    Unknown,
}

impl Change {
    /// Compares the attributes of a dataset with those that it would have.
    pub(in crate::dataset) fn of_attributes(was: Option<&Map<String, Value>>, is: &Map<String, Value>) -> Self {
        let settings = |attributes: &Map<String, Value>| {
            let config = attributes.get("config").and_then(Value::as_str);
            let mut all: Map<String, Value> = serde_json::from_str(config?).ok()?;
            let shard = attributes.get("shard").map(|shard| ("shard".to_owned(), shard.clone()));
            all.extend(shard);
            Some(all)
        };
        match (was.and_then(settings), settings(is)) {
            (Some(was), Some(is)) => Self::of_settings(&was, &is),
            _ => Self::Unknown,
        }
    }

    /// Compares settings by name; no setting at all means that they are unknown.
    pub(in crate::dataset) fn of_settings(was: &Map<String, Value>, is: &Map<String, Value>) -> Self {
        if was.is_empty() {
            return Self::Unknown;
        }
        let (was, is) = (flat(was), flat(is));
        let names: BTreeSet<&String> = was.keys().chain(is.keys()).collect();
        let mut names: Vec<&String> = names.into_iter().filter(|name| was.get(*name) != is.get(*name)).collect();
        // A preset brings the other settings along.
        names.sort_by_key(|name| !name.ends_with("preset"));
        let shown = |value: Option<&String>| value.map_or_else(|| "not set".to_owned(), |value| cut(value));
        let one = |name: &&String| format!("{name} was {}, is {}", shown(was.get(*name)), shown(is.get(*name)));
        let mut texts: Vec<String> = names.iter().take(MOST).map(one).collect();
        if names.len() > MOST {
            texts.push(format!("and {} more", names.len() - MOST));
        }
        if texts.is_empty() { Self::Files } else { Self::Settings(texts.join("; ")) }
    }

    /// Returns the end of a sentence about other settings: `: n_mels was 80, is 100`, or nothing.
    pub(in crate::dataset) fn after(&self) -> String {
        match self {
            Self::Settings(settings) => format!(": {settings}"),
            Self::Files | Self::Unknown => String::new(),
        }
    }
}

/// Returns the settings as text, those of a section under its name and theirs: `mel.n_mels`.
fn flat(settings: &Map<String, Value>) -> BTreeMap<String, String> {
    let mut all = BTreeMap::new();
    for (name, value) in settings {
        match value {
            Value::Null => continue,
            Value::Object(section) => {
                all.extend(flat(section).into_iter().map(|(key, value)| (format!("{name}.{key}"), value)));
            }
            Value::String(text) => {
                all.insert(name.clone(), text.clone());
            }
            other => {
                all.insert(name.clone(), other.to_string());
            }
        }
    }
    all
}

fn cut(value: &str) -> String {
    if value.chars().count() <= MAX_VALUE {
        return value.to_owned();
    }
    let start: String = value.chars().take(MAX_VALUE).collect();
    start + "..."
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn attributes(config: &Value, shard: Option<&str>) -> Map<String, Value> {
        let shard = shard.map(|shard| ("shard".to_owned(), json!(shard)));
        std::iter::once(("config".to_owned(), json!(config.to_string()))).chain(shard).collect()
    }

    #[test]
    fn settings_that_differ_are_named_with_both_values() {
        let was = json!({ "mel": { "n_mels": 80, "preset": "whisper" }, "min_seconds": null, "segment_samples": 100 });
        let is = json!({ "mel": { "n_mels": 128, "preset": "other" }, "min_seconds": 0.5, "segment_samples": 100 });
        let changed = Change::of_attributes(Some(&attributes(&was, None)), &attributes(&is, Some("1/2")));
        let text = "mel.preset was whisper, is other; mel.n_mels was 80, is 128; min_seconds was not set, is 0.5; \
                    shard was not set, is 1/2";
        assert_eq!(changed, Change::Settings(text.to_owned()));
        assert_eq!(changed.after(), format!(": {text}"));
    }

    #[test]
    fn equal_settings_mean_other_files_and_none_mean_nothing() {
        let one = attributes(&json!({ "a": 1 }), None);
        assert_eq!(Change::of_attributes(Some(&one), &one), Change::Files);
        assert_eq!(Change::of_attributes(None, &one), Change::Unknown);
        assert_eq!(Change::of_attributes(Some(&Map::new()), &one), Change::Unknown);
        assert_eq!(Change::of_settings(&Map::new(), &one), Change::Unknown);
        assert_eq!(Change::Unknown.after() + &Change::Files.after(), "");
    }

    #[test]
    fn many_settings_and_long_values_are_cut() {
        let settings = |value: &str| -> Map<String, Value> {
            (0..8).map(|i| (format!("k{i}"), json!(value.repeat(40)))).collect()
        };
        let Change::Settings(text) = Change::of_settings(&settings("a"), &settings("b")) else { panic!() };
        assert!(
            text.ends_with("; and 3 more") && text.contains(&format!("k4 was {}..., is", "a".repeat(32))),
            "{text}"
        );
        assert!(!text.contains("k5"), "{text}");
    }
}
