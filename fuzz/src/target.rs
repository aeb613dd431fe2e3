//! The targets: each hands the bytes to the public function that reads them, and uses what it accepts.

use std::io::{Cursor, Write};
use std::net::SocketAddr;

use hyper::Uri;
use hyper::header::{HeaderMap, HeaderName, HeaderValue};
use melisma::audio::{Source, Stream, Target};
use melisma::config::{Config, Layers, Sources};
use melisma::dataset::store::Store;
use melisma::dataset::{self, Fields, Metadata, journal as journals};
use melisma::format::checkpoint::Checkpoint;
use melisma::format::npy as arrays;
use melisma::format::safetensors::Header;
use melisma::onnx::Model;
use melisma::pack::{self, Archive};
use melisma::snac::tokens::{Format, Reader};
use melisma::synth::{BusConfig, Length, Performance, Score, Sequence, Setup, SoundFont, Style, compose};
use melisma::{Budget, llama, snac, speak};
use melisma_bench::Record;
use melisma_server::http::guard::protocols;
use melisma_server::http::query::Query;
use melisma_server::upstream::event::Events;
use melisma_server::upstream::{clean, completion};
use melisma_server::websocket::frame::Reader as FrameReader;
use melisma_server::websocket::{Violation, Writer, handshake};
use melisma_server::{Guard, Keyring};
use tempfile::NamedTempFile;

/// The most memory that a parser with a budget may use.
const LIMIT: u64 = 64 << 20;
/// Rows and samples that are read of what a file claims to have.
const MAX_READ: usize = 1 << 16;

/// Reads npy arrays.
pub fn npy(bytes: &[u8]) {
    if let Ok(value) = arrays::decode(bytes) {
        assert_eq!(arrays::decode(&arrays::encode(&value)).ok(), Some(value));
    }
}

/// Reads headers of safetensors files.
pub fn safetensors(bytes: &[u8]) {
    let _ = Header::read(&bytes);
}

/// Reads PyTorch checkpoints (zip with pickle) and safetensors, with their values.
pub fn checkpoint(bytes: &[u8]) {
    if let Ok(checkpoint) = Checkpoint::read(&bytes) {
        for name in checkpoint.names() {
            let _ = checkpoint.get(name).map(|view| view.to_f32());
        }
    }
}

/// Lists and unpacks packed files.
pub fn packed(bytes: &[u8]) {
    if let Ok(archive) = Archive::open(&bytes, &Budget::limited(LIMIT)) {
        let _ = archive.list();
        let _ = archive.unpack(&mut Bounded(0), 1, &|_| {});
    }
}

/// Reads single compressed arrays.
pub fn array(bytes: &[u8]) {
    let _ = pack::decompress(bytes, &Budget::limited(LIMIT));
}

/// Reads ONNX models, plain and packed.
pub fn onnx(bytes: &[u8]) {
    if let Ok(model) = Model::from_bytes(bytes) {
        let written = model.to_bytes().expect("a model that was read can be written");
        assert!(Model::from_bytes(&written).expect("a model that was written can be read") == model);
    }
    let _ = Model::from_packed(&bytes, &Budget::limited(LIMIT));
}

/// Reads WAV files in memory.
pub fn wav(bytes: &[u8]) {
    if let Ok(wav) = melisma::audio::wav::decode(bytes) {
        let _ = wav.to_clip();
    }
    pipe(bytes);
}

/// Reads audio from a live pipe.
fn pipe(bytes: &[u8]) {
    if let Ok(mut stream) = Stream::live(Cursor::new(bytes.to_vec()), Target::new(16_000)) {
        while stream.n_read() < MAX_READ as u64 && stream.read().is_ok_and(|samples| !samples.is_empty()) {}
    }
}

/// Decodes audio files of every format.
pub fn audio(bytes: &[u8]) {
    let file = file(bytes, ".audio");
    if let Ok(mut source) = Source::open(file.path(), Target::new(16_000)) {
        let n = source.facts().n_samples.min(MAX_READ as u64) as usize;
        let _ = source.read_f32(0, &mut vec![0.0; n]);
    }
    pipe(bytes);
}

/// Reads MIDI files.
pub fn midi(bytes: &[u8]) {
    if let Ok(score) = Score::from_midi(bytes) {
        let _ = score.to_midi();
    }
}

/// Reads SoundFonts, and plays a key with those that are accepted.
pub fn soundfont(bytes: &[u8]) {
    let Ok(font) = SoundFont::read(bytes) else { return };
    let midi = b"MThd\0\0\0\x06\0\0\0\x01\0\x60MTrk\0\0\0\x0c\0\x90\x3c\x64\x0a\x80\x3c\0\0\xff\x2f\0";
    let sequence = Sequence::from_midi(midi).expect("a key is read");
    let setup = Setup::new(BusConfig::new(16_000)).with_length(Length::Samples(2_000));
    if let Ok(mut performance) = Performance::sampled(&sequence, &font, setup) {
        while let Ok(Some(block)) = performance.next_block(None) {
            assert!(block.left.iter().all(|sample| sample.is_finite()));
        }
    }
}

/// Reads presets, writes those that are accepted, and composes in them.
pub fn preset(bytes: &[u8]) {
    if let Ok(text) = std::str::from_utf8(bytes)
        && let Ok(style) = Style::from_yaml(text, "fuzz")
    {
        assert_eq!(Style::from_yaml(&style.to_yaml(), "fuzz").ok(), Some(style.clone()));
        assert!(compose(&style, 1, 5.0).is_ok());
    }
}

/// Reads scores as JSON.
pub fn score(bytes: &[u8]) {
    if let Ok(score) = Score::from_json(bytes) {
        assert!(Score::from_json(score.to_json().as_bytes()).is_ok(), "a score that was written can be read");
    }
}

/// Reads token streams in every format.
pub fn tokens(bytes: &[u8]) {
    for format in [Format::Auto, Format::Orpheus, Format::Ids, Format::Codes] {
        let Ok(mut reader) = Reader::new(format, &snac::Config::snac_24khz()) else { continue };
        let parts = bytes.split_at(bytes.len() / 2);
        let Ok(codes) = reader.push(parts.0).and_then(|_| reader.push(parts.1)).and_then(|_| reader.finish()) else {
            continue;
        };
        assert!(codes.frames().as_slice().iter().all(|code| (0..4096).contains(code)), "{format:?}");
    }
}

/// Reads the `config.json` of codec models.
pub fn codec(bytes: &[u8]) {
    let _ = snac::Config::from_json(bytes);
}

/// Reads the `config.json` of language models.
pub fn llama(bytes: &[u8]) {
    let _ = llama::Config::from_json(bytes);
}

/// Reads `tokenizer.json` of language models, and a text for each.
pub fn tokenizer(bytes: &[u8]) {
    if let Ok(text) = std::str::from_utf8(bytes)
        && let Ok(tokenizer) = speak::Tokenizer::from_json(text)
    {
        let _ = tokenizer.encode("tara: Good morning! <|eot_id|> \u{4eca}\u{65e5}\u{306f} 12");
    }
}

/// Reads `speak.yaml` of language models.
pub fn voice(bytes: &[u8]) {
    if let Ok(text) = std::str::from_utf8(bytes)
        && let Ok(format) = speak::Format::from_yaml(text)
    {
        let _ = format.settings();
    }
}

/// Reads lists of texts to speak.
pub fn list(bytes: &[u8]) {
    if let Ok(text) = std::str::from_utf8(bytes)
        && let Ok(list) = speak::List::parse("list.jsonl", text)
    {
        assert!(list.len() <= text.lines().count());
    }
}

/// Reads texts aloud, and what was read once more.
pub fn normalise(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let once = speak::normalise(&text);
    let is_plain = |letter: char| letter.is_ascii_alphabetic() || " .,?!'-;:".contains(letter);
    assert!(once.text.chars().all(is_plain), "{:?}", once.text);
    assert!(once.text.len() <= 64 * (text.len() + 1), "{} bytes of {}", once.text.len(), text.len());
    let twice = speak::normalise(&once.text);
    assert_eq!((&twice.text, twice.notes.len()), (&once.text, 0));
}

/// Reads datasets in one file: HDF5 and safetensors.
pub fn dataset(bytes: &[u8]) {
    let file = file(bytes, ".h5");
    if let Ok(store) = Store::open(file.path()) {
        for (index, column) in store.layout.columns.iter().enumerate() {
            if column.row_bytes() <= MAX_READ && store.layout.n_rows > 0 {
                let _ = store.read(index, store.layout.n_rows - 1, &mut vec![0; column.row_bytes()]);
            }
        }
    }
    let _ = dataset::verify(file.path(), 1, &Budget::limited(LIMIT));
}

/// Reads journals of dataset builds.
pub fn journal(bytes: &[u8]) {
    let _ = journals::read(file(bytes, ".journal").path());
}

/// Reads tables with the texts of audio files.
pub fn metadata(bytes: &[u8]) {
    let kept = Fields::new("text").with_kept(vec!["lang".to_owned()]).with_speaker(Some("who".to_owned()));
    for (suffix, fields) in [(".csv", Fields::new("2")), (".tsv", kept.clone()), (".jsonl", kept)] {
        if let Ok(table) = Metadata::open_fields(file(bytes, suffix).path(), &fields) {
            let _ = table.text("a.wav");
        }
    }
}

/// Reads settings in `melisma.yaml`.
pub fn settings(bytes: &[u8]) {
    let file = file(bytes, ".yaml");
    let sources = Sources::default().with_file(file.path().to_owned());
    let _ = Config::load(&sources);
    let _ = Layers::read(&sources).and_then(|layers| layers.section::<speak::Config>());
}

/// Records of benches, compared with themselves.
pub fn record(bytes: &[u8]) {
    if let Ok(record) = serde_json::from_slice::<Record>(bytes) {
        let _ = melisma_bench::compare(&record, &record).map(|comparison| comparison.table());
    }
}

/// Reads frames of WebSockets, whole and in two pieces.
pub fn websocket(bytes: &[u8]) {
    for writer in [Writer::Client, Writer::Server] {
        let read = |pieces: &[&[u8]]| {
            let (mut reader, mut messages) = (FrameReader::new(writer, MAX_READ), Vec::new());
            for piece in pieces {
                reader.feed(piece);
                while let Some(message) = reader.message()? {
                    messages.push(message);
                }
            }
            Ok::<_, Violation>(messages)
        };
        let (first, second) = bytes.split_at(bytes.len() / 2);
        let whole = read(&[bytes]);
        assert_eq!(whole, read(&[first, second]));
        let mask = (writer == Writer::Client).then_some([1, 2, 3, 4]);
        for message in whole.into_iter().flatten() {
            assert_eq!(read(&[&message.frame(mask)]).as_deref(), Ok(&[message][..]));
        }
    }
}

/// Runs the checks of a request: its query in the first line, its headers in the others.
pub fn request(bytes: &[u8]) {
    let mut lines = bytes.split(|byte| *byte == b'\n');
    let query = String::from_utf8_lossy(lines.next().unwrap_or_default());
    if let Ok(mut query) = Query::new(Some(&query)) {
        let _ = query.value("seconds", "a number", |text| text.parse::<f64>().ok());
        let _ = query.finish();
    }
    let mut headers = HeaderMap::new();
    for line in lines.take(64) {
        let mut parts = line.splitn(2, |byte| *byte == b':');
        let (name, value) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
        if let (Ok(name), Ok(value)) = (HeaderName::from_bytes(name), HeaderValue::from_bytes(value.trim_ascii())) {
            headers.append(name, value);
        }
    }
    let guard = Guard { keys: Keyring::of_key("key", "key").expect("a key"), ..Guard::default() };
    let local = SocketAddr::from(([127, 0, 0, 1], 8431));
    let uri = format!("/?{query}").parse().unwrap_or_else(|_| Uri::from_static("/"));
    let _ = guard.check(&uri, &headers, local);
    let given: Vec<&[u8]> = headers.get_all("authorization").iter().map(HeaderValue::as_bytes).collect();
    let is_bearer = |value: &[u8]| value.to_ascii_lowercase().starts_with(b"bearer ") && value.ends_with(b" key");
    let is_right = given.iter().any(|value| is_bearer(value) && value.len() == "Bearer key".len());
    let has_key = given.len() <= 1 && (is_right || protocols(&headers).any(|protocol| protocol == "melisma.key.a2V5"));
    assert_eq!(guard.check_key(&headers).is_ok(), has_key);
    let mut request = hyper::Request::new(String::new());
    *request.headers_mut() = headers;
    let _ = handshake::accept(&request);
}

fn file(bytes: &[u8], suffix: &str) -> NamedTempFile {
    let mut file = tempfile::Builder::new().suffix(suffix).tempfile().expect("a temporary file");
    file.write_all(bytes).expect("room for a temporary file");
    file
}

/// Counts what is unpacked, and ends it where a small file claims to be a large one.
struct Bounded(u64);

impl pack::Append for Bounded {
    fn append(&mut self, bytes: &[u8]) -> melisma::Result<()> {
        self.0 += bytes.len() as u64;
        match self.0 <= LIMIT {
            true => Ok(()),
            false => Err(melisma::Error::unsupported("more than the target reads")),
        }
    }
}

/// Reads events of an upstream, whole and in two pieces; and the same bytes as the text of a client.
pub fn upstream(bytes: &[u8]) {
    let read = |pieces: &[&[u8]]| {
        let (mut events, mut found) = (Events::new(MAX_READ), Vec::new());
        pieces.iter().try_for_each(|piece| events.push(piece).map(|more| found.extend(more))).ok()?;
        Some(found)
    };
    let (first, second) = bytes.split_at(bytes.len() / 2);
    let whole = read(&[bytes]);
    assert_eq!(whole, read(&[first, second]));
    for data in whole.into_iter().flatten() {
        let _ = completion::read(&data);
    }
    let cleaned = clean(&String::from_utf8_lossy(bytes));
    assert_eq!(clean(&cleaned), cleaned);
}
