//! Decodes the codes of rows and compares the audio with the files.

use super::Check;
use super::job::Run;
use super::lane::Reader;
use crate::dataset::failure::{Action, Failure, RowFailure};
use crate::dataset::hash::MEASURED;
use crate::dataset::plan::Plan;
use crate::dataset::row::Status;
use crate::dataset::store::Store;
use crate::fidelity::{Fidelity, Meter};
use crate::runtime::device::Queue;
use crate::runtime::memory::Budget;
use crate::snac::{Codes, Engine, Noise};
use crate::{Error, Result};

/// Frames that are decoded at once.
const FRAMES: u64 = 16;
/// Rows that are compared with the limit at once.
const ROWS: u64 = 4096;

/// A decoder and a comparison.
pub(super) struct RoundTrip {
    engine: Engine,
    meter: Meter,
}

impl RoundTrip {
    /// On the device of `queue`, with the weights of `first` if there is one.
    pub(super) fn new(run: &Run<'_>, queue: &Queue, first: Option<&Self>) -> Result<Self> {
        let budget: &Budget = run.shared.work.budget;
        let model = run.job.model();
        let engine = match first {
            Some(first) => first.engine.sibling(queue, budget, 1)?,
            None => Engine::new(model, queue, budget, 1)?,
        };
        Ok(Self { engine, meter: Meter::new(queue, budget, model.config().sampling_rate)? })
    }

    /// Compares a row whose codes are written with its file.
    pub(super) fn measure(&mut self, run: &Run<'_>, row: u32) -> Result<Fidelity> {
        let work = run.shared.work;
        let planned = &work.plan.rows[row as usize];
        let config = run.job.model().config();
        let n_slots = run.job.n_slots;
        let mut reader = Reader::open(run, row)?;
        let mut samples = vec![0.0; FRAMES as usize * config.frame_len()];
        let stream = self.engine.open(Noise::Off)?;
        let mut frame = planned.start;
        while frame < planned.next_frame() {
            let n = reader.read(run, &mut samples)?;
            self.meter.original(&samples[..n])?;
            let n_frames = FRAMES.min(planned.next_frame() - frame);
            let mut bytes = vec![0; n_frames as usize * n_slots * 2];
            work.store.read(run.shared.columns.values, frame, &mut bytes)?;
            let codes: Vec<i32> = bytes.as_chunks().0.iter().map(|&code| u16::from_le_bytes(code).into()).collect();
            self.meter.decoded(&self.engine.push(stream, &Codes::from_frames(config, &codes)?)?)?;
            frame += n_frames;
        }
        self.meter.decoded(&self.engine.finish(stream)?)?;
        self.meter.finish()
    }
}

/// The valid rows of `store` whose signal-to-noise ratio is below the limit of `check`.
pub(in crate::dataset) fn below_limit(check: Check, store: &Store, plan: &Plan) -> Result<Vec<RowFailure>> {
    let Check::Measure { min_snr_db: Some(least) } = check else { return Ok(Vec::new()) };
    let (snr, status) = (store.layout.column(MEASURED[0])?, store.layout.column("status")?);
    let mut found = Vec::new();
    let mut first = 0;
    while first < store.layout.n_rows {
        let n = ROWS.min(store.layout.n_rows - first) as usize;
        let (mut numbers, mut valid) = (vec![0; 4 * n], vec![0; n]);
        store.read(snr, first, &mut numbers)?;
        store.read(status, first, &mut valid)?;
        let rows = numbers.as_chunks().0.iter().map(|&bytes| f32::from_le_bytes(bytes)).zip(&valid);
        for (row, (snr_db, _)) in (first..).zip(rows).filter(|(_, (_, valid))| **valid == Status::Ok as u8) {
            if f64::from(snr_db) < least {
                let file = plan.file(&plan.rows[row as usize]);
                let message = format!("{snr_db:.2} dB signal-to-noise; the limit is {least} dB");
                let error = Error::new(crate::Kind::Check, message);
                let mut failure = Failure::new(file.input.name.to_string(), "verify", &error, Action::Kept);
                failure.code = "low-snr".to_owned();
                found.push(RowFailure { file: file.index, row: row as u32, failure });
            }
        }
        first += n as u64;
    }
    Ok(found)
}
