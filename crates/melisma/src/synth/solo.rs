//! Many notes at once, each alone in a row of its own: voices before they are mixed.

use melisma_kernels::signal::voice::{Control, Controls, Note};

use super::bulk::{BulkConfig, BulkRenderer, Ticket};
use super::event::check_rate;
use super::instrument::Instrument;
use super::patch::{self, Pitch, Touch};
use super::score::MAX_SECONDS;
use crate::{Context, Error, Result};

/// Bytes of a batch's samples.
const BATCH_BYTES: usize = 32 << 20;

/// A note that is rendered alone.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Solo {
    /// What plays it.
    pub instrument: Instrument,
    /// MIDI key, 0 to 127, 60 = middle C; fractions lie between keys.
    pub pitch: f64,
    /// Loudness, 0 to 1.
    pub velocity: f32,
    /// Seconds until it is released.
    pub duration: f64,
}

/// Renders `notes` at a sample rate into the rows of `out`, `[notes.len(), samples]`, without effects. A row has the
/// samples of either side of its note in the middle, from its first one on: on a CPU those of an [`Engine`](super::Engine)
/// that plays only this note, and on every device the same bits whatever the other rows are. `go_on` is called between
/// batches, and an error of it ends the work.
///
/// ```
/// use melisma::Context;
/// use melisma::synth::{Instrument, Solo, voices};
///
/// let chord = [60.0, 64.0, 67.0].map(|pitch| Solo { instrument: Instrument::Lead, pitch, velocity: 0.8, duration: 0.4 });
/// let mut rows = vec![0.0; 3 * 24_000];
/// voices(&Context::cpu()?, (&chord, 48_000), &mut rows, &mut || Ok(()))?;
/// assert!(rows.chunks(24_000).all(|row| row.iter().any(|sample| sample.abs() > 0.01)));
/// # Ok::<(), melisma::Error>(())
/// ```
///
/// # Errors
/// A figure is outside of its range, `out` is not whole rows, memory is short, the device fails, or `go_on` does.
pub fn voices(
    context: &Context,
    (notes, sample_rate): (&[Solo], u32),
    out: &mut [f32],
    go_on: &mut dyn FnMut() -> Result<()>,
) -> Result<()> {
    check_rate(sample_rate)?;
    let placed = notes.iter().enumerate().map(|(index, note)| note.placed(index, sample_rate));
    let placed = placed.collect::<Result<Vec<Note>>>()?;
    let len = out.len().checked_div(notes.len()).unwrap_or(0);
    if len * notes.len() != out.len() {
        return Err(Error::invalid(format!("synth: {} samples are not {} equal rows", out.len(), notes.len())));
    }
    if len == 0 {
        return Ok(());
    }
    let _span = tracing::info_span!("solos", n = notes.len(), samples = len).entered();
    let n_rows = (BATCH_BYTES / (2 * len * size_of::<f32>())).clamp(1, notes.len());
    let config = BulkConfig::new(n_rows, len as f64 / f64::from(sample_rate), sample_rate);
    let mut renderer = BulkRenderer::new(context.device(), context.budget(), config)?;
    let mut under_way: Option<(Ticket, &mut [f32])> = None;
    for (batch, rows) in placed.chunks(n_rows).zip(out.chunks_mut(n_rows * len)) {
        go_on()?;
        let batch: Vec<Note> = (0..).zip(batch).map(|(mix, note)| Note { mix, ..*note }).collect();
        let ticket = renderer.start_notes(&batch, Controls::Still(Control::default()))?;
        if let Some((ticket, rows)) = under_way.replace((ticket, rows)) {
            keep(renderer.wait(ticket)?, rows);
        }
    }
    if let Some((ticket, rows)) = under_way {
        keep(renderer.wait(ticket)?, rows);
    }
    Ok(())
}

/// Copies the left side: in the middle both sides are the same.
fn keep(samples: &[f32], rows: &mut [f32]) {
    rows.iter_mut().zip(samples.chunks_exact(2)).for_each(|(row, frame)| *row = frame[0]);
}

impl Solo {
    /// Returns the note as the first of its row, as a score with this note alone has it.
    fn placed(self, index: usize, sample_rate: u32) -> Result<Note> {
        let Self { instrument, pitch, velocity, duration } = self;
        for (name, value, most) in
            [("pitch", pitch, 127.0), ("velocity", velocity.into(), 1.0), ("duration", duration, MAX_SECONDS)]
        {
            if !(0.0..=most).contains(&value) {
                return Err(Error::invalid(format!("voice {index}: the {name} is {value:?}; 0 to {most} is allowed")));
            }
        }
        let key = pitch.round();
        let pitch = Pitch { key: key as u8, semitones: (pitch - key) as f32, sample_rate };
        let touch = Touch { velocity, pan: 0.0, seed: patch::seed(0) };
        let release = (duration * f64::from(sample_rate)).round().max(1.0) as u64;
        let release = (!instrument.is_one_shot()).then_some(release);
        Ok(Note { voice: patch::voice(instrument, pitch, touch), mix: 0, onset: 0, release })
    }
}
