//! Our own engines, on our own kernels: [`chain`] for chains of one-dimensional convolutions, [`mixed`] for other graphs.

pub mod chain;
pub mod mixed;
