//! How many pads play in real time.

use std::time::Duration;

use melisma_kernels::voice::{Block, Control, TICK, Voices};
use melisma_kernels::{Budget, Cpu, Isa, Level};

use super::{Device, Plan, RATE, Row, beside, measure, pad};
use crate::Result;

const N_PADS: usize = 4096;
const LEN: usize = 1920;

enum Way<'a> {
    Together,
    Singly,
    On(&'a melisma_kernels::Queue),
}

/// Seconds of voices per second: how many play in real time.
fn in_real_time(isa: Isa, n_pads: usize, way: &Way<'_>, name: &str) -> Result<Row> {
    let mut voices = Voices::new(isa, n_pads, 1);
    for index in 0..n_pads {
        voices.start(0, &pad(index), 0, Control::default())?;
    }
    let controls = [Control::default(); LEN / TICK];
    let mut position = 0;
    let plan = Plan { warm_up: 2, least: 7, time: Duration::from_secs(2), most: 1000 };
    let mut outcome = Ok(());
    let measured = measure(plan, || {
        let block = Block { position, len: LEN, controls: &controls };
        match way {
            Way::Together => voices.render(block),
            Way::Singly => voices.render_singly(block),
            Way::On(queue) => outcome = voices.render_on(queue, block),
        }
        position += LEN as u64;
    });
    outcome?;
    Ok(measured.rate(name, "voice-s/s", n_pads as f64 * LEN as f64 / f64::from(RATE)))
}

pub(super) fn rows() -> Result<Vec<Row>> {
    let mut rows = Vec::new();
    for isa in [Level::Avx2, Level::Avx512].into_iter().filter_map(Isa::new) {
        let name = format!("synth/pads 1t {}", isa.level().name());
        let singly = in_real_time(isa, 64, &Way::Singly, "")?.median;
        rows.push(beside(in_real_time(isa, N_PADS, &Way::Together, &name)?, "one voice at a time", singly));
    }
    let isa = Isa::best();
    let queue = Device::Cpu(Cpu { isa, threads: 2 }).queue(&Budget::unlimited())?;
    let name = format!("synth/pads 2t {}", isa.level().name());
    rows.push(in_real_time(isa, N_PADS, &Way::On(&queue), &name)?);
    Ok(rows)
}
