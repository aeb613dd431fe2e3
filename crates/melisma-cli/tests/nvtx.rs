//! `MELISMA_NVTX=1` emits a range per span: seen through the host shim's NVTX library, which `cargo xtask check shim`
//! puts on the loader's path.

use std::process::Command;

#[test]
fn ranges_are_emitted_and_closed() {
    if std::env::var_os("MELISMA_SHIM").is_none() {
        return println!("SKIPPED: no host shim");
    }
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("ranges");
    let status = Command::new(env!("CARGO_BIN_EXE_melisma"))
        .args(["-q", "--device", "cuda", "demo", "-o"])
        .arg(folder.path().join("demo"))
        .env("MELISMA_NVTX", "1")
        .env("MELISMA_SHIM_NVTX", &log)
        .status()
        .unwrap();
    assert!(status.success());
    let ranges = std::fs::read_to_string(&log).unwrap();
    let count = |line: &str| ranges.lines().filter(|range| *range == line).count();
    assert!(count("push matmul") >= 1 && count("push convert") >= 2, "{ranges}");
    assert_eq!(ranges.lines().filter(|range| range.starts_with("push ")).count(), count("pop"));
}
