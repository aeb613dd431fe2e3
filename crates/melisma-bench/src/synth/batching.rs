//! Savings from batching: phrases of 1 to 16 notes per chord in three densities, beside one voice
//! at a time.
//!
//! One voice at a time renders every note into its own buffer and adds that to the mix.

use std::time::{Duration, Instant};

use melisma::Result;
use melisma::synth::{Chord, Engine, EngineConfig, Phrase, PhraseRenderer};

use super::{RATE, Row, beside, cpu_seconds, of_times};

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

/// Renders one voice at a time: a note, its buffer, the sum.
struct Sequential {
    engine: Engine,
    note: [Vec<f32>; 2],
    mix: [Vec<f32>; 2],
}

impl Sequential {
    fn new() -> Result<Self> {
        let buffers =
            || [vec![0.0; (SECONDS * f64::from(RATE)) as usize], vec![0.0; (SECONDS * f64::from(RATE)) as usize]];
        let config = EngineConfig::default().with_max_voices(1);
        Ok(Self { engine: Engine::new(config)?, note: buffers(), mix: buffers() })
    }

    fn render(&mut self, phrase: &Phrase) -> Result<()> {
        self.mix.iter_mut().for_each(|side| side.fill(0.0));
        let Self { engine, note: [left, right], mix } = self;
        phrase.place(0, RATE, |note| {
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
                engine.render_singly(&mut left[done..done + n], &mut right[done..done + n]);
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

/// Measures medians of wall-clock and CPU seconds, both ways in turns.
fn time(mut works: [&mut dyn FnMut() -> Result<()>; 2]) -> Result<[[f64; 2]; 2]> {
    const TIME: Duration = Duration::from_millis(250);
    const LEAST: usize = 7;
    let mut times = [const { [const { Vec::new() }; 2] }; 2];
    for work in &mut works {
        work()?;
    }
    let begin = Instant::now();
    while times[0][0].len() < LEAST || begin.elapsed() < TIME {
        for (work, [clock, cpu]) in works.iter_mut().zip(&mut times) {
            let (start, cpu_start) = (Instant::now(), cpu_seconds());
            work()?;
            cpu.push(cpu_seconds() - cpu_start);
            clock.push(start.elapsed().as_secs_f64());
        }
    }
    Ok(times.map(|times| times.map(|times| of_times(times).median)))
}

pub(super) fn rows() -> Result<Vec<Row>> {
    let mut rows = Vec::new();
    let mut batched = PhraseRenderer::new(EngineConfig::default(), SECONDS)?;
    let mut sequential = Sequential::new()?;
    // The largest remaining shares of wall-clock and CPU time.
    let mut most = [0f64; 2];
    for (density, n_chords) in [("sparse", 1), ("medium", 2), ("dense", 8)] {
        for n_keys in 1..=16 {
            let phrase = phrase(n_keys, n_chords);
            let [ours, theirs] = time([
                &mut || {
                    batched.engine().reset();
                    batched.render_phrase(&phrase).map(drop)
                },
                &mut || sequential.render(&phrase),
            ])?;
            for (most, (ours, theirs)) in most.iter_mut().zip(ours.into_iter().zip(theirs)) {
                *most = most.max(ours / theirs);
            }
            if [1, 2, 4, 8, 16].contains(&n_keys) {
                let row = Row::single(format!("synth/batching {density} {n_keys}"), "s", ours[0]);
                rows.push(beside(row, "one voice at a time", theirs[0]));
            }
        }
    }
    let saved =
        |name: &str, most: f64| Row::single(format!("synth/batching, least {name} saved"), "%", 100.0 * (1.0 - most));
    rows.extend([saved("latency", most[0]), saved("CPU", most[1])]);
    let memory = Row::single("synth/batching buffers", "B", batched.buffer_bytes() as f64);
    rows.push(beside(memory, "one voice at a time", sequential.bytes() as f64));
    Ok(rows)
}
