//! Errors as OpenAI's clients expect them: a status and `{"error": {message, type, code, param}}`.

use hyper::header::{CONNECTION, CONTENT_TYPE, HeaderName, HeaderValue, RETRY_AFTER};
use hyper::{Response, StatusCode};
use melisma::{Error, ErrorKind};
use serde_json::{Value, json};

use super::body::{Body, Reply};

/// Seconds after which a refused client may try again.
const RETRY_SECONDS: u64 = 1;

/// The error response of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// The status of the answer.
    pub status: StatusCode,
    code: &'static str,
    message: String,
    param: Option<String>,
    headers: Vec<(HeaderName, &'static str)>,
    should_retry: bool,
    detail: Option<String>,
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
            should_retry: false,
            detail: None,
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

    /// Returns the code for programs.
    pub fn code(&self) -> &'static str {
        self.code
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

    /// Creates a failure with status 503 that asks the client to retry.
    pub fn busy(code: &'static str, message: impl Into<String>) -> Self {
        Self { should_retry: true, ..Self::new(StatusCode::SERVICE_UNAVAILABLE, code, message) }
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
        if self.should_retry {
            headers.insert(RETRY_AFTER, HeaderValue::from(RETRY_SECONDS));
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
            _ => Self::new(StatusCode::INTERNAL_SERVER_ERROR, "internal", message),
        }
    }
}
