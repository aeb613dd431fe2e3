//! A token stream decoded live: samples leave as soon as no later token can change them.
//!
//! `cargo run --release -p melisma --example decode_stream` writes `speech.wav`.

use std::error::Error;
use std::fs::File;

use melisma::audio::wav::{SampleFormat, Writer};
use melisma::snac::tokens::{Format, Reader, to_orpheus};
use melisma::snac::{Decoder, Encoder, Noise};

fn main() -> Result<(), Box<dyn Error>> {
    let mut encoder = Encoder::open("builtin:mini24")?;
    let decoder = Decoder::open("builtin:mini24")?;
    let sample_rate = decoder.sample_rate();

    // A language model would write this text: one tag per token, seven tags per frame.
    let tone: Vec<f32> = (0..sample_rate).map(|n| 0.3 * (n as f32 * 0.06).sin()).collect();
    let codes = encoder.encode(&tone)?;
    let text = to_orpheus(encoder.model(), &codes)?;

    let mut reader = Reader::new(Format::Auto, decoder.model().config())?;
    let mut player = decoder.stream_with(Noise::Seed(7))?;
    let file = File::options().read(true).write(true).create(true).truncate(true).open("speech.wav")?;
    let mut speech = Writer::new(file, sample_rate, 1, SampleFormat::S16)?;

    let (mut n_tokens, mut n_samples) = (0, 0);
    for packet in text.as_bytes().chunks(300) {
        let codes = reader.push(packet)?;
        let samples = player.push(&codes)?;
        speech.write(&samples)?;
        n_tokens += codes.frames().as_slice().len();
        n_samples += samples.len();
        println!("{n_tokens} tokens in, {n_samples} samples out");
    }

    let mut last = player.push(&reader.finish()?)?;
    last.extend(player.finish()?);
    speech.write(&last)?;
    speech.seal()?;
    n_samples += last.len();
    println!("speech.wav: {:.2} s", n_samples as f64 / f64::from(sample_rate));
    assert!(n_samples >= tone.len(), "every sample of the input comes back");
    Ok(())
}
