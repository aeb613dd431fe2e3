//! The step `snac`: the spoken sentence to tokens and back, its ledger, and the seams of two ways to
//! stream.

use std::sync::Arc;
use std::time::{Duration, Instant};

use melisma::audio::{Clip, wav};
use melisma::snac::reference::seam::{self, Seam};
use melisma::snac::tokens::{Format, Ledger, Reader, to_orpheus};
use melisma::snac::{self, Codes, EncodeEngine, EngineOptions, Model, Noise, Player};
use melisma::text::duration;
use melisma::text::html::escape;
use melisma::text::table::{Align, Table};
use melisma::{Context, Error, ErrorKind, Result, output};

use super::folder::{Folder, SPOKEN};
use super::page::{commands, facts, grouped};
use super::{Chapter, in_words, picture, player};
use crate::codec::{BUILTIN, Codec};
use crate::session::Session;

/// Frames in the comparison; the windowed decoder decodes every frame four times.
const WINDOWED_FRAMES: usize = 24;

pub fn run(session: &Session, folder: &Folder) -> Result<Chapter> {
    let codec = Codec::open(session, BUILTIN)?;
    let context = session.context()?;
    let streamed = |codes: &Codes| streamed(&codec.model, context, codes);
    let whole = |codes: &Codes| {
        let mut decoder = snac::Engine::new(&codec.model, context.queue(), context.budget(), EngineOptions::new(1))?;
        decoder.decode(codes, &Noise::default())
    };
    let path = folder.path(SPOKEN);
    let speech = std::fs::read(&path).map_err(|error| output::failed(&path, error))?;
    let original = wav::decode(&speech)?.to_clip();
    let encoder = EncodeEngine::new(&codec.model, context.queue(), context.budget(), EngineOptions::new(1))?;
    let trip = RoundTrip::make(&codec.model, &original, encoder, streamed)?;
    let seams = Seams::measure(&codec.model, &trip, whole)?;
    let decoded = Clip::mono(original.sample_rate, trip.samples.clone());
    let windowed = Clip::mono(original.sample_rate, seams.windowed.clone());
    let image = |clip: &Clip| picture::of_clip(context, clip);
    let seconds = format!("<span>{:.1} s</span><span>0 to 12 kHz</span>", trip.seconds);
    let stream = seams.stream;
    let same = format!(
        "<span>{} of {} samples differ from the whole clip</span>",
        stream.n_different,
        grouped(stream.n_samples)
    );
    let pair = [
        player::html("Original", &original, &image(&original)?, &seconds)?,
        player::html("From tokens", &decoded, &image(&decoded)?, &same)?,
    ];
    let windows = player::html(
        &format!("The same tokens in 28-token windows, {WINDOWED_FRAMES} frames"),
        &windowed,
        &picture::wave(&windowed.samples),
        "",
    )?;
    let Ledger { frames, .. } = trip.ledger;
    let shown = [
        format!(
            "<p>Another codec, for any sound, made {frames} frames of seven tokens of a spoken sentence. Decoding them as a \
             live stream gave the same samples as decoding the whole clip.</p>\n"
        ),
        format!("<div class=\"pair\">\n{}</div>\n", pair.concat()),
        facts(&[
            (format!("{:.0}x", trip.seconds / trip.decoding.as_secs_f64().max(1e-9)), "faster than it plays"),
            (
                format!("{:.1} ms", 1e3 * trip.first.as_secs_f64()),
                "of computing to the first samples, model open and tokens at hand",
            ),
            (format!("{:.0}", trip.ledger.seen() as f64 / trip.seconds), "tokens a second of sound"),
        ]),
        commands(&["melisma encode speech.wav -o tokens.txt", "melisma decode tokens.txt -o decoded.wav"]),
    ];
    let tokens: String = trip.tokens.chars().take(160).collect();
    let folded = [
        trip.table().html(),
        format!("<p><code>{} …</code></p>", escape(&tokens)),
        picture::spectra(original.sample_rate, &[("original", &original.samples), ("decoded", &decoded.samples)]),
        "<p>Samples against those of decoding the whole clip at once:</p>".to_owned(),
        seams.table().html(),
        windows,
    ];
    let title = format!("Speech, through {} tokens and back", trip.ledger.seen());
    let device = Some(in_words(context.device()));
    Ok(Chapter { title, device, shown: shown.concat(), folded: folded.join("\n") })
}

/// A round trip through tokens, with timings.
struct RoundTrip {
    codes: Codes,
    tokens: String,
    ledger: Ledger,
    samples: Vec<f32>,
    encoding: Duration,
    decoding: Duration,
    first: Duration,
    seconds: f64,
}

impl RoundTrip {
    fn make(
        model: &Arc<Model>,
        original: &Clip,
        mut encoder: EncodeEngine,
        streamed: impl Fn(&Codes) -> Streamed,
    ) -> Result<Self> {
        let start = Instant::now();
        let tokens = to_orpheus(model, &encoder.encode(&original.samples)?)?;
        let encoding = start.elapsed();
        let mut reader = Reader::new(Format::Auto, model.config())?;
        let mut codes = reader.push(tokens.as_bytes())?;
        codes.append(reader.finish()?.frames())?;
        let start = Instant::now();
        let (samples, first) = streamed(&codes)?;
        let decoding = start.elapsed();
        let seconds = original.seconds();
        Ok(Self { codes, tokens, ledger: reader.ledger(), samples, encoding, decoding, first, seconds })
    }

    fn table(&self) -> Table {
        let mut table = Table::new([("what", Align::Left), ("found", Align::Right)]);
        let factor = |time: Duration| format!("{:.3}", time.as_secs_f64() / self.seconds);
        let speed = |time: Duration| {
            format!("{} ({:.1}x realtime)", duration::show(time), self.seconds / time.as_secs_f64().max(1e-9))
        };
        let Ledger { accepted, rejected, resyncs, frames, concealed_frames, dropped_frames, .. } = self.ledger;
        for (what, found) in [
            ("sound", duration::show(Duration::from_secs_f64(self.seconds))),
            ("encoded in", speed(self.encoding)),
            ("decoded as a stream in", speed(self.decoding)),
            ("first samples after", duration::show(self.first)),
            ("real-time factor of encoding", factor(self.encoding)),
            ("real-time factor of decoding", factor(self.decoding)),
            ("frames", frames.to_string()),
            ("tokens accepted", accepted.to_string()),
            ("tokens rejected", rejected.to_string()),
            ("resyncs", resyncs.to_string()),
            ("frames concealed", concealed_frames.to_string()),
            ("frames dropped", dropped_frames.to_string()),
        ] {
            table.push([what.to_owned(), found]);
        }
        table
    }
}

/// Samples, and the time until the first of them.
type Streamed = Result<(Vec<f32>, Duration)>;

/// Decodes frame by frame.
fn streamed(model: &Arc<Model>, context: &Context, codes: &Codes) -> Streamed {
    let mut stream = Player::new(model, context.queue(), context.budget(), Noise::default())?;
    let (mut samples, mut first) = (Vec::new(), None);
    let start = Instant::now();
    for frame in codes.frames().chunks(1) {
        samples.extend(stream.push(frame)?);
        if !samples.is_empty() {
            first.get_or_insert_with(|| start.elapsed());
        }
    }
    samples.extend(stream.finish()?);
    let first = first.unwrap_or_else(|| start.elapsed());
    Ok((samples, first))
}

/// The exact stream compared on the whole clip, and the windowed decoding that others use on its start.
struct Seams {
    stream: Seam,
    windows: Seam,
    windowed: Vec<f32>,
}

impl Seams {
    fn measure(model: &Arc<Model>, trip: &RoundTrip, whole: impl Fn(&Codes) -> Result<Vec<f32>>) -> Result<Self> {
        let clip = whole(&trip.codes)?;
        let stream = Seam::measure(&trip.samples, &clip);
        if stream.n_different > 0 || stream.n_samples != clip.len() {
            return Err(Error::new(ErrorKind::Check, format!("a stream differs from its clip: {stream:?}")));
        }
        let mut start = Codes::empty(model.config());
        start.append(trip.codes.frames().range(0..WINDOWED_FRAMES.min(trip.codes.n_frames())))?;
        let windowed = seam::windowed(model, &start, &Noise::default())?;
        let windows = Seam::measure(&windowed, seam::windowed_part(model, &whole(&start)?));
        Ok(Self { stream, windows, windowed })
    }

    fn table(&self) -> Table {
        let mut table = Table::new([
            ("streaming", Align::Left),
            ("samples", Align::Right),
            ("different", Align::Right),
            ("largest difference", Align::Right),
            ("difference", Align::Right),
        ]);
        for (name, seam) in [("stateful stream", self.stream), ("windows of 28 tokens", self.windows)] {
            let difference = match seam.n_different {
                0 => "none".to_owned(),
                _ => format!("{:.1} dB", seam.relative_db),
            };
            table.push([
                name.to_owned(),
                seam.n_samples.to_string(),
                seam.n_different.to_string(),
                format!("{:.6}", seam.max_abs),
                difference,
            ]);
        }
        table
    }
}
