//! What all rooms share: settings and profiles, memory, precision, trace, output files and the machine itself.

pub mod config;
mod count;
pub mod device;
pub mod duration;
pub mod machine;
pub mod memory;
pub mod output;
pub(crate) mod policy;
pub mod precision;
pub(crate) mod profile;
mod request;
mod self_check;
pub mod size;
pub mod table;
pub mod trace;
pub(crate) mod word;

pub use config::Config;
pub use count::count;
pub use memory::MemoryTracker;
pub use policy::{Chunking, Placement, Policy, TensorRt};
pub use precision::Precision;
pub use profile::Profile;
pub use request::DeviceRequest;
pub use self_check::SelfCheck;
