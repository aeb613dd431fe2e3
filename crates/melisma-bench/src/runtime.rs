//! The room `runtime`: products, conversions and copies beside the machine's own ceilings, numpy
//! and PyTorch.

mod cpu;
mod cuda;

use std::collections::BTreeMap;

use super::{Peer, Place, Room, Row, peer};
use melisma::Result;
use melisma::random::Lcg32;
use melisma::runtime::device::Device;

const PEERS: &str = include_str!("../peers/runtime.py");

/// The peers run before and after ours; the better of their two medians is reported.
pub(super) fn rows(place: Place<'_>) -> Result<Vec<Row>> {
    let (kind, measured): (_, Room) = match place.device {
        Device::Cpu(_) => ("cpu", cpu::rows),
        Device::Cuda(_) => ("cuda", cuda::rows),
    };
    let before = peers(kind);
    let mut rows = measured(place)?;
    let after = peers(kind);
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

/// Row to peer to figure; empty if Python or a module is missing.
fn peers(kind: &str) -> BTreeMap<String, BTreeMap<String, f64>> {
    peer(PEERS, &[kind]).and_then(|value| serde_json::from_value(value).ok()).unwrap_or_default()
}

/// Numbers between -0.5 and 0.5, the same on every machine.
fn noise(len: usize) -> Vec<f32> {
    let mut random = Lcg32::new(1);
    (0..len).map(|_| random.unit() - 0.5).collect()
}
