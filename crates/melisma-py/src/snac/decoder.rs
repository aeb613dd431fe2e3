//! `Decoder`: whole clips and batches.

use std::sync::{Mutex, PoisonError};

use melisma::snac::{Codes, Engine, Frames, Noise, StreamId};
use numpy::PyArray1;
use pyo3::prelude::*;
use pyo3::types::PyList;

use super::codes::Given;
use super::model::{self, Codec};
use crate::error::raise;
use crate::local::Shared;
use crate::place::Choice;
use crate::signal;

/// The most clips that are decoded in one batch.
const MAX_BATCH: usize = 32;

/// Codes to samples.
#[pyclass(name = "Decoder", module = "melisma.snac", frozen, subclass)]
pub struct PyDecoder {
    pub(super) made: Shared<Made>,
}

pub(super) struct Made {
    pub(super) codec: Codec,
    /// `None` for a model that only the reference decodes.
    pub(super) engine: Mutex<Option<Engine>>,
}

#[pymethods]
impl PyDecoder {
    /// Opens `builtin:mini24`, a folder with `config.json` and weights, or a file of weights with `config.json` beside
    /// it.
    #[new]
    #[pyo3(signature = (model="builtin:mini24", *, device=None, threads=None, memory_limit=None))]
    fn new(
        py: Python<'_>,
        model: &str,
        device: Option<&str>,
        threads: Option<usize>,
        memory_limit: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Self> {
        let codec = Codec::open(py, model, Choice { device, threads, memory_limit })?;
        let place = &codec.place;
        let engine = py.detach(|| {
            let engine = Engine::new(&codec.model, &place.queue, place.budget(), 1);
            model::engine(engine, place).map_err(raise)
        })?;
        Ok(Self { made: Shared::new(Made { codec, engine: Mutex::new(engine) }) })
    }

    /// Samples per second.
    #[getter]
    fn sample_rate(&self) -> PyResult<u32> {
        Ok(self.made.get()?.codec.model.config().sampling_rate)
    }

    /// Samples of a frame.
    #[getter]
    fn frame_len(&self) -> PyResult<usize> {
        Ok(self.made.get()?.codec.model.config().frame_len())
    }

    /// Codes per frame on each level, coarsest first.
    #[getter]
    fn frame_codes(&self) -> PyResult<Vec<usize>> {
        Ok(self.made.get()?.codec.model.config().frame_codes().collect())
    }

    /// Codes in each codebook.
    #[getter]
    fn codebook_size(&self) -> PyResult<usize> {
        Ok(self.made.get()?.codec.model.config().codebook_size)
    }

    /// Identifies the model: 32 hexadecimal digits of a hash over all weights.
    #[getter]
    fn model_hash(&self) -> PyResult<String> {
        Ok(self.made.get()?.codec.model.hash().to_owned())
    }

    /// The samples of each clip.
    #[pyo3(name = "_decode")]
    fn decode<'py>(&self, py: Python<'py>, clips: Vec<Given<'py>>, noise: Option<u64>) -> PyResult<Bound<'py, PyList>> {
        let made = self.made.get()?;
        let config = made.codec.model.config();
        let clips: Vec<Codes> = clips.iter().map(|clip| clip.codes(config)).collect::<PyResult<_>>()?;
        let noise = model::noise(noise);
        let samples = py.detach(|| made.decode(&clips, &noise))?;
        PyList::new(py, samples.into_iter().map(|samples| PyArray1::from_vec(py, samples)))
    }
}

impl Made {
    fn decode(&self, clips: &[Codes], noise: &Noise) -> PyResult<Vec<Vec<f32>>> {
        let mut engine = self.engine.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(engine) = engine.as_mut() else {
            let decode = |codes| signal::check().map(|()| self.codec.model.decode(codes, noise));
            return clips.iter().map(decode).collect();
        };
        if let [codes] = clips {
            return Ok(vec![batch(engine, &[codes.frames()], noise)?.remove(0)]);
        }
        let place = &self.codec.place;
        let mut sibling = engine.sibling(&place.queue, place.budget(), clips.len().min(MAX_BATCH)).map_err(raise)?;
        let mut samples = Vec::new();
        for clips in clips.chunks(MAX_BATCH) {
            let clips: Vec<Frames<'_>> = clips.iter().map(Codes::frames).collect();
            samples.extend(batch(&mut sibling, &clips, noise)?);
        }
        Ok(samples)
    }
}

/// Decodes clips together; the samples are those of each clip alone.
fn batch(engine: &mut Engine, clips: &[Frames<'_>], noise: &Noise) -> PyResult<Vec<Vec<f32>>> {
    let streams: Vec<StreamId> =
        clips.iter().map(|_| engine.open(noise.clone())).collect::<Result<_, _>>().map_err(raise)?;
    let decoded = steps(engine, &streams, clips);
    for stream in streams {
        // A finished stream is closed already.
        let _ = engine.close(stream);
    }
    decoded
}

fn steps(engine: &mut Engine, streams: &[StreamId], clips: &[Frames<'_>]) -> PyResult<Vec<Vec<f32>>> {
    let mut rest = clips.to_vec();
    let mut samples = vec![Vec::new(); clips.len()];
    loop {
        let active: Vec<usize> = (0..rest.len()).filter(|&index| !rest[index].is_empty()).collect();
        let Some(shortest) = active.iter().map(|&index| rest[index].len()).min() else { break };
        let n_frames = shortest.min((engine.max_frames() / active.len()).max(1));
        let split: Vec<_> = active.iter().map(|&index| rest[index].split_at(n_frames)).collect();
        let input: Vec<_> = active.iter().zip(&split).map(|(&index, (now, _))| (streams[index], *now)).collect();
        let found = engine.step(&input).map_err(raise)?;
        for (row, (&index, (_, later))) in active.iter().zip(&split).enumerate() {
            samples[index].extend_from_slice(found.of(row));
            rest[index] = *later;
        }
        signal::check()?;
    }
    for (stream, samples) in streams.iter().zip(&mut samples) {
        samples.extend(engine.finish(*stream).map_err(raise)?);
    }
    Ok(samples)
}
