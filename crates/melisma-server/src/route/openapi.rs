//! `GET /openapi.json`.

use super::plain::reply;
use crate::http::body::Reply;
use crate::http::failure::Failure;

const DOCUMENT: &str = include_str!("openapi.json");

pub(super) fn document() -> Result<Reply, Failure> {
    Ok(reply("application/json", DOCUMENT))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use melisma::mel::PRESETS;
    use melisma::synth::STYLES;
    use serde_json::Value;

    use super::super::{ROUTES, Route};
    use super::*;

    #[test]
    fn the_document_has_every_route() {
        let document: Value = serde_json::from_str(DOCUMENT).unwrap();
        let paths = document["paths"].as_object().unwrap();
        let documented: BTreeSet<(String, String)> = paths
            .iter()
            .flat_map(|(path, methods)| {
                methods.as_object().unwrap().keys().map(|method| (method.to_uppercase(), path.clone()))
            })
            .collect();
        let head = |route: &Route| route.has_head().then(|| ("HEAD".to_owned(), route.path.to_owned()));
        let methods = |route: &Route| [Some((route.method.to_owned(), route.path.to_owned())), head(route)];
        let served = ROUTES.iter().flat_map(methods).flatten().collect();
        assert_eq!(documented, served);
    }

    #[test]
    fn public_routes_need_no_key_in_the_document() {
        let document: Value = serde_json::from_str(DOCUMENT).unwrap();
        for route in ROUTES {
            let head = route.has_head().then_some("head");
            for method in [&*route.method.to_lowercase()].into_iter().chain(head) {
                let operation = &document["paths"][route.path][method];
                assert_eq!(operation["security"] == serde_json::json!([]), route.is_public, "{method} {}", route.path);
            }
        }
    }

    #[test]
    fn the_document_has_every_preset() {
        let document: Value = serde_json::from_str(DOCUMENT).unwrap();
        let listed = |path: &str, method: &str| -> Vec<Value> {
            let parameters = document["paths"][path][method]["parameters"].as_array().unwrap();
            let preset = parameters.iter().find(|parameter| parameter["name"] == "preset").unwrap();
            preset["schema"]["enum"].as_array().unwrap().clone()
        };
        let styles = STYLES.map(|style| style.name.into_owned());
        for path in ["/v1/synth", "/v1/synth.wav", "/v1/synth.flac", "/v1/synth.mid"] {
            assert_eq!(listed(path, "get"), styles, "{path}");
        }
        let mels: Vec<&str> = PRESETS.iter().map(|(name, _)| *name).collect();
        assert_eq!(listed("/v1/mel", "post"), mels);
    }
}
