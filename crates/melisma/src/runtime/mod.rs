//! The machine and its devices: hardware facts, device selection and memory tracking.

pub mod device;
pub mod machine;
pub mod memory;
mod self_check;
pub mod thread;

pub use memory::MemoryTracker;
pub use self_check::SelfCheck;
