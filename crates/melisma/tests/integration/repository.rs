//! Files of the repository that tests read.

use std::path::PathBuf;

/// The file or folder called `path` in the repository, or in the copy that `MELISMA_TEST_FILES` names.
pub fn path(path: &str) -> PathBuf {
    let root = std::env::var_os("MELISMA_TEST_FILES").map(PathBuf::from);
    root.unwrap_or_else(|| PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))).join(path)
}
