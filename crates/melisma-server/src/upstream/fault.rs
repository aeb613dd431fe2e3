//! Failures of the upstream as clients see them. The upstream's own message goes to the log only.

use std::time::Duration;

use hyper::StatusCode;

use crate::http::failure::Failure;

fn bad(code: &'static str, message: impl Into<String>) -> Failure {
    Failure::new(StatusCode::BAD_GATEWAY, code, message)
}

/// Returns the failure of an address that does not answer.
pub(super) fn unreachable(why: impl ToString) -> Failure {
    bad("upstream_unreachable", "the voice model cannot be reached").with_detail(why.to_string())
}

/// Returns the failure of a certificate that is not trusted, or of a peer that does not speak TLS.
pub(super) fn tls(why: impl ToString) -> Failure {
    bad("upstream_tls", "the connection to the voice model cannot be trusted").with_detail(why.to_string())
}

/// Returns the failure of an address that points elsewhere.
pub(super) fn redirect(status: StatusCode) -> Failure {
    bad("upstream_redirect", format!("the voice model answered with the redirect {}", status.as_u16()))
}

/// Returns the failure of any other status than 200.
pub(super) fn status(status: StatusCode) -> Failure {
    match status {
        StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE => {
            Failure::busy("upstream_busy", "the voice model takes no further request now")
        }
        _ => bad("upstream_status", format!("the voice model answered with the status {}", status.as_u16())),
    }
}

/// Returns the failure of an error message within the stream, or of a completion that did not end
/// as it should.
pub(super) fn failed(why: impl ToString) -> Failure {
    bad("upstream_status", "the voice model reported an error").with_detail(why.to_string())
}

/// Returns the failure of an answer without a token for too long, or not done in time.
pub(super) fn slow(limit: Duration) -> Failure {
    let message = format!("the voice model took longer than {} s", limit.as_secs_f64());
    Failure::new(StatusCode::GATEWAY_TIMEOUT, "upstream_slow", message)
}

/// Returns the failure of a stream that broke off.
pub(super) fn broken() -> Failure {
    bad("upstream_broken", "the voice model broke off")
}

/// Returns the failure of an answer that is not a stream of completions.
pub(crate) fn garbage(what: &str) -> Failure {
    bad("upstream_garbage", format!("the voice model's answer is not a stream of completions: {what}"))
}

/// Returns the failure of text without audio tokens.
pub(crate) fn no_audio() -> Failure {
    bad("upstream_no_audio", "the voice model answered without audio tokens")
}

/// Returns the failure of an answer with more tokens than a piece of text may have.
pub(crate) fn endless(max_tokens: u64) -> Failure {
    bad("upstream_endless", format!("the voice model did not end within {max_tokens} tokens"))
}

/// Returns the failure of a piece that the upstream ended because of its length; its own limit may
/// be lower than `max_tokens`.
pub(super) fn cut_short(max_tokens: u64) -> Failure {
    let message = format!("the voice model reached its limit of tokens, at most {max_tokens}, before its end");
    bad("upstream_endless", message)
}

/// Returns the failure of an answer that repeats the same audio.
pub(crate) fn repeats(seconds: f64) -> Failure {
    bad("upstream_repeats", format!("the voice model repeated itself for {seconds} s"))
}
