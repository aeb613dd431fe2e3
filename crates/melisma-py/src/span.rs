//! `span`: the caller's own spans in a trace.

use std::thread::{self, ThreadId};

use melisma::Error;
use melisma::lock::Mutex;
use melisma::trace::CallerSpan;
use pyo3::prelude::*;
use pyo3::types::PyTuple;

use crate::error::raise;

/// A span of the caller, for `with`, in the table and the timeline of `melisma.trace`. Outside of a trace it costs
/// next to nothing.
///
/// Args:
///     name: Its name in the table.
#[pyclass(name = "Span", module = "melisma", frozen)]
pub struct PySpan {
    name: String,
    open: Mutex<Option<(ThreadId, CallerSpan)>>,
}

#[pymethods]
impl PySpan {
    #[new]
    fn new(name: String) -> PyResult<Self> {
        if name.is_empty() {
            return Err(raise(Error::invalid("a span needs a name")));
        }
        Ok(Self { name, open: Mutex::new(None) })
    }

    fn __enter__(this: Bound<'_, Self>) -> PyResult<Bound<'_, Self>> {
        let span = this.get();
        let mut open = span.open.lock();
        if open.is_some() {
            let error = Error::invalid(format!("the span `{}` is open already", span.name));
            return Err(raise(error.with_hint("make one for each `with`")));
        }
        *open = Some((thread::current().id(), CallerSpan::enter(&span.name)));
        drop(open);
        Ok(this)
    }

    #[pyo3(signature = (*_raised))]
    fn __exit__(&self, _raised: &Bound<'_, PyTuple>) -> PyResult<()> {
        let mut open = self.open.lock();
        match open.take() {
            None => Err(raise(Error::invalid(format!("the span `{}` is not open", self.name)))),
            Some((owner, span)) if owner == thread::current().id() => {
                span.leave();
                Ok(())
            }
            elsewhere => {
                *open = elsewhere;
                let error = Error::invalid(format!("the span `{}` was opened on another thread", self.name));
                Err(raise(error.with_hint("close it there")))
            }
        }
    }
}
