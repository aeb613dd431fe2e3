//! Rebuilds the damaged rows of a finished dataset from the original audio.

use std::collections::HashSet;
use std::path::Path;

use melisma_kernels::lock::Mutex;

use super::pipeline::{self, Job};
use super::{busy, columns};
use crate::dataset::counters::Counters;
use crate::dataset::failure::RowFailure;
use crate::dataset::plan::{Plan, Request, Scan};
use crate::dataset::store::change::Change;
use crate::dataset::store::hash::Table;
use crate::dataset::store::journal::{Header, Journal};
use crate::dataset::store::paths::{Paths, beside};
use crate::dataset::store::verify::{Verified, damaged, verify_store};
use crate::dataset::store::{Extent, INPUTS, Kind, Layout, Store, guard, is_lines};
use crate::dataset::work::{FailedFiles, Work};
use crate::runtime::memory::Space;
use crate::text::count;
use crate::{Error, ErrorKind, Result};

/// Bytes that are copied at once.
const BLOCK: u64 = 1 << 20;

/// The result of a repair.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Repaired {
    /// The rows that were rebuilt.
    pub rows: Vec<u64>,
    /// What a verification after the repair found.
    pub verified: Verified,
}

impl Request<'_> {
    /// Rebuilds the damaged rows of the dataset at [`Request::output`] with the bytes that were written first. Its
    /// header, its other rows and its settings must be those of this request; a shard knows which one it is.
    ///
    /// # Errors
    /// The dataset has no hashes of its rows, or its header is damaged; it has other files or settings, a file is missing
    /// or has changed, or another process uses it. Nothing is written then.
    pub fn repair(&self) -> Result<Repaired> {
        self.repair_watched(&Counters::default())
    }

    /// Works like [`Request::repair`]; `counters` show how far it is, and can stop it.
    ///
    /// # Errors
    /// As [`Request::repair`], or it was stopped.
    pub fn repair_watched(&self, counters: &Counters) -> Result<Repaired> {
        let at = |error: Error| error.at(self.output.display());
        if is_lines(&self.output) {
            let message = format!("{}: lines have no hash of each row, so none can be repaired", self.output.display());
            return Err(Error::invalid(message).with_hint("encode them again"));
        }
        let store = Store::open(&self.output)?;
        let budget = self.context.budget();
        let verified = verify_store(&store, self.threads, budget, counters).map_err(at)?;
        if verified.damaged == 0 {
            verified.check()?;
            return Ok(Repaired { rows: Vec::new(), verified });
        }
        let rows = match verified.first_damaged.len() as u64 == verified.damaged {
            true => verified.first_damaged,
            false => damaged(&store)?,
        };
        let (plan, layout) = self.plan_of(&store, &rows, counters)?;
        let kind = kind(&self.output)?;
        let scratch = Paths::new(&beside(&Paths::new(&self.output)?.output, ".repair"))?;
        guard::beside(&scratch, kind, crate::output::Existing::Refuse)?;
        let store = Store::reopen(&self.output, kind, layout.clone()).map_err(|error| {
            Error::corrupt(format!("{error}: what these files and settings give has another header"))
                .with_hint("build it again")
        })?;
        if !store.lock() {
            return Err(busy(self));
        }
        let made = self.rebuild(&plan, &rows, (&scratch, kind, layout), counters).and_then(|(fresh, failures)| {
            check(&store, &fresh, &rows, &failures)?;
            rows.iter().try_for_each(|&row| copy(&fresh, &store, row))?;
            store.sync()
        });
        scratch.clear()?;
        made?;
        let verified = verify_store(&store, self.threads, budget, counters).map_err(at)?;
        verified.check()?;
        Ok(Repaired { rows, verified })
    }

    /// Returns the rows that the inputs give, and their header, if they are those of `store`.
    fn plan_of(&self, store: &Store, rows: &[u64], counters: &Counters) -> Result<(Plan, Layout)> {
        let number =
            |text: &str| Some(text.split_once('/')?).and_then(|(i, n)| Some((i.parse().ok()?, n.parse().ok()?)));
        let (shard, n_shards): (usize, usize) = store.layout.text("shard").and_then(number).unwrap_or((1, 1));
        let part = self.inputs.shard(shard.saturating_sub(1), n_shards);
        let plan = Plan::new(self.feature.clone(), self.inputs, part, Scan { threads: self.threads, counters })?;
        let mut layout = columns::layout(&plan, (shard.saturating_sub(1), n_shards));
        if n_shards > 1 {
            layout.attributes.insert(INPUTS.to_owned(), self.inputs.fingerprint().into());
        }
        if layout.text("plan") == store.layout.text("plan") {
            return Ok((plan, layout));
        }
        let why = match (layout.text("config") == store.layout.text("config"), absent(store, &plan, rows)?) {
            (false, _) => {
                let change = Change::of_attributes(Some(&store.layout.attributes), &layout.attributes);
                format!("it was built with other settings{}", change.after())
            }
            (true, Some(name)) => format!("{name} is missing among them, or cannot be read any more"),
            (true, None) => "a file, its length or its text has changed, or there are other files".to_owned(),
        };
        Err(Error::invalid(format!("{}: its rows are not those of these files: {why}", self.output.display()))
            .with_hint("name the files, texts and settings that it was built from"))
    }

    /// Computes `rows` into a dataset of their own, in which all others are empty.
    fn rebuild(
        &self,
        plan: &Plan,
        rows: &[u64],
        (paths, kind, layout): (&Paths, Kind, Layout),
        counters: &Counters,
    ) -> Result<(Store, Vec<RowFailure>)> {
        paths.clear()?;
        let header = Header::new(layout.text("plan").unwrap_or_default(), &plan.fingerprint);
        let store = Store::create(&paths.partial, kind, layout)?;
        paths.conceal()?;
        columns::write(&store, plan)?;
        let budget = self.context.budget();
        let job = Job::new(self)?;
        let held = budget.reserve(Space::Host, plan.bytes());
        let _held = held.map_err(|error| job.with_least(error, plan))?;
        let mut done = vec![true; plan.rows.len()];
        rows.iter().for_each(|&row| done[row as usize] = false);
        let work = Work {
            plan,
            store: &store,
            device: self.context.device(),
            budget,
            counters,
            journal: Mutex::new(Journal::create(&paths.journal, &header)?),
            techniques: self.techniques,
            failed: FailedFiles::new(None, std::iter::empty()),
        };
        let failures = pipeline::run(&work, &job, &done)?.failures;
        drop(work);
        Ok((store, failures))
    }
}

/// Returns the format of the dataset at `path`, whatever its name is.
fn kind(path: &Path) -> Result<Kind> {
    use std::io::Read;
    if path.is_dir() {
        return Ok(Kind::Npy);
    }
    let mut start = [0; 8];
    let read = std::fs::File::open(path).and_then(|mut file| file.read_exact(&mut start));
    read.map_err(|error| Error::io(path.display(), error))?;
    Ok(if start == crate::dataset::store::hdf5::SIGNATURE { Kind::Hdf5 } else { Kind::Safetensors })
}

/// Returns the first file of an undamaged row that has no row in `plan`.
fn absent(store: &Store, plan: &Plan, damaged: &[u64]) -> Result<Option<String>> {
    let names: HashSet<String> = plan.files.iter().map(|file| plan.input(file).name().into_owned()).collect();
    let mut absent = None;
    Table::new(store)?.each(0..store.layout.n_rows, |found| {
        let name = String::from_utf8_lossy(found.entry.name);
        if absent.is_none() && damaged.binary_search(&found.row).is_err() && !names.contains(&*name) {
            absent = Some(name.into_owned());
        }
        Ok(())
    })?;
    Ok(absent)
}

/// Fails unless each of `rows` has the checksum or the hash that was recorded when it was written first: one of the two
/// may be what is damaged.
fn check(store: &Store, fresh: &Store, rows: &[u64], failures: &[RowFailure]) -> Result<()> {
    let (recorded, made) = (Table::new(store)?, Table::new(fresh)?);
    let witnesses = |table: &Table<'_>, row: u64| -> Result<(u64, Option<u64>, String)> {
        let mut found = (0, None, String::new());
        table.each(row..row + 1, |row| {
            found = (row.entry.checksum, row.hash, String::from_utf8_lossy(row.entry.name).into_owned());
            Ok(())
        })?;
        Ok(found)
    };
    let mut changed = Vec::new();
    for &row in rows {
        let (was, is) = (witnesses(&recorded, row)?, witnesses(&made, row)?);
        if was.0 != is.0 && was.1 != is.1 {
            changed.push((row, is.2));
        }
    }
    let Some((row, name)) = changed.first() else { return Ok(()) };
    let why = failures.iter().find(|failed| u64::from(failed.row) == *row);
    let why = why.map_or_else(String::new, |failed| format!(" ({})", failed.failure.message));
    let n = count(changed.len() as u64, "row");
    let message = format!("{n} cannot be repaired: {name} does not give row {row} any more{why}; nothing was written");
    Err(Error::new(ErrorKind::Check, message)
        .with_hint("bring the original file back")
        .or_hint("use the kind of device that it was built with")
        .or_hint("build it again"))
}

/// Copies one row from `from` to `to`, which have the same columns and offsets.
fn copy(from: &Store, to: &Store, row: u64) -> Result<()> {
    let ragged = from.layout.ragged();
    for (index, column) in from.layout.columns.iter().enumerate() {
        let (mut first, end) = match from.layout.extent(&column.name) {
            Extent::Rows => (row, row + 1),
            Extent::Offsets => (row, row + 2),
            Extent::Values => {
                let offsets = ragged.iter().find(|(values, _)| *values == column.name);
                let offsets = offsets.map_or(column.name.as_str(), |(_, offsets)| offsets);
                let mut bytes = [0; 16];
                from.read(from.layout.column(offsets)?, row, &mut bytes)?;
                let at = |i: usize| u64::from_le_bytes(std::array::from_fn(|k| bytes[i + k]));
                (at(0), at(8))
            }
        };
        let width = column.row_bytes() as u64;
        while first < end {
            let n = (BLOCK / width.max(1)).max(1).min(end - first);
            let mut bytes = vec![0; (n * width) as usize];
            from.read(index, first, &mut bytes)?;
            to.write(index, first, &bytes)?;
            first += n;
        }
    }
    Ok(())
}
