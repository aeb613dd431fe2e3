//! A list of texts to a folder of audio, or to a corpus of tokens.

use std::path::PathBuf;
use std::sync::Arc;

use melisma::audio::wav::SampleFormat;
use melisma::dataset::{LineFormat, Lines, Repeats};
use melisma::snac::tokens::check_orpheus;
use melisma::speak::{Corpus, Delivery, Estimate, Event, Job, List, Speaker};
use melisma::{Error, Existing, Result};
use pyo3::prelude::*;
use serde_json::{Value, json};

use crate::array;
use crate::signal::{self, Stop};

/// What is asked for.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub struct Asked {
    list: PathBuf,
    output: PathBuf,
    voice: Option<String>,
    seed: u64,
    sample_format: String,
    /// What a .jsonl file has in each line.
    format: String,
    drop_repeats: bool,
    shard: (usize, usize),
    overwrite: bool,
}

/// Returns the corpus that `output` names; `None` for a folder of audio.
fn corpus(asked: &Asked, speed: f64) -> Result<Option<Corpus>> {
    let output = asked.output.display();
    let format = match asked.format.as_str() {
        "codes" => LineFormat::Codes,
        "orpheus" => LineFormat::Orpheus,
        other => return Err(Error::invalid(format!("format is `{other:.64}`: codes or orpheus"))),
    };
    if !Lines::is_name(&asked.output) && (format != LineFormat::Codes || asked.drop_repeats) {
        let message = format!("format and drop_repeats are for lines of tokens, not for {output}");
        return Err(Error::invalid(message).with_hint("use them with an output that ends with .jsonl"));
    }
    if asked.output.extension().is_none() {
        return Ok(None);
    }
    if !Corpus::is_name(&asked.output) {
        let hint = "name a folder without a suffix, or a file that ends with .safetensors, .h5 or .jsonl";
        return Err(Error::invalid(format!("{output}: not a folder, nor a corpus of tokens")).with_hint(hint));
    }
    if speed != 1.0 {
        let error = Error::invalid(format!("speed is {speed}: tokens have no speed"));
        return Err(error.with_hint("leave it out, or write audio to a folder"));
    }
    let repeats = if asked.drop_repeats { Repeats::Drop } else { Repeats::Keep };
    let lines = Lines::is_name(&asked.output).then(|| Lines::default().with_format(format).with_repeats(repeats));
    let corpus = Corpus::new(&asked.output)?;
    Ok(Some(corpus.with_lines(lines).with_inputs(vec![asked.list.clone()])))
}

/// Speaks one shard, and returns a report.
pub fn speak<'py>(
    py: Python<'py>,
    speaker: Arc<Speaker>,
    asked: Asked,
    delivery: Delivery,
) -> PyResult<Bound<'py, PyAny>> {
    let work = move |stop: &Stop| {
        let corpus = corpus(&asked, delivery.speed)?;
        if corpus.as_ref().and_then(|corpus| corpus.lines).is_some_and(|lines| lines.format == LineFormat::Orpheus) {
            check_orpheus(speaker.codec().config())?;
        }
        let Asked { list, output, voice, seed, sample_format, shard, overwrite, .. } = asked;
        let unknown = || Error::invalid(format!("sample_format is `{sample_format}`: s16, s24 or f32"));
        let samples = SampleFormat::from_name(&sample_format).ok_or_else(unknown)?;
        let lines = List::open(&list)?;
        let job = Job::new(&speaker, &lines)
            .with_delivery(delivery)
            .with_voice(voice)
            .with_seed(seed)
            .with_shard(shard.0, shard.1)
            .with_existing(if overwrite { Existing::Replace } else { Existing::Refuse });
        let mut estimated = None;
        let mut watch = |event: Event<'_>| {
            if let Event::Estimated(estimate) = event {
                estimated = Some(estimate);
            }
            stop.check()
        };
        let (spoken, gathered) = match corpus {
            Some(corpus) => {
                let (spoken, gathered) = job.to_corpus(corpus, &mut watch)?;
                (spoken, Some(gathered))
            }
            None => (job.to_folder(&output, samples, &mut watch)?, None),
        };
        let place = |line: u32| format!("{}:{line}", lines.name());
        let failed = |(line, error): &(u32, Error)| json!({ "path": place(*line), "message": error.to_string() });
        let failures: Vec<Value> = spoken.failures.iter().map(failed).collect();
        let notes = spoken.notes.iter().map(|(line, note)| format!("line {line}: {note}"));
        Ok(json!({
            "texts": gathered.as_ref().map_or(spoken.n_spoken + spoken.n_kept, |gathered| gathered.rows),
            "texts_kept": spoken.n_kept,
            "frames": gathered.as_ref().and_then(|gathered| gathered.frames).unwrap_or(spoken.n_frames as u64),
            "samples": spoken.n_samples,
            "files": spoken.files,
            "failures": gathered.map_or(json!(failures), |gathered| json!(gathered.failures)),
            "notes": notes.collect::<Vec<_>>(),
            "expected": estimated.as_ref().map(Estimate::to_json),
        }))
    };
    let report = signal::alone(py, work)?;
    array::parsed(py, &report.to_string())
}
