//! Profiling: one collector of `tracing` spans feeds a Chrome/Perfetto file and a table.
//!
//! ```
//! use melisma::trace::{Collector, Sort};
//! use tracing_subscriber::layer::SubscriberExt;
//!
//! let collector = Collector::new();
//! let subscriber = tracing_subscriber::registry().with(collector.clone());
//! tracing::subscriber::with_default(subscriber, || {
//!     let _span = tracing::info_span!("matmul", shape = "64x64", bytes = 49152u64).entered();
//! });
//! println!("{}", collector.report().text(Sort::Total, 20));
//! ```
//!
//! A call is one entry and exit of a span. Self time is the call's time without that of the spans
//! entered inside it on the same thread. The same applies to allocated memory, which is what
//! [`Budget`](crate::runtime::memory::Budget)s granted.
//!
//! Spans go to `tracing` in every build; the collector is behind the feature `trace`, which is on by default.

// Not tracing-chrome: one collector feeds both the JSON and the table, with device times and bytes
// attached, so the two cannot disagree.

mod busy;
mod caller;
#[cfg(feature = "trace")]
mod chrome;
#[cfg(feature = "trace")]
mod collector;
#[cfg(feature = "trace")]
mod histogram;
mod nvtx;
#[cfg(feature = "trace")]
mod report;
#[cfg(feature = "trace")]
mod span;
#[cfg(feature = "trace")]
mod turn;

#[doc(hidden)]
pub use busy::Busy;
#[doc(hidden)]
pub use caller::CallerSpan;
#[cfg(feature = "trace")]
pub use collector::Collector;
#[doc(hidden)]
pub use melisma_kernels::DeviceSpan;
pub use melisma_kernels::device::cuda::Detail;
pub use nvtx::Nvtx;
#[cfg(feature = "trace")]
pub use report::{Load, Report, Row};

use crate::text::word::words;

/// Receives nested ranges as they happen, e.g. for NVTX.
pub trait RangeSink: Send + Sync {
    /// Enters a span on this thread.
    fn push(&self, name: &str);
    /// Leaves the span entered last on this thread.
    fn pop(&self);
}

/// The column to sort the table by; numbers sort largest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Sort {
    /// Time excluding inner spans.
    SelfTime,
    /// Total time.
    Total,
    /// Number of calls.
    Calls,
    /// The name, alphabetically.
    Name,
    /// The 99th percentile.
    P99,
    /// Time on the device.
    Device,
    /// Bytes moved.
    Bytes,
    /// Bytes allocated.
    Allocated,
}

words!(
    Sort,
    "column",
    {
        SelfTime => "self",
        Total => "total",
        Calls => "calls",
        Name => "name",
        P99 => "p99",
        Device => "device",
        Bytes => "bytes",
        Allocated => "allocated",
    }
);

#[cfg(test)]
#[cfg(feature = "trace")]
mod tests;
