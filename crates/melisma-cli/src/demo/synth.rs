//! The step `synth`: one piece per preset, with figures and players.

use std::time::Instant;

use melisma::Result;
use melisma::audio::Clip;
use melisma::audio::Meter;
use melisma::synth::{BusConfig, Length, Performance, STYLES, Setup, balance, compose};
use melisma::text::duration;
use melisma::text::html::escape;
use melisma::text::table::{Align, Table};

use super::folder::Folder;
use super::page::{commands, facts};
use super::{Chapter, picture, player};
use crate::session::Session;

const RATE: u32 = 44_100;
const SECONDS: u32 = 12;
const SEED: u64 = 1;
const LUFS: f64 = -18.0;

pub fn run(session: &Session, _: &Folder) -> Result<Chapter> {
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
    let (mut seconds, mut farthest) = (0.0, LUFS);
    for style in &STYLES {
        let start = Instant::now();
        let score = compose(style, SEED, f64::from(SECONDS))?;
        let bus = BusConfig::new(RATE);
        let length = Length::Samples(u64::from(SECONDS * RATE));
        let setup = Setup::new(bus).with_length(length).with_max_voices(256);
        // Samples, and twice more as a FLAC file and as text.
        let bytes = setup.bytes(&score) + score.bytes() + 3 * 8 * u64::from(SECONDS * RATE);
        let _memory = session.reserve(session.context()?.device(), "the step synth", bytes)?;
        let level = balance(setup, LUFS, |setup| Ok(play(Performance::new(&score, setup)?)?.1))?.gain;
        let (clip, meter, voices) = play(Performance::new(&score, setup.with_bus(bus.with_level(level)))?)?;
        let show = |value: Option<f64>| value.map_or("-".to_owned(), |value| format!("{value:.1}"));
        table.push([
            style.name.to_string(),
            score.notes.len().to_string(),
            voices.to_string(),
            show(meter.integrated()),
            show(meter.peak_dbtp()),
            duration::show(start.elapsed()),
        ]);
        seconds += start.elapsed().as_secs_f64();
        let reached = meter.integrated().unwrap_or(f64::NEG_INFINITY);
        if (reached - LUFS).abs() >= f64::abs(farthest - LUFS) {
            farthest = reached;
        }
        let (key, about) = style.about.split_once(": ").unwrap_or((&style.about, ""));
        let left: Vec<f32> = clip.samples.iter().step_by(2).copied().collect();
        let title = format!("{}{}, {key}", style.name[..1].to_uppercase(), &style.name[1..]);
        players += &player::html(&title, &clip, &picture::wave(&left), &format!("<span>{}</span>", escape(about)))?;
    }
    let shown = [
        "<p>Each from a seed: the same seed gives the same bytes for any number of threads.</p>\n".to_owned(),
        format!("<div class=\"pair\">\n{players}</div>\n"),
        facts(&[
            (
                format!("{:.0}x", f64::from(SECONDS) * STYLES.len() as f64 / seconds),
                "faster than it plays, level included",
            ),
            (format!("{farthest:.1} LUFS"), "asked for and reached"),
        ]),
        commands(&[
            &format!("melisma synth preset:focus -o focus.wav --seconds {SECONDS} --seed {SEED} --rate {RATE}"),
            "melisma synth preset:sleep -o slow.flac --seconds 60 --key A --tempo 40 --voices melody",
        ]),
        "<p>The first is the piece above. <code>melisma serve</code> plays them live, in a browser.</p>\n".to_owned(),
    ];
    Ok(Chapter {
        title: "Four pieces, composed and rendered".to_owned(),
        device: Some("one thread of the CPU".to_owned()),
        shown: shown.concat(),
        folded: table.html(),
    })
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
