//! The page at `/`: files that are part of the program, and the headers that they are served with.

use std::hash::{DefaultHasher, Hash, Hasher};

use hyper::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, ETAG, HeaderName, HeaderValue, IF_NONE_MATCH, REFERRER_POLICY,
};
use hyper::{HeaderMap, Response, StatusCode};

use crate::http::body::{Body, Reply};
use crate::http::failure::Failure;

/// The stylesheet of the page, which reports share.
pub const STYLE: &str = include_str!("../web/style.css");

/// Scripts, styles and connections of this server only, and nothing inline.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; \
                      worker-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// The worker and the worklet share memory, which browsers allow to isolated pages only. Every answer has the
/// policy that keeps it out of other pages.
const ISOLATION: [(HeaderName, &str); 2] = [
    (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
    (HeaderName::from_static("cross-origin-embedder-policy"), "require-corp"),
];

/// A file of the page.
#[derive(Debug, Clone, Copy)]
struct Asset {
    name: &'static str,
    bytes: &'static [u8],
}

macro_rules! assets {
    ($($name:literal),+ $(,)?) => {
        &[$(Asset { name: $name, bytes: include_bytes!(concat!("../web/", $name)) }),+]
    };
}

const ASSETS: &[Asset] = assets![
    "index.html",
    "style.css",
    "icon.svg",
    "address.js",
    "app.js",
    "axis.js",
    "chart.js",
    "command.js",
    "connection.js",
    "controls.js",
    "element.js",
    "intake.js",
    "keeper.js",
    "keyboard.js",
    "live-worker.js",
    "magma.js",
    "midi.js",
    "notice.js",
    "picture.js",
    "play.js",
    "player.js",
    "ring.js",
    "roll.js",
    "speak-worker.js",
    "speak.js",
    "speech.js",
    "status.js",
    "token-summary.js",
    "transport.js",
    "watch.js",
    "wav.js",
    "worklet.js",
];

impl Asset {
    fn media_type(self) -> &'static str {
        match self.name.rsplit_once('.') {
            Some((_, "html")) => "text/html; charset=utf-8",
            Some((_, "css")) => "text/css; charset=utf-8",
            Some((_, "svg")) => "image/svg+xml",
            _ => "text/javascript; charset=utf-8",
        }
    }

    fn tag(self) -> String {
        let mut hasher = DefaultHasher::new();
        self.bytes.hash(&mut hasher);
        format!("\"{:016x}\"", hasher.finish())
    }
}

/// Returns the file called `name`, or 304 if the browser has it already.
///
/// # Errors
/// 404 for an unknown name.
pub(crate) fn get(name: &str, request: &HeaderMap) -> Result<Reply, Failure> {
    let missing = || Failure::new(StatusCode::NOT_FOUND, "unknown_file", "unknown file of the page");
    let asset = *ASSETS.iter().find(|asset| asset.name == name).ok_or_else(missing)?;
    let tag = asset.tag();
    let is_known = request.get_all(IF_NONE_MATCH).iter().any(|known| known.as_bytes() == tag.as_bytes());
    let mut reply = Response::new(if is_known { Body::Whole(None) } else { Body::from(asset.bytes) });
    if is_known {
        *reply.status_mut() = StatusCode::NOT_MODIFIED;
    }
    let headers = reply.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(asset.media_type()));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    headers.insert(CONTENT_SECURITY_POLICY, HeaderValue::from_static(POLICY));
    headers.insert(REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
    if let Ok(tag) = HeaderValue::from_str(&tag) {
        headers.insert(ETAG, tag);
    }
    for (name, value) in ISOLATION {
        headers.insert(name, HeaderValue::from_static(value));
    }
    Ok(reply)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_file_of_the_folder_is_served_and_together_they_are_small() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/web");
        let mut found: Vec<String> =
            std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        let mut served: Vec<String> = ASSETS.iter().map(|asset| asset.name.to_owned()).collect();
        found.sort();
        served.sort();
        assert_eq!(served, found);
        let n_bytes: usize = ASSETS.iter().map(|asset| asset.bytes.len()).sum();
        assert!(n_bytes <= 200_000, "{n_bytes} bytes");
    }

    #[test]
    fn a_known_file_is_not_sent_again() {
        let first = get("style.css", &HeaderMap::new()).unwrap();
        assert_eq!(first.status(), StatusCode::OK);
        let mut request = HeaderMap::new();
        request.insert(IF_NONE_MATCH, first.headers()[ETAG].clone());
        assert_eq!(get("style.css", &request).unwrap().status(), StatusCode::NOT_MODIFIED);
        assert_eq!(get("index.html", &request).unwrap().status(), StatusCode::OK);
        assert_eq!(get("../Cargo.toml", &request).unwrap_err().status, StatusCode::NOT_FOUND);
    }

    #[test]
    fn nothing_inline_and_no_other_host() {
        for asset in ASSETS {
            let text = std::str::from_utf8(asset.bytes).unwrap();
            for foreign in ["https://", "//cdn", " style=", "onclick=", "<style", "javascript:"] {
                assert!(!text.contains(foreign), "{}: {foreign}", asset.name);
            }
            let hosts = text.match_indices("http://").filter(|(at, _)| !text[*at..].starts_with("http://www.w3.org/"));
            assert_eq!(hosts.count(), 0, "{}: a host", asset.name);
        }
    }
}
