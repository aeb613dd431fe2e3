//! `/v1/audio/speech` by voice models of the server itself.

use std::io::Write;
use std::net::TcpStream;
use std::path::Path;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use melisma::audio::stretch::Stretch;
use melisma::audio::wav::{self, SampleFormat};
use melisma::audio::{self, Clip};
use melisma::runtime::memory::Budget;
use melisma::snac::{Config, Model};
use melisma::speak::synthetic::{self, Shape};
use melisma::speak::{Delivery, Opening, Speaker};
use melisma::{Context, Device, Result};
use melisma_server::speakers::{Decoding, Loading, SpeakerSource, Speakers, VoiceModel, open_all};
use melisma_server::upstream::{self, Upstream};
use melisma_server::{Limits, Log, Settings, Speakers as Sizing};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::client::{Answer, Fixture, MODEL, read_head, request, settings, tokens, unpack, until};
use crate::stand_in::{Script, StandIn};

/// A codec with seven slots of 16 codes, so that a random model ends often.
static CODEC: LazyLock<Arc<Model>> = LazyLock::new(|| {
    let mut small = Config::snac_24khz();
    (small.encoder_dim, small.decoder_dim, small.codebook_size) = (8, 64, 16);
    Arc::new(Model::random(small, 1).unwrap())
});
/// Streams of audio at a time.
const N_STREAMS: usize = 16;
const JSON: (&str, &str) = ("content-type", "application/json");
const TEXTS: [&str; 4] = [
    "Good morning.",
    "How are you? I am well, thank you; the weather is fine and the sea is calm, as far as anybody can see it.",
    "It is 12 o'clock, and all is well! <|eot_id|>",
    "This is a text of several pieces. It has many words. Each sentence is as plain as the one before it, and there is \
     nothing to learn from any of them. They only have to be long. So they go on, word by word, until three hundred \
     characters have been written, and then a few more of them. Here is the end of it. Or is it?",
];

fn context() -> Context {
    Context::on(Device::cpu().unwrap(), Budget::unlimited()).unwrap()
}

fn folder(shape: Shape) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    synthetic::write(folder.path(), &CODEC, shape, 3).unwrap();
    folder
}

/// A model that ends by itself.
fn ending() -> Shape {
    Shape { end: 2.0, ..Shape::default() }
}

/// A model that never does.
fn endless() -> Shape {
    Shape { end: -20.0, ..Shape::default() }
}

fn open(models: &[(&str, &Path)], n: Option<usize>, codec: &Arc<Model>) -> Result<Vec<Speakers>> {
    let models: Vec<VoiceModel> =
        models.iter().map(|(name, folder)| VoiceModel::new(Some(name), folder).unwrap()).collect();
    let (opening, log) = (Opening::default(), Log::default());
    let (sizing, decoding) = (Sizing(n), Decoding::new(N_STREAMS));
    open_all(&models, Loading { context: &context(), codec, opening, sizing, decoding, log })
}

/// A server with voice models, for `n` texts each.
fn server(models: &[(&str, &Path)], n: usize, settings: Settings) -> Fixture {
    let models: Vec<_> = models.iter().map(|(name, folder)| ((*name).to_owned(), folder.to_path_buf())).collect();
    Fixture::with_speakers(Device::cpu().unwrap(), &CODEC, N_STREAMS, settings, move |codec, _| {
        let models: Vec<_> = models.iter().map(|(name, folder)| (name.as_str(), folder.as_path())).collect();
        open(&models, Some(n), codec)
    })
}

fn asked(fields: &Value) -> Vec<u8> {
    let mut body = json!({"input": TEXTS[0], "response_format": "pcm"});
    for (name, value) in fields.as_object().unwrap() {
        body[name] = value.clone();
    }
    body.to_string().into_bytes()
}

fn speak(server: &Fixture, fields: &Value) -> Answer {
    server.request("POST", "/v1/audio/speech", &[JSON, ("te", "trailers")], &asked(fields))
}

/// A request whose answer is not read beyond its head.
fn begin(server: &Fixture, fields: &Value) -> TcpStream {
    let mut stream = server.connect();
    stream.write_all(&request("POST", "/v1/audio/speech", &[JSON], &asked(fields))).unwrap();
    let (head, _) = read_head(&mut stream);
    assert!(head.starts_with("HTTP/1.1 200"), "{head}");
    stream
}

/// The samples of `melisma speak`, and the tokens of its prompts and frames.
fn expected(folder: &Path, text: &str, voice: Option<&str>, seed: u64) -> (Vec<f32>, [usize; 2]) {
    let speaker = Speaker::open_in(&context(), folder, Arc::clone(&CODEC)).unwrap();
    let script = speaker.script(text, voice, seed).unwrap();
    let n_prompt = script.n_tokens();
    let delivery = Delivery::from(speaker.format().settings());
    let (mut samples, mut n_tokens) = (Vec::new(), 0);
    for piece in speaker.speak(script, &delivery).unwrap() {
        let piece = piece.unwrap();
        n_tokens += piece.codes.n_frames() * 7;
        samples.extend(piece.samples);
    }
    (samples, [n_prompt, n_tokens])
}

fn s16(samples: &[f32]) -> Vec<u8> {
    wav::encode(&Clip::mono(24_000, samples.to_vec()), SampleFormat::S16).unwrap()[44..].to_vec()
}

/// The value of a metric.
fn metric(server: &Fixture, name: &str) -> f64 {
    let text = String::from_utf8(server.get("/metrics").body).unwrap();
    let line = text.lines().find_map(|line| line.strip_prefix(name).map(str::to_owned));
    line.unwrap_or_else(|| panic!("no {name}: {text}")).trim().parse().unwrap()
}

#[test]
fn every_format_has_the_samples_of_speak() {
    let folder = folder(ending());
    let server = server(&[("orpheus", folder.path())], 4, settings());
    let (samples, [n_prompt, n_tokens]) = expected(folder.path(), TEXTS[3], None, 0);
    let layout = audio::Layout::new(24_000, 1);
    let encoded = |format| {
        let mut writer = audio::Writer::piped(Vec::new(), format, layout).unwrap();
        writer.write(&samples).unwrap();
        writer.finish().unwrap()
    };
    for (name, bytes) in [
        (None, encoded(audio::Format::Mp3)),
        (Some("opus"), encoded(audio::Format::Opus)),
        (Some("flac"), encoded(audio::Format::Flac(audio::flac::Depth::S16))),
        (Some("wav"), encoded(audio::Format::Wav(SampleFormat::S16))),
        (Some("pcm"), s16(&samples)),
    ] {
        let answer = speak(&server, &json!({"input": TEXTS[3], "response_format": name}));
        assert_eq!((answer.status, answer.is_whole), (200, true), "{name:?}: {answer:?}");
        assert!(answer.body == bytes, "{name:?}: other bytes");
        let ledger: Value = serde_json::from_str(&answer.trailers["x-melisma-ledger"]).unwrap();
        assert_eq!((&ledger["accepted"], &ledger["samples"]), (&json!(n_tokens), &json!(samples.len())));
        let events = speak(&server, &json!({"input": TEXTS[3], "response_format": name, "stream_format": "sse"}));
        let (audio, rest) = unpack(&events.body);
        assert!(audio == bytes, "{name:?}: other bytes in events");
        let usage = json!({"input_tokens": n_prompt, "output_tokens": n_tokens, "total_tokens": n_prompt + n_tokens});
        assert_eq!(rest, [json!({"type": "speech.audio.done", "usage": usage})]);
    }
}

#[test]
fn voice_seed_and_speed_are_those_of_speak() {
    let folder = folder(ending());
    let server = server(&[("orpheus", folder.path())], 4, settings());
    let first = s16(&expected(folder.path(), TEXTS[1], None, 0).0);
    for fields in [json!({}), json!({"voice": "ann"}), json!({"voice": "alloy", "model": "tts-1", "seed": 0})] {
        let mut fields = fields;
        fields["input"] = TEXTS[1].into();
        assert!(speak(&server, &fields).body == first, "{fields}");
    }
    let other = expected(folder.path(), TEXTS[1], Some("bob"), 7).0;
    let answer = speak(&server, &json!({"input": TEXTS[1], "voice": {"id": "bob"}, "seed": 7, "model": "orpheus"}));
    assert!(answer.body == s16(&other) && answer.body != first);
    let mut stretch = Stretch::new(audio::Layout::new(24_000, 1), 1.25).unwrap();
    let mut stretched = stretch.push(&other).to_vec();
    stretched.extend(stretch.finish());
    let answer = speak(&server, &json!({"input": TEXTS[1], "voice": "bob", "seed": 7, "speed": 1.25}));
    assert!(answer.body == s16(&stretched));
}

#[test]
fn texts_at_once_have_what_each_has_alone() {
    let folder = folder(ending());
    let server = server(&[("orpheus", folder.path())], 3, settings());
    let expected: Vec<Vec<u8>> = TEXTS.iter().map(|text| s16(&expected(folder.path(), text, None, 0).0)).collect();
    std::thread::scope(|scope| {
        for n in 0..12 {
            let (server, expected) = (&server, &expected[n % TEXTS.len()]);
            scope.spawn(move || {
                let answer = speak(server, &json!({"input": TEXTS[n % TEXTS.len()]}));
                assert_eq!((answer.status, answer.is_whole), (200, true), "{answer:?}");
                assert!(answer.body == *expected, "text {n}");
            });
        }
    });
    until("all slots are free", || metric(&server, "melisma_speakers{model=\"orpheus\"}") == 0.0);
    assert_eq!(metric(&server, "melisma_speak_texts_total{model=\"orpheus\",outcome=\"done\"}"), 12.0);
    let n_tokens = metric(&server, "melisma_speak_tokens_total{model=\"orpheus\"}");
    let n_samples: usize = (0..12).map(|n| expected[n % TEXTS.len()].len() / 2).sum();
    // A token for each slot of a frame, and the end of each piece.
    assert!(n_tokens >= (n_samples / 2048 * 7) as f64, "{n_tokens}");
    assert!(metric(&server, "melisma_speak_step_seconds_count{model=\"orpheus\"}") > 0.0);
    assert!(metric(&server, "melisma_speak_prompt_seconds_count{model=\"orpheus\"}") > 0.0);
}

#[test]
fn a_client_that_leaves_ends_its_text_and_frees_its_memory() {
    let folder = folder(endless());
    let server = server(&[("orpheus", folder.path())], 2, settings());
    let stream = begin(&server, &json!({"input": "Endless words. ".repeat(250)}));
    let held = "melisma_speak_cache_in_use_bytes{model=\"orpheus\"}";
    until("it holds memory", || metric(&server, held) > 0.0);
    assert_eq!(metric(&server, "melisma_speakers{model=\"orpheus\"}"), 1.0);
    drop(stream);
    until("its place is free", || metric(&server, "melisma_speakers{model=\"orpheus\"}") == 0.0);
    until("its memory is free", || metric(&server, held) == 0.0);
    assert_eq!(metric(&server, "melisma_speak_texts_total{model=\"orpheus\",outcome=\"client_left\"}"), 1.0);
}

#[test]
fn a_text_beyond_the_places_waits_or_is_refused() {
    let folder = folder(endless());
    let limits = Limits { queue: Duration::ZERO, ..Limits::default() };
    let hasty = server(&[("orpheus", folder.path())], 1, Settings { limits, ..settings() });
    let long = json!({"input": "Endless words. ".repeat(250)});
    let first = begin(&hasty, &long);
    let refused = speak(&hasty, &json!({}));
    let status = hasty.get("/v1/status").json();
    let counts = [&status["refused"], &status["speakers"][0]["refused"], &status["queue"]["given_up"]["refused"]];
    assert_eq!(counts, [&json!(1); 3], "{status}");
    assert_eq!((refused.status, refused.code().as_str()), (503, "full"));
    assert_eq!(refused.json()["error"]["message"], "1 of 1 speakers are in use");
    assert!(refused.headers.contains_key("retry-after"));
    drop(first);
    until("the place is free", || speak(&hasty, &json!({})).status == 200);

    let limits = Limits { queue: Duration::from_secs(30), ..Limits::default() };
    let patient = server(&[("orpheus", folder.path())], 1, Settings { limits, ..settings() });
    let first = begin(&patient, &long);
    std::thread::scope(|scope| {
        let second = scope.spawn(|| speak(&patient, &json!({})));
        until("the second waits", || metric(&patient, "melisma_speakers_waiting{model=\"orpheus\"}") == 1.0);
        assert_eq!(metric(&patient, "melisma_queue_waiting "), 1.0);
        assert_eq!(metric(&patient, "melisma_load "), 1.0);
        let status = patient.get("/v1/status").json();
        let waiting = [&status["queue"]["waiting"], &status["speakers"][0]["waiting"]];
        assert_eq!(waiting, [&json!(1); 2], "{status}");
        let expected = [&status["queue"]["expected_seconds"], &status["speakers"][0]["expected_seconds"]];
        assert!(expected.iter().all(|seconds| seconds.as_f64() > Some(0.0)), "{status}");
        drop(first);
        assert_eq!(second.join().unwrap().status, 200);
    });
}

#[test]
fn a_model_that_does_not_end_is_ended_by_the_limit_of_its_text() {
    let folder = folder(endless());
    let server = server(&[("orpheus", folder.path())], 2, settings());
    let answer = speak(&server, &json!({"input": "Hi."}));
    assert_eq!((answer.status, answer.is_whole, answer.body.len()), (200, true, 66 * 2048 * 2));
}

#[test]
fn damaged_logits_end_one_text_and_no_other() {
    let folder = folder(ending());
    let expected = s16(&expected(folder.path(), TEXTS[1], None, 0).0);
    let path = folder.path().join("model.safetensors");
    let mut bytes = std::fs::read(&path).unwrap();
    let header_len = u64::from_le_bytes(bytes[..8].try_into().unwrap()) as usize;
    let header: Value = serde_json::from_slice(&bytes[8..8 + header_len]).unwrap();
    let first = header["model.embed_tokens.weight"]["data_offsets"][0].as_u64().unwrap() as usize;
    // The embedding of a sign becomes NaN.
    let row = 8 + header_len + first + usize::from(b'#') * 16 * 2;
    bytes[row..row + 2].copy_from_slice(&[0xc0, 0x7f]);
    std::fs::write(&path, bytes).unwrap();
    let server = server(&[("orpheus", folder.path())], 4, settings());
    std::thread::scope(|scope| {
        for n in 0..8 {
            let (server, expected) = (&server, &expected);
            scope.spawn(move || match n % 2 {
                0 => assert!(speak(server, &json!({"input": TEXTS[1]})).body == *expected),
                _ => {
                    let answer = speak(server, &json!({"input": "Number # is damaged."}));
                    assert_eq!((answer.status, answer.code().as_str()), (500, "voice_failed"), "{answer:?}");
                }
            });
        }
    });
    assert_eq!(metric(&server, "melisma_speak_texts_total{model=\"orpheus\",outcome=\"failed\"}"), 4.0);
}

#[test]
fn models_and_voices_are_listed_and_unknown_ones_refused() {
    let (one, two) = (folder(ending()), folder(endless()));
    let yaml = std::fs::read_to_string(two.path().join("speak.yaml")).unwrap();
    let unnamed = yaml.lines().filter(|line| !line.starts_with("voices")).collect::<Vec<_>>().join("\n");
    let unnamed = unnamed.replace("{voice}: {text}", "{text}");
    std::fs::write(two.path().join("speak.yaml"), format!("{unnamed}\n")).unwrap();
    let server = server(&[("one", one.path()), ("two", two.path())], 2, settings());
    let ids = |path: &str, list: &str| -> Vec<Value> {
        server.get(path).json()[list].as_array().unwrap().iter().map(|one| one["id"].clone()).collect()
    };
    assert_eq!(ids("/v1/models", "data"), ["one", "two", "tts-1", "tts-1-hd", "gpt-4o-mini-tts", "melisma"]);
    assert_eq!(ids("/v1/audio/voices", "voices"), ["ann", "bob"]);
    assert_eq!(ids("/v1/audio/voices?model=two", "voices"), ["two"]);
    assert_eq!(server.get("/v1/audio/voices?model=three").status, 404);
    let answer = speak(&server, &json!({"model": "three"}));
    assert_eq!((answer.status, answer.code().as_str()), (404, "model_not_found"));
    assert!(answer.json()["error"]["message"].as_str().unwrap().contains("the models are one, two, tts-1"));
    let answer = speak(&server, &json!({"voice": "cy"}));
    assert_eq!((answer.status, &answer.json()["error"]["param"]), (400, &json!("voice")));
    for input in ["", "  ", "!?"] {
        let answer = speak(&server, &json!({"input": input}));
        assert_eq!((answer.status, &answer.json()["error"]["param"]), (400, &json!("input")), "{input}");
    }
    // The second model never ends, so it was that one. Its voice has no name of its own.
    for voice in [json!(null), json!("two"), json!("default")] {
        let answer = speak(&server, &json!({"model": "two", "voice": voice, "input": "Hi."}));
        assert_eq!((answer.status, answer.body.len()), (200, 66 * 2048 * 2), "{voice}");
    }
    let answer = speak(&server, &json!({"model": "two", "voice": "one"}));
    assert_eq!((answer.status, &answer.json()["error"]["param"]), (400, &json!("voice")));
    let status = server.get("/v1/status").json();
    let of = |index: usize, key: &str| status["speakers"][index][key].clone();
    assert_eq!((of(0, "model"), of(1, "model")), (json!("one"), json!("two")));
    assert_eq!((&status["speakers"][0]["capacity"]["speakers"], of(0, "in_use")), (&json!(2), json!(0)));
    assert!(of(1, "tokens").as_u64().unwrap() >= 66 * 7);
}

#[test]
fn a_voice_model_stands_beside_an_upstream() {
    // The stand-in speaks the codec that is built in, and so does the model here.
    let folder = tempfile::tempdir().unwrap();
    synthetic::write(folder.path(), &MODEL, Shape { end: 4.0, ..Shape::default() }, 3).unwrap();
    let said = vec![tokens(&crate::client::codes(1, 20))];
    let stand_in = StandIn::start(move |_| Script::of(said.clone())).unwrap();
    let upstream = upstream::Settings::new(&stand_in.url(), &upstream::Config::default()).unwrap();
    let settings = Settings { upstream: Some(Upstream::new(upstream).unwrap()), ..settings() };
    let path = folder.path().to_owned();
    let server = Fixture::with_speakers(Device::cpu().unwrap(), &MODEL, 4, settings, move |codec, _| {
        open(&[("orpheus", &path)], Some(2), codec)
    });
    for (model, n_asked) in [(json!(null), 0), (json!("tts-1"), 0), (json!("orpheus"), 0), (json!("upstream"), 1)] {
        let voice = if model == "upstream" { "tara" } else { "ann" };
        let answer = speak(&server, &json!({"model": model, "voice": voice}));
        assert_eq!(answer.status, 200, "{model}: {answer:?}");
        assert_eq!(stand_in.asked().len(), n_asked, "{model}");
    }
    let models = server.get("/v1/models").json();
    let ids: Vec<Value> = models["data"].as_array().unwrap().iter().map(|one| one["id"].clone()).collect();
    assert_eq!(ids, ["orpheus", "tts-1", "tts-1-hd", "gpt-4o-mini-tts", "melisma", "upstream"]);
}

#[test]
fn a_draining_server_finishes_what_it_speaks_and_takes_nothing_new() {
    let folder = folder(endless());
    let server = server(&[("orpheus", folder.path())], 2, settings());
    let input = "Some more words, and then the end. ".repeat(5);
    let whole = speak(&server, &json!({"input": input}));
    let mut stream = server.connect();
    stream.write_all(&request("POST", "/v1/audio/speech", &[JSON], &asked(&json!({"input": input})))).unwrap();
    let (head, rest) = read_head(&mut stream);
    server.drain();
    until("it takes nothing new", || TcpStream::connect(server.address).is_err());
    let answer = Answer::finish(&mut stream, &head, rest);
    assert_eq!((answer.status, answer.is_whole), (200, true));
    assert!(answer.body == whole.body);
    server.join().unwrap();
}

#[test]
fn a_voice_model_of_another_codec_is_refused() {
    let folder = folder(ending());
    let other = Arc::new(Model::random(CODEC.config().clone(), 2).unwrap());
    let error = open(&[("orpheus", folder.path())], Some(1), &other).unwrap_err();
    assert!(error.to_string().contains("the voice model was trained with"), "{error}");
    let error = open(&[("orpheus", folder.path())], Some(1), &MODEL).unwrap_err();
    assert!(error.to_string().contains("the voice model was trained with"), "{error}");
}

#[test]
fn the_number_of_speakers_is_measured_or_given() {
    let folder = folder(ending());
    let capacity = |n| *open(&[("orpheus", folder.path())], n, &CODEC).unwrap()[0].capacity();
    let given = capacity(Some(5));
    assert_eq!((given.speakers, given.n_cached), (5, 5));
    assert!(!given.step.is_zero() && given.cache_bytes > 0);
    assert_eq!((given.source, given.measured), (SpeakerSource::Given, None));
    let measured = capacity(None);
    assert!(measured.measured.is_some_and(|found| found.n_rounds >= 1), "{measured:?}");
    assert!((1..=N_STREAMS).contains(&measured.speakers) && measured.n_cached >= measured.speakers, "{measured:?}");
    // A limit of memory leaves room for fewer, and one always has room.
    let limited = Context::on(Device::cpu().unwrap(), Budget::limited(4 << 20)).unwrap();
    let model = VoiceModel::new(Some("orpheus"), folder.path()).unwrap();
    let (opening, log, sizing) = (Opening::default(), Log::default(), Sizing(Some(32)));
    let decoding = Decoding::new(N_STREAMS);
    let loading = Loading { context: &limited, codec: &CODEC, opening, sizing, decoding, log };
    let few = *open_all(&[model], loading).unwrap()[0].capacity();
    assert!(few.speakers == 32 && few.n_cached < 32 && few.cache_bytes < 4 << 20, "{few:?}");
}
