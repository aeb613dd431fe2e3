//! The list of what a release is made of, in CycloneDX 1.5.

use super::dependency::{Dependencies, Package};
use super::release::Release;
use serde_json::{Value, json};

pub fn text(dependencies: &Dependencies, release: &Release) -> String {
    format!("{:#}\n", document(dependencies, release))
}

fn document(dependencies: &Dependencies, release: &Release) -> Value {
    let own = format!("pkg:generic/melisma@{}", release.version);
    let components: Vec<_> = dependencies.packages.iter().map(component).collect();
    let uses = dependencies.edges.iter().map(|(package, used)| json!({ "ref": package, "dependsOn": used }));
    let root = json!({ "ref": own, "dependsOn": dependencies.roots });
    let graph: Vec<_> = [root].into_iter().chain(uses).collect();
    json!({
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {
            "timestamp": release.time,
            "component": {
                "type": "application",
                "bom-ref": own,
                "name": "melisma",
                "version": release.version,
                "purl": own,
                "licenses": [{ "expression": "MIT OR Apache-2.0" }],
                "properties": [{ "name": "melisma:commit", "value": release.commit }],
            },
        },
        "components": components,
        "dependencies": graph,
    })
}

fn component(package: &Package) -> Value {
    let mut component = json!({
        "type": "library",
        "bom-ref": package.purl(),
        "name": package.name,
        "version": package.version,
        "purl": package.purl(),
        "licenses": [{ "expression": package.licence() }],
    });
    if let Some(hash) = &package.hash {
        component["hashes"] = json!([{ "alg": "SHA-256", "content": hash }]);
    }
    if let Some(address) = &package.repository {
        component["externalReferences"] = json!([{ "type": "vcs", "url": address }]);
    }
    component
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    fn document() -> Value {
        let release = Release {
            version: "0.1.0",
            commit: "4f2aa17d9c1e".into(),
            epoch: "1769882400".into(),
            time: "2026-01-31T18:00:00Z".into(),
        };
        serde_json::from_str(&text(&Dependencies::example(), &release)).unwrap()
    }

    fn texts<'a>(list: &'a Value, key: &str) -> Vec<&'a str> {
        list.as_array().unwrap().iter().map(|item| item[key].as_str().unwrap()).collect()
    }

    #[test]
    fn the_required_keys_are_there() {
        let document = document();
        assert_eq!((&document["bomFormat"], &document["specVersion"]), (&json!("CycloneDX"), &json!("1.5")));
        assert!(document["version"].is_u64());
        assert_eq!(document["metadata"]["timestamp"], "2026-01-31T18:00:00Z");
        let components = document["components"].as_array().unwrap();
        for component in components.iter().chain([&document["metadata"]["component"]]) {
            for key in ["type", "bom-ref", "name", "version", "purl"] {
                assert!(component[key].as_str().is_some_and(|text| !text.is_empty()), "{key} of {component}");
            }
            assert!(component["licenses"][0]["expression"].is_string(), "{component}");
        }
        assert_eq!(components[0]["hashes"][0]["alg"], "SHA-256");
        assert_eq!(components[0]["hashes"][0]["content"].as_str().map(str::len), Some(64));
    }

    #[test]
    fn references_are_unique_and_lead_to_components() {
        let document = document();
        let mut known = texts(&document["components"], "bom-ref");
        known.push(document["metadata"]["component"]["bom-ref"].as_str().unwrap());
        let unique: BTreeSet<_> = known.iter().copied().collect();
        assert_eq!(unique.len(), known.len());
        assert_eq!(texts(&document["dependencies"], "ref").into_iter().collect::<BTreeSet<_>>(), unique);
        for dependency in document["dependencies"].as_array().unwrap() {
            for used in dependency["dependsOn"].as_array().unwrap() {
                assert!(unique.contains(used.as_str().unwrap()), "{used}");
            }
        }
    }
}
