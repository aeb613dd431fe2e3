//! From an HTTP request to a WebSocket (RFC 6455, section 4.2).

use hyper::header::{
    CONNECTION, HeaderValue, SEC_WEBSOCKET_ACCEPT, SEC_WEBSOCKET_KEY, SEC_WEBSOCKET_PROTOCOL, SEC_WEBSOCKET_VERSION,
    UPGRADE,
};
use hyper::{HeaderMap, Response, StatusCode};
use melisma::text::base64;
use sha1::{Digest, Sha1};

use crate::http::body::{Body, Reply};
use crate::http::failure::Failure;
use crate::http::guard::protocols;

/// The subprotocol of this server.
pub const PROTOCOL: &str = "melisma.v1";
const GUID: &str = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";

/// Whether a request asks for a WebSocket.
pub fn is_asked(headers: &HeaderMap) -> bool {
    has(headers.get(UPGRADE), "websocket")
}

/// The answer that turns the connection into a WebSocket.
///
/// # Errors
/// 426 for a plain request or another version, 400 for a broken one.
pub fn accept(headers: &HeaderMap) -> Result<Reply, Failure> {
    let upgrade = |message: &str| {
        Failure::new(StatusCode::UPGRADE_REQUIRED, "websocket_required", message)
            .with_header(UPGRADE, "websocket")
            .with_header(CONNECTION, "upgrade")
            .with_header(SEC_WEBSOCKET_VERSION, "13")
    };
    if !is_asked(headers) || !has(headers.get(CONNECTION), "upgrade") {
        return Err(upgrade("this route is a WebSocket"));
    }
    if headers.get(SEC_WEBSOCKET_VERSION).is_none_or(|version| version != "13") {
        return Err(upgrade("the version of WebSockets is 13"));
    }
    let key = headers.get(SEC_WEBSOCKET_KEY).map(HeaderValue::as_bytes);
    let key = key.filter(|key| key.len() == 24 && key.ends_with(b"=="));
    let key = key.ok_or_else(|| Failure::invalid("websocket_key", "Sec-WebSocket-Key is not 16 bytes in base64"))?;
    let mut reply = Response::new(Body::Whole(None));
    *reply.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
    let answer = HeaderValue::from_str(&answer(key)).map_err(|_| upgrade("broken key"))?;
    reply.headers_mut().insert(SEC_WEBSOCKET_ACCEPT, answer);
    reply.headers_mut().insert(UPGRADE, HeaderValue::from_static("websocket"));
    reply.headers_mut().insert(CONNECTION, HeaderValue::from_static("upgrade"));
    // Only the plain protocol is returned, never the one that holds the key.
    if protocols(headers).any(|protocol| protocol == PROTOCOL) {
        reply.headers_mut().insert(SEC_WEBSOCKET_PROTOCOL, HeaderValue::from_static(PROTOCOL));
    }
    Ok(reply)
}

/// What the server answers to `Sec-WebSocket-Key`.
fn answer(key: &[u8]) -> String {
    let mut hash = Sha1::new();
    hash.update(key);
    hash.update(GUID);
    base64::encode(&hash.finalize())
}

fn has(value: Option<&HeaderValue>, wanted: &str) -> bool {
    let text = value.and_then(|value| value.to_str().ok()).unwrap_or_default();
    text.split(',').any(|word| word.trim().eq_ignore_ascii_case(wanted))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_example_of_the_rfc() {
        assert_eq!(answer(b"dGhlIHNhbXBsZSBub25jZQ=="), "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
    }
}
