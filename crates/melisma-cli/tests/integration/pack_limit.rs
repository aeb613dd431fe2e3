//! `pack` and `unpack` under `--memory-limit`, on files that are larger than what may be held.

use std::io::{Seek, SeekFrom, Write};
use std::path::Path;

use crate::sandbox::Sandbox;

const LIMIT: u64 = 16 << 20;
/// What a process may take beyond the limit: the program itself, and blocks of the allocator.
const BESIDE: u64 = 96 << 20;
/// Of a source that does not fit: 144 MiB.
const ROWS: u64 = 18 << 10;
const BYTES: u64 = ROWS * 4096 * 2;

/// Zeros as a tensor called `name`, with holes on disk.
fn write_source(path: &Path, name: &str, rows: u64) {
    let len = rows * 4096 * 2;
    let json = format!(r#"{{"{name}":{{"dtype":"BF16","shape":[{rows},4096],"data_offsets":[0,{len}]}}}}"#);
    let mut file = std::fs::File::create(path).unwrap();
    file.write_all(&(json.len() as u64).to_le_bytes()).unwrap();
    file.write_all(json.as_bytes()).unwrap();
    file.set_len(8 + json.len() as u64 + len).unwrap();
}

/// The same as PyTorch would save it.
fn write_checkpoint(path: &Path) {
    let mut program = b"\x80\x02}X\x01\0\0\0wctorch._utils\n_rebuild_tensor_v2\n(".to_vec();
    program.extend_from_slice(b"(X\x07\0\0\0storagectorch\nBFloat16Storage\nX\x01\0\0\x000X\x03\0\0\0cpuK\x06tQK\0");
    program
        .extend_from_slice(&[b"J".as_slice(), &(ROWS as i32).to_le_bytes(), b"M\0\x10\x86M\0\x10K\x01\x86"].concat());
    program.extend_from_slice(b"\x89ccollections\nOrderedDict\n)RtRs.");
    let mut file = std::fs::File::create(path).unwrap();
    let mut directory = Vec::new();
    for (name, data, len) in [("m/data.pkl", &program[..], program.len() as u64), ("m/data/0", &[], BYTES)] {
        let at = file.stream_position().unwrap() as u32;
        let sizes = [len as u32, len as u32].map(u32::to_le_bytes).concat();
        let name_len = (name.len() as u16).to_le_bytes();
        let local = [b"PK\x03\x04".as_slice(), &[0; 14], &sizes, &name_len, &[0; 2], name.as_bytes(), data].concat();
        file.write_all(&local).unwrap();
        file.seek(SeekFrom::Current((len - data.len() as u64) as i64)).unwrap();
        directory.extend_from_slice(&[b"PK\x01\x02".as_slice(), &[0; 16], &sizes, &name_len, &[0; 12]].concat());
        directory.extend_from_slice(&[at.to_le_bytes().as_slice(), name.as_bytes()].concat());
    }
    let at = file.stream_position().unwrap() as u32;
    file.write_all(&directory).unwrap();
    let lens = [directory.len() as u32, at].map(u32::to_le_bytes).concat();
    file.write_all(&[b"PK\x05\x06\0\0\0\0\x02\0\x02\0".as_slice(), &lens, &[0; 2]].concat()).unwrap();
}

fn bytes(text: &str) -> u64 {
    let split = text.find(|c: char| c.is_ascii_alphabetic()).unwrap();
    let scale = match &text[split..] {
        "B" => 1.0,
        "KiB" => 1024.0,
        "MiB" => 1048576.0,
        other => panic!("{other} in {text}"),
    };
    (text[..split].parse::<f64>().unwrap() * scale) as u64
}

/// Runs with 16 threads, and looks at the table that `-v` prints.
fn within(sandbox: &Sandbox, args: &[&str]) {
    let more = ["--memory-limit", "16MiB", "--threads", "16", "--device", "cpu", "-v", "-f"];
    let ran = sandbox.run(&[args, &more].concat());
    assert_eq!(ran.code, 0, "{args:?}: {}", ran.stderr);
    let all = ran.stderr.lines().find(|line| line.starts_with("all ")).unwrap();
    let peak = bytes(all.split_whitespace().nth(3).unwrap());
    assert!((1..=LIMIT).contains(&peak), "{args:?}: {peak}");
    let resident = ran.stderr.lines().find_map(|line| line.strip_prefix("peak resident memory of the process: "));
    let resident = bytes(resident.unwrap());
    assert!(resident < LIMIT + BESIDE, "{args:?}: {resident}");
}

#[test]
fn every_way_of_packing_and_unpacking_stays_within_the_limit() {
    let sandbox = Sandbox::new();
    write_source(&sandbox.path("m.safetensors"), "w", ROWS);
    within(&sandbox, &["pack", "m.safetensors"]);
    within(&sandbox, &["pack", "-t", "m.packed.safetensors"]);
    within(&sandbox, &["unpack", "m.packed.safetensors", "-o", "/dev/null"]);
    within(&sandbox, &["unpack", "m.packed.safetensors", "--tensor", "w", "-o", "/dev/null"]);
    within(&sandbox, &["unpack", "m.packed.safetensors", "--tensor", "w", "--tile", "1,1", "-o", "t.safetensors"]);
    let limited = std::fs::read(sandbox.path("m.packed.safetensors")).unwrap();
    assert_eq!(sandbox.run(&["pack", "m.safetensors", "-f"]).code, 0);
    assert!(limited == std::fs::read(sandbox.path("m.packed.safetensors")).unwrap());
}

#[test]
fn shards_and_checkpoints_stay_within_the_limit() {
    let sandbox = Sandbox::new();
    for name in ["a", "b"] {
        write_source(&sandbox.path(&format!("{name}.safetensors")), name, ROWS);
    }
    let index = r#"{"weight_map":{"a":"a.safetensors","b":"b.safetensors"}}"#;
    std::fs::write(sandbox.path("m.safetensors.index.json"), index).unwrap();
    within(&sandbox, &["pack", "m.safetensors.index.json"]);
    within(&sandbox, &["pack", "-t", "m.packed.safetensors.index.json"]);
    write_checkpoint(&sandbox.path("m.bin"));
    within(&sandbox, &["pack", "m.bin"]);
}

#[test]
fn a_limit_that_is_too_small_is_refused_with_the_least_that_works() {
    let sandbox = Sandbox::new();
    write_source(&sandbox.path("m.safetensors"), "w", 1024);
    assert_eq!(sandbox.run(&["pack", "m.safetensors"]).code, 0);
    let commands: [&[&str]; 4] = [
        &["pack", "m.safetensors", "-o", "x.safetensors"],
        &["pack", "-t", "m.packed.safetensors"],
        &["unpack", "m.packed.safetensors", "-o", "x.safetensors"],
        &["unpack", "m.packed.safetensors", "--tensor", "w", "-o", "x.safetensors"],
    ];
    let piped =
        sandbox.run(&["unpack", "m.packed.safetensors", "-o", "-", "--memory-limit", "1MiB", "--device", "cpu"]);
    assert!(piped.code == 4 && piped.stdout.is_empty(), "{}", piped.stderr);
    for args in commands {
        let refused = sandbox.run(&[args, &["--memory-limit", "1MiB", "--device", "cpu"]].concat());
        assert_eq!(refused.code, 4, "{args:?}: {}", refused.stderr);
        assert!(!sandbox.path("x.safetensors").exists() && !sandbox.path("x.safetensors.partial").exists());
        let hint = refused.stderr.split("use --memory-limit ").nth(1).unwrap_or_default();
        let least = hint.split_whitespace().next().unwrap();
        let args = [args, &["-f", "--device", "cpu", "--memory-limit", least]].concat();
        let ran = sandbox.run(&args);
        assert_eq!(ran.code, 0, "{args:?}: {}", ran.stderr);
        let _ = std::fs::remove_file(sandbox.path("x.safetensors"));
    }
}
