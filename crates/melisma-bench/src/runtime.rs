//! The room `runtime`: products, conversions and copies beside the machine's own ceilings, numpy
//! and PyTorch.

mod cpu;
mod cuda;

use melisma::Result;
use melisma::random::Lcg32;
use melisma::runtime::device::Device;

use super::peer::figures;
use super::{BenchContext, Peer, Room, Row};

const PEERS: &str = include_str!("../peers/runtime.py");
const CPU_PARTS: &[&[&str]] = &[&["numpy", "1"], &["numpy", "2"], &["torch", "1"], &["torch", "2"]];
const CUDA_PARTS: &[&[&str]] = &[&["cuda"]];

/// Measures our rows between two runs of the peers; the better of a peer's two medians is reported.
pub(super) fn rows(context: BenchContext<'_>) -> Result<Vec<Row>> {
    let (parts, measured): (_, Room) = match context.device {
        Device::Cpu(_) => (CPU_PARTS, cpu::rows),
        Device::Cuda(_) => (CUDA_PARTS, cuda::rows),
    };
    let before = figures("numpy and PyTorch", PEERS, parts);
    let mut rows = measured(context)?;
    let after = figures("numpy and PyTorch", PEERS, parts);
    for row in &mut rows {
        let is_time = super::better(&row.unit)? == super::Better::Smaller;
        for (name, &first) in before.get(&row.name).into_iter().flatten() {
            let second = after.get(&row.name).and_then(|peers| peers.get(name)).copied().unwrap_or(first);
            let median = if is_time { first.min(second) } else { first.max(second) };
            row.peers.push(Peer { name: name.clone(), median });
        }
    }
    Ok(rows)
}

/// Returns numbers between -0.5 and 0.5, the same on every machine.
fn noise(len: usize) -> Vec<f32> {
    let mut random = Lcg32::new(1);
    (0..len).map(|_| random.unit() - 0.5).collect()
}
