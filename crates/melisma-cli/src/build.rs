//! What this program was built from.

use std::sync::LazyLock;

use melisma_server::BuildInfo;

/// Version, commit and features, for `--version`.
pub static TEXT: LazyLock<String> = LazyLock::new(|| info().text());

/// Returns the version, the features, and the commit that the build script found.
pub fn info() -> BuildInfo {
    BuildInfo::new(option_env!("MELISMA_COMMIT"))
}
