//! The GPU that tests of the CUDA side run on. Their names contain `cuda`, so that `cargo xtask check shim` and `cargo
//! xtask cuda` find them.

use melisma::{Budget, Device, Queue};

/// None where there is no GPU; with `REQUIRE_CUDA=1` that is a failure.
pub fn find() -> Option<Device> {
    match Device::cuda(0) {
        Ok(device) => Some(device),
        Err(error) if std::env::var("REQUIRE_CUDA").is_ok_and(|value| value == "1") => panic!("{error}"),
        Err(error) => {
            skip(error);
            None
        }
    }
}

/// A queue of the GPU.
pub fn queue() -> Option<Queue> {
    find().map(|device| device.queue(&Budget::unlimited()).unwrap())
}

/// Says that the test that runs on this thread does not test: past the harness, which hides what a test
/// prints. `cargo xtask check` counts these lines.
pub fn skip(why: impl std::fmt::Display) {
    use std::io::Write;
    let (thread, why) = (std::thread::current(), why.to_string());
    let name = thread.name().unwrap_or("a test");
    let _ = writeln!(std::io::stdout(), "SKIPPED: {name}: {}", why.lines().next().unwrap_or_default());
}

/// `few` cases on the host shim, which takes about a thousand times as long as a GPU, unless `MELISMA_SHIM=long` asks for
/// all of them.
pub fn cases<T>(few: T, all: T) -> T {
    if std::env::var("MELISMA_SHIM").is_ok_and(|value| value == "1") { few } else { all }
}
