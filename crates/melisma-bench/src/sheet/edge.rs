//! Clicks: energy above 14 kHz at the edges of notes that have none there themselves.

use melisma::Result;
use melisma::synth::{Action, Engine, EngineConfig, Event, Instrument, Note, Score, Style, compose};

use super::signal::{db, high_pass};
use super::{Limit, RATE, Sheet};

/// Clicks have energy above this frequency.
const ABOVE_HZ: f64 = 14_000.0;
/// Samples around an edge.
const AROUND: usize = 480;
const LIMIT: Limit = Limit::AtMost(-60.0);

pub(super) fn measure(sheet: &mut Sheet) -> Result<()> {
    let note = |instrument, start, duration, key| Note {
        instrument,
        start,
        duration,
        key,
        velocity: 0.6,
        pan: 0.0,
        channel: 0,
    };
    let melodic = [Instrument::Pad, Instrument::Lead, Instrument::Bass, Instrument::Pluck];
    let mut worst = f64::NEG_INFINITY;
    for instrument in melodic {
        // Long, short, and shorter than any attack.
        for duration in [1.0, 0.05, 0.001] {
            let score = Score { tempo: 60.0, notes: vec![note(instrument, 0.25, duration, 45)], ..Score::default() };
            worst = worst.max(loudest(&score, 256, &[0.25, 0.25 + duration])?);
        }
    }
    sheet.add("clicks at note edges", worst, "dBFS", LIMIT);
    let mut notes = Vec::new();
    for (index, root) in [45, 41, 48, 43].into_iter().enumerate() {
        notes.extend([0, 7, 12, 16].map(|above| note(Instrument::Pad, index as f64, 1.0, root + above)));
    }
    let chords = Score { tempo: 60.0, notes, ..Score::default() };
    sheet.add("clicks at chord changes", loudest(&chords, 256, &[1.0, 2.0, 3.0, 4.0])?, "dBFS", LIMIT);
    // As many voices as one chord has, and chords that overlap: each change steals all voices.
    let mut held = chords;
    held.notes.iter_mut().for_each(|note| note.duration = 3.0);
    sheet.add("clicks where voices are stolen", loudest(&held, 4, &[1.0, 2.0, 3.0])?, "dBFS", LIMIT);
    sheet.add("clicks at phrase joins", joins()?, "dBFS", LIMIT);
    sheet.add("clicks where a note begins again", again()?, "dBFS", LIMIT);
    Ok(())
}

/// Measures two phrases of a piece, without its noise instruments.
fn joins() -> Result<f64> {
    let mut style = Style::named("bright")?;
    (style.hat, style.kick, style.swell, style.arpeggio) = (0, 0, 0, 0);
    let join = 32.0 * f64::from(style.beat_us) / 1e6;
    let score = compose(&style, 1, 2.0 * join)?;
    loudest(&score, 256, &[join])
}

/// Measures a key that is struck again while its note sounds.
fn again() -> Result<f64> {
    let mut engine = Engine::new(EngineConfig::default().with_sample_rate(RATE))?;
    for at in [0, 30_000, 40_000] {
        let action =
            Action::Start { note: 1, instrument: Instrument::Bass, channel: 0, key: 40, velocity: 0.6, pan: 0.0 };
        engine.push(Event { at, action })?;
    }
    let (mut left, mut right) = (vec![0.0; 60_000], vec![0.0; 60_000]);
    engine.render(&mut left, &mut right);
    Ok(around(&left, &[30_000, 40_000]))
}

/// Returns the largest sample above [`ABOVE_HZ`] around these times of a score in seconds, without
/// effects.
fn loudest(score: &Score, max_voices: usize, edges: &[f64]) -> Result<f64> {
    let n = ((score.seconds() + 0.5) * f64::from(RATE)) as usize;
    let config = EngineConfig::default().with_sample_rate(RATE).with_max_voices(max_voices);
    let mut engine = Engine::new(config)?;
    score.events(RATE).into_iter().try_for_each(|event| engine.push(event))?;
    let (mut left, mut right) = (vec![0.0; n], vec![0.0; n]);
    engine.render(&mut left, &mut right);
    let edges: Vec<usize> = edges.iter().map(|edge| (edge * f64::from(RATE)) as usize).collect();
    Ok(around(&left, &edges))
}

fn around(x: &[f32], edges: &[usize]) -> f64 {
    let high = high_pass(x, ABOVE_HZ / f64::from(RATE));
    let near = |edge: &usize| &high[edge.saturating_sub(AROUND)..(edge + AROUND).min(high.len())];
    db(edges.iter().flat_map(near).fold(0f64, |size, x| size.max(x.abs())))
}
