//! From an HTTP request to a WebSocket (RFC 6455, section 4.2).

use hyper::body::Body as HttpBody;
use hyper::header::{
    CONNECTION, HeaderValue, SEC_WEBSOCKET_ACCEPT, SEC_WEBSOCKET_KEY, SEC_WEBSOCKET_PROTOCOL, SEC_WEBSOCKET_VERSION,
    UPGRADE,
};
use hyper::{HeaderMap, Request, Response, StatusCode, Version};
use melisma::text::base64;
use sha1::{Digest, Sha1};

use crate::http::body::{Body, Reply};
use crate::http::failure::Failure;
use crate::http::guard::protocols;

/// The subprotocol of this server.
pub const PROTOCOL: &str = "melisma.v1";
const GUID: &str = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";

/// Returns whether a request asks for a WebSocket.
pub fn is_asked(headers: &HeaderMap) -> bool {
    has(headers.get(UPGRADE), "websocket")
}

/// Returns the answer that turns the connection into a WebSocket.
///
/// # Errors
/// 426 for a plain request or another version, 400 for a broken one.
pub fn accept(request: &Request<impl HttpBody>) -> Result<Reply, Failure> {
    let headers = request.headers();
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
    if request.version() != Version::HTTP_11 || !request.body().is_end_stream() {
        let message = "a WebSocket begins with a request of HTTP/1.1 without a body";
        return Err(Failure::invalid("websocket_handshake", message).and_close());
    }
    let mut keys = headers.get_all(SEC_WEBSOCKET_KEY).iter().map(HeaderValue::as_bytes);
    let key = keys.next().filter(|key| is_key(key) && keys.next().is_none());
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

/// Returns the answer to `Sec-WebSocket-Key`.
fn answer(key: &[u8]) -> String {
    let mut hash = Sha1::new();
    hash.update(key);
    hash.update(GUID);
    base64::encode(&hash.finalize())
}

/// Returns whether the text is that of 16 bytes.
fn is_key(text: &[u8]) -> bool {
    let is_digit = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/');
    text.strip_suffix(b"==").is_some_and(|digits| digits.len() == 22 && digits.iter().all(is_digit))
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

    #[test]
    fn a_handshake_is_one_in_every_part() {
        let request = |key: &str, body: &'static str| {
            let builder = Request::get("/").header("upgrade", "websocket").header("connection", "upgrade");
            let builder = builder.header("sec-websocket-version", "13").header("sec-websocket-key", key);
            builder.body(if body.is_empty() { Body::Whole(None) } else { Body::from(body) }).unwrap()
        };
        let key = "dGhlIHNhbXBsZSBub25jZQ==";
        let code = |request: Request<Body>| accept(&request).map_err(|failure| failure.code()).err();
        assert_eq!(code(request(key, "")), None);
        assert_eq!(code(request(key, "body")), Some("websocket_handshake"));
        let mut old = request(key, "");
        *old.version_mut() = Version::HTTP_10;
        assert_eq!(code(old), Some("websocket_handshake"));
        let mut twice = request(key, "");
        twice.headers_mut().append("sec-websocket-key", HeaderValue::from_static(key));
        assert_eq!(code(twice), Some("websocket_key"));
        for wrong in [
            "",
            "dGhlIHNhbXBsZSBub25jZQ",
            "dGhlIHNhbXBsZSBub25jZQ=",
            "dGhlIHNhbXBsZSBub25jZ===",
            "!!!!!!!!!!!!!!!!!!!!!!==",
        ] {
            assert_eq!(code(request(wrong, "")), Some("websocket_key"), "{wrong}");
        }
    }

    #[test]
    fn upgrade_is_one_word_among_others() {
        let mut headers = HeaderMap::new();
        headers.insert(UPGRADE, HeaderValue::from_static("h2c, WebSocket"));
        assert!(is_asked(&headers));
        // As Firefox sends it.
        headers.insert(CONNECTION, HeaderValue::from_static("keep-alive, Upgrade"));
        assert!(has(headers.get(CONNECTION), "upgrade"));
        assert!(!has(headers.get(CONNECTION), "grade") && !has(None, "upgrade"));
    }
}
