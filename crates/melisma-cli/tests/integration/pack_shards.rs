//! Models in shards, packed and unpacked by their index.

use std::fs::File;
use std::time::{Duration, SystemTime};

use serde_json::{Value, json};

use crate::sandbox::Sandbox;

const INDEX: &str = "m.safetensors.index.json";
const PACKED: &str = "m.packed.safetensors.index.json";

/// A file with these tensors of ten floats each.
fn shard(names: &[&str]) -> Vec<u8> {
    let entry = |(i, name): (usize, &&str)| {
        let [begin, end] = [40 * i, 40 * i + 40];
        format!(r#""{name}":{{"dtype":"F32","shape":[2,5],"data_offsets":[{begin},{end}]}}"#)
    };
    let json = format!("{{{}}}", names.iter().enumerate().map(entry).collect::<Vec<_>>().join(","));
    let mut file = (json.len() as u64).to_le_bytes().to_vec();
    file.extend_from_slice(json.as_bytes());
    names.iter().for_each(|name| file.extend_from_slice(&[name.as_bytes()[0]; 40]));
    file
}

fn sandbox() -> Sandbox {
    let sandbox = Sandbox::new();
    std::fs::write(sandbox.path("m-1.safetensors"), shard(&["a", "b"])).unwrap();
    std::fs::write(sandbox.path("m-2.safetensors"), shard(&["c"])).unwrap();
    write_index(&sandbox, INDEX, &[("a", "m-1"), ("b", "m-1"), ("c", "m-2")]);
    sandbox
}

fn write_index(sandbox: &Sandbox, name: &str, map: &[(&str, &str)]) {
    let suffix = if name == PACKED { "packed.safetensors" } else { "safetensors" };
    let map: serde_json::Map<String, Value> =
        map.iter().map(|(tensor, shard)| ((*tensor).to_owned(), json!(format!("{shard}.{suffix}")))).collect();
    let index = json!({ "metadata": { "total_size": 120 }, "weight_map": map });
    std::fs::write(sandbox.path(name), format!("{index:#}\n")).unwrap();
}

#[test]
fn a_model_is_packed_tested_listed_and_unpacked_by_its_index() {
    let sandbox = sandbox();
    let packed = sandbox.json(&["pack", INDEX, "--json"]);
    assert_eq!(packed["files"].as_array().map(Vec::len), Some(2));
    let index: Value = serde_json::from_slice(&std::fs::read(sandbox.path(PACKED)).unwrap()).unwrap();
    assert_eq!(
        index["weight_map"],
        json!({
            "a": "m-1.packed.safetensors", "b": "m-1.packed.safetensors", "c": "m-2.packed.safetensors"
        })
    );
    let tested = sandbox.json(&["pack", "-t", PACKED, "--json"]);
    assert_eq!((&tested["verified"], &tested["bytes_in"]), (&json!(true), &packed["bytes_in"]));
    let listed = sandbox.json(&["pack", "-l", PACKED, "--json"]);
    assert_eq!(listed["files"][1]["tensors"][0]["name"], "c");
    let table = sandbox.run(&["pack", "-l", PACKED]).stdout;
    assert_eq!(table.lines().count(), 5, "{table}");
    assert_eq!(sandbox.run(&["unpack", PACKED, "--tensor", "c", "-o", "c.safetensors"]).code, 0);
    assert!(std::fs::read(sandbox.path("c.safetensors")).unwrap().ends_with(&[b'c'; 40]));
    let sources = [INDEX, "m-1.safetensors", "m-2.safetensors"];
    let before = sources.map(|name| std::fs::read(sandbox.path(name)).unwrap());
    let refused = sandbox.run(&["unpack", PACKED]);
    assert!(refused.code == 2 && refused.stderr.contains("exists already"), "{}", refused.stderr);
    sources.iter().for_each(|name| std::fs::remove_file(sandbox.path(name)).unwrap());
    let unpacked = sandbox.json(&["unpack", PACKED, "--json"]);
    assert_eq!((&unpacked["output"], unpacked["files"].as_array().map(Vec::len)), (&json!(INDEX), Some(2)));
    assert!(before == sources.map(|name| std::fs::read(sandbox.path(name)).unwrap()));
}

#[test]
fn a_damaged_shard_leaves_no_output_behind() {
    let sandbox = sandbox();
    assert_eq!(sandbox.run(&["pack", INDEX]).code, 0);
    let sources = [INDEX, "m-1.safetensors", "m-2.safetensors"];
    sources.iter().for_each(|name| std::fs::remove_file(sandbox.path(name)).unwrap());
    let second = sandbox.path("m-2.packed.safetensors");
    let mut bytes = std::fs::read(&second).unwrap();
    *bytes.last_mut().unwrap() ^= 1;
    std::fs::write(&second, bytes).unwrap();
    let refused = sandbox.run(&["unpack", PACKED]);
    assert!(refused.code != 0 && refused.stderr.contains("m-2.packed.safetensors"), "{}", refused.stderr);
    assert!(sources.iter().all(|name| !sandbox.path(name).exists()));
}

#[test]
fn names_that_do_not_agree_with_the_shards_are_refused() {
    let sandbox = sandbox();
    assert_eq!(sandbox.run(&["pack", INDEX]).code, 0);
    let cases: [(&[(&str, &str)], &str); 4] = [
        (&[("a", "m-1"), ("b", "m-2"), ("c", "m-2")], "`b` is in m-1."),
        (&[("a", "m-1"), ("b", "m-1"), ("c", "m-2"), ("d", "m-2")], "`d` is missing in m-2."),
        (&[("a", "m-1"), ("c", "m-2")], "`b` is in m-1."),
        (&[("a", "m-1"), ("b", "m-1"), ("c", "m-3")], "m-3."),
    ];
    for (map, expected) in cases {
        write_index(&sandbox, INDEX, map);
        write_index(&sandbox, PACKED, map);
        let commands: [&[&str]; 5] = [
            &["pack", INDEX, "-f"],
            &["pack", "-t", PACKED],
            &["pack", "-l", PACKED],
            &["unpack", PACKED, "-f"],
            &["unpack", PACKED, "--tensor", "a", "-o", "a"],
        ];
        for args in commands {
            let ran = sandbox.run(args);
            assert_eq!(ran.code, 2, "{args:?}: {}", ran.stderr);
            assert!(ran.stderr.contains(expected), "{args:?}: {}", ran.stderr);
        }
    }
}

#[test]
fn hostile_indices_and_flags_without_meaning_are_refused() {
    let sandbox = sandbox();
    for index in [r#"{"weight_map":{"w":"../m.safetensors"}}"#, "[]", "{}", "7", r#"{"weight_map":{"w":1}}"#, "{"] {
        std::fs::write(sandbox.path("evil.index.json"), index).unwrap();
        for args in
            [&["pack", "evil.index.json"][..], &["pack", "-t", "evil.index.json"], &["unpack", "evil.index.json"]]
        {
            assert_eq!(sandbox.run(args).code, 2, "{args:?}: {index}");
        }
    }
    for flags in [&["-o", "x"][..], &["--rm"], &["--delta", "m-1.safetensors"]] {
        for command in ["pack", "unpack"] {
            let ran = sandbox.run(&[&[command, INDEX], flags].concat());
            assert!(ran.code == 2 && ran.stderr.contains("with an index of shards"), "{flags:?}: {}", ran.stderr);
        }
    }
    let plain = sandbox.run(&["pack", "-t", INDEX]);
    assert!(plain.code == 2 && plain.stderr.contains("not packed"), "{}", plain.stderr);
}

#[test]
fn parts_make_the_same_files_as_the_whole() {
    let (whole, parts) = (sandbox(), sandbox());
    assert_eq!(whole.run(&["pack", INDEX]).code, 0);
    let run = |part: &str, is_complete: bool, n_kept: u64| {
        let ran = parts.run(&["--json", "pack", INDEX, "--shard", part]);
        assert_eq!(ran.code, 0, "{}", ran.stderr);
        let found = ran.json();
        assert_eq!((&found["complete"], &found["files_kept"]), (&is_complete.into(), &n_kept.into()), "{found}");
    };
    run("2/2", false, 0);
    assert!(!parts.path(PACKED).exists());
    run("1/2", true, 0);
    run("1/2", true, 1);
    for name in [PACKED, "m-1.packed.safetensors", "m-2.packed.safetensors"] {
        let read = |sandbox: &Sandbox| std::fs::read(sandbox.path(name)).unwrap();
        assert!(read(&whole) == read(&parts), "{name}");
    }
    let again = parts.run(&["--json", "pack", INDEX, "--shard", "1/2", "-f"]);
    let again = again.json();
    assert_eq!((&again["files_kept"], &again["complete"]), (&0.into(), &true.into()), "-f packs again");
    // A packed file with the tensors of another shard is not this shard's.
    std::fs::copy(parts.path("m-2.packed.safetensors"), parts.path("m-1.packed.safetensors")).unwrap();
    run("2/2", false, 1);
    let ran = parts.run(&["pack", INDEX, "--shard", "1/2"]);
    assert!(ran.code == 2 && ran.stderr.contains("exists already"), "{}", ran.stderr);
    for (args, text) in [
        (&["pack", INDEX, "--shard", "3/2"][..], "shard 3 of 2 does not exist"),
        (&["pack", "m-1.safetensors", "--shard", "1/2"], "--shard needs an index of shards"),
    ] {
        let ran = parts.run(args);
        assert!(ran.code == 2 && ran.stderr.contains(text), "{}", ran.stderr);
    }
}

#[test]
fn every_file_belongs_to_a_part() {
    for n in [2, 4] {
        let sandbox = sandbox();
        std::fs::write(sandbox.path("m-3.safetensors"), shard(&["d"])).unwrap();
        write_index(&sandbox, INDEX, &[("a", "m-1"), ("b", "m-1"), ("c", "m-2"), ("d", "m-3")]);
        let part = |i: usize| sandbox.json(&["pack", INDEX, "--shard", &format!("{i}/{n}"), "--json"]);
        let parts: Vec<Value> = (1..=n).map(part).collect();
        let n_files: usize = parts.iter().map(|part| part["files"].as_array().unwrap().len()).sum();
        assert_eq!((n_files, &parts[n - 1]["complete"]), (3, &json!(true)), "{n} parts: {parts:?}");
    }
}

#[test]
fn a_source_from_a_clock_ahead_is_packed_once() {
    let sandbox = sandbox();
    let source = File::options().write(true).open(sandbox.path("m-1.safetensors")).unwrap();
    source.set_modified(SystemTime::now() + Duration::from_secs(86_400)).unwrap();
    let args = ["pack", INDEX, "--shard", "1/1", "--json"];
    assert_eq!(sandbox.json(&args)["complete"], true);
    assert_eq!(sandbox.json(&args)["files_kept"], 2);
}

#[test]
fn a_packed_file_that_is_older_than_its_source_is_not_kept() {
    let sandbox = sandbox();
    let args = ["pack", INDEX, "--shard", "1/1", "--json"];
    assert_eq!(sandbox.json(&args)["files_kept"], 0);
    let packed = sandbox.path("m-1.packed.safetensors").metadata().unwrap().modified().unwrap();
    let source = File::options().write(true).open(sandbox.path("m-1.safetensors")).unwrap();
    source.set_modified(packed).unwrap();
    assert_eq!(sandbox.json(&args)["files_kept"], 2);
    source.set_modified(packed + Duration::from_secs(1)).unwrap();
    let ran = sandbox.run(&args);
    assert!(ran.code == 2 && ran.stderr.contains("m-1.packed.safetensors: the file exists already"), "{}", ran.stderr);
}
