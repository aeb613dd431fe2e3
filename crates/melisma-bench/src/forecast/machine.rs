//! Measured figures of a machine, as a bench record has them.

use std::path::Path;

use melisma::{Error, Result};

use super::{Demand, Work, id};
use crate::record::direction;
use crate::{Better, Record, Row};

const MEASURE: &str = "run the bench of `dataset`, `snac/encode` or `pack` on that machine, and save its record";
/// The audio that was measured: 16-bit mono samples at this rate.
const MEL_BYTES_PER_SECOND: f64 = 2.0 * 22_050.0;
const TOKEN_BYTES_PER_SECOND: f64 = 2.0 * 24_000.0;
/// Results per second of audio: 80 values of two bytes every 256 samples, and seven codes of two
/// bytes every 2048 samples.
const MEL_RESULT_PER_SECOND: f64 = 160.0 * 22_050.0 / 256.0;
const TOKEN_RESULT_PER_SECOND: f64 = 14.0 * 24_000.0 / 2048.0;

/// A machine that was measured.
#[derive(Debug, Clone)]
pub struct Machine {
    /// The machine and the device, in words.
    pub name: String,
    rows: Vec<Row>,
}

impl Machine {
    /// Reads the records of one machine.
    ///
    /// # Errors
    /// A file cannot be read, is not a record, or belongs to another machine or device.
    pub fn read<P: AsRef<Path>>(paths: &[P]) -> Result<Self> {
        let mut machine: Option<Self> = None;
        for path in paths.iter().map(AsRef::as_ref) {
            let record = Record::open(path)?;
            let is_wrong = |row: &&Row| {
                let may_be_zero = matches!(direction(&row.unit), Some(Better::LargerShare | Better::Neither));
                !row.median.is_finite() || (row.median <= 0.0 && !may_be_zero)
            };
            if let Some(row) = record.rows.iter().find(is_wrong) {
                return Err(Error::corrupt(format!("{}: `{}` is {}", path.display(), row.name, row.median)));
            }
            let name = format!("{}, {}", record.machine, record.device);
            match &mut machine {
                None => machine = Some(Self { name, rows: record.rows }),
                Some(machine) if machine.name == name => machine.rows.extend(record.rows),
                Some(machine) => {
                    return Err(Error::invalid(format!(
                        "{}: measured on {name}, the first record on {}",
                        path.display(),
                        machine.name
                    ))
                    .with_hint("name records of one machine"));
                }
            }
        }
        machine.ok_or_else(|| Error::invalid("no record is named"))
    }

    #[cfg(test)]
    pub(super) fn of(rows: &[(&str, &str, f64)]) -> Self {
        let row = |(id, unit, median): &(&str, &str, f64)| Row::single(*id, unit, *median).with_id(id);
        Self { name: "m".to_owned(), rows: rows.iter().map(row).collect() }
    }

    pub(super) fn demand(&self, work: Work, input_bytes: Option<u64>) -> Result<Demand> {
        match work {
            Work::Mel(hours) => {
                self.audio(hours, input_bytes, [MEL_BYTES_PER_SECOND, MEL_RESULT_PER_SECOND], id::MEL_BUILD)
            }
            Work::Tokens(hours) => {
                self.audio(hours, input_bytes, [TOKEN_BYTES_PER_SECOND, TOKEN_RESULT_PER_SECOND], id::TOKEN_BUILD)
            }
            Work::Pack(bytes) => self.pack(bytes),
        }
    }

    fn audio(
        &self,
        hours: f64,
        input_bytes: Option<u64>,
        [bytes_in, bytes_out]: [f64; 2],
        build: &str,
    ) -> Result<Demand> {
        let seconds = hours * 3600.0;
        let rate = self.best("a build of this dataset", build)?;
        let merge = self.rows.iter().find(|row| id::of(row) == Some(id::MERGE));
        let output_bytes = (seconds * bytes_out) as u64;
        Ok(Demand {
            computing_seconds: seconds / rate.median,
            merge_seconds: merge.map(|row| output_bytes as f64 / 1e9 / row.median),
            input_bytes: input_bytes.unwrap_or((seconds * bytes_in) as u64),
            output_bytes,
            copies: 2,
            figures: std::iter::once(rate).chain(merge).map(row_text).collect(),
        })
    }

    /// Returns the demand of a file that is encoded, then decoded and compared. The result is at most as large
    /// as the source.
    fn pack(&self, bytes: u64) -> Result<Demand> {
        let encode = self.best("packing bf16 weights", id::PACK)?;
        let decode = self.best("decoding bf16 weights", id::UNPACK)?;
        Ok(Demand {
            computing_seconds: bytes as f64 / 1e9 * (1.0 / encode.median + 1.0 / decode.median),
            merge_seconds: None,
            input_bytes: bytes,
            output_bytes: bytes,
            copies: 1,
            figures: [encode, decode].into_iter().map(row_text).collect(),
        })
    }

    /// Returns the fastest row with this id.
    fn best(&self, what: &str, id: &str) -> Result<&Row> {
        let rows = self.rows.iter().filter(|row| id::of(row) == Some(id));
        let found = rows.max_by(|a, b| a.median.total_cmp(&b.median));
        found.ok_or_else(|| {
            Error::invalid(format!("the record of {} has no row for {what}", self.name)).with_hint(MEASURE)
        })
    }
}

fn row_text(row: &Row) -> String {
    format!("{}: {:.4} {}", row.name, row.median, row.unit)
}

#[cfg(test)]
mod tests {
    use super::super::{Forecast, Limit, Supply};
    use super::*;
    use std::time::Duration;

    const DATASET: &str = r#"{"machine": "m", "device": "cpu", "rows": [
        {"id": "dataset.build.mel", "name": "a", "unit": "x", "median": 20000.0, "spread": 0, "n": 1},
        {"id": "dataset.merge", "name": "b", "unit": "GB/s", "median": 1.0, "spread": 0, "n": 1}]}"#;
    const PACK: &str = r#"{"machine": "m", "device": "cpu", "rows": [
        {"id": "pack.encode.bf16", "name": "c", "unit": "GB/s", "median": 2.0, "spread": 0, "n": 1},
        {"id": "pack.encode.bf16", "name": "d", "unit": "GB/s", "median": 0.5, "spread": 0, "n": 1},
        {"id": "pack.decode.bf16", "name": "e", "unit": "GB/s", "median": 2.0, "spread": 0, "n": 1}]}"#;

    fn read(records: &[&str]) -> Result<Machine> {
        let folder = tempfile::tempdir().unwrap();
        let write = |(index, text): (usize, &&str)| {
            let path = folder.path().join(format!("{index}.json"));
            std::fs::write(&path, text).unwrap();
            path
        };
        Machine::read(&records.iter().enumerate().map(write).collect::<Vec<_>>())
    }

    #[test]
    fn a_million_hours() {
        let machine = read(&[DATASET, PACK]).unwrap();
        let forecast = |work, supply: &Supply| Forecast::new(work, &machine, supply).unwrap();
        let alone = forecast(Work::Mel(1e6), &Supply::default());
        assert_eq!((alone.machines, alone.build_seconds, alone.limit), (1, 180_000.0, Limit::Computing));
        assert_eq!((alone.input_bytes, alone.output_bytes), (158_760_000_000_000, 49_612_500_000_000));
        assert_eq!(alone.merge_seconds, Some(49_612.5));
        let day = Supply { within: Some(Duration::from_secs(86_400)), ..Supply::default() };
        let enough = forecast(Work::Mel(1e6), &day);
        assert!(enough.machines == 5 && enough.seconds() <= 86_400.0, "{enough:?}");
        let packed = forecast(Work::Pack(8_000_000_000), &Supply { machines: Some(4), ..Supply::default() });
        assert_eq!((packed.seconds(), packed.merge_seconds), (2.0, None));
    }

    #[test]
    fn what_cannot_be_planned_is_explained() {
        let refused = |records: &[&str], work| {
            let made = read(records).and_then(|machine| Forecast::new(work, &machine, &Supply::default()));
            made.unwrap_err().to_string()
        };
        assert!(refused(&["{}"], Work::Mel(1.0)).contains("not a bench record"));
        assert!(refused(&[DATASET], Work::Tokens(1.0)).contains("no row for a build of this dataset"));
        assert!(refused(&[DATASET, &PACK.replace("\"m\"", "\"n\"")], Work::Mel(1.0)).contains("measured on n"));
        assert!(refused(&[&DATASET.replace("20000.0", "-1.0")], Work::Mel(1.0)).contains("is -1"));
        let hour = Supply { within: Some(Duration::from_secs(3600)), ..Supply::default() };
        let error = Forecast::new(Work::Mel(1e6), &read(&[DATASET]).unwrap(), &hour).unwrap_err().to_string();
        assert!(error.contains("any number of machines takes") && error.contains("limited by the merge"), "{error}");
    }
    /// Records of the repository, whose rows have no ids.
    #[test]
    fn older_records_are_read() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../bench/record");
        let machine = |name: &str| Machine::read(&[folder.join(name)]).unwrap();
        let forecast = |name, work| Forecast::new(work, &machine(name), &Supply::default()).unwrap();
        for name in ["xeon-avx512-2c/dataset.json", "nvidia-h200/dataset.json"] {
            assert!(
                forecast(name, Work::Mel(1.0)).figures[0].starts_with("dataset/build, times real time: "),
                "{name}"
            );
        }
        let tokens = forecast("nvidia-h200/snac-encode.json", Work::Tokens(1.0));
        assert!(tokens.figures[0].starts_with("snac/encode corpus of "), "{tokens:?}");
        let packed = forecast("xeon-avx512-2c/pack.json", Work::Pack(1));
        let expected =
            ["pack/encode minilm bf16 avx512 2t: 2.9916 GB/s", "pack/decode layer bf16 avx512 2t: 8.6436 GB/s"];
        assert_eq!(packed.figures, expected);
    }
}
