//! Passages of a text that a note names.

use std::fmt;

/// Passages that are named; the others are counted.
const MAX_NAMED: usize = 4;
/// Characters of a passage that are named.
const MAX_CHARS: usize = 24;

/// Passages of a text: their number, and the beginnings of the first different ones.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Passages {
    n: usize,
    named: Vec<String>,
}

impl Passages {
    /// Returns how many there are.
    pub fn len(&self) -> usize {
        self.n
    }

    /// Returns whether there are none.
    pub fn is_empty(&self) -> bool {
        self.n == 0
    }

    pub(super) fn append(&mut self, others: Self) {
        self.n += others.n;
        for name in others.named {
            if self.named.len() < MAX_NAMED && !self.named.contains(&name) {
                self.named.push(name);
            }
        }
    }

    pub(super) fn add(&mut self, passage: impl Iterator<Item = char>) {
        self.n += 1;
        if self.named.len() == MAX_NAMED {
            return;
        }
        let mut name: String = passage.take(MAX_CHARS + 1).collect();
        if let Some((end, _)) = name.char_indices().nth(MAX_CHARS) {
            name.truncate(end);
            name.push_str("...");
        }
        if !self.named.contains(&name) {
            self.named.push(name);
        }
    }
}

impl fmt::Display for Passages {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, name) in self.named.iter().enumerate() {
            write!(f, "{}`{name}`", if index == 0 { "" } else { ", " })?;
        }
        match self.n {
            n if n > self.named.len() => write!(f, " ({n} times in all)"),
            _ => Ok(()),
        }
    }
}
