//! The command line of Melisma.
#![forbid(unsafe_code)]

fn main() {}
