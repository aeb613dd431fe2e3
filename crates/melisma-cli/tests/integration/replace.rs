//! `-f`: every command keeps the permissions and the owner of what it replaces, and writes through links.

use std::fs::Permissions;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, symlink};
use std::path::Path;

use crate::sandbox::{Sandbox, golden_file};
use crate::sound::{noise, wav};

/// Only the superuser may give files away.
const OWNER: u32 = 4711;

fn stocked() -> Sandbox {
    let sandbox = Sandbox::new();
    for folder in ["w", "away", "stems"] {
        std::fs::create_dir(sandbox.path(folder)).unwrap();
    }
    for i in 0..3 {
        std::fs::write(sandbox.path(&format!("w/{i}.wav")), wav(24_000, &noise(i, 12_000))).unwrap();
    }
    for (from, to) in [
        ("snac/tiny24/model.safetensors", "m.safetensors"),
        ("optimize/control.onnx", "c.onnx"),
        ("optimize/control.x.npy", "x.npy"),
    ] {
        std::fs::copy(golden_file(from), sandbox.path(to)).unwrap();
    }
    let json = br#"{"w":{"dtype":"U8","shape":[8],"data_offsets":[0,8]}}      "#;
    let weights = [&(json.len() as u64).to_le_bytes()[..], json, &[7; 8]].concat();
    std::fs::write(sandbox.path("s1.safetensors"), weights).unwrap();
    let index = r#"{"weight_map":{"w":"s1.safetensors"}}"#;
    std::fs::write(sandbox.path("s.safetensors.index.json"), index).unwrap();
    std::fs::write(
        sandbox.path("tokens.txt"),
        "<custom_token_10><custom_token_4106><custom_token_8202>\
        <custom_token_12298><custom_token_16394><custom_token_20490><custom_token_24586>",
    )
    .unwrap();
    for shard in ["1/2", "2/2"] {
        let line = format!("dataset build w -o {}.h5 --segment 100ms --shard {shard}", &shard[..1]);
        assert_eq!(sandbox.line(&line).code, 0);
    }
    assert_eq!(sandbox.line("pack m.safetensors -o p.safetensors").code, 0);
    sandbox
}

/// Each command, and a file that it writes.
fn commands() -> Vec<(String, &'static str)> {
    let tiny = golden_file("snac/tiny24");
    let synth = "synth preset:bright --seconds 1 --rate 8000 --device cpu";
    vec![
        (format!("decode tokens.txt -o a.wav --model {tiny}"), "a.wav"),
        (format!("decode tokens.txt -o a.flac --model {tiny}"), "a.flac"),
        (format!("encode w/0.wav -o a.txt --model {tiny}"), "a.txt"),
        (format!("encode w/0.wav -o a.npy --model {tiny}"), "a.npy"),
        (format!("encode w -o a.safetensors --model {tiny}"), "a.safetensors"),
        (format!("encode w -o a.jsonl --model {tiny}"), "a.jsonl"),
        (format!("{synth} -o b.wav"), "b.wav"),
        (format!("{synth} -o c.wav --midi c.mid"), "c.mid"),
        (format!("{synth} -o d.wav --stems stems"), "stems/pad.wav"),
        (format!("{synth} -o e.wav --debug-capture captured"), "captured/capture.wav"),
        (format!("{synth} -o clips --clips 2"), "clips/clip_000001.wav"),
        ("mel w/0.wav -o m.npy".to_owned(), "m.npy"),
        ("mel w/0.wav -o m.png".to_owned(), "m.png"),
        ("mel w/0.wav w/1.wav -o mels.safetensors".to_owned(), "mels.safetensors"),
        ("mel w/0.wav w/1.wav -o mels".to_owned(), "mels/1.npy"),
        ("dataset build w -o f.h5 --segment 100ms".to_owned(), "f.h5"),
        ("dataset build w -o f.safetensors --segment 100ms".to_owned(), "f.safetensors"),
        ("dataset build w -o folder --segment 100ms".to_owned(), "folder"),
        ("dataset merge 1.h5 2.h5 -o g.h5".to_owned(), "g.h5"),
        ("pack m.safetensors -o h.safetensors".to_owned(), "h.safetensors"),
        ("pack s.safetensors.index.json".to_owned(), "s.packed.safetensors.index.json"),
        ("unpack p.safetensors -o i.safetensors".to_owned(), "i.safetensors"),
        ("run c.onnx --input x=x.npy -o arrays --device cpu".to_owned(), "arrays/y.npy"),
        ("doctor --trace t.json".to_owned(), "t.json"),
    ]
}

fn rights(path: &Path) -> (u32, u32, u32) {
    let data = std::fs::symlink_metadata(path).unwrap();
    (data.mode() & 0o7777, data.uid(), data.gid())
}

/// What a path leads to changes, and nothing else: the number of the file says whether it is new.
fn inode(path: &Path) -> u64 {
    std::fs::metadata(path).unwrap().ino()
}

fn check(sandbox: &Sandbox, line: &str, name: &str) {
    let (path, away) = (sandbox.path(name), sandbox.path("away/it"));
    let run = |more: &str| sandbox.line(&format!("{line}{more}"));
    let done = |more: &str| {
        let ran = run(more);
        // On a busy machine the sheet misses its limits of time, and its picture is written all the same.
        let is_done = ran.code == 0 || ran.code == 3 && line.starts_with("bench sheet");
        assert!(is_done, "{line}: {} {}", ran.code, ran.stderr);
    };
    done("");
    let mode = if path.is_dir() { 0o750 } else { 0o604 };
    let is_root = chown(&path, Some(OWNER), Some(OWNER + 1)).is_ok();
    std::fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
    let (before, old) = (rights(&path), inode(&path));
    assert!(!is_root || before.1 == OWNER);
    done(" -f");
    assert_eq!(rights(&path), before, "{line}");
    assert_ne!(inode(&path), old, "{line}: it was replaced");

    // A link to another folder: the link stays, and what it leads to is replaced.
    std::fs::rename(&path, &away).unwrap();
    symlink(&away, &path).unwrap();
    let old = inode(&away);
    done(" -f");
    assert!(path.is_symlink() && inode(&away) != old && rights(&away) == before, "{line}");
    let old = inode(&away);
    let ran = run("");
    let is_left_alone = line.contains("dataset build") || line.contains("encode w ") || line.contains("--clips");
    assert_eq!(ran.code, if is_left_alone { 0 } else { 2 }, "{line}: {}", ran.stderr);
    assert_eq!(inode(&away), old, "{line}");

    // A link that leads nowhere is not replaced, nor written through.
    if away.is_dir() {
        std::fs::remove_dir_all(&away).unwrap()
    } else {
        std::fs::remove_file(&away).unwrap()
    }
    let ran = run("");
    assert_eq!(ran.code, 2, "{line}: {}", ran.stderr);
    assert!(ran.stderr.contains("\nhint: use -f"), "{line}: {}", ran.stderr);
    assert!(path.is_symlink() && !away.exists(), "{line}");
    done(" -f");
    assert!(path.is_symlink() && away.exists(), "{line}");
    if away.is_dir() {
        std::fs::remove_dir_all(&away).unwrap()
    } else {
        std::fs::remove_file(&away).unwrap()
    }
    std::fs::remove_file(&path).unwrap();
    let left: Vec<_> = std::fs::read_dir(sandbox.path("away")).unwrap().map(|entry| entry.unwrap().path()).collect();
    let is_beside = |path: &Path| path.to_string_lossy().ends_with(".origin.json");
    assert!(left.iter().all(|path| is_beside(path)), "{line}: {left:?}");
}

#[test]
#[ignore = "extended: these commands take seconds, and each runs six times"]
fn permissions_owners_and_links_stay_in_long_commands() {
    let sandbox = stocked();
    for (line, name) in [
        ("bench sheet --picture sheet.png", "sheet.png"),
        ("bench runtime -o record.json --device cpu", "record.json"),
        ("demo -o tour --device cpu", "tour/report.html"),
    ] {
        check(&sandbox, line, name);
    }
}

#[test]
fn permissions_owners_and_links_stay_in_every_command() {
    let sandbox = stocked();
    for (line, name) in commands() {
        check(&sandbox, &line, name);
    }
}
