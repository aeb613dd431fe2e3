//! Values between the steps of a program.

use ::rten::Value;

use super::NAME;
use crate::{Error, Result};

/// Values by number.
#[derive(Debug)]
pub(super) struct Slots(Vec<Option<Value>>);

impl Slots {
    pub(super) fn new(n_slots: usize) -> Self {
        Self((0..n_slots).map(|_| None).collect())
    }

    pub(super) fn get(&self, slot: usize) -> Result<&Value> {
        self.0.get(slot).and_then(Option::as_ref).ok_or_else(missing)
    }

    pub(super) fn take(&mut self, slot: usize) -> Result<Value> {
        self.clear(slot).ok_or_else(missing)
    }

    /// Returns the value of `outputs[at]`, copied only if a later output is the same slot.
    pub(super) fn output(&mut self, outputs: &[usize], at: usize) -> Result<Value> {
        if outputs[at + 1..].contains(&outputs[at]) {
            Ok(self.get(outputs[at])?.as_view().to_owned())
        } else {
            self.take(outputs[at])
        }
    }

    /// Takes the value out, if there is one.
    pub(super) fn clear(&mut self, slot: usize) -> Option<Value> {
        self.0.get_mut(slot).and_then(Option::take)
    }

    pub(super) fn clear_all(&mut self) {
        self.0.iter_mut().for_each(|value| *value = None);
    }

    pub(super) fn set(&mut self, slot: usize, value: Value) {
        if let Some(place) = self.0.get_mut(slot) {
            *place = Some(value);
        }
    }
}

fn missing() -> Error {
    Error::invalid(format!("{NAME}: a value that was not computed is read"))
}
