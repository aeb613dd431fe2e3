//! The step `synth`: one piece per preset, with figures and players.

use std::time::{Duration, Instant};

use melisma::Result;
use melisma::audio::Meter;
use melisma::audio::{Clip, flac};
use melisma::synth::{BusConfig, Buses, Length, Performance, STYLES, Setup, balance, compose};
use melisma::text::table::{Align, Table};
use melisma::text::{base64, duration};

use crate::session::Session;

const RATE: u32 = 44_100;
const SECONDS: u32 = 12;
const SEED: u64 = 1;
const LUFS: f64 = -18.0;

pub fn run(session: &Session) -> Result<String> {
    let right = |name| (name, Align::Right);
    let mut table = Table::new([
        ("preset", Align::Left),
        right("notes"),
        right("voices"),
        right("LUFS"),
        right("dBTP"),
        right("time"),
    ]);
    let mut players = String::new();
    for style in &STYLES {
        let start = Instant::now();
        let score = compose(style, SEED, f64::from(SECONDS))?;
        let bus = BusConfig::new(RATE);
        let length = Length::Samples(u64::from(SECONDS * RATE));
        let setup = Setup { bus, length, max_voices: 256, buses: Buses::Mix };
        // Samples, and twice more as a FLAC file and as text.
        let bytes = setup.bytes(&score) + score.bytes() + 3 * 8 * u64::from(SECONDS * RATE);
        let _memory = session.reserve(&session.engine()?.device, "the step synth", bytes)?;
        let level = balance(setup, LUFS, |setup| Ok(play(Performance::new(&score, setup)?)?.1))?.gain;
        let (clip, meter, voices) =
            play(Performance::new(&score, Setup { bus: BusConfig { level, ..bus }, ..setup })?)?;
        let show = |value: Option<f64>| value.map_or("-".to_owned(), |value| format!("{value:.1}"));
        table.push([
            style.name.to_owned(),
            score.notes.len().to_string(),
            voices.to_string(),
            show(meter.integrated()),
            show(meter.peak_dbtp()),
            duration::show(Duration::from_secs_f64(start.elapsed().as_secs_f64())),
        ]);
        let data = base64::encode(&flac::write(&clip, flac::Depth::S16)?);
        players += &format!(
            "<figure><figcaption>{}: {}</figcaption><audio controls src=\"data:audio/flac;base64,{data}\"></audio></figure>\n",
            style.name, style.about
        );
    }
    Ok(format!(
        "<p>{SECONDS} seconds of every preset, composed, rendered, brought to {LUFS} LUFS and limited.</p>\n{players}{}",
        table.html()
    ))
}

fn play(mut performance: Performance) -> Result<(Clip, Meter, usize)> {
    let mut meter = Meter::new(RATE);
    let mut samples = Vec::with_capacity((2 * SECONDS * RATE) as usize);
    while let Some(block) = performance.next_block(None)? {
        meter.push(block.left, block.right);
        samples.extend(block.left.iter().zip(block.right).flat_map(|(left, right)| [*left, *right]));
    }
    Ok((Clip { sample_rate: RATE, n_channels: 2, samples }, meter, performance.most_voices()))
}
