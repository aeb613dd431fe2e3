//! The GPU that tests of the CUDA side run on. Their names contain `cuda`, so that `cargo xtask check shim` and `cargo
//! xtask cuda` find them.
#![allow(dead_code, reason = "each test binary uses a part")]

use melisma_kernels::Device;

/// None where there is no GPU; with `REQUIRE_CUDA=1` that is a failure.
pub fn find() -> Option<Device> {
    match Device::cuda(0) {
        Ok(device) => Some(device),
        Err(error) if std::env::var("REQUIRE_CUDA").is_ok_and(|value| value == "1") => panic!("{error}"),
        Err(error) => {
            println!("SKIPPED: {error}");
            None
        }
    }
}

/// Whether the GPU is the host shim, which needs about a thousand times as long: `MELISMA_SHIM=1` asks for small cases,
/// `MELISMA_SHIM=long` for all.
pub fn wants_small_cases() -> bool {
    std::env::var("MELISMA_SHIM").is_ok_and(|value| value == "1")
}
