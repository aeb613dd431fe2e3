//! Failures of the upstream as clients see them. The upstream's own message goes to the log only.

use std::time::Duration;

use hyper::StatusCode;

use crate::http::failure::Failure;

fn bad(code: &'static str, message: impl Into<String>) -> Failure {
    Failure::new(StatusCode::BAD_GATEWAY, code, message)
}

/// The address does not answer.
pub(super) fn unreachable(why: impl ToString) -> Failure {
    bad("upstream_unreachable", "the voice model cannot be reached").with_detail(why.to_string())
}

/// The certificate is not trusted, or the other side does not speak TLS.
pub(super) fn tls(why: impl ToString) -> Failure {
    bad("upstream_tls", "the connection to the voice model cannot be trusted").with_detail(why.to_string())
}

/// It points elsewhere.
pub(super) fn redirect(status: StatusCode) -> Failure {
    bad("upstream_redirect", format!("the voice model answered with the redirect {}", status.as_u16()))
}

/// Returns any other status than 200.
pub(super) fn status(status: StatusCode) -> Failure {
    match status {
        StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE => {
            Failure::busy("upstream_busy", "the voice model takes no further request now")
        }
        _ => bad("upstream_status", format!("the voice model answered with the status {}", status.as_u16())),
    }
}

/// Returns an error message within the stream, or a completion that did not end as it should.
pub(super) fn failed(why: impl ToString) -> Failure {
    bad("upstream_status", "the voice model reported an error").with_detail(why.to_string())
}

/// No token for too long, or not done in time.
pub(super) fn slow(limit: Duration) -> Failure {
    let message = format!("the voice model took longer than {} s", limit.as_secs_f64());
    Failure::new(StatusCode::GATEWAY_TIMEOUT, "upstream_slow", message)
}

/// Returns the stream ended before its end.
pub(super) fn broken() -> Failure {
    bad("upstream_broken", "the voice model broke off")
}

/// Returns the bytes that are not a stream of completions.
pub(crate) fn garbage(what: &str) -> Failure {
    bad("upstream_garbage", format!("the voice model's answer is not a stream of completions: {what}"))
}

/// Text without audio tokens.
pub(crate) fn no_audio() -> Failure {
    bad("upstream_no_audio", "the voice model answered without audio tokens")
}

/// More tokens than a piece of text may have.
pub(crate) fn endless(max_tokens: u64) -> Failure {
    bad("upstream_endless", format!("the voice model did not end within {max_tokens} tokens"))
}

/// Returns the upstream ended a piece because of its length; its own limit may be lower than `max_tokens`.
pub(super) fn cut_short(max_tokens: u64) -> Failure {
    let message = format!("the voice model reached its limit of tokens, at most {max_tokens}, before its end");
    bad("upstream_endless", message)
}

/// Returns the same audio over and over.
pub(crate) fn repeats(seconds: f64) -> Failure {
    bad("upstream_repeats", format!("the voice model repeated itself for {seconds} s"))
}
