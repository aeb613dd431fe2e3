//! Many texts in one batch: the lines of a file, to a folder of audio or to a corpus of tokens.

mod corpus;
mod folder;
mod job;
mod line;
#[cfg(test)]
mod tests;

pub use corpus::Corpus;
pub use job::{Event, Job, Spoken};
pub use line::{Line, List};
