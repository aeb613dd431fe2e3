//! `Speaker`: a language model that speaks, and its codec.

use std::ffi::CStr;
use std::path::PathBuf;
use std::sync::Arc;

use melisma::audio::Layout;
use melisma::audio::stretch::Stretch;
use melisma::config::{Origin, Policy, Raw, Section};
use melisma::snac::Rounding;
use melisma::snac::{Codes, Decoder};
use melisma::speak::{BUILTIN, Delivery, Opening, Pace, Progress, Script, Speaker, SpokenText};
use melisma::{Error, Remedy, Result};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};

use super::stream::PySpeechStream;
use super::{Heard, Manner, Spoken, list};
use crate::array;
use crate::error::raise;
use crate::exec_context::ExecOptions;
use crate::local::Local;
use crate::signal::{self, Stop};
use crate::snac::Codec;

/// A warning about a voice model that does not name its codec.
const DOUBT: &CStr = c"the voice model does not say which codec it was trained with; if it is not builtin:mini24, it \
                       speaks noise: Speaker(voice_model, model=...)";

/// A language model that speaks, and its codec.
#[pyclass(name = "Speaker", module = "melisma.speak", frozen, subclass)]
pub struct PySpeaker {
    opened: Local<Opened>,
}

struct Opened {
    speaker: Arc<Speaker>,
    /// How a GPU may round the codec's factors.
    rounding: Rounding,
}

#[pymethods]
impl PySpeaker {
    /// Opens a language model and its codec.
    #[new]
    #[pyo3(signature = (
        voice_model=None, *, model=None, precision=None, normalise=None, device=None, threads=None, memory_limit=None
    ))]
    #[allow(clippy::too_many_arguments, reason = "a signature of Python")]
    fn new(
        py: Python<'_>,
        voice_model: Option<PathBuf>,
        model: Option<PathBuf>,
        precision: Option<&str>,
        normalise: Option<bool>,
        device: Option<&str>,
        threads: Option<usize>,
        memory_limit: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Self> {
        let voice_model = voice_model.unwrap_or_else(|| BUILTIN.into());
        let model = model.unwrap_or_else(|| Speaker::codec_of(&voice_model).into());
        let codec = Codec::open(py, model, ExecOptions { device, threads, memory_limit })?;
        let (context, model) = (codec.exec.context.clone(), Arc::clone(&codec.model));
        let rounding = Policy::new(&codec.exec.config).rounding().map_err(raise)?;
        let of_weights = of_weights(precision, rounding).map_err(raise)?;
        let mut config = codec.exec.speak.clone();
        if let Some(normalise) = normalise {
            config.set("speak.normalise", &Raw::Bool(normalise), Origin::Flag("normalise")).map_err(raise)?;
        }
        let opening = Opening::default().with_rounding(of_weights).with_config(config);
        let speaker = signal::alone(py, move |_: &_| Speaker::open_as_in(&context, &voice_model, model, opening))?;
        if speaker.format().codec.is_none() {
            codec.warn_of_builtin(py, DOUBT, 1)?;
        }
        Ok(Self { opened: Local::new(Opened { speaker: Arc::new(speaker), rounding }) })
    }

    /// Samples per second.
    #[getter]
    fn sample_rate(&self) -> PyResult<u32> {
        Ok(self.opened.get()?.sample_rate())
    }

    /// The names of the voices, the default one first; none for a model with a single voice.
    #[getter]
    fn voices(&self) -> PyResult<Vec<String>> {
        Ok(self.opened.get()?.speaker.format().voices.clone())
    }

    /// Identifies the codec: 32 hexadecimal digits of a hash over all weights.
    #[getter]
    fn model_hash(&self) -> PyResult<String> {
        Ok(self.opened.get()?.speaker.codec().hash().to_owned())
    }

    /// The codec's name if it is part of the library.
    #[getter(_builtin_codec)]
    fn builtin_codec(&self) -> PyResult<Option<&'static str>> {
        Ok(self.opened.get()?.speaker.codec().builtin_name())
    }

    /// The model's own settings of the sampler: a dict with the keywords of `speak`.
    #[getter]
    fn defaults<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let settings = self.opened.get()?.speaker.format().settings();
        // The shortest number that stands for the value.
        let number = |value: f32| value.to_string().parse::<f64>().unwrap_or(value.into());
        let found = PyDict::new(py);
        found.set_item("temperature", number(settings.sample.temperature))?;
        found.set_item("top_k", settings.sample.top_k)?;
        found.set_item("top_p", number(settings.sample.top_p))?;
        found.set_item("min_p", number(settings.sample.min_p))?;
        found.set_item("repetition_penalty", number(settings.sample.repetition_penalty))?;
        found.set_item("penalty_window", (settings.penalty_window != usize::MAX).then_some(settings.penalty_window))?;
        found.set_item("free", false)?;
        Ok(found)
    }

    #[pyo3(name = "_speak")]
    fn speak<'py>(
        &self,
        py: Python<'py>,
        text: String,
        which: (Option<String>, u64),
        manner: Manner,
    ) -> PyResult<Spoken<'py>> {
        let (opened, (voice, seed)) = (self.opened.get()?, which);
        let speaker = Arc::clone(&opened.speaker);
        let delivery = Delivery { pace: Pace::Whole, ..opened.delivery(&manner) };
        let work = move |stop: &Stop| speak(&speaker, (&text, voice.as_deref(), seed), &delivery, stop);
        signal::alone(py, work)?.into_python(py)
    }

    #[pyo3(name = "_stream")]
    fn stream(
        &self,
        py: Python<'_>,
        text: String,
        which: (Option<String>, u64),
        manner: Manner,
    ) -> PyResult<PySpeechStream> {
        let (opened, (voice, seed)) = (self.opened.get()?, which);
        let (speaker, delivery) = (Arc::clone(&opened.speaker), opened.delivery(&manner));
        let work = move |_: &Stop| speaker.speak(speaker.script(&text, voice.as_deref(), seed)?, &delivery);
        let speech = signal::alone(py, work)?;
        Ok(PySpeechStream::new(speech, opened.speaker.codec()))
    }

    /// How fast a text will be spoken.
    #[pyo3(name = "_estimate")]
    fn estimate<'py>(
        &self,
        py: Python<'py>,
        text: String,
        which: (Option<String>, u64),
        manner: Manner,
    ) -> PyResult<Bound<'py, PyAny>> {
        let (opened, (voice, seed)) = (self.opened.get()?, which);
        let speaker = Arc::clone(&opened.speaker);
        let delivery = Delivery { pace: Pace::Whole, ..opened.delivery(&manner) };
        let work = move |_: &Stop| speaker.speak(speaker.script(&text, voice.as_deref(), seed)?, &delivery)?.estimate();
        array::parsed(py, &signal::alone(py, work)?.to_json().to_string())
    }

    /// The speech of each text, or the exception that it failed with.
    #[pyo3(name = "_speak_all")]
    fn speak_all<'py>(
        &self,
        py: Python<'py>,
        texts: Vec<(String, Option<String>, u64)>,
        manner: Manner,
    ) -> PyResult<Bound<'py, PyList>> {
        let opened = self.opened.get()?;
        let (speaker, delivery) = (Arc::clone(&opened.speaker), opened.delivery(&manner));
        let found = signal::alone(py, move |stop: &Stop| speak_all(&speaker, &texts, &delivery, stop))?;
        let list = PyList::empty(py);
        for heard in found {
            match heard {
                Ok(heard) => list.append(heard.into_python(py)?)?,
                Err(error) => list.append(raise(error).into_value(py))?,
            }
        }
        Ok(list)
    }

    /// Speaks the lines of a file to a folder of audio, or to a corpus of tokens.
    #[pyo3(name = "_list")]
    fn list<'py>(&self, py: Python<'py>, asked: list::Asked, manner: Manner) -> PyResult<Bound<'py, PyAny>> {
        let opened = self.opened.get()?;
        list::speak(py, Arc::clone(&opened.speaker), asked, opened.delivery(&manner))
    }
}

impl Opened {
    fn sample_rate(&self) -> u32 {
        self.speaker.codec().config().sampling_rate
    }

    fn delivery(&self, manner: &Manner) -> Delivery {
        manner.delivery(self.speaker.format().settings(), self.rounding)
    }
}

/// Returns how a GPU may round the weights of the language model; without a `precision` that of the settings.
fn of_weights(precision: Option<&str>, settings: Rounding) -> Result<Rounding> {
    match precision {
        None => Ok(settings),
        Some("bf16") => Ok(Rounding::Bf16),
        Some("fp32") => Ok(Rounding::Off),
        Some(other) => Err(Error::invalid(format!("precision is `{other:.64}`: fp32 or bf16"))
            .with_hint(Remedy::use_precision(&["bf16"]))),
    }
}

fn speak(
    speaker: &Speaker,
    (text, voice, seed): (&str, Option<&str>, u64),
    delivery: &Delivery,
    stop: &Stop,
) -> Result<Heard> {
    let script = speaker.script(text, voice, seed)?;
    let mut speech = speaker.speak(script, delivery)?;
    let (mut samples, mut codes) = (Vec::new(), Codes::empty(speaker.codec().config()));
    for piece in speech.by_ref() {
        let piece = piece?;
        codes.append(piece.codes.frames())?;
        samples.extend(piece.samples);
        stop.check()?;
    }
    Ok(Heard { samples, codes, ledger: speech.ledger(), notes: speech.notes().to_vec() })
}

fn speak_all(
    speaker: &Speaker,
    texts: &[(String, Option<String>, u64)],
    delivery: &Delivery,
    stop: &Stop,
) -> Result<Vec<Result<Heard>>> {
    let mut decoder = Decoder::new_in(speaker.context(), speaker.codec().clone(), delivery.decoding.clone())?;
    let mut found: Vec<Option<Result<Heard>>> = Vec::new();
    let mut scripts: Vec<(usize, Script)> = Vec::new();
    for (index, (text, voice, seed)) in texts.iter().enumerate() {
        stop.check()?;
        let script = speaker.script(text, voice.as_deref(), *seed);
        found.push(script.map(|script| scripts.push((index, script))).err().map(Err));
    }
    speaker.speak_all_watched(scripts, &delivery.settings, |progress| {
        if let Progress::Done(index, said) = progress {
            found[index] = Some(match said {
                Ok(SpokenText { codes, ledger, notes, .. }) => {
                    let samples = decode(&mut decoder, &codes, delivery.speed)?;
                    Ok(Heard { samples, codes, ledger, notes })
                }
                Err(error) => Err(error),
            });
        }
        stop.check()
    })?;
    let missing = || Err(Error::invalid("the text was not spoken"));
    Ok(found.into_iter().map(|heard| heard.unwrap_or_else(missing)).collect())
}

fn decode(decoder: &mut Decoder, codes: &Codes, speed: f64) -> Result<Vec<f32>> {
    let samples = decoder.decode(codes)?;
    if speed == 1.0 {
        return Ok(samples);
    }
    let mut stretch = Stretch::new(Layout::new(decoder.sample_rate(), 1), speed)?;
    let mut stretched = stretch.push(&samples).to_vec();
    stretched.extend(stretch.finish());
    Ok(stretched)
}
