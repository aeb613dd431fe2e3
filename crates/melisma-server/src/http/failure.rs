//! Errors as OpenAI's clients expect them: a status and `{"error": {message, type, code, param}}`.

use std::time::Duration;

use hyper::header::{CONNECTION, CONTENT_TYPE, HeaderName, HeaderValue, RETRY_AFTER, WWW_AUTHENTICATE};
use hyper::{Response, StatusCode};
use melisma::{Error, ErrorKind};
use serde_json::{Value, json};

use super::body::{Body, Reply};

/// The longest `Retry-After`: OpenAI's clients ignore a longer one.
const MAX_RETRY_S: u64 = 60;

/// The error response of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// The status of the answer.
    pub status: StatusCode,
    code: &'static str,
    message: String,
    param: Option<String>,
    headers: Vec<(HeaderName, &'static str)>,
    /// Seconds after which a refused client may try again.
    retry_after_s: Option<u8>,
    detail: Option<String>,
    /// Whether the message quotes the client's text, which no log has.
    quotes_text: bool,
}

impl Failure {
    /// Creates a failure with a code for programs and a message for people.
    pub fn new(status: StatusCode, code: &'static str, message: impl Into<String>) -> Self {
        Self {
            status,
            code,
            message: message.into(),
            param: None,
            headers: Vec::new(),
            retry_after_s: None,
            detail: None,
            quotes_text: false,
        }
    }

    /// Creates a failure with status 400.
    pub fn invalid(code: &'static str, message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, code, message)
    }

    /// Creates a failure with status 400 about the parameter `param`.
    pub fn parameter(param: &str, message: impl Into<String>) -> Self {
        Self::invalid("invalid_parameter", message).about(param)
    }

    /// Names the parameter that is wrong, if it has a name.
    pub fn about(self, param: &str) -> Self {
        Self { param: (!param.is_empty()).then(|| param.to_owned()), ..self }
    }

    /// Adds a detail for the server's log only.
    pub fn with_detail(self, detail: impl Into<String>) -> Self {
        Self { detail: Some(detail.into()), ..self }
    }

    /// Keeps the message, which quotes the client's text, out of the log.
    pub fn quoting_text(self) -> Self {
        Self { quotes_text: true, ..self }
    }

    /// Returns the message for the log.
    pub fn log_message(&self) -> &str {
        if self.quotes_text { "the text cannot be spoken" } else { &self.message }
    }

    /// Returns the code for programs.
    pub fn code(&self) -> &'static str {
        self.code
    }

    /// Returns the message for people.
    pub fn message(&self) -> &str {
        &self.message
    }

    /// Returns the detail for the server's log.
    pub fn detail(&self) -> Option<&str> {
        self.detail.as_deref()
    }

    /// Creates a failure with status 413.
    pub fn too_large(what: &str, limit: usize) -> Self {
        let message = format!("{what} is larger than {limit} bytes");
        Self::new(StatusCode::PAYLOAD_TOO_LARGE, "too_large", message).and_close()
    }

    /// Creates a failure with status 401.
    pub fn unauthorized(code: &'static str, message: impl Into<String>) -> Self {
        let failure = Self::new(StatusCode::UNAUTHORIZED, code, message);
        failure.with_header(WWW_AUTHENTICATE, "Bearer").and_close()
    }

    /// Creates a failure with status 503 that asks the client to retry.
    pub fn busy(code: &'static str, message: impl Into<String>) -> Self {
        Self::new(StatusCode::SERVICE_UNAVAILABLE, code, message).retry_after(Duration::from_secs(1))
    }

    /// Asks the client to retry after `wait`, rounded up to 1 to 60 seconds.
    pub fn retry_after(self, wait: Duration) -> Self {
        let seconds = wait.as_secs() + u64::from(wait.subsec_nanos() > 0);
        Self { retry_after_s: Some(seconds.clamp(1, MAX_RETRY_S) as u8), ..self }
    }

    /// Adds a header to the answer.
    pub fn with_header(mut self, name: HeaderName, value: &'static str) -> Self {
        self.headers.push((name, value));
        self
    }

    /// Closes the connection after the answer, because the rest of the request is not read.
    pub fn and_close(self) -> Self {
        self.with_header(CONNECTION, "close")
    }

    /// Returns the object that clients read.
    pub fn json(&self) -> Value {
        let kind = match self.status.as_u16() {
            401 => "authentication_error",
            403 => "permission_error",
            404 => "not_found_error",
            429 => "rate_limit_error",
            500.. => "server_error",
            _ => "invalid_request_error",
        };
        json!({"error": {"message": self.message, "type": kind, "code": self.code, "param": self.param}})
    }

    /// Returns the answer.
    pub fn reply(&self) -> Reply {
        let mut reply = Response::new(Body::from(self.json().to_string()));
        *reply.status_mut() = self.status;
        let headers = reply.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        for (name, value) in &self.headers {
            headers.insert(name.clone(), HeaderValue::from_static(value));
        }
        if let Some(seconds) = self.retry_after_s {
            headers.insert(RETRY_AFTER, HeaderValue::from(u16::from(seconds)));
        }
        reply
    }
}

/// Returns the message of an error with its hint.
pub fn with_hint(error: &Error) -> String {
    error.hint().map_or_else(|| error.to_string(), |hint| format!("{error}; {hint}"))
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        let message = with_hint(&error);
        match error.kind() {
            ErrorKind::InvalidArgument => Self::invalid("invalid_value", message),
            ErrorKind::Unsupported => Self::invalid("unsupported", message),
            ErrorKind::Corrupt | ErrorKind::Truncated | ErrorKind::Version => Self::invalid("invalid_content", message),
            ErrorKind::Memory => Self::busy("memory", message),
            ErrorKind::Device => Self::new(StatusCode::INTERNAL_SERVER_ERROR, "device", message),
            _ => Self::new(StatusCode::INTERNAL_SERVER_ERROR, "internal", message),
        }
    }
}
