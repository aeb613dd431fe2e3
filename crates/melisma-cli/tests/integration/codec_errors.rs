//! `decode` with bad input: the message, the hint, the exit code, and that nothing is left behind.

use std::io::Write;
use std::path::PathBuf;

use melisma::audio::{Clip, wav};

use crate::sandbox::{Ran, Sandbox, golden};

fn tiny(name: &str) -> Vec<u8> {
    std::fs::read(PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../golden/snac").join(name)).unwrap()
}

/// A copy of `bytes` in which `from` became `to`, of the same length.
fn changed(bytes: &[u8], from: &str, to: &str) -> Vec<u8> {
    assert_eq!(from.len(), to.len());
    let at = bytes.windows(from.len()).position(|window| window == from.as_bytes()).unwrap();
    let mut bytes = bytes.to_vec();
    bytes[at..at + to.len()].copy_from_slice(to.as_bytes());
    bytes
}

fn write(sandbox: &Sandbox, name: &str, bytes: impl AsRef<[u8]>) {
    let path = sandbox.path(name);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, bytes).unwrap();
}

/// Models that must not load, each in a folder of its own.
fn faulty_models(sandbox: &Sandbox) -> Vec<&'static str> {
    let (config, weights, torch) =
        (tiny("tiny24/config.json"), tiny("tiny24/model.safetensors"), tiny("tiny24/pytorch_model.bin"));
    let alpha = "\"decoder.model.6.alpha\":{\"dtype\":\"F32\"";
    let header_len = 8 + u64::from_le_bytes(weights[..8].try_into().unwrap()) as usize;
    let mut nan = weights.clone();
    nan[header_len + 4..header_len + 8].copy_from_slice(&f32::NAN.to_le_bytes());
    let with_config =
        |from, to| (String::from_utf8(config.clone()).unwrap().replace(from, to).into_bytes(), weights.clone());
    let with_weights = |weights: Vec<u8>| (config.clone(), weights);
    let models = [
        ("no_key", with_config("\"decoder_dim\": 64,", "")),
        ("wrong_key", with_config("\"decoder_dim\": 64", "\"decoder_dim\": \"wide\"")),
        ("no_json", with_config("{", "")),
        ("other_shape", (tiny("tiny44/config.json"), weights.clone())),
        ("no_tensor", with_weights(changed(&weights, "decoder.model.6.alpha", "decoder.model.6.alphb"))),
        ("integers", with_weights(changed(&weights, alpha, &alpha.replace("F32", "I32")))),
        ("nan", with_weights(nan)),
        ("cut", with_weights(weights[..weights.len() / 2].to_vec())),
        ("empty", with_weights(Vec::new())),
        ("torch_cut", with_weights(torch[..torch.len() / 2].to_vec())),
        ("torch_hostile", with_weights(changed(&torch, "_rebuild_tensor_v2", "_rebuild_tensor_vX"))),
        (
            "torch_system",
            with_weights(changed(&torch, "collections\nOrderedDict", "posix\nsystem\0\0\0\0\0\0\0\0\0\0\0")),
        ),
    ];
    for (name, (config, weights)) in &models {
        write(sandbox, &format!("{name}/config.json"), config);
        write(sandbox, &format!("{name}/model.safetensors"), weights);
    }
    write(sandbox, "no_weights/config.json", &config);
    write(sandbox, "no_config/model.safetensors", &weights);
    models.iter().map(|(name, _)| *name).chain(["no_weights", "no_config"]).collect()
}

#[test]
fn bad_input_gives_an_error_a_hint_and_code_2() {
    let sandbox = Sandbox::new();
    let frame = "<custom_token_10><custom_token_4106><custom_token_8202><custom_token_12298><custom_token_16394>\
                 <custom_token_20490><custom_token_24586>";
    write(&sandbox, "good.txt", frame);
    write(&sandbox, "empty.txt", "");
    write(&sandbox, "prose.txt", "It was a bright cold day in April, and the clocks were striking thirteen.\n");
    write(&sandbox, "half.txt", &frame[..60]);
    write(&sandbox, "control.txt", "<custom_token_3><custom_token_9><custom_token_28682>");
    write(&sandbox, "other.txt", format!("<melisma_model_{}>{frame}", "0".repeat(32)));
    write(&sandbox, "levels.json", "[[1], [2, 3]]");
    write(&sandbox, "uneven.json", "[[1], [2], [3, 4, 5, 6]]");
    write(&sandbox, "cut.json", "[[1], [2, 3");
    write(&sandbox, "cut.npy", b"\x93NUMPY\x01\x00v\x00{'descr'");
    write(&sandbox, "taken.wav", "mine");
    let mut cases: Vec<Vec<&str>> = [
        "decode good.txt",
        "decode absent.txt -o out.wav",
        "decode . -o out.wav",
        "decode good.txt -o taken.wav",
        "decode good.txt -o no/such/folder/out.wav",
        "decode good.txt -o out.aac",
        "decode good.txt -o - --json",
        "decode good.txt -o out.wav --noise loud",
        "decode good.txt -o out.wav --noise seed:x",
        "decode good.txt -o out.wav --chunk 0",
        "decode good.txt -o out.wav --format morse",
        "decode good.txt -o out.wav --sample-format u7",
        "decode good.txt -o out.wav --model builtin:maxi",
        "decode good.txt -o out.wav --model absent",
        "decode good.txt -o out.wav --model /dev/zero",
        "decode empty.txt -o out.wav",
        "decode prose.txt -o out.wav",
        "decode half.txt -o out.wav",
        "decode control.txt -o out.wav",
        "decode other.txt -o out.wav",
        "decode levels.json -o out.wav",
        "decode uneven.json -o out.wav",
        "decode cut.json -o out.wav",
        "decode cut.npy -o out.wav",
        "decode good.txt -o out.wav --format codes",
    ]
    .iter()
    .map(|line| line.split(' ').collect())
    .collect();
    let models = faulty_models(&sandbox);
    cases.extend(models.iter().map(|model| vec!["decode", "good.txt", "-o", "out.wav", "--model", model]));
    let before = sandbox.files();
    let mut transcript = String::new();
    for args in cases {
        let Ran { code, stdout, stderr } = sandbox.run(&args);
        assert_eq!((code, stdout.is_empty()), (2, !args.contains(&"--json")), "{args:?}: {stderr}");
        assert!(stderr.starts_with("error: ") && stderr.contains("\nhint: "), "{args:?}: {stderr}");
        assert!(!stderr.contains("panicked") && !stderr.contains("\u{1b}["), "{stderr}");
        transcript += &format!("$ melisma {}\n{stderr}[{code}]\n\n", args.join(" "));
    }
    golden("codec_errors.txt", &transcript);
    assert_eq!(sandbox.files(), before);
    assert_eq!(std::fs::read_to_string(sandbox.path("taken.wav")).unwrap(), "mine");
}

#[test]
fn attention_models_take_lists_only() {
    let sandbox = Sandbox::new();
    write(&sandbox, "tiny44/config.json", tiny("tiny44/config.json"));
    write(&sandbox, "tiny44/model.safetensors", tiny("tiny44/model.safetensors"));
    write(&sandbox, "good.txt", "<custom_token_10>");
    let clip = Clip::mono(44_100, vec![0.1; 3000]);
    write(&sandbox, "in.wav", wav::encode(&clip, wav::SampleFormat::S16).unwrap());
    for args in [
        &["decode", "good.txt", "-o", "out.wav", "--model", "tiny44"][..],
        &["encode", "in.wav", "-o", "out.txt", "--model", "tiny44"],
    ] {
        let ran = sandbox.run(args);
        assert_eq!(ran.code, 2);
        assert!(ran.stderr.contains("they need [4, 2, 1]\nhint: give the codes as JSON"), "{}", ran.stderr);
    }
    assert_eq!(sandbox.run(&["encode", "in.wav", "-o", "out.json", "--model", "tiny44"]).code, 0);
    assert_eq!(sandbox.run(&["decode", "out.json", "-o", "out.wav", "--model", "tiny44"]).code, 0);
}

#[test]
fn faults_between_tokens_are_counted_and_bridged() {
    let sandbox = Sandbox::new();
    write(&sandbox, "tiny24/config.json", tiny("tiny24/config.json"));
    write(&sandbox, "tiny24/model.safetensors", tiny("tiny24/model.safetensors"));
    let tokens: Vec<String> =
        (0..28).map(|i| format!("<custom_token_{}>", 10 + 4096 * (i % 7) + i * 131 % 4096)).collect();
    let counts = |text: String| {
        write(&sandbox, "t.txt", text);
        let ran = sandbox.run(&["decode", "t.txt", "-o", "out.wav", "-f", "--json", "--model", "tiny24"]);
        assert_eq!(ran.code, 0, "{}", ran.stderr);
        let json = ran.json();
        let count = |key: &str| json["tokens"][key].as_u64().unwrap();
        assert_eq!(json["samples"], 2048 * json["frames"].as_u64().unwrap());
        (
            json["frames"].as_u64().unwrap(),
            ["accepted", "rejected", "resyncs", "concealed_frames", "dropped_frames"].map(count),
        )
    };
    assert_eq!(counts(tokens.concat()), (4, [28, 0, 0, 0, 0]));
    assert_eq!(counts(tokens.join(" noise <b> \u{1F3B5} <custom_tok")), (4, [28, 0, 0, 0, 0]));
    assert_eq!(counts(tokens[..26].concat()), (4, [26, 0, 0, 1, 0]), "cut in mid-frame, most of it there");
    assert_eq!(counts(tokens[..23].concat()), (3, [23, 0, 0, 0, 1]), "cut in mid-frame, little of it there");
    let mut lost = tokens.clone();
    lost.remove(9);
    assert_eq!(counts(lost.concat()), (4, [27, 0, 1, 1, 0]));
    let mut foreign = tokens;
    foreign.insert(9, "<custom_token_28682>".to_owned());
    assert_eq!(counts(foreign.concat()), (4, [28, 1, 0, 0, 0]));
}

#[test]
fn an_endless_stream_without_a_frame_is_ended() {
    let sandbox = Sandbox::new();
    let mut child = sandbox.start(&["decode", "-", "-o", "out.wav"]);
    let mut stdin = child.stdin.take().unwrap();
    let babble = "<custom_token_28682> and so on, ".repeat(4096);
    let mut n_written = 0;
    // The pipe breaks when the program has had enough.
    while stdin.write_all(babble.as_bytes()).is_ok() {
        n_written += babble.len();
        assert!(n_written < 1 << 30, "a gigabyte was read");
    }
    let ran = Ran::from(child.wait_with_output().unwrap());
    assert_eq!(ran.code, 2);
    assert!(ran.stderr.starts_with("error: stdin: 64MiB without a whole frame; "), "{}", ran.stderr);
    assert!(ran.stderr.contains("\nhint: tokens are text with <custom_token_N>"), "{}", ran.stderr);
    assert!(sandbox.files().is_empty());
}

#[test]
fn a_full_disk_is_code_4() {
    let sandbox = Sandbox::new();
    write(&sandbox, "t.txt", (0..70).map(|i| format!("<custom_token_{}>", 10 + 4096 * (i % 7))).collect::<String>());
    let ran = sandbox.run(&["decode", "t.txt", "-o", "/dev/full"]);
    assert_eq!(ran.code, 4, "{}", ran.stderr);
    assert!(ran.stderr.contains("error: /dev/full: "), "{}", ran.stderr);
    assert!(ran.stderr.contains("\nhint: free some space"), "{}", ran.stderr);
}

/// 64 MiB in all are allowed; 64 MiB since the last frame are not.
#[test]
fn a_stream_ends_where_no_frame_comes_any_more() {
    let sandbox = Sandbox::new();
    let frame: String = (0..7).map(|i| format!("<custom_token_{}>", 10 + 4096 * i)).collect();
    let words = vec![b' '; 40 << 20];
    for (parts, code) in [([&words[..], frame.as_bytes(), &words], 0), ([frame.as_bytes(), &words, &words], 2)] {
        write(&sandbox, "t.txt", parts.concat());
        let ran = sandbox.run(&["decode", "t.txt", "-o", "o.wav", "-f"]);
        assert_eq!(ran.code, code, "{}", ran.stderr);
        assert_eq!(ran.stderr.contains("64MiB without a whole frame"), code == 2, "{}", ran.stderr);
    }
}
