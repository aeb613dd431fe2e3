//! Golden files of the unit tests, and their GPU. The crate's `golden/` links to the repository's, so that a package has them too.

use std::path::{Path, PathBuf};

pub(crate) const VOCODER: &[u8] = include_bytes!("../golden/optimize/vocoder.onnx");
pub(crate) const CONTROL: &[u8] = include_bytes!("../golden/optimize/control.onnx");
/// The settings that the PyTorch pipeline reads.
pub(crate) const TENSOR_OPTIMIZATIONS: &str = include_str!("../golden/config/tensor_optimizations.yaml");

/// Returns the golden file of the room `optimize` called `name`.
pub(crate) fn optimize(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("golden/optimize").join(name)
}

/// Returns the first GPU; `None` without one, which with `REQUIRE_CUDA=1` is a failure.
pub(crate) fn cuda() -> Option<crate::Device> {
    match crate::Device::cuda(0) {
        Ok(device) => Some(device),
        Err(error) if std::env::var("REQUIRE_CUDA").is_ok_and(|value| value == "1") => panic!("{error}"),
        Err(error) => {
            skip(error);
            None
        }
    }
}

/// Says that the test that runs on this thread does not test: past the harness, which hides what a test
/// prints. `cargo xtask check` counts these lines.
pub(crate) fn skip(why: impl std::fmt::Display) {
    use std::io::Write;
    let (thread, why) = (std::thread::current(), why.to_string());
    let name = thread.name().unwrap_or("a test");
    let _ = writeln!(std::io::stdout(), "SKIPPED: {name}: {}", why.lines().next().unwrap_or_default());
}
