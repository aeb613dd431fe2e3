//! `melisma bench`.

use std::path::Path;

use melisma::output;
use melisma::runtime::{device, thread};
use melisma::{Error, ErrorKind, Result};
use melisma_bench::sheet::{self, Sheet};
use melisma_bench::{self as bench, BenchContext, Record};
use serde_json::json;

use crate::args::{BenchArgs, BenchCommand};
use crate::session::Session;

pub fn run(session: &Session, args: &BenchArgs) -> Result<()> {
    match &args.command {
        Some(BenchCommand::Compare { old, new }) => compare(session, old, new),
        Some(BenchCommand::Sheet { picture }) => sheet(session, picture.as_deref()),
        None => measure(session, args),
    }
}

fn measure(session: &Session, args: &BenchArgs) -> Result<()> {
    let _span = tracing::info_span!("bench").entered();
    let context = session.context()?;
    // The rooms start threads of their own, for each core and for clients.
    thread::probe(device::available_threads() + 8)?;
    // Created before any work, so that an unwritable path fails at once.
    let file = args.output.as_ref().map(|path| output::OutputFile::create(path, session.existing)).transpose()?;
    let record = bench::run(&args.rooms, BenchContext { device: context.device(), memory: context.memory() })?;
    let json = serde_json::to_value(&record).map_err(|error| Error::invalid(error.to_string()))?;
    if let Some(mut file) = file {
        let path = file.path().to_owned();
        let mut text = format!("{json:#}");
        text.push('\n');
        std::io::Write::write_all(&mut file, text.as_bytes()).map_err(|error| output::failed(&path, error))?;
        file.commit()?;
    }
    session.print(context.device(), || format!("{}\n{}", record.machine, record.table().text()), json)?;
    // The JSON has them already.
    if !session.wants_json() {
        record.notes.iter().for_each(|note| session.say(&format!("note: {note}")));
    }
    Ok(())
}

fn compare(session: &Session, old: &Path, new: &Path) -> Result<()> {
    let _span = tracing::info_span!("compare").entered();
    let comparison = bench::compare(&Record::open(old)?, &Record::open(new)?)?;
    let json = json!({
        "rows": comparison.changes, "missing": comparison.missing, "added": comparison.added,
        "machines": comparison.machines,
        "passed": comparison.check().is_ok(), "sign": bench::SIGN,
    });
    session.print(session.config.device.value, || comparison.text(), json)?;
    comparison.check()
}

fn sheet(session: &Session, picture: Option<&Path>) -> Result<()> {
    let _span = tracing::info_span!("sheet").entered();
    let file = picture.map(|path| output::OutputFile::create(path, session.existing)).transpose()?;
    let sheet = Sheet::measure()?;
    if let Some(mut file) = file {
        let path = file.path().to_owned();
        std::io::Write::write_all(&mut file, &sheet::picture(&sheet)).map_err(|error| output::failed(&path, error))?;
        file.commit()?;
    }
    let json = json!({ "figures": sheet.figures, "holds": sheet.holds(), "table": sheet.table().text() });
    session.print("cpu", || sheet.table().text(), json)?;
    match sheet.figures.iter().find(|figure| !figure.holds) {
        None => Ok(()),
        Some(figure) => {
            Err(Error::new(ErrorKind::Check, format!("{}: {:.2} {}", figure.name, figure.value, figure.unit)))
        }
    }
}
