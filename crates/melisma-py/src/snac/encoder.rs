//! Samples to codes: whole clips.

use melisma::snac::tokens::Text;
use melisma::snac::{Codes, Recorder};
use melisma::{Error, Result};
use numpy::PyReadonlyArray1;
use pyo3::prelude::*;
use pyo3::types::PyList;

use super::codes::{CodesArg, levels};
use super::opened::Opened;
use crate::error::raise;
use crate::signal::Watch;

/// Frames that are encoded between two looks at signals.
const PIECE_FRAMES: usize = 8;

/// Returns the codes of each clip, which has the model's rate.
pub(super) fn encode<'py>(
    py: Python<'py>,
    opened: &Opened,
    clips: &[PyReadonlyArray1<'py, f32>],
) -> PyResult<Bound<'py, PyList>> {
    let clips: Vec<&[f32]> = clips.iter().map(PyReadonlyArray1::as_slice).collect::<std::result::Result<_, _>>()?;
    let codes = py.detach(|| clips.iter().map(|clip| opened.encode(clip)).collect::<PyResult<Vec<_>>>())?;
    let codes: Vec<_> = codes.iter().map(|codes| levels(py, codes)).collect::<PyResult<_>>()?;
    PyList::new(py, codes)
}

/// Returns the text that language models write for `codes`: `orpheus`, with the model's stamp, or `ids`.
pub(super) fn text(opened: &Opened, codes: &CodesArg<'_>, format: &str) -> PyResult<String> {
    let model = &opened.codec.model;
    let codes = codes.codes(model.config())?;
    let unknown = || Error::invalid(format!("unknown token format `{format}`")).with_hint("use orpheus or ids");
    let text = match format {
        "orpheus" => Ok(Text::Orpheus),
        "ids" => Ok(Text::Ids),
        _ => Err(unknown()),
    };
    text.and_then(|text| Ok(text.start(model)? + &text.lines(&codes))).map_err(raise)
}

impl Opened {
    fn encode(&self, samples: &[f32]) -> PyResult<Codes> {
        self.with_encoder(|engine| {
            let Some(engine) = engine else {
                let mut recorder = self.recorder().map_err(raise)?;
                let mut codes = self.pieces(samples, |piece| recorder.push(piece))?;
                codes.append(recorder.finish().map_err(raise)?.frames()).map_err(raise)?;
                return Ok(codes);
            };
            let stream = engine.open().map_err(raise)?;
            let push = |piece: &[f32]| engine.push(stream, piece);
            let encoded = self.pieces(samples, push).and_then(|mut codes| {
                codes.append(engine.finish(stream).map_err(raise)?.frames()).map_err(raise)?;
                Ok(codes)
            });
            // A finished stream is closed already.
            let _ = engine.close(stream);
            encoded
        })
    }

    pub(super) fn recorder(&self) -> Result<Recorder> {
        let exec = &self.codec.exec;
        Recorder::new(&self.codec.model, exec.context.queue(), exec.context.budget())
    }

    /// Pushes samples a few frames at a time.
    pub(super) fn pieces(&self, samples: &[f32], mut push: impl FnMut(&[f32]) -> Result<Codes>) -> PyResult<Codes> {
        let config = self.codec.model.config();
        let (mut watch, mut codes) = (Watch::new(), Codes::empty(config));
        let pushed = samples.chunks(PIECE_FRAMES * config.frame_len()).try_for_each(|piece| {
            codes.append(push(piece)?.frames())?;
            watch.ask()
        });
        watch.settle(pushed).map(|()| codes)
    }
}
