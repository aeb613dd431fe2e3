//! One text to one file or pipe.

use std::io::Write;
use std::path::Path;
use std::time::{Duration, Instant};

use melisma::output::{self, OutputFile};
use melisma::snac::Codes;
use melisma::snac::tokens::{Format, Ledger};
use melisma::speak::{Delivery, Estimate, MAX_TEXT, Note, Pace};
use melisma::text::{count, duration, realtime};
use melisma::{Error, Result};
use serde_json::{Value, json};

use super::{Opened, announce};
use crate::args::SpeakArgs;
use crate::decode::{Layout, Output, Sink, audio_format, refuse_mixing};
use crate::encode::TokenFormat;
use crate::input::{Input, is_pipe};
use crate::session::Session;
use crate::terminal::is_closed_pipe;
use crate::{progress, terminal};

pub fn run(session: &Session, args: &SpeakArgs) -> Result<()> {
    refuse_mixing(session, args.output())?;
    let format = audio_format(args.output(), &args.sample_format)?;
    let token_format = args.tokens_out.as_deref().map(token_format).transpose()?;
    // Text and outputs are opened first: if that fails, no model needs to be loaded.
    let text = text(args)?;
    if let Some(name) = args.text.as_deref().filter(|name| Path::new(name).is_file()) {
        session
            .say(&format!("note: this speaks the words `{}`; --file speaks the file", terminal::name(Path::new(name))));
    }
    let output = Output::open(args.output(), session.existing)?;
    let tokens = args.tokens_out.as_deref().map(|path| OutputFile::create(path, session.existing)).transpose()?;
    let opened = Opened::open(session, args)?;
    let layout = Layout { sample_rate: opened.codec.model.config().sampling_rate, format };
    let start = Instant::now();
    let said = match speak(session, args, &opened, (&text, Sink::new(output, layout))) {
        Err(error) if is_closed_pipe(&error) => return Ok(()),
        said => said?,
    };
    let wall = start.elapsed();
    if let (Some(mut file), Some(format)) = (tokens, token_format) {
        let bytes = format.bytes(&opened.codec.model, &said.codes)?;
        file.write_all(&bytes).map_err(|error| output::failed(file.path(), error))?;
        file.commit()?;
    }
    let report = Report { opened: &opened, said, wall };
    if is_pipe(args.output()) {
        session.say(report.text().trim_end());
        return Ok(());
    }
    session.print(opened.context.device(), || report.text(), report.json(args, &text))
}

/// Prints the text as the model reads it, and speaks nothing.
pub fn print_words(session: &Session, args: &SpeakArgs) -> Result<()> {
    let text = text(args)?;
    let opened = Opened::open(session, args)?;
    let read = opened.speaker.format().words(&text);
    let notes: Vec<String> = read.notes.iter().map(ToString::to_string).collect();
    notes.iter().for_each(|note| session.say(&format!("note: {note}")));
    let json = json!({ "words": read.text, "notes": notes });
    session.print_asked(opened.context.device(), || format!("{}\n", read.text), json)
}

/// Returns the format of a file of tokens, for which only its suffix speaks.
fn token_format(path: &Path) -> Result<TokenFormat> {
    TokenFormat::choose(path, Format::Auto)
        .map_err(|error| error.with_hint("name it .txt, .json, .npy or .safetensors"))
}

/// Returns the text to speak.
fn text(args: &SpeakArgs) -> Result<String> {
    let path = match (&args.text, &args.file) {
        (Some(text), _) if text != "-" => return Ok(text.clone()),
        (_, Some(path)) => path,
        _ => Path::new("-"),
    };
    let input = Input::open(path)?;
    let name = input.name().to_owned();
    let too_long = || Error::invalid(format!("{name}: more than {MAX_TEXT} bytes")).with_hint("cut it first");
    let bytes = input.read_all(MAX_TEXT as u64)?.ok_or_else(too_long)?;
    String::from_utf8(bytes).map_err(|_| {
        Error::corrupt(format!("{name}: this is not UTF-8 text"))
            .with_hint("convert it to UTF-8, as in `iconv -f LATIN1 -t UTF-8 IN > OUT`; UTF-16 is `-f UTF-16`")
    })
}

/// What was spoken.
struct Spoken {
    codes: Codes,
    n_samples: u64,
    n_pieces: usize,
    estimate: Estimate,
    ledger: Ledger,
    notes: Vec<Note>,
}

fn speak(session: &Session, args: &SpeakArgs, opened: &Opened<'_>, (text, mut sink): (&str, Sink)) -> Result<Spoken> {
    let Opened { speaker, codec, .. } = opened;
    // Nobody hears a file before it is whole.
    let pace = if is_pipe(args.output()) { Pace::Live } else { Pace::Whole };
    let delivery = &Delivery { pace, ..opened.delivery.clone() };
    let script = speaker.script(text, args.voice.as_deref(), args.seed)?;
    let n_pieces = script.n_pieces();
    session.require(&codec.device, "speaking this text", speaker.needed(&script, delivery))?;
    let mut speech = speaker.speak(script, delivery)?;
    let estimate = speech.estimate()?;
    announce(session, &estimate, "pieces");
    let bar = progress::bar(session, None);
    let (mut codes, mut n_samples, start) = (Codes::empty(codec.model.config()), 0, Instant::now());
    for piece in speech.by_ref() {
        let piece = piece?;
        codes.append(piece.codes.frames())?;
        n_samples += piece.samples.len() as u64;
        let _span = tracing::info_span!("encode", n = piece.samples.len()).entered();
        sink.write(&piece.samples)?;
        sink.flush()?;
        let speed = speed(opened, codes.n_frames(), start.elapsed());
        bar.set_message(format!("{}, {speed}", count(codes.n_frames() as u64, "frame")));
    }
    bar.finish_and_clear();
    for note in speech.notes() {
        session.say(&format!("note: {note}"));
    }
    sink.finish()?;
    Ok(Spoken { codes, n_samples, n_pieces, estimate, ledger: speech.ledger(), notes: speech.notes().to_vec() })
}

/// Returns the time that some frames sound.
fn seconds(opened: &Opened<'_>, n_frames: usize) -> Duration {
    let config = opened.codec.model.config();
    Duration::from_secs_f64(n_frames as f64 * config.frame_len() as f64 / f64::from(config.sampling_rate))
}

fn speed(opened: &Opened<'_>, n_frames: usize, wall: Duration) -> String {
    realtime(seconds(opened, n_frames).as_secs_f64(), wall.as_secs_f64())
}

struct Report<'a> {
    opened: &'a Opened<'a>,
    said: Spoken,
    wall: Duration,
}

impl Report<'_> {
    fn audio_seconds(&self) -> f64 {
        self.said.n_samples as f64 / f64::from(self.opened.codec.model.config().sampling_rate)
    }

    fn text(&self) -> String {
        format!(
            "{}, {}, {} of audio at {} Hz in {} ({})\n",
            count(self.said.n_pieces as u64, "piece"),
            count(self.said.codes.n_frames() as u64, "frame"),
            duration::show(Duration::from_secs_f64(self.audio_seconds())),
            self.opened.codec.model.config().sampling_rate,
            duration::show(self.wall),
            speed(self.opened, self.said.codes.n_frames(), self.wall),
        )
    }

    fn json(&self, args: &SpeakArgs, text: &str) -> Value {
        let Opened { codec, speaker, .. } = self.opened;
        let Spoken { codes, n_samples, n_pieces, estimate, ledger, notes } = &self.said;
        let (audio, wall) = (self.audio_seconds(), self.wall.as_secs_f64());
        let notes: Vec<String> = notes.iter().map(ToString::to_string).collect();
        json!({
            "pieces": n_pieces,
            "frames": codes.n_frames(),
            "samples": n_samples,
            "sample_rate_hz": codec.model.config().sampling_rate,
            "audio_seconds": audio,
            "wall_seconds": wall,
            // Seconds of work per second of audio: below 1 is faster than real time.
            "real_time_factor": (audio > 0.0).then(|| wall / audio),
            "expected": estimate.to_json(),
            "tokens": { "accepted": ledger.accepted, "rejected": ledger.rejected,
                "concealed_frames": ledger.concealed_frames, "dropped_frames": ledger.dropped_frames },
            "voice": args.voice.as_ref().or_else(|| speaker.format().voices.first()),
            "seed": args.seed,
            "words": speaker.format().words(text).text,
            "voice_model": terminal::name(&args.voice_model),
            "model": { "source": self.opened.source, "hash": codec.model.hash() },
            "notes": notes,
        })
    }
}
