//! Every public function of the rooms with every combination of edge values: an error or a result,
//! never a panic or a huge allocation. [`coverage`] notices a function without a call here.
//!
//! A program of its own, because it limits the memory of its process.
#![allow(missing_docs, clippy::unwrap_used, reason = "a failed expectation is the test's own message")]

use std::panic::{AssertUnwindSafe, catch_unwind};

mod audio;
mod coverage;
mod data;
#[cfg(feature = "onnx")]
mod model;
#[cfg(feature = "speak")]
mod speak;
mod synth;

const RATES: [u32; 8] = [0, 1, 2, 7_999, 8_000, 48_000, 192_001, u32::MAX];
const COUNTS: [usize; 6] = [0, 1, 2, 1 << 40, usize::MAX / 2, usize::MAX];
const PLACES: [u64; 6] = [0, 1, 2, 1 << 40, u64::MAX / 2, u64::MAX];
const FLOATS: [f64; 11] = [0.0, -0.0, 1.0, -1.0, 0.5, 1e-310, 1e12, 1e300, f64::INFINITY, f64::NEG_INFINITY, f64::NAN];
const SHORT: [&[f32]; 4] = [&[], &[0.5], &[f32::NAN, f32::INFINITY, -1e38], &[0.1; 70]];

/// The name of a field, and what sets it.
type Change<T, N> = (&'static str, fn(&mut T, N));

fn float(value: f64) -> f32 {
    value as f32
}

/// The calls of one test, and those of them that panicked.
#[derive(Default)]
struct Calls {
    n: usize,
    panicked: Vec<String>,
}

impl Calls {
    /// Makes a call; whatever it returns is fine.
    fn call<T>(&mut self, name: impl FnOnce() -> String, call: impl FnOnce() -> T) {
        self.n += 1;
        if catch_unwind(AssertUnwindSafe(|| drop(call()))).is_err() {
            self.panicked.push(name());
        }
    }

    fn end(self, least: usize) {
        assert!(self.panicked.is_empty(), "{} of {}: {:#?}", self.panicked.len(), self.n, self.panicked);
        assert!(self.n >= least, "only {} calls", self.n);
    }
}

/// Calls the last part with all combinations of values, each from its list.
macro_rules! each {
    ($calls:expr, $name:literal, $a:pat_param in $from_a:expr => $call:expr) => {
        for a in $from_a {
            let show = format!("{a:?}");
            $calls.call(
                || format!("{}({show})", $name),
                || {
                    let $a = a;
                    $call
                },
            );
        }
    };
    ($calls:expr, $name:literal, $a:pat_param in $from_a:expr, $b:pat_param in $from_b:expr => $call:expr) => {
        for a in $from_a {
            for b in $from_b {
                each!($calls, $name, ($a, $b) in [(a.clone(), b.clone())] => $call);
            }
        }
    };
    ($calls:expr, $name:literal, $a:pat_param in $from_a:expr, $b:pat_param in $from_b:expr, $c:pat_param in $from_c:expr => $call:expr) => {
        for a in $from_a {
            for b in $from_b {
                for c in $from_c {
                    each!($calls, $name, ($a, $b, $c) in [(a.clone(), b.clone(), c.clone())] => $call);
                }
            }
        }
    };
}
use each;

/// A huge allocation fails instead of taking the machine's memory, and aborts the test.
fn limit() {
    melisma::runtime::machine::limit_memory(6 << 30).unwrap();
}
