//! Checks, golden files, benches and GPU packing.
fn main() {}
