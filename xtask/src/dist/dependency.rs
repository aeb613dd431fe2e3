//! The packages whose code is part of the program or of the Python package.

use super::target::Target;
use crate::process::{cargo, output};
use crate::tree;
use anyhow::{Context, Result};
use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::PathBuf;

/// What is released.
const ROOTS: [&str; 2] = ["melisma-cli", "melisma-py"];

/// A package.
#[derive(Clone, Debug, Deserialize)]
pub struct Package {
    pub name: String,
    pub version: String,
    id: String,
    license: Option<String>,
    pub license_file: Option<PathBuf>,
    pub repository: Option<String>,
    pub manifest_path: PathBuf,
    pub source: Option<String>,
    #[serde(default)]
    pub authors: Vec<String>,
    targets: Vec<Part>,
    /// The SHA-256 of what the registry has.
    #[serde(skip)]
    pub hash: Option<String>,
}

#[derive(Clone, Debug, Deserialize)]
struct Part {
    kind: Vec<String>,
}

impl Package {
    /// Returns its licences as an SPDX expression.
    pub fn licence(&self) -> String {
        self.license.as_deref().unwrap_or("NOASSERTION").replace('/', " OR ")
    }

    /// Returns whether it comes from a registry.
    pub fn is_foreign(&self) -> bool {
        self.source.is_some()
    }

    /// Returns its address, as in `pkg:cargo/anyhow@1.0.0`.
    pub fn purl(&self) -> String {
        format!("pkg:cargo/{}@{}", self.name, self.version)
    }

    /// Returns whether it only runs in the compiler.
    fn is_macro(&self) -> bool {
        self.targets.iter().any(|part| part.kind.iter().any(|kind| kind == "proc-macro"))
    }
}

/// Packages, and for each address those of the packages that it uses.
pub struct Dependencies {
    pub packages: Vec<Package>,
    pub edges: BTreeMap<String, BTreeSet<String>>,
    pub roots: BTreeSet<String>,
}

#[derive(Deserialize)]
struct Metadata {
    packages: Vec<Package>,
    resolve: Graph,
}

#[derive(Deserialize)]
struct Graph {
    nodes: Vec<Node>,
}

#[derive(Deserialize)]
struct Node {
    id: String,
    deps: Vec<Edge>,
}

#[derive(Deserialize)]
struct Edge {
    pkg: String,
    dep_kinds: Vec<Use>,
}

/// Why a package is used; `kind` is absent for what is linked.
#[derive(Deserialize)]
struct Use {
    kind: Option<String>,
}

#[derive(Deserialize)]
struct Lock {
    package: Vec<Locked>,
}

#[derive(Deserialize)]
struct Locked {
    name: String,
    version: String,
    checksum: Option<String>,
}

impl Dependencies {
    pub fn read(targets: &[Target]) -> Result<Self> {
        let mut command = cargo(["metadata", "--format-version", "1", "--locked"]);
        for target in targets {
            command.args(["--filter-platform", &target.triple()]);
        }
        let metadata = serde_json::from_str(&output(&mut command)?).context("the output of cargo metadata")?;
        let lock = fs::read_to_string(tree::root().join("Cargo.lock")).context("Cargo.lock")?;
        Self::of(metadata, &toml::from_str(&lock).context("Cargo.lock")?)
    }

    fn of(metadata: Metadata, lock: &Lock) -> Result<Self> {
        let hashes: BTreeMap<_, _> =
            lock.package.iter().map(|locked| ((&*locked.name, &*locked.version), &locked.checksum)).collect();
        let all: BTreeMap<&str, &Package> = metadata.packages.iter().map(|package| (&*package.id, package)).collect();
        let nodes: BTreeMap<&str, &Node> = metadata.resolve.nodes.iter().map(|node| (&*node.id, node)).collect();
        let first: Vec<_> = metadata.packages.iter().filter(|package| ROOTS.contains(&&*package.name)).collect();
        let mut found = Self {
            packages: Vec::new(),
            edges: BTreeMap::new(),
            roots: first.iter().map(|package| package.purl()).collect(),
        };
        let mut open = first;
        while let Some(package) = open.pop() {
            if found.edges.contains_key(&package.purl()) {
                continue;
            }
            let node = nodes.get(&*package.id).with_context(|| format!("{} has no dependencies", package.id))?;
            let linked = node.deps.iter().filter(|edge| edge.dep_kinds.iter().any(|used| used.kind.is_none()));
            let used: Vec<&Package> =
                linked.filter_map(|edge| all.get(&*edge.pkg).copied()).filter(|package| !package.is_macro()).collect();
            found.edges.insert(package.purl(), used.iter().map(|package| package.purl()).collect());
            let hash = hashes.get(&(&*package.name, &*package.version)).and_then(|hash| (*hash).clone());
            found.packages.push(Package { hash, ..package.clone() });
            open.extend(used);
        }
        found.packages.sort_by(|a, b| (&a.name, &a.version).cmp(&(&b.name, &b.version)));
        Ok(found)
    }
}

#[cfg(test)]
impl Dependencies {
    /// Returns `melisma-cli`, what it links (`linked`, `deep`), and not what only builds or tests it.
    pub fn example() -> Self {
        use serde_json::json;
        let package = |name: &str, kind: &str, source: Option<&str>| {
            let manifest = tree::root().join("Cargo.toml");
            json!({ "name": name, "version": "1.2.3", "id": name, "license": "MIT/Apache-2.0", "manifest_path": manifest,
                "source": source, "repository": format!("https://example.org/{name}"), "targets": [{ "kind": [kind] }] })
        };
        let registry = Some("registry+https://example.org/index");
        let packages = [
            package("melisma-cli", "bin", None),
            package("linked", "lib", registry),
            package("deep", "lib", registry),
            package("macros", "proc-macro", registry),
            package("test", "lib", registry),
        ];
        let edge = |name: &str, kind: Option<&str>| json!({ "pkg": name, "dep_kinds": [{ "kind": kind }] });
        let nodes = json!([
            { "id": "melisma-cli", "deps": [edge("linked", None), edge("macros", None), edge("test", Some("dev"))] },
            { "id": "linked", "deps": [edge("deep", None)] },
            { "id": "deep", "deps": [] }
        ]);
        let metadata = json!({ "packages": packages, "resolve": { "nodes": nodes } });
        let locked = Locked { name: "deep".into(), version: "1.2.3".into(), checksum: Some("ab".repeat(32)) };
        Self::of(serde_json::from_value(metadata).unwrap(), &Lock { package: vec![locked] }).unwrap()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_linked_is_found() {
        let found = Dependencies::example();
        let names: Vec<_> = found.packages.iter().map(|package| &*package.name).collect();
        assert_eq!(names, ["deep", "linked", "melisma-cli"]);
        assert_eq!(found.edges["pkg:cargo/linked@1.2.3"], BTreeSet::from(["pkg:cargo/deep@1.2.3".to_owned()]));
        assert_eq!(found.roots, BTreeSet::from(["pkg:cargo/melisma-cli@1.2.3".to_owned()]));
        assert_eq!(found.packages[0].licence(), "MIT OR Apache-2.0");
        assert!(found.packages[0].is_foreign() && !found.packages[2].is_foreign());
        assert_eq!(found.packages[0].hash.as_deref().map(str::len), Some(64));
    }
}
