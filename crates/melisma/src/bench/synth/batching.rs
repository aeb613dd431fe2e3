//! What batching saves: phrases of 1 to 16 notes a chord in three densities, beside one voice at a time.
//!
//! One voice at a time renders every note into a buffer of its own and adds that to the mix, as the seed's first form does.

use std::time::Duration;

use super::{Plan, RATE, Row, beside, measure, single};
use crate::Result;
use crate::synth::{Chord, Engine, EngineConfig, Path, Phrase, PhraseRenderer};

const SECONDS: f64 = 4.0;

fn phrase(n_keys: usize, n_chords: usize) -> Phrase {
    let duration = SECONDS / n_chords as f64;
    let chord = |index: usize| Chord {
        onset: duration * index as f64,
        duration,
        keys: (0..n_keys).map(|key| (40 + 3 * key + index % 3) as u8).collect(),
        velocity: 0.5,
    };
    Phrase { seconds: SECONDS, chords: (0..n_chords).map(chord).collect(), ..Phrase::default() }
}

/// The seed's way: a note, its buffer, the sum.
struct Sequential {
    engine: Engine,
    note: [Vec<f32>; 2],
    mix: [Vec<f32>; 2],
}

impl Sequential {
    fn new() -> Result<Self> {
        let buffers =
            || [vec![0.0; (SECONDS * f64::from(RATE)) as usize], vec![0.0; (SECONDS * f64::from(RATE)) as usize]];
        let config = EngineConfig { max_voices: 1, path: Path::Single, ..EngineConfig::default() };
        Ok(Self { engine: Engine::new(config)?, note: buffers(), mix: buffers() })
    }

    fn render(&mut self, phrase: &Phrase) -> Result<()> {
        self.mix.iter_mut().for_each(|side| side.fill(0.0));
        let Self { engine, note: [left, right], mix } = self;
        phrase.events(0, RATE, |note| {
            engine.reset();
            let first = note.start as usize;
            for mut event in note.events(1) {
                event.at -= note.start;
                engine.push(event)?;
            }
            let len = left.len() - first;
            let mut done = 0;
            while done < len && (engine.active() > 0 || done == 0) {
                let n = 4800.min(len - done);
                engine.render(&mut left[done..done + n], &mut right[done..done + n]);
                done += n;
            }
            for (mix, note) in mix.iter_mut().zip([&left[..done], &right[..done]]) {
                mix[first..].iter_mut().zip(note).for_each(|(mix, note)| *mix += note);
            }
            Ok(())
        })
    }

    fn bytes(&self) -> usize {
        [&self.note, &self.mix].into_iter().flatten().map(|side| side.capacity() * size_of::<f32>()).sum()
    }
}

pub(super) fn rows() -> Result<Vec<Row>> {
    let plan = Plan { warm_up: 1, least: 5, time: Duration::from_millis(150), most: 50 };
    let mut rows = Vec::new();
    let mut bytes = [0, 0];
    for (density, n_chords) in [("sparse", 1), ("medium", 2), ("dense", 8)] {
        for n_keys in [1, 4, 16] {
            let phrase = phrase(n_keys, n_chords);
            let mut batched = PhraseRenderer::new(EngineConfig::default(), SECONDS)?;
            let mut sequential = Sequential::new()?;
            let mut outcome = Ok(());
            let ours = measure(plan, || {
                batched.engine().reset();
                outcome = batched.render_phrase(&phrase).map(drop);
            });
            outcome?;
            let mut outcome = Ok(());
            let theirs = measure(plan, || outcome = sequential.render(&phrase));
            outcome?;
            let name = format!("synth/batching {density} {n_keys}");
            rows.push(beside(ours.seconds(&name), "one voice at a time", theirs.median));
            bytes = [batched.buffer_bytes(), sequential.bytes()];
        }
    }
    let memory = single("synth/batching buffers", "B", bytes[0] as f64);
    rows.push(beside(memory, "one voice at a time", bytes[1] as f64));
    Ok(rows)
}
