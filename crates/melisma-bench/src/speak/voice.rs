//! One text to audio, and the tokens of many at once.

use std::sync::Arc;
use std::time::Duration;

use melisma::llama::Sample;
use melisma::snac::Model;
use melisma::speak::{Delivery, Draw, Pace, Settings, Speaker, synthetic};
use melisma::{Context, Result};

use super::{Plan, Row, SMALL, THREADS, measure};
use crate::Peer;
use crate::folder::Folder;
use crate::peer::{Figures, figures};
use crate::snac::config_json;

const PEERS: &str = include_str!("../../peers/speak.py");
const PEER_TYPES: [&str; 2] = ["f32", "bf16"];
pub(super) const SEED: u64 = 0;
pub(super) const TEXT: &str = "Good morning. The wind has turned, and small waves run towards the shore.";
/// A sentence of which only one fits into a piece, and how many of them make a longer text.
pub(super) const SENTENCE: &str = "Far out, beyond the last of the sandbanks, a ship was waiting for the tide, and \
                                   nobody on the shore could say where it had come from or how long it meant to stay. ";
pub(super) const N_SENTENCES: usize = 8;
/// Runs of a text, and of a longer one.
pub(super) const SHORT_RUNS: Plan = Plan { warm_up: 1, least: 5, most: 9, time: Duration::from_secs(20) };
pub(super) const LONG_RUNS: Plan = Plan { warm_up: 0, least: 3, most: 3, time: Duration::ZERO };
/// Each text of a batch.
const SHORT: &str = "Hi.";
const BATCHES: [usize; 3] = [1, 8, 32];
/// As public servers of Orpheus draw.
pub(super) const SETTINGS: Settings = Settings {
    sample: Sample { repetition_penalty: 1.1, temperature: 0.6, top_k: 0, top_p: 0.9, min_p: 0.0 },
    penalty_window: usize::MAX,
    draw: Draw::Frames,
};

/// Measures speech of a small model in batches, beside `transformers`.
pub(super) fn rows(context: &Context) -> Result<Vec<Row>> {
    let folder = Folder::create("speak")?;
    let codec = Arc::new(Model::mini24()?);
    synthetic::write(&folder.0, &codec, SMALL, SEED)?;
    folder.write("codec.json", config_json(codec.config()).as_bytes())?;
    let n_slots = codec.config().n_slots();
    let speaker = Speaker::open_in(context, &folder.0, codec)?;
    let whole = Delivery { pace: Pace::Whole, ..SETTINGS.into() };
    let name = |label: &str| format!("speak/{label} to audio 15M {THREADS}t");
    let (row, n_frames) = to_audio(&speaker, &name("text"), (TEXT, &whole), SHORT_RUNS)?;
    let (longer, _) = to_audio(&speaker, &name("8 pieces"), (&SENTENCE.repeat(N_SENTENCES), &whole), LONG_RUNS)?;
    let (mut rows, mut n_short) = (vec![row, longer], 0);
    for n in BATCHES {
        let (row, n_frames) = at_once(&speaker, n)?;
        rows.push(row);
        n_short = n_frames / n * n_slots;
    }
    let figures = peers(&folder, [n_frames * n_slots, n_short]);
    for row in &mut rows {
        let peers = figures.get(&row.name).into_iter().flatten();
        row.peers.extend(peers.map(|(name, &median)| Peer { name: name.clone(), median }));
    }
    Ok(rows)
}

/// Measures the speed from a text to all its samples, as a multiple of real time; also returns its
/// frames.
pub(super) fn to_audio(
    speaker: &Speaker,
    name: &str,
    (text, delivery): (&str, &Delivery),
    plan: Plan,
) -> Result<(Row, usize)> {
    let config = speaker.codec().config();
    let speak = || -> Result<(usize, usize)> {
        let (mut n_frames, mut n_samples) = (0, 0);
        for piece in speaker.speak(speaker.script(text, None, SEED)?, delivery)? {
            let piece = piece?;
            n_frames += piece.codes.n_frames();
            n_samples += piece.samples.len();
        }
        Ok((n_frames, n_samples))
    };
    let mut spoken = Ok((0, 0));
    let measured = measure(plan, || spoken = speak());
    let (n_frames, n_samples) = spoken?;
    let seconds = n_samples as f64 / f64::from(config.sampling_rate);
    Ok((measured.rate(name, "x", seconds), n_frames))
}

/// Measures the tokens per second of `n` texts that are spoken together, without the codec; also
/// returns the frames of all.
fn at_once(speaker: &Speaker, n: usize) -> Result<(Row, usize)> {
    let script = |seed| Ok(((), speaker.script(SHORT, None, seed)?));
    let scripts = (0..n as u64).map(script).collect::<Result<Vec<_>>>()?;
    let speak = || -> Result<usize> {
        let mut n_frames = 0;
        speaker.speak_all(scripts.clone(), &SETTINGS, |(), said| {
            n_frames += said?.codes.n_frames();
            Ok(())
        })?;
        Ok(n_frames)
    };
    let mut spoken = Ok(0);
    let plan = Plan { warm_up: 1, least: 5, most: 9, time: Duration::from_secs(10) };
    let measured = measure(plan, || spoken = speak());
    let n_frames = spoken?;
    let n_tokens = n_frames * speaker.codec().config().n_slots();
    let texts = melisma::text::count(n as u64, "text");
    let name = format!("speak/tokens of {texts} at once 15M {THREADS}t");
    Ok((measured.rate(&name, "tokens/s", n_tokens as f64), n_frames))
}

/// Runs the peers, which speak as many tokens or fewer; each element type is a part of its own.
fn peers(folder: &Folder, n_tokens: [usize; 2]) -> Figures {
    let (path, threads, [long, short]) = (folder.path(), THREADS.to_string(), n_tokens.map(|n| n.to_string()));
    let batches = BATCHES.map(|n| n.to_string());
    let parts = PEER_TYPES.map(|dtype| {
        let args = [dtype, &path, &threads, TEXT, &long, SHORT, &short];
        [&args[..], &batches.each_ref().map(String::as_str)].concat()
    });
    figures("transformers", PEERS, &parts.each_ref().map(Vec::as_slice))
}
