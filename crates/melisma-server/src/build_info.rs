//! What this program was built from.

use serde_json::{Map, Value, json};

/// The version of all crates.
const VERSION: &str = env!("CARGO_PKG_VERSION");

/// The features of the server that this program has.
const FEATURES: &[&str] = &[
    #[cfg(feature = "cuda-12")]
    "cuda-12",
    #[cfg(feature = "cuda-13")]
    "cuda-13",
    #[cfg(feature = "voice")]
    "voice",
];

/// Version, commit and features. Only the program that is built last knows its commit.
#[derive(Debug, Clone, Copy, Default)]
pub struct BuildInfo {
    commit: Option<&'static str>,
}

impl BuildInfo {
    /// Creates the description of a program of that commit, if it is known.
    pub fn new(commit: Option<&'static str>) -> Self {
        let is_name = |commit: &&str| !commit.is_empty() && commit.bytes().all(|byte| byte.is_ascii_alphanumeric());
        Self { commit: commit.filter(is_name) }
    }

    /// Returns the version.
    pub fn version(self) -> &'static str {
        VERSION
    }

    /// Returns the commit, if it is known.
    pub fn commit(self) -> Option<&'static str> {
        self.commit
    }

    /// Returns the features.
    pub fn features(self) -> &'static [&'static str] {
        FEATURES
    }

    /// Returns the version with the commit and the features, as in `0.1.0 (4f2aa17d9c1e, cuda-13, voice)`.
    pub fn text(self) -> String {
        let details: Vec<_> = self.commit.into_iter().chain(FEATURES.iter().copied()).collect();
        match details.is_empty() {
            true => VERSION.to_owned(),
            false => format!("{VERSION} ({})", details.join(", ")),
        }
    }

    /// Returns `{"version", "commit", "features"}`, without an unknown commit.
    pub(crate) fn json(self) -> Map<String, Value> {
        let commit = self.commit.map(|commit| ("commit", json!(commit)));
        let fields = [("version", json!(VERSION)), ("features", json!(FEATURES))];
        fields.into_iter().chain(commit).map(|(name, value)| (name.to_owned(), value)).collect()
    }

    /// Returns the labels of the metric.
    pub(crate) fn labels(self) -> String {
        let commit = self.commit.map(|commit| format!(",commit=\"{commit}\"")).unwrap_or_default();
        format!("version=\"{VERSION}\",features=\"{}\"{commit}", FEATURES.join(","))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_built_in_voice_is_told() {
        assert_eq!(BuildInfo::default().features().contains(&"voice"), melisma::speak::has_builtin());
    }

    #[test]
    fn an_unknown_commit_is_left_out() {
        let (known, unknown) = (BuildInfo::new(Some("4f2aa17")), BuildInfo::default());
        assert!(known.text().starts_with(&format!("{VERSION} (4f2aa17")));
        assert!(unknown.text().starts_with(VERSION) && !unknown.text().contains("4f2"));
        assert!(known.labels().ends_with(",commit=\"4f2aa17\"") && !unknown.labels().contains("commit"));
        assert_eq!(known.json()["commit"], "4f2aa17");
        assert_eq!((known.commit(), unknown.commit(), known.version()), (Some("4f2aa17"), None, VERSION));
        assert_eq!(known.json()["features"], json!(known.features()));
        assert!(["", "a\"b", "a b"].iter().all(|text| BuildInfo::new(Some(text)).labels() == unknown.labels()));
        assert_eq!(unknown.json().keys().collect::<Vec<_>>(), ["features", "version"]);
    }
}
