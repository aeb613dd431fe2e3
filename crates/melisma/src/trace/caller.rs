//! Spans that a caller of the library names at run time.

/// The target of these spans; their field `name` is what the table and the file show.
pub(super) const CALLER: &str = "melisma::trace::caller";

/// A span with the name of a caller's choice, in the same table and timeline as the library's own. Enter and leave it on
/// one thread.
#[derive(Debug)]
#[doc(hidden)]
pub struct CallerSpan(tracing::Span);

impl CallerSpan {
    /// Enters a span called `name`.
    pub fn enter(name: &str) -> Self {
        let span = tracing::info_span!(target: CALLER, "span", name);
        span.with_subscriber(|(id, dispatch)| dispatch.enter(id));
        Self(span)
    }

    /// Leaves it. A span that is dropped instead is reported as never closed.
    pub fn leave(self) {
        self.0.with_subscriber(|(id, dispatch)| dispatch.exit(id));
    }
}
