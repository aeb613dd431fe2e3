//! The machine and its devices: what is there, which device a command uses, and the memory that it holds.

pub mod device;
pub mod machine;
pub mod memory;
mod self_check;

pub use memory::MemoryTracker;
pub use self_check::SelfCheck;
