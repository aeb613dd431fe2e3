//! NVTX ranges of a run on a device, seen through the host shim's NVTX library: `cargo xtask check shim` puts it on the
//! loader's path and names the file that it writes.

use melisma::runtime::SelfCheck;
use melisma::runtime::device::Device;
use melisma::runtime::memory::Budget;
use melisma::trace::{Collector, Nvtx};

use crate::{collect, gpu};

#[test]
fn ranges_are_emitted_and_closed_on_cuda() {
    let Some(log) = std::env::var_os("MELISMA_SHIM_NVTX") else { return gpu::skip("no host shim") };
    let collector = Collector::with_ranges(Box::new(Nvtx));
    collect(&collector, || {
        let budget = Budget::unlimited();
        let queue = Device::cuda(0).unwrap().queue(&budget).unwrap();
        SelfCheck::run(&queue, &budget).unwrap();
    });
    let ranges = std::fs::read_to_string(&log).unwrap();
    let count = |line: &str| ranges.lines().filter(|range| *range == line).count();
    assert!(count("push matmul") >= 1 && count("push convert") >= 2, "{ranges}");
    assert_eq!(ranges.lines().filter(|range| range.starts_with("push ")).count(), count("pop"));
}
