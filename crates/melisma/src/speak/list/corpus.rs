//! A list to a corpus of tokens, with a row for each text.

use std::path::{Path, PathBuf};

use serde_json::{Map, Value, json};

use super::job::{Event, Job, Spoken, Task, Watch};
use crate::dataset::{Gather, Gathered, Gathering, Lines, Source, StoreKind};
use crate::runtime::device::host_threads;
use crate::speak::{Draw, Progress, Script, Settings, SpokenText};
use crate::{Error, Result};

/// Where a corpus goes.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Corpus {
    /// The file or folder.
    pub output: PathBuf,
    /// Its format.
    pub store: StoreKind,
    /// Makes it a text file with one line for each row.
    pub lines: Option<Lines>,
    /// Files that it may not replace, such as the list.
    pub inputs: Vec<PathBuf>,
}

impl Corpus {
    /// Returns the corpus at `output`, in the format that its name says.
    ///
    /// # Errors
    /// The suffix is unknown.
    pub fn new(output: impl Into<PathBuf>) -> Result<Self> {
        let output = output.into();
        let (store, lines) = match Lines::is_name(&output) {
            true => (StoreKind::Safetensors, Some(Lines::default())),
            false => (StoreKind::choose(None, &output)?, None),
        };
        Ok(Self { output, store, lines, inputs: Vec::new() })
    }

    setters! {
        /// Sets the form of the lines.
        pub fn with_lines(lines: Option<Lines>);
        /// Sets the files that it may not replace.
        pub fn with_inputs(inputs: Vec<PathBuf>);
    }

    /// Returns whether `path` names a corpus and not a folder of audio.
    pub fn is_name(path: &Path) -> bool {
        path.extension().is_some() && (Lines::is_name(path) || StoreKind::choose(None, path).is_ok())
    }
}

impl Job<'_> {
    /// Speaks to the rows of a corpus, without audio. What an interrupted run of the same job has spoken is kept.
    ///
    /// # Errors
    /// No line can be spoken, the output exists and is of another job, a file cannot be written, memory is too small,
    /// the device failed, or `watch` did.
    pub fn to_corpus(
        &self,
        corpus: Corpus,
        watch: &mut dyn FnMut(Event<'_>) -> Result<()>,
    ) -> Result<(Spoken, Gathered)> {
        let mut spoken = Spoken::default();
        let tasks = self.tasks(Ok, &mut spoken, watch)?;
        let (mut rows, mut scripts) = (Vec::new(), Vec::new());
        for Task { number, name, text, script } in tasks {
            if text.len() > Source::MAX_TEXT {
                let message = format!("a text of {} bytes; a corpus has at most {}", text.len(), Source::MAX_TEXT);
                spoken.fail(number, Error::invalid(message), watch)?;
                continue;
            }
            rows.push(Source { index: number - 1, name, text, kept: Vec::new() });
            scripts.push((number, script));
        }
        let codec = self.speaker.codec();
        let settings = self.settings()?;
        let mut gather = Gather::new(codec.clone(), corpus.output, rows, self.request(&settings))
            .with_settings(settings)
            .with_inputs(corpus.inputs)
            .with_store(corpus.store)
            .with_shard(self.shard.0, self.shard.1)
            .with_existing(self.existing);
        if let Some(lines) = corpus.lines {
            gather = gather.with_lines(lines);
        }
        for (number, error) in &spoken.failures {
            gather.refuse(number - 1, format!("{}:{number}", self.list.name), error);
        }
        if scripts.is_empty() {
            self.check_some()?;
        }
        self.need(scripts.iter().map(|(_, script)| script), watch)?;
        let mut gathering = gather.begin()?;
        let n_all = scripts.len();
        let left: Vec<_> = scripts.into_iter().enumerate().filter(|(row, _)| !gathering.is_done(*row)).collect();
        spoken.n_kept = n_all - left.len();
        let scripts = left.into_iter().map(|(row, (number, script))| ((row, number), script)).collect();
        self.gather(scripts, &mut gathering, (&mut spoken, &mut *watch))?;
        Ok((spoken, gathering.finish()?))
    }

    fn gather(
        &self,
        scripts: Vec<((usize, u32), Script)>,
        gathering: &mut Gathering,
        (spoken, watch): (&mut Spoken, Watch<'_>),
    ) -> Result<()> {
        watch(Event::Planned { n_texts: scripts.len(), n_kept: spoken.n_kept })?;
        if scripts.is_empty() {
            return Ok(());
        }
        self.estimate(&scripts, None, watch)?;
        self.speaker.speak_all_watched(scripts, &self.delivery.settings, |progress| {
            let ((row, number), said) = match progress {
                Progress::Step => return watch(Event::Step),
                Progress::Done(named, said) => (named, said),
            };
            match said {
                Err(error) => {
                    gathering.fail(row, &error)?;
                    spoken.fail(number, error, watch)?;
                }
                Ok(SpokenText { codes, notes, .. }) => {
                    let _span = tracing::info_span!("write", n = codes.n_frames()).entered();
                    spoken.note(number, notes, watch)?;
                    gathering.push(row, &codes)?;
                    spoken.n_spoken += 1;
                    spoken.n_frames += codes.n_frames();
                }
            }
            watch(Event::Done)
        })
    }

    /// Returns everything but the lines that the codes depend on.
    fn settings(&self) -> Result<Map<String, Value>> {
        let Settings { sample, penalty_window, draw } = self.delivery.settings;
        let speech = json!({
            "draw": match draw { Draw::Frames => "frames", Draw::Free => "free" },
            "min_p": number(sample.min_p),
            "penalty_window": (penalty_window != usize::MAX).then_some(penalty_window),
            "repetition_penalty": number(sample.repetition_penalty),
            "temperature": number(sample.temperature),
            "top_k": sample.top_k,
            "top_p": number(sample.top_p),
            "voice_model": self.speaker.hash(host_threads(self.speaker.context().device()))?,
        });
        Ok([("speech".to_owned(), speech)].into_iter().collect())
    }

    /// Returns a hash of everything that the codes of all shards depend on.
    fn request(&self, settings: &Map<String, Value>) -> String {
        let mut hash = blake3::Hasher::new_derive_key("melisma spoken list v1");
        let mut add = |text: &str| {
            hash.update(&(text.len() as u64).to_le_bytes());
            hash.update(text.as_bytes());
        };
        add(self.speaker.codec().hash());
        add(&Value::Object(settings.clone()).to_string());
        for (number, line) in &self.list.lines {
            let line = line.as_ref().ok().map(|line| {
                let voice = line.voice.as_ref().or(self.voice.as_ref());
                (&line.text, voice, line.seed.unwrap_or(self.seed), &line.name)
            });
            add(&json!([number, line]).to_string());
        }
        hash.finalize().to_hex().to_string()
    }
}

/// Returns the shortest number that stands for `value`.
fn number(value: f32) -> Value {
    value.to_string().parse::<f64>().map_or(Value::Null, Value::from)
}
