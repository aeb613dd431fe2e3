//! Values that belong to one process.

use std::ops::Deref;

use melisma::Error;
use pyo3::prelude::*;

use crate::error::raise;

/// A value that only the process that made it can use: a fork copies its memory but not its threads.
pub struct Local<T> {
    /// `Some` until it is dropped.
    value: Option<T>,
    process: u32,
}

impl<T> Local<T> {
    pub fn new(value: T) -> Self {
        Self { value: Some(value), process: std::process::id() }
    }

    pub fn is_here(&self) -> bool {
        self.process == std::process::id()
    }

    /// Returns the value, if it was made in this process.
    pub fn take(mut self) -> Option<T> {
        if self.is_here() { self.value.take() } else { None }
    }

    /// Returns the value.
    ///
    /// # Errors
    /// The value was made before a fork.
    pub fn get(&self) -> PyResult<&T> {
        match &self.value {
            Some(value) if self.is_here() => Ok(value),
            _ => Err(raise(
                Error::unsupported("this object was made before a fork, and its threads are in the other process")
                    .with_hint("make one in each process, or start processes with the method \"spawn\""),
            )),
        }
    }
}

impl<T> Drop for Local<T> {
    fn drop(&mut self) {
        if !self.is_here() {
            // Dropping it would wait for threads that this process does not have.
            std::mem::forget(self.value.take());
        }
    }
}

/// A local value that several objects share.
pub struct Shared<T>(std::sync::Arc<Local<T>>);

impl<T> Shared<T> {
    pub fn new(value: T) -> Self {
        Self(std::sync::Arc::new(Local::new(value)))
    }
}

impl<T> Clone for Shared<T> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<T> Deref for Shared<T> {
    type Target = Local<T>;

    fn deref(&self) -> &Local<T> {
        &self.0
    }
}
