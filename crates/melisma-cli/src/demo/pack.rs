//! The step `pack`: the built-in model's weights, packed, tested and unpacked.

use std::time::Instant;

use melisma::pack::{self, Archive, Options};
use melisma::text::table::{Align, Table};
use melisma::text::{size, spaced};
use melisma::{Error, ErrorKind, Result, snac};

use super::Chapter;
use super::folder::Folder;
use super::page::{commands, facts};
use crate::session::Session;

pub fn run(session: &Session, folder: &Folder) -> Result<Chapter> {
    let source = snac::mini24_weights();
    folder.write("model.safetensors", source)?;
    let budget = session.context()?.budget();
    let options = Options::new(budget).with_threads(session.config.threads.value.count());
    let mut packed = Vec::new();
    let summary = pack::pack(&source, &mut packed, &options, &|_| {})?;
    let archive = Archive::open(&packed, budget)?;
    let mut restored = Vec::with_capacity(source.len());
    let begin = Instant::now();
    archive.unpack(&mut restored, options.threads, &|_| {})?;
    let seconds = begin.elapsed().as_secs_f64();
    if restored != source {
        return Err(Error::new(ErrorKind::Check, "pack: the weights did not come back as they were"));
    }
    let mut infos = archive.list()?;
    infos.sort_by_key(|info| std::cmp::Reverse(info.entry.len()));
    let right = |name| (name, Align::Right);
    let mut table = Table::new([("tensor", Align::Left), right("bytes"), right("packed"), right("share")]);
    for info in infos.iter().take(8) {
        let share = 100.0 * info.packed_len as f64 / info.entry.len().max(1) as f64;
        let (before, after) = (info.entry.len().to_string(), info.packed_len.to_string());
        table.push([info.entry.name.clone(), before, after, format!("{share:.1} %")]);
    }
    let (before, after) = (summary.source_len as f64, summary.packed_len as f64);
    let shown = [
        format!(
            "<p>The built-in model's {} became {} and came back byte for byte.</p>\n",
            spaced(&size::show(summary.source_len)),
            spaced(&size::show(summary.packed_len))
        ),
        facts(&[
            (format!("{:.1} %", 100.0 * after / before), "of the size"),
            (format!("{:.0} MB/s", before / 1e6 / summary.encode_seconds.max(1e-9)), "packed"),
            (format!("{:.0} MB/s", before / 1e6 / seconds.max(1e-9)), "unpacked and checked"),
        ]),
        commands(&[
            "melisma pack model.safetensors",
            "melisma unpack model.packed.safetensors -o unpacked.safetensors",
        ]),
    ];
    let folded = format!("<p>The largest tensors:</p>\n{}", table.html());
    let title = "Weights, smaller and the same".to_owned();
    Ok(Chapter { title, device: Some("the CPU".to_owned()), shown: shown.concat(), folded })
}
