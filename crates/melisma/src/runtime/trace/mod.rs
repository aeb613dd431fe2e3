//! Where the time goes: one collector of `tracing` spans that feeds a Chrome/Perfetto file and a table.
//!
//! ```
//! use melisma::runtime::trace::{Collector, Sort};
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
//! A call is one entering and leaving of a span. Self time is the call's time less that of the spans entered inside it
//! on the same thread, and so is the memory that it allocated: what [`Budget`](crate::runtime::memory::Budget)s granted.
//!
//! # Why our own layer instead of tracing-chrome?
//!
//! One collector feeds both the JSON and the table, with device times and bytes attached, so the
//! two cannot disagree.

mod busy;
mod chrome;
mod collector;
mod histogram;
mod nvtx;
mod report;
mod span;

use std::fmt;
use std::str::FromStr;

pub use busy::Busy;
pub use collector::Collector;
pub use melisma_kernels::DeviceSpan;
pub use melisma_kernels::device::cuda::Detail;
pub use nvtx::Nvtx;
pub use report::{Load, Report, Row};

use crate::{Error, Result};

/// Takes nested ranges as they happen, e.g. for NVTX.
pub trait RangeSink: Send + Sync {
    /// A span is entered on this thread.
    fn push(&self, name: &str);
    /// The span entered last on this thread is left.
    fn pop(&self);
}

/// The column that the table is sorted by; figures with the largest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Sort {
    /// Time outside of inner spans.
    SelfTime,
    /// All time.
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

impl Sort {
    /// All of them.
    pub const ALL: [Self; 8] =
        [Self::SelfTime, Self::Total, Self::Calls, Self::Name, Self::P99, Self::Device, Self::Bytes, Self::Allocated];

    /// As it is written on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::SelfTime => "self",
            Self::Total => "total",
            Self::Calls => "calls",
            Self::Name => "name",
            Self::P99 => "p99",
            Self::Device => "device",
            Self::Bytes => "bytes",
            Self::Allocated => "allocated",
        }
    }
}

impl fmt::Display for Sort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Sort {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        Self::ALL.into_iter().find(|sort| sort.name() == text).ok_or_else(|| {
            Error::invalid(format!("unknown column `{text}`"))
                .with_hint("use self, total, calls, name, p99, device, bytes or allocated")
        })
    }
}

#[cfg(test)]
mod tests;
