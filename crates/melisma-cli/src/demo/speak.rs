//! The step `speak`: a sentence of the built-in voice.

use std::sync::Arc;
use std::time::{Duration, Instant};

use melisma::audio::{Clip, wav};
use melisma::speak::{BUILTIN, Delivery, Pace, Speaker, has_builtin};
use melisma::{Result, snac};
use melisma_models::mini24::SAMPLE;

use super::folder::{Folder, SPOKEN};
use super::page::{commands, facts, grouped};
use super::{Chapter, in_words, picture, player};
use crate::codec::Codec;
use crate::session::Session;

/// A text without spaces, which needs no quotes.
const WORD: &str = "Hello!";
const TEXT: &str = "Hello! I am a small voice, and I live inside this program. Nothing was downloaded to let me speak.";

pub fn run(session: &Session, folder: &Folder) -> Result<Chapter> {
    if !has_builtin() {
        // A build without the voice has a recording in its place, for the steps that follow.
        folder.write(SPOKEN, SAMPLE)?;
        return Ok(Chapter::default());
    }
    let start = Instant::now();
    let codec = Codec::open(session, snac::SOLO24)?;
    let context = session.context()?;
    let speaker = Speaker::open_in(context, BUILTIN, Arc::clone(&codec.model))?;
    let opened = start.elapsed();
    let delivery = Delivery { pace: Pace::Live, ..speaker.format().settings().into() };
    let start = Instant::now();
    let mut speech = speaker.speak(speaker.script(TEXT, None, 0)?, &delivery)?;
    let (mut samples, mut first) = (Vec::new(), Duration::ZERO);
    for piece in speech.by_ref() {
        if samples.is_empty() {
            first = start.elapsed();
        }
        samples.extend(piece?.samples);
    }
    let (wall, tokens) = (start.elapsed(), speech.ledger().accepted);
    let clip = Clip::mono(codec.model.config().sampling_rate, samples);
    folder.write(SPOKEN, &wav::encode(&clip, wav::SampleFormat::S16)?)?;
    let seconds = format!("<span>{:.1} s</span><span>0 to 12 kHz</span>", clip.seconds());
    let shown = [
        format!("<p>“{TEXT}”</p>\n"),
        player::html("The built-in voice", &clip, &picture::of_clip(context, &clip)?, &seconds)?,
        facts(&[
            (
                format!("{:.1}x", clip.seconds() / wall.as_secs_f64().max(1e-9)),
                "realtime, from the text to all samples",
            ),
            (format!("{:.0} ms", 1e3 * opened.as_secs_f64()), "to open the voice and its codec"),
            (format!("{:.0} ms", 1e3 * first.as_secs_f64()), "from the text to the first samples"),
            (grouped(tokens as usize), "tokens, seven for each 85 ms"),
        ]),
        commands(&[&format!("melisma speak {WORD} -o hello.wav")]),
    ];
    let title = "A text, spoken without a download".to_owned();
    Ok(Chapter { title, device: Some(in_words(context.device())), shown: shown.concat(), folded: String::new() })
}
