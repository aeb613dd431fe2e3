//! `/v1/decode`, as a request and as a WebSocket.

use std::io::{Read, Write};
use std::sync::LazyLock;

use melisma::audio::wav::{self, SampleFormat};
use melisma::audio::{self, Clip, Source, Target};
use melisma::snac::Noise;
use melisma::snac::tokens::{to_ids, to_json};
use melisma_server::websocket::Message;

use crate::client::{self, Fixture, MODEL, codes, read_head, samples, tokens, until};

static SERVER: LazyLock<Fixture> = LazyLock::new(|| Fixture::plain(16));

/// The bytes of the samples in a 16-bit file.
fn s16(samples: &[f32]) -> Vec<u8> {
    let clip = Clip::mono(MODEL.config().sampling_rate, samples.to_vec());
    wav::encode(&clip, SampleFormat::S16).unwrap()[44..].to_vec()
}

fn f32_bytes(samples: &[f32]) -> Vec<u8> {
    samples.iter().flat_map(|sample| sample.to_le_bytes()).collect()
}

#[test]
fn every_format_has_the_samples_of_a_whole_decode() {
    let codes = codes(1, 9);
    let expected = samples(&codes, &Noise::default());
    let wav = SERVER.post("/v1/decode", tokens(&codes).as_bytes());
    assert_eq!((wav.status, wav.is_whole), (200, true), "{wav:?}");
    assert_eq!(wav.headers["content-type"], "audio/wav");
    assert_eq!(wav.headers["x-melisma-sample-rate-hz"], "24000");
    let clip = Clip::mono(24_000, expected.clone());
    assert!(wav.body == wav::encode(&clip, SampleFormat::S16).unwrap(), "the length is in its header");
    let pcm = SERVER.post("/v1/decode?format=pcm&chunk=4", to_ids(&MODEL, &codes).unwrap().as_bytes());
    assert_eq!(pcm.body, s16(&expected));
    let flac = SERVER.post("/v1/decode?format=flac", tokens(&codes).as_bytes());
    assert_eq!(flac.headers["content-type"], "audio/flac");
    assert_eq!(declared(&flac.body), expected.len() as u64);
    assert_eq!(s16(&decoded(&flac.body, expected.len())), s16(&expected));
    for (name, format, media_type) in
        [("mp3", audio::Format::Mp3, "audio/mpeg"), ("opus", audio::Format::Opus, "audio/ogg; codecs=opus")]
    {
        let answer = SERVER.post(&format!("/v1/decode?format={name}"), tokens(&codes).as_bytes());
        let layout = audio::Layout::new(24_000, 1);
        let mut writer = audio::Writer::sized(Vec::new(), format, layout, Some(expected.len() as u64)).unwrap();
        writer.write(&expected).unwrap();
        assert_eq!(answer.headers["content-type"], media_type);
        assert!(answer.body == writer.finish().unwrap(), "{name}");
    }
}

/// The number of samples in the header of a FLAC file; 0 is an unknown one.
fn declared(bytes: &[u8]) -> u64 {
    u64::from_be_bytes(bytes[18..26].try_into().unwrap()) & ((1 << 36) - 1)
}

/// The samples of a FLAC file, read by another project's decoder.
fn decoded(bytes: &[u8], n_samples: usize) -> Vec<f32> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.flac");
    std::fs::write(&path, bytes).unwrap();
    let mut source = Source::open(&path, Target::new(MODEL.config().sampling_rate)).unwrap();
    assert_eq!(source.facts().n_samples, n_samples as u64);
    let mut samples = vec![0.0; n_samples];
    source.read_f32(0, &mut samples).unwrap();
    samples
}

#[test]
fn noise_and_lists_of_codes_are_obeyed() {
    let codes = codes(2, 5);
    for (query, noise) in [("off", Noise::Off), ("seed:7", Noise::Seed(7))] {
        let answer = SERVER.post(&format!("/v1/decode?format=pcm&noise={query}"), tokens(&codes).as_bytes());
        assert_eq!(answer.body, s16(&samples(&codes, &noise)), "{query}");
    }
    let json = to_json(&MODEL, &codes);
    let headers = [("content-type", "application/json")];
    let answer = SERVER.request("POST", "/v1/decode?format=pcm", &headers, json.as_bytes());
    assert_eq!(answer.body, s16(&samples(&codes, &Noise::default())));
}

#[test]
fn headers_have_the_length_where_it_is_known_before_the_first_byte() {
    let codes = codes(9, 6);
    let post = |query: &str, media_type: &str, body: &[u8]| {
        let mut stream = SERVER.connect();
        let head = format!("POST /v1/decode?format={query} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n");
        let chunk = format!("{:x}\r\n", body.len());
        let head = format!("{head}content-type: {media_type}\r\ntransfer-encoding: chunked\r\n\r\n{chunk}");
        stream.write_all(&[head.as_bytes(), body, b"\r\n0\r\n\r\n"].concat()).unwrap();
        client::Answer::read(&mut stream).body
    };
    let (text, list) = (tokens(&codes), to_json(&MODEL, &codes));
    let expected = samples(&codes, &Noise::default());
    let lengths = |flac: &[u8], wav: &[u8]| {
        assert_eq!(s16(&decoded(flac, expected.len())), s16(&expected));
        assert_eq!(wav[44..], s16(&expected));
        (declared(flac), u32::from_le_bytes(wav[40..44].try_into().unwrap()))
    };
    let known = (expected.len() as u64, 2 * expected.len() as u32);
    let [flac, wav] = ["flac", "wav"].map(|format| post(format, "text/plain", text.as_bytes()));
    assert_eq!(lengths(&flac, &wav), (0, u32::MAX), "a body that may go on");
    let [flac, wav] = ["flac", "wav"].map(|format| post(format, "application/json", list.as_bytes()));
    assert_eq!(lengths(&flac, &wav), known, "a list, which is read whole");
    // A frame of which four tokens are left is completed from the one before it.
    let cut: String = text.split_inclusive('>').take(1 + 5 * 7 + 4).collect();
    let flac = SERVER.post("/v1/decode?format=flac", cut.as_bytes());
    assert_eq!((flac.status, declared(&flac.body)), (200, known.0));
    decoded(&flac.body, expected.len());
    let long = text.clone() + &" ".repeat(300 << 10);
    let flac = SERVER.post("/v1/decode?format=flac", long.as_bytes());
    assert_eq!(declared(&flac.body), 0, "a body that is not waited for");
    decoded(&flac.body, expected.len());
}

#[test]
fn the_ledger_comes_as_a_trailer_and_stays_for_a_while() {
    let codes = codes(3, 6);
    let text = tokens(&codes) + "<custom_token_99999>";
    let answer = SERVER.post("/v1/decode?format=pcm", text.as_bytes());
    let ledger: serde_json::Value = serde_json::from_str(&answer.trailers["x-melisma-ledger"]).unwrap();
    assert_eq!(ledger["accepted"], 42);
    assert_eq!(ledger["rejected"], 1);
    assert_eq!(ledger["frames"], 6);
    assert_eq!(ledger["samples"], answer.body.len() / 2);
    let stored = SERVER.get(&format!("/v1/ledger/{}", answer.headers["x-request-id"]));
    assert_eq!((stored.status, stored.json()), (200, ledger));
    assert_eq!(SERVER.get("/v1/ledger/none").status, 404);
}

#[test]
fn audio_leaves_before_the_tokens_end() {
    let codes = codes(4, 12);
    let text = tokens(&codes);
    let (half, rest) = text.split_at(text.len() / 2);
    let mut stream = SERVER.connect();
    let head = "POST /v1/decode?format=pcm HTTP/1.1\r\nhost: localhost\r\ncontent-type: text/plain\r\n";
    let chunk = |text: &str| format!("{:x}\r\n{text}\r\n", text.len());
    let begin = format!("{head}connection: close\r\ntransfer-encoding: chunked\r\n\r\n{}", chunk(half));
    stream.write_all(begin.as_bytes()).unwrap();
    // The answer begins although the request goes on.
    let (head, mut bytes) = read_head(&mut stream);
    assert!(head.starts_with("HTTP/1.1 200"), "{head}");
    let mut piece = [0; 1024];
    while bytes.is_empty() {
        let n = stream.read(&mut piece).unwrap();
        bytes.extend_from_slice(&piece[..n]);
    }
    stream.write_all(format!("{}0\r\n\r\n", chunk(rest)).as_bytes()).unwrap();
    stream.read_to_end(&mut bytes).unwrap();
    let n_samples = samples(&codes, &Noise::default()).len();
    assert!(bytes.len() > 2 * n_samples && bytes.ends_with(b"0\r\n\r\n"));
}

#[test]
fn requests_without_sense_have_their_own_status() {
    let post = |path: &str, media_type: &str, body: &[u8]| {
        let answer = SERVER.request("POST", path, &[("content-type", media_type)], body);
        (answer.status, answer.code())
    };
    let is = |status: u16, code: &str| (status, code.to_owned());
    let good = tokens(&codes(5, 3));
    assert_eq!(post("/v1/decode", "text/plain", b""), is(400, "no_frames"));
    assert_eq!(post("/v1/decode", "text/plain", b"<custom_token_10>"), is(400, "no_frames"));
    assert_eq!(post("/v1/decode", "text/plain", "\u{fffd}\u{0}héllo".as_bytes()), is(400, "no_frames"));
    assert_eq!(post("/v1/decode", "image/png", good.as_bytes()), is(415, "media_type"));
    assert_eq!(post("/v1/decode", "application/json", b"[[1,2"), is(400, "invalid_content"));
    assert_eq!(post("/v1/decode", "application/json", b"{\"a\":[]}"), is(400, "invalid_content"));
    for query in ["format=ogg", "format=aac", "noise=loud", "noise=seed:-1", "chunk=0", "chnk=2", "noise=off&noise=off"]
    {
        let (status, code) = post(&format!("/v1/decode?{query}"), "text/plain", good.as_bytes());
        assert_eq!((status, code.as_str()), (400, "invalid_parameter"), "{query}");
    }
    let foreign = good.replace(MODEL.hash(), &"0".repeat(MODEL.hash().len()));
    assert_eq!(post("/v1/decode", "text/plain", foreign.as_bytes()), is(400, "invalid_value"));
}

/// All blocks of a stream: positions follow each other, and only the last is marked.
fn blocks(socket: &mut client::Socket) -> (Vec<u8>, u32, serde_json::Value) {
    let (mut bytes, mut position, mut flags) = (Vec::new(), 0, 0);
    loop {
        match socket.next().unwrap() {
            Message::Binary(block) => {
                assert_eq!(flags & 2, 0, "a block after the last one");
                assert_eq!(u64::from_le_bytes(block[..8].try_into().unwrap()), position);
                position += u64::from(u32::from_le_bytes(block[8..12].try_into().unwrap()));
                flags = u32::from_le_bytes(block[12..16].try_into().unwrap());
                bytes.extend_from_slice(&block[16..]);
            }
            Message::Text(text) => return (bytes, flags, serde_json::from_str(&text).unwrap()),
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn a_websocket_has_the_same_samples_however_tokens_are_split() {
    let codes = codes(6, 8);
    let text = tokens(&codes);
    for (format, n_split, expected) in [
        ("s16", 1000, s16(&samples(&codes, &Noise::default()))),
        ("f32", 3, f32_bytes(&samples(&codes, &Noise::default()))),
    ] {
        let mut socket = SERVER.socket(&format!("/v1/decode?sample_format={format}"), &[]).ok().unwrap();
        let start = socket.next_json();
        assert_eq!(start["type"], "start");
        assert_eq!((&start["sample_rate_hz"], &start["channels"]), (&24_000.into(), &1.into()));
        assert_eq!(start["sample_format"], format);
        for piece in text.as_bytes().chunks(n_split) {
            socket.say(std::str::from_utf8(piece).unwrap());
        }
        socket.say(r#"{"type":"end"}"#);
        let (bytes, flags, ledger) = blocks(&mut socket);
        assert!(bytes == expected, "{format}");
        assert_eq!(flags, if format == "f32" { 6 } else { 2 });
        assert_eq!((&ledger["type"], &ledger["frames"]), (&"ledger".into(), &8.into()));
        assert_eq!(socket.next(), Some(Message::Close(Some((1000, String::new())))));
        assert_eq!(socket.next(), None);
    }
}

#[test]
fn mistakes_in_messages_are_told_before_the_close() {
    let told = |messages: &[Message]| {
        let mut socket = SERVER.socket("/v1/decode", &[]).ok().unwrap();
        socket.next_json();
        messages.iter().for_each(|message| socket.send(message));
        let error = socket.next_json();
        assert_eq!(error["type"], "error");
        assert!(matches!(socket.next(), Some(Message::Close(Some((1008, _))))));
        error["error"]["code"].as_str().unwrap().to_owned()
    };
    let text = |text: &str| Message::Text(text.to_owned());
    assert_eq!(told(&[text(r#"{"type":"end"}"#)]), "no_frames");
    assert_eq!(told(&[text(r#"{"type":"seek"}"#)]), "unknown_message");
    assert_eq!(told(&[Message::Binary(vec![1, 2])]), "binary_message");
    let mut socket = SERVER.socket("/v1/decode", &[]).ok().unwrap();
    socket.next_json();
    socket.send(&Message::Ping(b"hi".to_vec()));
    assert_eq!(socket.next(), Some(Message::Pong(b"hi".to_vec())));
    socket.stream.write_all(&[0x81, 0x01, b'x']).unwrap();
    assert!(matches!(socket.next(), Some(Message::Close(Some((1002, _))))));
}

#[test]
fn a_full_server_refuses_at_once_and_a_client_that_leaves_makes_room() {
    let server = Fixture::without_queue(2);
    let limit = server.get("/v1/status").json()["capacity_streams"].as_u64().unwrap() as usize;
    let mut open: Vec<_> = (0..limit).map(|_| server.socket("/v1/decode", &[]).ok().unwrap()).collect();
    // Nobody leaves meanwhile: a refusal that waits for a place would never come.
    let refused = server.socket("/v1/decode", &[]).err().unwrap();
    for answer in [refused, server.get("/v1/decode"), server.post("/v1/decode", b"x")] {
        assert_eq!((answer.status, answer.code().as_str()), (503, "full"));
        assert_eq!(answer.headers["retry-after"], "1");
    }
    drop(open.pop());
    until("the place is free", || server.socket("/v1/decode", &[]).is_ok());
    let metrics = String::from_utf8(server.get("/metrics").body).unwrap();
    assert!(metrics.contains("melisma_requests_total{route=\"/v1/decode\",status=\"503\"}"), "{metrics}");
}

#[test]
fn a_request_that_breaks_off_frees_its_place() {
    let server = Fixture::without_queue(1);
    let text = tokens(&codes(7, 6));
    let mut stream = server.connect();
    let head = "POST /v1/decode HTTP/1.1\r\nhost: localhost\r\ncontent-length: 1000000\r\n\r\n";
    stream.write_all((head.to_owned() + &text).as_bytes()).unwrap();
    let (head, _) = read_head(&mut stream);
    assert!(head.starts_with("HTTP/1.1 200"));
    assert_eq!(server.post("/v1/decode", text.as_bytes()).status, 503);
    drop(stream);
    until("the place is free", || server.post("/v1/decode", text.as_bytes()).status == 200);
}
