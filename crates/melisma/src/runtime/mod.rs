//! The machine and its devices: hardware facts, device selection and memory tracking.
//!
//! ```
//! use melisma::Context;
//! use melisma::config::Config;
//!
//! let context = Context::of(&Config::load_with_profile("field")?)?;
//! let buffer = context.memory().track("buffer", || context.budget().reserve(melisma::Space::Host, 4096))?;
//! println!("{}\n{}", context.device(), context.memory().summary());
//! # Ok::<(), melisma::Error>(())
//! ```

pub mod device;
pub mod machine;
pub mod memory;
mod self_check;
pub mod thread;

pub use memory::MemoryTracker;
pub use self_check::SelfCheck;
