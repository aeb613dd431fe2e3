//! Codes to samples: whole clips and batches.

use melisma::Result;
use melisma::snac::{Codes, DecodeOptions, Engine, Frames, Noise, Player, StreamId};
use numpy::PyArray1;
use pyo3::prelude::*;
use pyo3::types::PyList;

use super::opened::Opened;
use crate::audio::fill;
use crate::error::raise;
use crate::out;
use crate::signal::Watch;

/// The most clips that are decoded in one batch.
const MAX_BATCH: usize = 32;

/// Returns the samples of each clip; those of a single one go into `out` if that is given.
pub(super) fn decode<'py>(
    py: Python<'py>,
    opened: &Opened,
    clips: &[Codes],
    (noise, out): (&Noise, Option<&Bound<'py, PyAny>>),
) -> PyResult<Bound<'py, PyList>> {
    let frame_len = opened.codec.model.config().frame_len();
    let target = |clip: &Codes| out::target(py, out, [clip.frames().len() * frame_len]);
    let arrays: Vec<Bound<'py, PyArray1<f32>>> = clips.iter().map(target).collect::<PyResult<_>>()?;
    let mut held: Vec<_> = arrays.iter().map(out::writable).collect::<PyResult<_>>()?;
    let mut samples: Vec<&mut [f32]> =
        held.iter_mut().map(|array| array.as_slice_mut()).collect::<std::result::Result<_, _>>()?;
    py.detach(|| opened.decode(clips, noise, &mut samples))?;
    drop(held);
    PyList::new(py, arrays)
}

impl Opened {
    fn decode(&self, clips: &[Codes], noise: &Noise, samples: &mut [&mut [f32]]) -> PyResult<()> {
        let exec = &self.codec.exec;
        self.with_decoder(|engine| match (engine, clips) {
            (None, _) => clips.iter().zip(samples).try_for_each(|(clip, to)| self.decode_by_reference(clip, noise, to)),
            (Some(engine), [clip]) => batch(engine, &[clip.frames()], noise, samples),
            (Some(engine), _) => {
                let most = clips.len().min(MAX_BATCH);
                let mut sibling = engine.sibling(exec.context.queue(), exec.context.budget(), most).map_err(raise)?;
                for (clips, samples) in clips.chunks(MAX_BATCH).zip(samples.chunks_mut(MAX_BATCH)) {
                    let clips: Vec<Frames<'_>> = clips.iter().map(Codes::frames).collect();
                    batch(&mut sibling, &clips, noise, samples)?;
                }
                Ok(())
            }
        })
    }

    fn decode_by_reference(&self, clip: &Codes, noise: &Noise, mut to: &mut [f32]) -> PyResult<()> {
        let exec = &self.codec.exec;
        let mut watch = Watch::new();
        let decoded = (|| {
            let options = DecodeOptions::from(noise.clone());
            let mut player = Player::new(&self.codec.model, exec.context.queue(), exec.context.budget(), options)?;
            for frame in clip.frames().chunks(1) {
                fill(&mut to, &player.push(frame)?)?;
                watch.ask()?;
            }
            fill(&mut to, &player.finish()?)
        })();
        watch.settle(decoded)
    }
}

/// Decodes clips together; the samples are those of each clip alone.
fn batch(engine: &mut Engine, clips: &[Frames<'_>], noise: &Noise, samples: &mut [&mut [f32]]) -> PyResult<()> {
    let streams: Vec<StreamId> =
        clips.iter().map(|_| engine.open(noise.clone())).collect::<Result<_>>().map_err(raise)?;
    let mut watch = Watch::new();
    let decoded = steps(engine, &streams, clips, samples, &mut watch);
    for stream in streams {
        // A finished stream is closed already.
        let _ = engine.close(stream);
    }
    watch.settle(decoded)
}

fn steps(
    engine: &mut Engine,
    streams: &[StreamId],
    clips: &[Frames<'_>],
    samples: &mut [&mut [f32]],
    watch: &mut Watch,
) -> Result<()> {
    let mut rest = clips.to_vec();
    loop {
        let active: Vec<usize> = (0..rest.len()).filter(|&index| !rest[index].is_empty()).collect();
        let Some(shortest) = active.iter().map(|&index| rest[index].len()).min() else { break };
        let n_frames = shortest.min((engine.max_frames() / active.len()).max(1));
        let split: Vec<_> = active.iter().map(|&index| rest[index].split_at(n_frames)).collect();
        let input: Vec<_> = active.iter().zip(&split).map(|(&index, (now, _))| (streams[index], *now)).collect();
        let found = engine.step(&input)?;
        for (row, (&index, (_, later))) in active.iter().zip(&split).enumerate() {
            fill(&mut samples[index], found.of(row))?;
            rest[index] = *later;
        }
        watch.ask()?;
    }
    streams.iter().zip(samples).try_for_each(|(stream, samples)| fill(samples, &engine.finish(*stream)?))
}
