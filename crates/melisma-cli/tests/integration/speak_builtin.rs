//! The built-in voice through every path, without an option, and what it refuses.

use std::io::Write;

use melisma::Existing;
use melisma::audio::Clip;
use serde_json::Value;

use crate::sandbox::{Ran, Sandbox};
use crate::serve::{Served, body};
use crate::speak::bytes;

const TEXT: &str = "Good morning. Who is there?";

fn done(sandbox: &Sandbox, args: &[&str]) -> Ran {
    let ran = sandbox.run(&[args, &["--device", "cpu"]].concat());
    assert_eq!(ran.code, 0, "{args:?}: {}", ran.stderr);
    ran
}

fn refused(sandbox: &Sandbox, args: &[&str]) -> String {
    let ran = sandbox.run(&[args, &["--device", "cpu"]].concat());
    assert_eq!(ran.code, 2, "{args:?}: {}", ran.stderr);
    ran.stderr
}

#[test]
fn a_text_needs_no_option() {
    let sandbox = Sandbox::new();
    let ran = done(&sandbox, &["speak", TEXT, "-o", "a.wav", "--tokens", "a.txt", "--json"]);
    let said: Value = serde_json::from_str(&ran.stdout).unwrap();
    assert_eq!((&said["voice_model"], &said["model"]["source"]), (&"builtin:voice".into(), &"builtin:solo24".into()));
    let n_frames = said["frames"].as_u64().unwrap();
    assert!(n_frames > 5 && said["samples"] == n_frames * 2048, "{said}");
    assert!(!ran.stderr.contains("warning"), "{}", ran.stderr);
    // The tokens, a pipe, other threads and a list give the same samples.
    done(&sandbox, &["decode", "a.txt", "-o", "b.wav", "--model", "builtin:solo24"]);
    std::fs::write(sandbox.path("list.jsonl"), format!("{{\"text\": \"{TEXT}\", \"name\": \"c\"}}\n")).unwrap();
    done(&sandbox, &["speak", "--list", "list.jsonl", "-o", "spoken"]);
    done(&sandbox, &["speak", TEXT, "-o", "d.wav", "--threads", "1"]);
    let mut child = sandbox.start(&["speak", "-", "-o", "-", "--device", "cpu"]);
    child.stdin.take().unwrap().write_all(TEXT.as_bytes()).unwrap();
    let piped = child.wait_with_output().unwrap().stdout;
    let expected = bytes(&sandbox, "a.wav");
    for name in ["b.wav", "spoken/c.wav", "d.wav"] {
        assert!(bytes(&sandbox, name) == expected, "{name}");
    }
    assert!(piped[44..] == expected[44..]);
}

#[test]
fn a_corpus_of_its_codes_is_warned_of() {
    let sandbox = Sandbox::new();
    std::fs::write(sandbox.path("list.jsonl"), "{\"text\": \"Hi.\"}\n").unwrap();
    let speak = |more: &[&str]| done(&sandbox, &[&["speak", "--list", "list.jsonl", "-f"], more].concat()).stderr;
    let warning = "warning: this corpus has codes of builtin:solo24; a language model such as Orpheus needs those of its \
                   own codec: speak to a folder, and encode it with --model\n";
    for name in ["a.jsonl", "a.safetensors", "a.h5"] {
        let said = speak(&["-o", name]);
        assert!(said.matches("warning: ").count() == 1 && said.contains(warning), "{name}: {said}");
        assert!(!speak(&["-o", name, "-q"]).contains("warning"), "{name}");
    }
    assert!(!speak(&["-o", "spoken"]).contains("warning"));
}

#[test]
fn the_name_of_a_file_is_spoken_with_a_note() {
    let sandbox = Sandbox::new();
    std::fs::write(sandbox.path("hello.txt"), "Hi.").unwrap();
    let note = "note: this speaks the words `hello.txt`; --file speaks the file\n";
    assert!(done(&sandbox, &["speak", "hello.txt", "-o", "a.wav"]).stderr.contains(note));
    assert!(!done(&sandbox, &["speak", "--file", "hello.txt", "-o", "b.wav"]).stderr.contains("note: this speaks"));
}

#[test]
fn another_codec_and_encoding_are_refused_by_name() {
    let sandbox = Sandbox::new();
    let other = refused(&sandbox, &["speak", TEXT, "-o", "a.wav", "--model", "builtin:mini24"]);
    assert!(other.starts_with("error: builtin:voice: this codec is "), "{other}");
    assert!(other.ends_with("hint: it speaks with builtin:solo24: name no other codec\n"), "{other}");
    let unknown = refused(&sandbox, &["speak", TEXT, "-o", "a.wav", "--voice-model", "builtin:vox"]);
    assert!(unknown.starts_with("error: builtin:vox: unknown built-in voice model\nhint: builtin:voice"), "{unknown}");
    Clip::mono(24_000, vec![0.1; 4096]).write(sandbox.path("a.wav"), Existing::Refuse).unwrap();
    let encoded = refused(&sandbox, &["encode", "a.wav", "-o", "a.txt", "--model", "builtin:solo24"]);
    assert!(encoded.contains("builtin:solo24: this codec has no encoder"), "{encoded}");
    assert!(encoded.contains("hint: builtin:mini24 and the published codecs have one"), "{encoded}");
}

#[test]
fn a_server_speaks_with_it_unless_told_otherwise() {
    let sandbox = Sandbox::new();
    done(&sandbox, &["speak", TEXT, "-o", "a.wav"]);
    let args = ["serve", "--port", "0", "--max-streams", "2", "--device", "cpu"];
    let served = Served::start(sandbox.command(&args));
    let asked = format!(r#"{{"input": "{TEXT}", "response_format": "wav"}}"#);
    let say = |served: &Served| {
        served.ask("POST", "/v1/audio/speech", "content-type: application/json\r\n", asked.as_bytes())
    };
    assert!(body(&say(&served))[44..] == bytes(&sandbox, "a.wav")[44..]);
    let list = |path: &str| String::from_utf8(served.ask("GET", path, "", b"")).unwrap();
    assert!(list("/v1/models").contains(r#""id":"voice""#) && list("/v1/audio/voices").contains(r#""id":"voice""#));
    let mute = Served::start(sandbox.command(&[&args[..], &["--voice-model", "none"]].concat()));
    let answer = String::from_utf8(say(&mute)).unwrap();
    assert!(answer.starts_with("HTTP/1.1 503 ") && answer.contains("no_voice"), "{answer}");
}
