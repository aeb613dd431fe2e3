//! Licences, bans and sources of every dependency, by the rules of `deny.toml`.
//!
//! # Why our own reader of `deny.toml`?
//!
//! The rules are in one file, in cargo-deny's format, and can be checked on every machine with
//! cargo alone. cargo-deny checks advisories where its database can be reached.

mod spdx;

use super::outcome::Outcome;
use crate::process::{cargo, output};
use crate::tree;
use anyhow::{Context, Result, bail};
use serde::Deserialize;
use serde_json::Value;
use std::collections::BTreeSet;
use std::fs;

pub fn check() -> Result<Outcome> {
    let text = fs::read_to_string(tree::root().join("deny.toml")).context("deny.toml")?;
    let rules: Rules = toml::from_str(&text).context("deny.toml")?;
    let metadata = output(&mut cargo(["metadata", "--format-version", "1", "--all-features", "--locked"]))?;
    let metadata: Value = serde_json::from_str(&metadata).context("the output of cargo metadata")?;
    let packages = metadata["packages"].as_array().context("cargo metadata names no packages")?;
    let wrong: Vec<String> = packages.iter().filter_map(|package| rules.problem(package)).collect();
    if !wrong.is_empty() {
        wrong.iter().for_each(|line| println!("{line}"));
        bail!("{} packages break deny.toml: {}", wrong.len(), wrong[0]);
    }
    Ok(Outcome::Counted(format!("{} packages", packages.len())))
}

/// The parts of `deny.toml` that are read here.
#[derive(Deserialize)]
struct Rules {
    licenses: Licences,
    bans: Bans,
    sources: Sources,
}

#[derive(Deserialize)]
struct Licences {
    allow: BTreeSet<String>,
    exceptions: Vec<Exception>,
}

#[derive(Deserialize)]
struct Exception {
    #[serde(rename = "crate")]
    package: String,
    allow: BTreeSet<String>,
}

#[derive(Deserialize)]
struct Bans {
    deny: Vec<Ban>,
}

#[derive(Deserialize)]
struct Ban {
    #[serde(rename = "crate")]
    package: String,
    reason: String,
}

#[derive(Deserialize)]
struct Sources {
    #[serde(rename = "allow-registry")]
    allow_registry: BTreeSet<String>,
}

impl Rules {
    /// Returns the problem with a package of `cargo metadata`, if any.
    fn problem(&self, package: &Value) -> Option<String> {
        let name = package["name"].as_str().unwrap_or_default();
        let shown = format!("{name} {}", package["version"].as_str().unwrap_or_default());
        if let Some(ban) = self.bans.deny.iter().find(|ban| ban.package == name) {
            return Some(format!("{shown}: banned: {}", ban.reason));
        }
        if let Some(source) = package["source"].as_str() {
            let known =
                source.strip_prefix("registry+").is_some_and(|registry| self.sources.allow_registry.contains(registry));
            if !known {
                return Some(format!("{shown}: comes from {source}, not from an allowed registry"));
            }
        }
        let Some(licence) = package["license"].as_str() else {
            return Some(format!("{shown}: names no licence"));
        };
        let excepted = self.licenses.exceptions.iter().filter(|exception| exception.package == name);
        let sets: Vec<_> = excepted.map(|exception| &exception.allow).chain([&self.licenses.allow]).collect();
        let allowed = |licence: &str| sets.iter().any(|set| set.contains(licence));
        match spdx::satisfied(licence, allowed) {
            Ok(true) => None,
            Ok(false) => Some(format!("{shown}: its licence `{licence}` is not allowed")),
            Err(error) => Some(format!("{shown}: {error:#}")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Rules;
    use serde_json::json;

    const RULES: &str = r#"
        [licenses]
        allow = ["MIT"]
        exceptions = [{ crate = "symphonia", allow = ["MPL-2.0"] }]
        [bans]
        deny = [{ crate = "serde_yaml", reason = "archived" }]
        [sources]
        allow-registry = ["https://example.org/index"]
    "#;

    fn problem(name: &str, licence: Option<&str>, source: Option<&str>) -> Option<String> {
        let package = json!({ "name": name, "version": "1.0.0", "license": licence, "source": source });
        toml::from_str::<Rules>(RULES).unwrap().problem(&package)
    }

    #[test]
    fn exceptions_hold_for_their_package_only() {
        assert_eq!(problem("symphonia", Some("MPL-2.0"), None), None);
        assert!(problem("other", Some("MPL-2.0"), None).unwrap().contains("not allowed"));
    }

    #[test]
    fn bans_sources_and_missing_licences_are_problems() {
        assert_eq!(problem("good", Some("MIT"), Some("registry+https://example.org/index")), None);
        assert!(problem("serde_yaml", Some("MIT"), None).unwrap().contains("archived"));
        assert!(problem("far", Some("MIT"), Some("git+https://example.org/far")).unwrap().contains("comes from"));
        assert!(problem("bare", None, None).unwrap().contains("no licence"));
    }
}
