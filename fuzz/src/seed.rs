//! Inputs that the parsers accept: golden files of the repository, and what Melisma writes itself.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use melisma::audio::{Clip, flac, wav};
use melisma::dataset::journal::{Header, Journal};
use melisma::dataset::{Feature, Inputs, Options, Request, StoreKind, Tokens};
use melisma::onnx::Model;
use melisma::pack::{self, Array};
use melisma::snac::{Codes, tokens};
use melisma::speak::{self, synthetic};
use melisma::synth::{STYLES, compose, synthetic_soundfont};
use melisma::{Budget, mel, snac};
use melisma_server::websocket::Message;

fn repository(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(path)
}

fn read(path: &Path) -> Vec<u8> {
    fs::read(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Reads the files in `folder` whose names end with one of `suffixes`, in order.
fn files(folder: &str, suffixes: &[&str]) -> Vec<Vec<u8>> {
    let entries = fs::read_dir(repository(folder)).unwrap_or_else(|error| panic!("{folder}: {error}"));
    let mut paths: Vec<PathBuf> = entries.filter_map(|entry| Some(entry.ok()?.path())).collect();
    paths.retain(|path| suffixes.iter().any(|suffix| path.to_string_lossy().ends_with(suffix)));
    paths.sort();
    paths.iter().map(|path| read(path)).collect()
}

fn tone() -> Clip {
    Clip::mono(16_000, (0..4000).map(|n| 0.5 * (n as f32 * 0.1).sin()).collect())
}

pub fn npy() -> Vec<Vec<u8>> {
    files("golden/optimize", &[".npy"])
}

/// Returns a small safetensors file with two tensors.
fn weights() -> Vec<u8> {
    let header = br#"{"a":{"dtype":"F32","shape":[4,8],"data_offsets":[0,128]},"b":{"dtype":"BF16","shape":[8],"data_offsets":[128,144]}}"#;
    let values = (0..36).flat_map(|n| (n as f32).sin().to_le_bytes());
    (header.len() as u64).to_le_bytes().into_iter().chain(header.iter().copied()).chain(values).collect()
}

pub fn safetensors() -> Vec<Vec<u8>> {
    vec![weights(), snac::mini24_weights()[..32 << 10].to_vec()]
}

pub fn checkpoint() -> Vec<Vec<u8>> {
    vec![read(&repository("golden/snac/tiny24/pytorch_model.bin")), weights()]
}

pub fn packed() -> Vec<Vec<u8>> {
    let mut small = Vec::new();
    pack::pack(&weights(), &mut small, &pack::Options::new(&Budget::unlimited()), &|_| {})
        .expect("small weights are packed");
    let mut seeds = files("golden/pack", &[".packed.safetensors"]);
    seeds.push(small);
    seeds
}

pub fn array() -> Vec<Vec<u8>> {
    let values: Vec<f32> = (0..4096).map(|n| (n as f32).sin()).collect();
    let array = Array::new(&values, &[64, 64]).expect("a shape that fits");
    vec![pack::compress(&array, &Budget::unlimited()).expect("an array is compressed")]
}

pub fn onnx() -> Vec<Vec<u8>> {
    let mut seeds = files("golden/optimize", &[".onnx"]);
    let model = Model::from_bytes(&seeds[0]).expect("a golden model");
    seeds.push(model.to_packed(&pack::Options::new(&Budget::unlimited())).expect("a golden model is packed"));
    seeds
}

pub fn wav() -> Vec<Vec<u8>> {
    let mut seeds = files("golden/mel", &["_alaw.wav", "_be.wav", "_mulaw.wav", "_rf64.wav", "_u8.wav", ".w64"]);
    seeds.push(wav::encode(&tone(), wav::SampleFormat::S16).expect("a tone is written"));
    seeds
}

pub fn audio() -> Vec<Vec<u8>> {
    let mut seeds = files("golden/mel", &[".flac", ".mp3", ".ogg", ".m4a", ".aiff", "_u8.wav"]);
    seeds.extend(files("golden/audio", &[".opus", ".webm", ".mka"]));
    seeds.push(flac::encode(&tone(), flac::Depth::S16).expect("a tone is written"));
    seeds
}

pub fn midi() -> Vec<Vec<u8>> {
    let score = compose(&STYLES[0], 1, 10.0).expect("a style is composed");
    vec![score.to_midi().expect("a score is written")]
}

pub fn soundfont() -> Vec<Vec<u8>> {
    vec![synthetic_soundfont::bytes()]
}

pub fn preset() -> Vec<Vec<u8>> {
    STYLES.iter().map(|style| style.to_yaml().into_bytes()).chain([b"like: sleep\nkey: A\n".to_vec()]).collect()
}

pub fn score() -> Vec<Vec<u8>> {
    vec![compose(&STYLES[0], 1, 5.0).expect("a style is composed").to_json().into_bytes()]
}

pub fn tokens() -> Vec<Vec<u8>> {
    let model = snac::Model::mini24().expect("the built-in model");
    let frames: Vec<i32> = (0..70).map(|n| n * 37 % 4096).collect();
    let codes = Codes::from_frames(model.config(), &frames).expect("whole frames");
    vec![
        tokens::to_orpheus(&model, &codes).expect("tags").into_bytes(),
        tokens::to_ids(&model, &codes).expect("ids").into_bytes(),
        tokens::to_json(&model, &codes).into_bytes(),
        tokens::to_npy(&model, &codes),
        tokens::to_safetensors(&model, &codes).expect("codes of a model"),
    ]
}

pub fn codec() -> Vec<Vec<u8>> {
    vec![read(&repository("golden/snac/tiny24/config.json")), read(&repository("golden/snac/tiny44/config.json"))]
}

pub fn llama() -> Vec<Vec<u8>> {
    ["three_to_one", "untied", "head_64"]
        .map(|name| read(&repository(&format!("golden/llama/{name}/config.json"))))
        .into()
}

/// Returns a file of a synthetic voice model.
fn voice_file(name: &str) -> Vec<Vec<u8>> {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let codec = snac::Model::mini24().expect("the built-in model");
    synthetic::write(folder.path(), &codec, synthetic::Shape::default(), 0).expect("room");
    vec![read(&folder.path().join(name))]
}

pub fn tokenizer() -> Vec<Vec<u8>> {
    voice_file("tokenizer.json")
}

pub fn voice() -> Vec<Vec<u8>> {
    voice_file(speak::FILE_NAME)
}

pub fn list() -> Vec<Vec<u8>> {
    let lines = "{\"text\": \"Good morning.\", \"voice\": \"tara\", \"seed\": 7, \"name\": \"morning\"}\n\n\
                 {\"text\": \"How are you?\"}\nnot json\n";
    vec![lines.into()]
}

pub fn normalise() -> Vec<Vec<u8>> {
    let texts = [
        "Dr. Smith paid $3.50 at 10:05 p.m. on 12/25/2024 (e.g. in No. 5, St. James St.).",
        "# NASA & the FBI\n\n- **GPUs** at -40 \u{b0}F, 5'10\", 3/4 cup, 1990s, Henry VIII\n- [x](https://a.org/b_c?d=1)",
        "+1 (555) 010-9999, me@site.org, v2.1, 3.0.1, R2-D2, @name #1 #tag 1,234,567.89 10^6 \u{65e5}\u{672c} caf\u{e9}",
    ];
    texts.map(|text| text.as_bytes().to_vec()).to_vec()
}

pub fn dataset() -> Vec<Vec<u8>> {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let sound = folder.path().join("tone.wav");
    fs::write(&sound, wav::encode(&tone(), wav::SampleFormat::S16).expect("a tone is written")).expect("room");
    let inputs = Inputs::find(&[sound]).expect("the tone");
    let segment = Duration::from_millis(100);
    let preset = mel::Config::preset("whisper-80").expect("a preset");
    let options = Options::new(preset, segment).expect("options");
    let model = Arc::new(snac::Model::mini24().expect("the built-in model"));
    let tokens = Tokens::new(model);
    let build = |name: &str, store: StoreKind, feature: Feature| {
        let output = folder.path().join(name);
        let request = Request::new(&inputs, &output, feature).expect("a CPU");
        let request = request.with_store(store).with_stop_on_failure(true).with_threads(1);
        request.build().expect("a dataset is built");
        read(&output)
    };
    vec![
        build("tone.h5", StoreKind::Hdf5, options.clone().into()),
        build("tone.safetensors", StoreKind::Safetensors, options.into()),
        build("tokens.h5", StoreKind::Hdf5, tokens.clone().into()),
        build("tokens.safetensors", StoreKind::Safetensors, tokens.into()),
    ]
}

pub fn metadata() -> Vec<Vec<u8>> {
    let tables =
        ["a|one|two\nb|three\n", "path\ttext\r\na.wav\tone\r\n", "path,text\na.wav,\"one, \"\"two\"\"\nthree\"\n"];
    tables.map(|table| table.as_bytes().to_vec()).to_vec()
}

pub fn journal() -> Vec<Vec<u8>> {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("journal");
    let mut journal = Journal::create(&path, &Header::new("plan", "inputs")).expect("a journal");
    journal.synced().expect("a line");
    vec![read(&path)]
}

pub fn settings() -> Vec<Vec<u8>> {
    let short = b"device: cpu\nthreads: 4\nmemory_limit: 2GiB\n".to_vec();
    let speak = b"speak:\n  voices: [ann, bob]\n  prompt: \"{voice}: {text}\"\n  before: [1, 2]\n  after: 3, 4\n  \
                  speech: 264\n  end: 258\n  codec: 00ff\n  temperature: 0.6\n  top_k: 3\n"
        .to_vec();
    files("golden/config", &[".yaml"]).into_iter().chain([short, speak]).collect()
}

pub fn record() -> Vec<Vec<u8>> {
    files("bench/record/xeon-avx512-2c", &[".json"])
}

pub fn websocket() -> Vec<Vec<u8>> {
    let messages = [
        Message::Text("<custom_token_10>".to_owned()),
        Message::Binary(vec![7; 300]),
        Message::Ping(b"?".to_vec()),
        Message::Close(Some((1000, "done".to_owned()))),
    ];
    let stream = |mask| messages.iter().flat_map(|message| message.frame(mask)).collect();
    vec![stream(Some([1, 2, 3, 4])), stream(None), [0x01, 0x02, b'a', b'b', 0x80, 0x01, b'c'].to_vec()]
}

pub fn request() -> Vec<Vec<u8>> {
    let upgrade = "upgrade: websocket\nconnection: Upgrade\nsec-websocket-version: 13\n\
                   sec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\n";
    [
        "format=pcm&noise=seed%3A7\nhost: localhost:8431\nauthorization: Bearer key\n".to_owned(),
        format!("preset=focus&seconds=1.5\nhost: 127.0.0.1\norigin: http://127.0.0.1\n{upgrade}"),
        format!("a+b=%20\nhost: [::1]:80\nsec-websocket-protocol: melisma.v1, melisma.key.a2V5\n{upgrade}"),
    ]
    .map(String::into_bytes)
    .to_vec()
}

pub fn upstream() -> Vec<Vec<u8>> {
    let text = r#"{"choices":[{"index":0,"text":"<custom_token_10>","finish_reason":null}]}"#;
    let chat = r#"{"choices":[{"delta":{"content":"a<|b|>c"},"finish_reason":"stop"}],"usage":{"prompt_tokens":9}}"#;
    [
        format!("data: {text}\n\n: ping\n\ndata: {chat}\n\ndata: [DONE]\n\n"),
        format!("event: x\r\ndata:{chat}\r\n\r\n"),
        "data: {\"error\":{\"message\":\"<custom_token_<|x|>7>\"}}\r\r".to_owned(),
    ]
    .map(String::into_bytes)
    .to_vec()
}
