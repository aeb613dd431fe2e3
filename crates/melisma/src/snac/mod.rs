//! SNAC.

pub mod checkpoint;
