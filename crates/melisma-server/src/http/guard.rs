//! Authentication and allowed hosts: the checks of every request before its body is read.
//!
//! A web page that a user visits can send requests to servers on the user's machine. The `Host` of
//! such a request is the page's own name (DNS rebinding), or its `Origin` is the page. Both are
//! checked against what this server is called, so a server without a key answers no foreign page.
//! Pictures, sounds and links have no `Origin`; browsers say in `Sec-Fetch-Site` where those come from,
//! and only a link to the page itself may come from elsewhere.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;

use hyper::header::{AUTHORIZATION, HOST, HeaderName, HeaderValue, ORIGIN};
use hyper::http::uri::Authority;
use hyper::{HeaderMap, StatusCode, Uri, header};

use super::failure::Failure;
use crate::keyring::{Key, Keyring};

/// The prefix of the subprotocol in which browsers send the key.
const KEY_PROTOCOL: &str = "melisma.key.";

/// Where a request comes from, how and for what, as browsers say it.
const SITE: HeaderName = HeaderName::from_static("sec-fetch-site");
const MODE: HeaderName = HeaderName::from_static("sec-fetch-mode");
const DESTINATION: HeaderName = HeaderName::from_static("sec-fetch-dest");

/// The most characters of a host name in a message.
const MAX_NAMED: usize = 64;

/// The path that other sites may link to.
const PAGE: &str = "/";

/// Before the key in `Authorization`, in any case of letters.
const SCHEME: &[u8] = b"Bearer ";

/// The rules of one server.
#[derive(Debug, Clone, Default)]
pub struct Guard {
    /// The keys of its clients.
    pub keys: Keyring,
    /// Further names of the server: `name` or `name:port`.
    pub allow_hosts: Vec<String>,
    /// Further pages that may use it: `https://name`.
    pub allow_origins: Vec<String>,
}

/// Where a request comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Caller {
    /// A program, or the server's own page.
    Own,
    /// A page on the list.
    AllowedPage,
}

impl Guard {
    /// Checks `Host`, `Origin` and `Sec-Fetch-Site` of a request that came in at the address `local`.
    ///
    /// # Errors
    /// 403 for foreign names and pages, 400 for a missing or repeated `Host`.
    pub fn check(&self, uri: &Uri, headers: &HeaderMap, local: SocketAddr) -> Result<Caller, Failure> {
        let foreign = |name: &str| {
            let name: String = name.escape_default().take(MAX_NAMED).collect();
            let message = format!("unknown host name `{name}`: the server must allow it");
            Failure::new(StatusCode::FORBIDDEN, "foreign_host", message).and_close()
        };
        let host = one(headers, HOST)?
            .ok_or_else(|| Failure::invalid("missing_host", "the request has no Host").and_close())?;
        let text = host.to_str().unwrap_or_default();
        let host: Authority = text.parse().map_err(|_| foreign(text))?;
        for name in [Some(&host), uri.authority()].into_iter().flatten() {
            if !self.is_own(name, local) {
                return Err(foreign(name.as_str()));
            }
        }
        let origin = one(headers, ORIGIN)?.map(|origin| origin.to_str().unwrap_or_default());
        if origin.is_some_and(|origin| self.allow_origins.iter().any(|allowed| allowed == origin)) {
            return Ok(Caller::AllowedPage);
        }
        let is_own = |origin: &str| {
            let page = origin.strip_prefix("http://").or_else(|| origin.strip_prefix("https://"));
            page.is_some_and(|page| page.eq_ignore_ascii_case(host.as_str()))
        };
        match origin.is_none_or(is_own) && (!is_elsewhere(headers)? || is_link(uri, headers)?) {
            true => Ok(Caller::Own),
            false => {
                let message = "this page may not use the server";
                Err(Failure::new(StatusCode::FORBIDDEN, "foreign_origin", message).and_close())
            }
        }
    }

    fn is_own(&self, name: &Authority, local: SocketAddr) -> bool {
        // A name without a port, or with an empty one, is that of any.
        let is_port = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit()) && text.parse::<u16>().is_ok();
        let port = name.as_str().strip_prefix(name.host()).map(|rest| rest.strip_prefix(':').unwrap_or(rest));
        if port.is_none_or(|port| !port.is_empty() && !is_port(port)) {
            return false;
        }
        let in_brackets = name.host().strip_prefix('[').and_then(|host| host.strip_suffix(']'));
        let address = match in_brackets {
            Some(host) => host.parse::<Ipv6Addr>().ok().map(IpAddr::from),
            None => name.host().parse::<Ipv4Addr>().ok().map(IpAddr::from),
        };
        let is_local = match address {
            // A socket for both kinds of addresses has those of IPv4 as a part of IPv6.
            Some(address) => address.to_canonical() == local.ip().to_canonical(),
            None => name.host().eq_ignore_ascii_case("localhost"),
        };
        let is_listed =
            |allowed: &String| allowed.eq_ignore_ascii_case(name.as_str()) || allowed.eq_ignore_ascii_case(name.host());
        is_local || self.allow_hosts.iter().any(is_listed)
    }

    /// Returns whose key it is: that of `Authorization: Bearer KEY`, or of the subprotocol of a WebSocket. `None` if
    /// the server needs no key.
    ///
    /// # Errors
    /// 401 without the right key, 400 for a repeated `Authorization`.
    pub fn check_key(&self, headers: &HeaderMap) -> Result<Option<Arc<Key>>, Failure> {
        if self.keys.count() == 0 {
            return Ok(None);
        }
        let bearer = one(headers, AUTHORIZATION)?.and_then(|value| value.as_bytes().split_at_checked(SCHEME.len()));
        let bearer = bearer.filter(|(scheme, _)| scheme.eq_ignore_ascii_case(SCHEME)).map(|(_, key)| key);
        let encoded = protocols(headers).filter_map(|protocol| protocol.strip_prefix(KEY_PROTOCOL));
        let encoded: Vec<_> = encoded.map(str::as_bytes).collect();
        let missing =
            || Failure::unauthorized("invalid_api_key", "a valid API key is required: Authorization: Bearer KEY");
        self.keys.find(bearer, &encoded).map(Some).ok_or_else(missing)
    }
}

/// Returns whether a browser says that a page of another origin asks. A page of the same site but another origin is
/// one as well: any server of this machine, or a neighbour of this server's name.
fn is_elsewhere(headers: &HeaderMap) -> Result<bool, Failure> {
    Ok(one(headers, SITE)?.is_some_and(|site| site == "cross-site" || site == "same-site"))
}

/// Returns whether the request follows a link to the page as a top-level navigation, not as a frame or picture.
fn is_link(uri: &Uri, headers: &HeaderMap) -> Result<bool, Failure> {
    let is_navigation = one(headers, MODE)?.is_some_and(|mode| mode == "navigate");
    Ok(uri.path() == PAGE && is_navigation && one(headers, DESTINATION)?.is_none_or(|what| what == "document"))
}

/// Returns the only header of that name.
fn one(headers: &HeaderMap, name: HeaderName) -> Result<Option<&HeaderValue>, Failure> {
    let mut values = headers.get_all(&name).iter();
    match (values.next(), values.next()) {
        (_, Some(_)) => Err(Failure::invalid("repeated_header", format!("more than one `{name}` header")).and_close()),
        (first, None) => Ok(first),
    }
}

/// Returns the subprotocols that a WebSocket client offers.
pub fn protocols(headers: &HeaderMap) -> impl Iterator<Item = &str> {
    let values = headers.get_all(header::SEC_WEBSOCKET_PROTOCOL).iter();
    values.filter_map(|value| value.to_str().ok()).flat_map(|text| text.split(',')).map(str::trim)
}

#[cfg(test)]
mod tests;
