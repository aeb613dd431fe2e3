//! The test files that use CUDA, found by the names of their tests, so that a new one needs no
//! entry in a list.

use crate::tree;
use anyhow::{Context, Result};
use std::fs;

/// Packages whose test files are searched, besides the kernels' suites.
pub const PACKAGES: &[&str] = &["melisma", "melisma-cli"];
/// Part of the names of GPU tests.
pub const NAME: &str = "cuda";

/// The names of the test files of `package` that use CUDA.
pub fn files(package: &str) -> Result<Vec<String>> {
    let folder = tree::root().join("crates").join(package).join("tests");
    let mut names = Vec::new();
    for entry in fs::read_dir(&folder).with_context(|| tree::shown(&folder))? {
        let path = entry.with_context(|| tree::shown(&folder))?.path();
        if path.extension().is_some_and(|suffix| suffix == "rs") {
            let text = fs::read_to_string(&path).with_context(|| tree::shown(&path))?;
            if has_test(&text) {
                names.extend(path.file_stem().map(|stem| stem.to_string_lossy().into_owned()));
            }
        }
    }
    names.sort();
    Ok(names)
}

/// Whether the text has a test with [`NAME`] in its name that is not ignored.
fn has_test(text: &str) -> bool {
    let name = |rest: &str| rest.split('(').next().is_some_and(|name| name.contains(NAME));
    let mut is_test = false;
    text.lines().map(str::trim_start).any(|line| {
        let found = is_test && line.strip_prefix("fn ").is_some_and(name);
        let goes_on = is_test && line.starts_with("#[") && !line.starts_with("#[ignore");
        is_test = line.starts_with("#[test]") || goes_on;
        found
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn test_files_are_found_by_the_names_of_their_tests() {
        let found = files("melisma").unwrap();
        for name in ["dataset_techniques", "mel_golden", "nvtx", "pack", "snac_engine_cuda", "synth_render"] {
            assert!(found.iter().any(|found| found == name), "{name} in {found:?}");
        }
        assert!(!found.iter().any(|found| found == "snac_golden"), "{found:?}");
    }

    #[test]
    fn a_test_has_the_attribute_and_the_name() {
        assert!(has_test("#[test]\n#[expect(clippy::panic)]\nfn loads_on_cuda() {"));
        assert!(!has_test("#[test]\n#[ignore = \"extended\"]\nfn loads_on_cuda() {"));
        assert!(has_test("mod a {\n    #[test]\n    fn on_cuda_it_works() {"));
        assert!(!has_test("fn on_cuda() {"));
        assert!(!has_test("#[test]\nfn loads() {\n    on_cuda();"));
    }
}
