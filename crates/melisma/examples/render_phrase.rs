//! A phrase rendered in one call, then notes played live on an endless stream of 10 ms blocks.
//!
//! `cargo run --release -p melisma --example render_phrase` writes `phrase.wav` and `live.wav`.

use std::error::Error;

use melisma::Existing;
use melisma::audio::Clip;
use melisma::synth::{Action, Chord, EngineConfig, Instrument, Kick, Melody, Phrase, PhraseRenderer, Stream};

fn main() -> Result<(), Box<dyn Error>> {
    let config = EngineConfig::default();
    let tune = [69, 72, 76, 74].into_iter().enumerate();
    let phrase = Phrase {
        seconds: 4.0,
        chords: vec![Chord { onset: 0.0, duration: 3.0, keys: vec![45, 52, 57, 60], velocity: 0.6 }],
        melody: tune
            .map(|(beat, key)| Melody { onset: 0.5 * beat as f64, duration: 0.4, key, velocity: 0.8 })
            .collect(),
        kicks: (0..6).map(|beat| Kick { onset: 0.5 * f64::from(beat), velocity: 0.9 }).collect(),
        ..Phrase::default()
    };
    let mut renderer = PhraseRenderer::new(config, phrase.seconds)?;
    let sound = renderer.render_phrase(&phrase)?;
    save("phrase.wav", config.sample_rate, sound.left, sound.right)?;

    // The remote may be cloned and sent to other threads; what it sends starts with the next block.
    let (mut stream, remote) = Stream::new(config)?;
    let (mut left, mut right) = (Vec::new(), Vec::new());
    for number in 0..200 {
        if number % 50 == 0 {
            let (note, key) = (number, 57 + 3 * (number / 50) as u8);
            remote.send(Action::Start {
                note,
                instrument: Instrument::Lead,
                channel: 0,
                key,
                velocity: 0.7,
                pan: 0.0,
            })?;
        } else if number % 50 == 40 {
            remote.send(Action::Release { note: number - 40 })?;
        }
        let block = stream.next_block();
        left.extend_from_slice(block.left);
        right.extend_from_slice(block.right);
    }
    save("live.wav", config.sample_rate, &left, &right)
}

fn save(name: &str, sample_rate: u32, left: &[f32], right: &[f32]) -> Result<(), Box<dyn Error>> {
    let samples: Vec<f32> = left.iter().zip(right).flat_map(|(&left, &right)| [left, right]).collect();
    let peak = samples.iter().fold(0f32, |peak, sample| peak.max(sample.abs()));
    assert!(peak > 0.01, "{name} is silent");
    let clip = Clip { sample_rate, n_channels: 2, samples };
    println!("{name}: {:.2} s, peak {peak:.2}", clip.seconds());
    Ok(clip.write(name, Existing::Replace)?)
}
