//! The built-in voice as a user has it, on all threads of the machine: text to audio, a process of its own, and several
//! listeners.

use std::ffi::OsStr;
use std::sync::Arc;

use melisma::Result;
use melisma::runtime::device::available_threads;
use melisma::speak::{BUILTIN, Delivery, Pace, Speaker, has_builtin};
use melisma_kernels::Device;

use super::voice::{LONG_RUNS, N_SENTENCES, SENTENCE, SHORT_RUNS, TEXT, to_audio};
use super::{BenchContext, Row, listener};
use crate::first_call;

/// Measures nothing on a GPU, nor in a program without the voice.
pub(super) fn rows(context: BenchContext<'_>) -> Result<Vec<Row>> {
    if !has_builtin() || matches!(context.device, Device::Cuda(_)) {
        return Ok(Vec::new());
    }
    let arguments = ["speak", TEXT, "-o", "-", "--device", "cpu", "--quiet"].map(OsStr::new);
    let mut rows = first_call::output_rows("speak/builtin, text in a fresh process", &arguments)?;
    let speaker = Arc::new(Speaker::open(BUILTIN)?);
    let (threads, long) = (available_threads(), SENTENCE.repeat(N_SENTENCES));
    let live = Delivery::from(speaker.format().settings());
    let whole = Delivery { pace: Pace::Whole, ..live.clone() };
    for (what, text, delivery, plan) in [
        ("text to audio", TEXT, &whole, SHORT_RUNS),
        ("8 pieces to audio", &long[..], &whole, LONG_RUNS),
        ("8 pieces to live audio", &long[..], &live, LONG_RUNS),
    ] {
        let name = format!("speak/builtin, {what} {threads}t");
        rows.push(to_audio(&speaker, &name, (text, delivery), plan)?.0);
    }
    rows.extend(listener::rows(&speaker, threads)?);
    Ok(rows)
}
