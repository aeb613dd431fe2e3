//! Where the upstream listens.

use hyper::Uri;
use melisma::{Error, Result};

/// The parts of `http://HOST[:PORT][/PATH]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Address {
    pub(super) scheme: Scheme,
    /// Without the brackets of IPv6.
    pub(super) host: String,
    pub(super) port: u16,
    /// Host and port as they were written.
    pub(super) authority: String,
    /// What precedes `/v1`, without a slash at its end.
    prefix: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Scheme {
    Http,
    Https,
}

impl Address {
    /// Reads a URL; a path that ends with `/v1`, as clients of OpenAI write it, means the same without.
    ///
    /// # Errors
    /// It is not such a URL.
    pub(super) fn parse(url: &str) -> Result<Self> {
        let hint = "write it as in http://127.0.0.1:8000";
        // A query may have a key in it.
        let shown = url.split(['?', '#']).next().unwrap_or_default();
        let wrong = |what: &str| Error::invalid(format!("the upstream `{shown}`: {what}")).with_hint(hint);
        if url.contains('@') {
            let message = "the upstream's URL has a user name or a key in it";
            return Err(Error::invalid(message).with_hint("give the key in a file or MELISMA_UPSTREAM_KEY"));
        }
        let uri: Uri = url.parse().map_err(|_| wrong("this is not a URL"))?;
        let (scheme, default_port) = match uri.scheme_str() {
            Some("http") => (Scheme::Http, 80),
            Some("https") => (Scheme::Https, 443),
            _ => return Err(wrong("expected http:// or https://")),
        };
        let authority = uri.authority().ok_or_else(|| wrong("it has no host"))?;
        let host = authority.host().trim_start_matches('[').trim_end_matches(']').to_owned();
        if host.is_empty() {
            return Err(wrong("it has no host"));
        }
        if uri.query().is_some() || url.contains('#') {
            return Err(wrong("it has a query or a fragment"));
        }
        let has_port = authority.as_str().len() > authority.host().len();
        let port = match (authority.port_u16(), has_port) {
            (Some(port), _) if port > 0 => port,
            (None, false) => default_port,
            _ => return Err(wrong("its port is not between 1 and 65535")),
        };
        let path = uri.path().trim_end_matches('/');
        let prefix = path.strip_suffix("/v1").unwrap_or(path).to_owned();
        Ok(Self { scheme, host, port, authority: authority.as_str().to_owned(), prefix })
    }

    /// Returns the path of a route such as `/v1/completions`.
    pub(super) fn path(&self, route: &str) -> String {
        format!("{}{route}", self.prefix)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_are_taken_apart() {
        for (url, host, port, path) in [
            ("http://127.0.0.1:8000", "127.0.0.1", 8000, "/v1/completions"),
            ("http://model/", "model", 80, "/v1/completions"),
            ("https://model/v1", "model", 443, "/v1/completions"),
            ("https://model:8443/a/b/v1/", "model", 8443, "/a/b/v1/completions"),
            ("http://[::1]:1234", "::1", 1234, "/v1/completions"),
        ] {
            let address = Address::parse(url).unwrap();
            assert_eq!((&*address.host, address.port), (host, port), "{url}");
            assert_eq!(address.path("/v1/completions"), path, "{url}");
            assert_eq!(address.scheme == Scheme::Https, url.starts_with("https"), "{url}");
        }
    }

    #[test]
    fn other_texts_are_errors() {
        for url in [
            "",
            "model:8000",
            "ftp://model",
            "http://",
            "/v1",
            "http://a b",
            "http://key@model",
            "http://m:0",
            "http://m:",
            "http://m:99999",
            "http://m/?a=b",
            "http://m/?api_key=sesame",
            "m?api_key=sesame",
            "http://m/#a",
        ] {
            let error = Address::parse(url).unwrap_err();
            assert!(error.hint().is_some(), "{url}: {error}");
            assert!(!error.to_string().contains("key@") && !error.to_string().contains("sesame"), "{error}");
        }
    }
}
