//! How long a job takes on many machines, from figures that were measured on one of them.
//!
//! Every machine works on its own shards, so the build takes as long as the slowest of three: the
//! computing of a machine, its network, and the storage that all of them share. Shards of a dataset
//! are then merged on one machine. Example: 20,000 times real time makes a million hours in 50 hours
//! on one machine, and in 5 on ten, if ten machines can read 8.8 GB/s together.

pub(crate) mod id;
mod machine;

use std::time::Duration;

pub use machine::Machine;
use melisma::{Error, Result};

/// Times that a merge moves each byte of the output: it is read to be checked, read and written.
const MERGE_PASSES: f64 = 3.0;
/// The most machines that a plan looks for.
const MAX_MACHINES: u64 = 1 << 20;

/// What is to be done.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Work {
    /// Spectrograms of this many hours of audio.
    Mel(f64),
    /// SNAC tokens of this many hours of audio.
    Tokens(f64),
    /// Packing this many bytes of weights.
    Pack(u64),
}

impl Work {
    /// Returns the name of the job.
    pub fn name(self) -> &'static str {
        match self {
            Self::Mel(_) => "mel",
            Self::Tokens(_) => "tokens",
            Self::Pack(_) => "pack",
        }
    }
}

/// What may be used; `None` for what does not limit the job.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Supply {
    /// Bytes of the inputs; `None` for 16-bit mono samples at the rate of the measurement.
    pub input_bytes: Option<u64>,
    /// Machines; `None` for one, or as many as the deadline needs.
    pub machines: Option<u64>,
    /// When the job must be done.
    pub within: Option<Duration>,
    /// Bytes per second that the network moves to and from one machine.
    pub network: Option<u64>,
    /// Bytes per second that the shared storage moves for all machines together.
    pub storage: Option<u64>,
}

/// What limits a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Limit {
    /// The machines compute all the time.
    Computing,
    /// The network of each machine.
    Network,
    /// The storage that all machines share.
    Storage,
    /// The merge, which one machine does at the end.
    Merge,
}

impl Limit {
    /// Returns the limit in words.
    pub fn name(self) -> &'static str {
        match self {
            Self::Computing => "computing",
            Self::Network => "the network of each machine",
            Self::Storage => "the shared storage",
            Self::Merge => "the merge",
        }
    }
}

/// The forecast of a job.
#[derive(Debug, Clone, PartialEq)]
pub struct Forecast {
    /// Machines that work.
    pub machines: u64,
    /// Seconds of the shards.
    pub build_seconds: f64,
    /// Seconds of the merge; `None` if the record has no row for it.
    pub merge_seconds: Option<f64>,
    /// Bytes of the inputs.
    pub input_bytes: u64,
    /// Bytes of the result.
    pub output_bytes: u64,
    /// Copies of the result that exist at once: shards of a dataset stay until they are merged.
    pub copies: u64,
    /// What limits the job.
    pub limit: Limit,
    /// The rows of the record that the forecast rests on.
    pub figures: Vec<String>,
}

impl Forecast {
    /// Predicts `work` on machines like `machine`.
    ///
    /// # Errors
    /// The record has no row for this work, or no number of machines meets the deadline.
    pub fn new(work: Work, machine: &Machine, supply: &Supply) -> Result<Self> {
        let demand = machine.demand(work, supply.input_bytes)?;
        let on = |machines: u64| demand.on(machines, supply);
        let Some(within) = supply.within else { return Ok(on(supply.machines.unwrap_or(1))) };
        let fits = |machines: u64| on(machines).seconds() <= within.as_secs_f64();
        let most = supply.machines.unwrap_or(MAX_MACHINES);
        if !fits(most) {
            let best = on(most);
            let message = format!(
                "{:.0} s are not enough: {} takes {:.0} s, limited by {}",
                within.as_secs_f64(),
                if most == MAX_MACHINES { "any number of machines".to_owned() } else { format!("{most} machines") },
                best.seconds(),
                best.limit.name()
            );
            return Err(Error::invalid(message).with_hint("give it more time, or raise that limit"));
        }
        let (mut low, mut high) = (1, most);
        while low < high {
            let middle = low.midpoint(high);
            if fits(middle) { high = middle } else { low = middle + 1 }
        }
        Ok(on(low))
    }

    /// Returns the seconds from the first shard to the end of the merge.
    pub fn seconds(&self) -> f64 {
        self.build_seconds + self.merge_seconds.unwrap_or(0.0)
    }

    /// Returns the bytes per second that one machine reads and writes while it builds.
    pub fn network_rate(&self) -> f64 {
        self.storage_rate() / self.machines as f64
    }

    /// Returns the bytes per second that all machines read and write together while they build.
    pub fn storage_rate(&self) -> f64 {
        self.input_bytes.saturating_add(self.output_bytes) as f64 / self.build_seconds.max(1e-9)
    }

    /// Returns the bytes that the storage must hold at once: inputs, shards and the merged result.
    pub fn storage_bytes(&self) -> u64 {
        self.input_bytes.saturating_add(self.output_bytes.saturating_mul(self.copies))
    }
}

/// What a job takes on one machine.
#[derive(Debug, Clone)]
struct Demand {
    computing_seconds: f64,
    merge_seconds: Option<f64>,
    input_bytes: u64,
    output_bytes: u64,
    copies: u64,
    figures: Vec<String>,
}

impl Demand {
    fn on(&self, machines: u64, supply: &Supply) -> Forecast {
        let (n, moved) = (machines as f64, self.input_bytes.saturating_add(self.output_bytes) as f64);
        let each = |rate: Option<u64>, bytes: f64| rate.map_or(0.0, |rate| bytes / rate.max(1) as f64);
        let parts = [
            (Limit::Computing, self.computing_seconds / n),
            (Limit::Network, each(supply.network, moved) / n),
            (Limit::Storage, each(supply.storage, moved)),
        ];
        let slowest = parts.into_iter().max_by(|a, b| a.1.total_cmp(&b.1));
        let (limit, build_seconds) = slowest.unwrap_or((Limit::Computing, 0.0));
        let merge_seconds = self.merge_seconds.map(|seconds| {
            let moved = MERGE_PASSES * self.output_bytes as f64;
            seconds.max(each(supply.network, moved)).max(each(supply.storage, moved))
        });
        let limit = if merge_seconds.is_some_and(|seconds| seconds > build_seconds) { Limit::Merge } else { limit };
        let Self { input_bytes, output_bytes, copies, .. } = *self;
        let figures = self.figures.clone();
        Forecast { machines, build_seconds, merge_seconds, input_bytes, output_bytes, copies, limit, figures }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn demand() -> Demand {
        Demand {
            computing_seconds: 1000.0,
            merge_seconds: Some(10.0),
            input_bytes: 8_000,
            output_bytes: 2_000,
            copies: 2,
            figures: Vec::new(),
        }
    }

    #[test]
    fn the_slowest_part_is_the_limit() {
        let on = |machines, supply: &Supply| demand().on(machines, supply);
        let alone = on(1, &Supply::default());
        assert_eq!((alone.build_seconds, alone.seconds(), alone.limit), (1000.0, 1010.0, Limit::Computing));
        assert_eq!((alone.storage_rate(), alone.storage_bytes()), (10.0, 12_000));
        let slow = Supply { network: Some(5), ..Supply::default() };
        assert_eq!((on(1, &slow).build_seconds, on(1, &slow).limit), (2000.0, Limit::Network));
        assert_eq!(on(2, &slow).merge_seconds, Some(1200.0), "three passes over 2,000 bytes at 5 a second");
        assert_eq!((on(2, &slow).build_seconds, on(2, &slow).limit), (1000.0, Limit::Merge));
        let shared = Supply { storage: Some(20), ..Supply::default() };
        assert_eq!((on(10, &shared).build_seconds, on(10, &shared).limit), (500.0, Limit::Storage));
        assert_eq!(on(10, &shared).network_rate(), 2.0);
        assert_eq!(on(10, &shared).merge_seconds, Some(300.0), "three passes over 2,000 bytes at 20 a second");
    }

    #[test]
    fn no_number_makes_a_forecast_panic() {
        let machine = Machine::of(&[(id::MEL_BUILD, "x", 20_000.0), (id::MERGE, "GB/s", 1.0)]);
        let check = |hours: f64, supply: Supply| {
            // Whether the job can be done does not matter here.
            let Ok(forecast) = Forecast::new(Work::Mel(hours), &machine, &supply) else { return };
            let _ = (forecast.network_rate(), forecast.storage_rate(), forecast.storage_bytes());
        };
        for hours in [0.0, -1.0, 1e-300, 1.0, 1e6, f64::MAX, f64::INFINITY, f64::NEG_INFINITY, f64::NAN] {
            check(hours, Supply::default());
            for n in [0, 1, 2, 7, 1 << 20, u64::MAX / 2, u64::MAX] {
                let some = Some(n);
                check(hours, Supply { input_bytes: some, ..Supply::default() });
                check(hours, Supply { network: some, storage: some, ..Supply::default() });
                check(hours, Supply { machines: some, within: some.map(Duration::from_secs), ..Supply::default() });
            }
        }
    }
}
