//! Many texts in one batch: to a folder of audio, or to a corpus of tokens.

use std::path::Path;
use std::time::Instant;

use melisma::audio::wav::SampleFormat;
use melisma::dataset::{Failure, Gathered, LineFormat, Lines, Repeats};
use melisma::output;
use melisma::speak::{Corpus, Estimate, Event, Job, List, Spoken};
use melisma::text::{count, realtime};
use melisma::{Error, Result};
use serde_json::{Value, json};

use super::{Opened, announce};
use crate::args::SpeakArgs;
use crate::dataset::watch::shard;
use crate::input::is_pipe;
use crate::session::Session;
use crate::{interrupt, progress, terminal};

/// Failures in the JSON of a corpus; the file beside it lists all.
const MAX_LISTED: usize = 1000;

pub fn run(session: &Session, args: &SpeakArgs, path: &Path) -> Result<()> {
    let corpus = corpus(args, path)?;
    let shard = shard(args.list.shard.as_deref())?;
    let list = List::open(path)?;
    let opened = Opened::open(session, args)?;
    if corpus.as_ref().and_then(|corpus| corpus.lines).is_some_and(|lines| lines.format == LineFormat::Orpheus) {
        melisma::snac::tokens::check_orpheus(opened.codec.model.config())?;
    }
    if corpus.is_some() {
        let remedy = "speak to a folder, and encode it with --model";
        opened.codec.warn_of_builtin(session, "this corpus has codes", remedy);
    }
    let name = terminal::name(args.output());
    let kept = if corpus.is_some() { "the finished rows stay beside" } else { "the finished files stay in" };
    interrupt::on_interrupt(move || Some(format!("{kept} {name}; run the same command again to resume")));
    let job = Job::new(&opened.speaker, &list)
        .with_delivery(opened.delivery.clone())
        .with_voice(args.voice.clone())
        .with_seed(args.seed)
        .with_shard(shard.0, shard.1)
        .with_existing(session.existing);
    let (start, bar, mut estimated) = (Instant::now(), progress::bar(session, Some(0)), None);
    let mut watch = |event: Event<'_>| -> Result<()> {
        match event {
            Event::Needs(needed) => session.require(&opened.codec.device, "speaking this list", needed)?,
            Event::Planned { n_texts, .. } => bar.set_length(n_texts as u64),
            Event::Estimated(estimate) => {
                bar.suspend(|| announce(session, &estimate, "texts"));
                estimated = Some(estimate);
            }
            Event::Failed(line, error) => {
                let text = terminal::one_line(&error.to_string());
                bar.suspend(|| session.say(&format!("line {line}: {text}")));
            }
            Event::Noted(line, note) => bar.suspend(|| session.say(&format!("note: line {line}: {note}"))),
            Event::Done => bar.inc(1),
            _ => {}
        }
        Ok(())
    };
    let made = speak(&job, args, corpus, &mut watch);
    bar.finish_and_clear();
    let (spoken, gathered) = made?;
    let report = Report { args, opened: &opened, estimated, spoken, gathered, wall: start.elapsed().as_secs_f64() };
    if report.n_failed() > 0 {
        session.refused_some();
    }
    session.print(opened.context.device(), || report.text(), report.json())
}

/// Speaks to the corpus, or to the folder that the output names.
fn speak(
    job: &Job<'_>,
    args: &SpeakArgs,
    corpus: Option<Corpus>,
    watch: &mut dyn FnMut(Event<'_>) -> Result<()>,
) -> Result<(Spoken, Option<Gathered>)> {
    match corpus {
        Some(corpus) => job.to_corpus(corpus, watch).map(|(spoken, made)| (spoken, Some(made))),
        None => {
            let samples = SampleFormat::from_name(&args.sample_format).unwrap_or_default();
            job.to_folder(args.output(), samples, watch).map(|spoken| (spoken, None))
        }
    }
}

/// Returns the corpus that the output names; `None` for a folder of audio.
fn corpus(args: &SpeakArgs, list: &Path) -> Result<Option<Corpus>> {
    if is_pipe(args.output()) || (args.output().extension().is_some() && !Corpus::is_name(args.output())) {
        let message = format!("{}: --list needs a folder, or a corpus of tokens", args.output().display());
        return Err(Error::invalid(message)
            .with_hint("name a folder without a suffix, or a file that ends with .safetensors, .h5 or .jsonl"));
    }
    let flags = &args.list;
    let format = if flags.format == "orpheus" { LineFormat::Orpheus } else { LineFormat::Codes };
    if !Lines::is_name(args.output()) {
        let refused = match format {
            LineFormat::Codes => flags.drop_repeats.then_some("--drop-repeats"),
            _ => Some("--format orpheus"),
        };
        if let Some(flag) = refused {
            let message = format!("{flag}: this is for lines of tokens, not for {}", args.output().display());
            return Err(Error::invalid(message).with_hint("use it with an output that ends with .jsonl"));
        }
    }
    if args.output().extension().is_none() {
        return Ok(None);
    }
    if args.speed != 1.0 {
        let message = format!("--speed {}: tokens have no speed", args.speed);
        return Err(Error::invalid(message).with_hint("leave it out, or write audio to a folder"));
    }
    output::refuse_same(args.output(), list)?;
    let repeats = if flags.drop_repeats { Repeats::Drop } else { Repeats::Keep };
    let lines = Lines::is_name(args.output()).then(|| Lines::default().with_format(format).with_repeats(repeats));
    Corpus::new(args.output()).map(|corpus| Some(corpus.with_lines(lines).with_inputs(vec![list.to_owned()])))
}

struct Report<'a> {
    args: &'a SpeakArgs,
    opened: &'a Opened<'a>,
    estimated: Option<Estimate>,
    spoken: Spoken,
    gathered: Option<Gathered>,
    wall: f64,
}

impl Report<'_> {
    fn audio_seconds(&self) -> f64 {
        let config = self.opened.codec.model.config();
        let n_samples = match self.spoken.n_samples {
            0 => (self.spoken.n_frames * config.frame_len()) as u64,
            n => n,
        };
        n_samples as f64 / f64::from(config.sampling_rate)
    }

    /// Returns the number of lines that failed; those of an earlier run are listed beside a corpus only.
    fn n_failed(&self) -> usize {
        self.gathered.as_ref().map_or(self.spoken.failures.len(), |gathered| gathered.failures.len())
    }

    fn text(&self) -> String {
        let kept = match self.spoken.n_kept {
            0 => String::new(),
            n => format!("{} already there\n", count(n as u64, "text")),
        };
        let failed = match self.n_failed() {
            0 => String::new(),
            n if self.gathered.is_some() => {
                let list = format!("{}.failures.jsonl", terminal::name(self.args.output()));
                format!("{} failed and listed in {list}\n", count(n as u64, "line"))
            }
            n => format!("{} failed and listed above\n", count(n as u64, "line")),
        };
        let (spoken, audio, wall) = (count(self.spoken.n_spoken as u64, "text"), self.audio_seconds(), self.wall);
        format!("{spoken}, {audio:.1} s of audio in {wall:.1} s ({})\n{kept}{failed}", realtime(audio, wall))
    }

    fn json(&self) -> Value {
        let Self { args, opened, estimated, spoken, gathered, wall } = self;
        let failures: Vec<Value> =
            spoken.failures.iter().map(|(line, error)| json!({"line": line, "error": error.to_string()})).collect();
        let notes: Vec<String> = spoken.notes.iter().map(|(line, note)| format!("line {line}: {note}")).collect();
        let mut all = json!({
            "texts": spoken.n_spoken, "texts_kept": spoken.n_kept, "frames": spoken.n_frames,
            "samples": spoken.n_samples, "sample_rate_hz": opened.codec.model.config().sampling_rate,
            "audio_seconds": self.audio_seconds(), "wall_seconds": wall, "failures": failures,
            "expected": estimated.as_ref().map(Estimate::to_json), "output": args.output().display().to_string(), "notes": notes,
            "model": { "source": opened.source, "hash": opened.codec.model.hash() },
        });
        if let Some(gathered) = gathered {
            let listed: Vec<&Failure> = gathered.failures.iter().take(MAX_LISTED).collect();
            all["rows"] = json!(gathered.rows);
            all["failures"] = json!(listed);
        }
        all
    }
}
