//! `dataset build` and `merge` remove nothing that is not theirs: inputs, folders of other things, and files beside the output.

use melisma::dataset::journal::{Header, Journal};

use crate::sandbox::Sandbox;
use crate::sound::{self, noise, wav};

const SHORT: [&str; 4] = ["--preset", "whisper-80", "--segment", "150ms"];

fn write(sandbox: &Sandbox, name: &str, bytes: &[u8]) {
    std::fs::create_dir_all(sandbox.path(name).parent().unwrap()).unwrap();
    std::fs::write(sandbox.path(name), bytes).unwrap();
}

fn corpus() -> Sandbox {
    let sandbox = Sandbox::new();
    for i in 0..4 {
        write(&sandbox, &format!("w/{i}.wav"), &wav(16_000, &noise(i, 5000)));
    }
    sandbox
}

fn run(sandbox: &Sandbox, verb: &str, args: &[&str]) -> (i32, String) {
    let more: &[&str] = if verb == "build" { &SHORT } else { &[] };
    let ran = sandbox.run(&[&["--device", "cpu", "dataset", verb][..], args, more].concat());
    (ran.code, ran.stderr)
}

/// Every file below the sandbox, with its bytes.
fn all(sandbox: &Sandbox) -> Vec<(std::path::PathBuf, Vec<u8>)> {
    let (mut folders, mut files) = (vec![sandbox.path(".")], Vec::new());
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            match path.is_dir() && !path.is_symlink() {
                true => folders.push(path),
                false => files.push((path.clone(), std::fs::read(path).unwrap_or_default())),
            }
        }
    }
    files.sort();
    files
}

/// The command is refused with `message` and a hint, and changes nothing.
fn refused(sandbox: &Sandbox, verb: &str, args: &[&str], message: &str) {
    let before = all(sandbox);
    let (code, stderr) = run(sandbox, verb, args);
    assert!(code == 2 && stderr.contains(message) && stderr.contains("\nhint: "), "{args:?}: {code} {stderr}");
    assert!(all(sandbox) == before, "{args:?} changed files");
}

fn done(sandbox: &Sandbox, verb: &str, args: &[&str]) {
    let (code, stderr) = run(sandbox, verb, args);
    assert_eq!(code, 0, "{args:?}: {stderr}");
}

#[test]
fn an_output_that_is_or_holds_an_input_is_refused() {
    let sandbox = corpus();
    write(&sandbox, "up/in/a.wav", &wav(16_000, &noise(9, 5000)));
    write(&sandbox, "far/list.txt", b"../up/in/a.wav\n");
    std::os::unix::fs::symlink("w", sandbox.path("link")).unwrap();
    for store in ["npy", "hdf5", "safetensors"] {
        for force in [&[][..], &["-f"]] {
            let try_one = |input: &str, output: &str, message: &str| {
                refused(&sandbox, "build", &[&[input, "-o", output, "--store", store][..], force].concat(), message);
            };
            try_one("w", "w", "w: this folder is an input");
            try_one("w", "link", "w: this folder is an input");
            try_one("link", "./w/", "this folder is an input");
            try_one("up/in", "up", "up: this folder holds the input up/in");
            try_one("far/list.txt", "up", "up: this folder holds the input far/../up/in/a.wav");
            try_one("far/list.txt", "far/list.txt", "far/list.txt: this file is an input");
            try_one("w/1.wav", "w/1.wav", "w/1.wav: this file is an input");
            try_one("w", "w/1.wav", "w/1.wav: this file is an input");
        }
    }
    // Inside a folder of inputs there is room for it.
    done(&sandbox, "build", &["w", "-o", "w/set"]);
    done(&sandbox, "build", &["w", "-o", "w/set", "--drop-tail", "-f"]);
}

#[test]
fn a_merge_does_not_replace_its_shards() {
    let sandbox = corpus();
    for (one, two) in [("1", "2"), ("1.h5", "2.h5"), ("1.safetensors", "2.safetensors")] {
        done(&sandbox, "build", &["w", "-o", one, "--shard", "1/2"]);
        done(&sandbox, "build", &["w", "-o", two, "--shard", "2/2"]);
        let noun = if one == "1" { "folder" } else { "file" };
        for force in [&[][..], &["-f"]] {
            let message = format!("{two}: this {noun} is an input");
            refused(&sandbox, "merge", &[&[one, two, "-o", two][..], force].concat(), &message);
        }
    }
    refused(&sandbox, "merge", &["1", "2", "-o", "1/mel.npy", "-f"], "1/mel.npy: this file is an input");
    std::fs::rename(sandbox.path("1.h5"), sandbox.path("m.h5.partial")).unwrap();
    let message = "m.h5.partial: this file is an input";
    refused(&sandbox, "merge", &["m.h5.partial", "2.h5", "-o", "m.h5", "-f"], message);
    refused(&sandbox, "merge", &["1", "2", "-o", "w", "-f"], "w: this folder holds 0.wav");
}

#[test]
fn a_merge_does_not_replace_an_unfinished_build() {
    let sandbox = corpus();
    done(&sandbox, "build", &["w", "-o", "1.h5"]);
    std::fs::copy(sandbox.path("1.h5"), sandbox.path("m.h5.partial")).unwrap();
    Journal::create(&sandbox.path("m.h5.journal"), &Header::new("plan", "inputs")).unwrap();
    refused(&sandbox, "merge", &["1.h5", "-o", "m.h5"], "m.h5.partial: an unfinished build");
    done(&sandbox, "merge", &["1.h5", "-o", "m.h5", "-f"]);
    assert_eq!(sandbox.files(), ["1.h5", "m.h5", "w"]);
}

#[test]
fn force_replaces_plain_files_and_datasets_only() {
    let sandbox = corpus();
    write(&sandbox, "notes/deep/a.txt", b"mine");
    std::fs::create_dir(sandbox.path("empty")).unwrap();
    write(&sandbox, "theirs/dataset.json", b"{\"rows\": 3, \"columns\": {}}");
    for store in ["npy", "hdf5"] {
        let try_one = |output: &str, message: &str| {
            refused(&sandbox, "build", &["w", "-o", output, "--store", store, "-f"], message);
        };
        try_one("notes", "notes: this folder holds deep, which is not part of a dataset");
        try_one("empty", "empty: this folder is not a dataset");
        try_one("theirs", "theirs: this folder is not a dataset");
    }
    let (_, stderr) = run(&sandbox, "build", &["w", "-o", "notes"]);
    assert!(stderr.contains("notes: the folder exists already") && stderr.contains("remove it yourself"), "{stderr}");
    done(&sandbox, "build", &["w", "-o", "set"]);
    let (_, stderr) = run(&sandbox, "build", &["w", "-o", "set", "--drop-tail"]);
    assert!(stderr.contains("set: the folder exists already") && stderr.contains("use -f"), "{stderr}");
    write(&sandbox, "set/notes.txt", b"mine");
    refused(&sandbox, "build", &["w", "-o", "set", "--drop-tail", "-f"], "set: this folder holds notes.txt");
    std::fs::remove_file(sandbox.path("set/notes.txt")).unwrap();
    // Folder, file and folder in turn.
    done(&sandbox, "build", &["w", "-o", "set", "--drop-tail", "-f"]);
    done(&sandbox, "build", &["w", "-o", "set", "--store", "hdf5", "-f"]);
    assert!(sandbox.path("set").is_file());
    done(&sandbox, "build", &["w", "-o", "set", "--store", "npy", "-f"]);
    done(&sandbox, "verify", &["set"]);
    assert_eq!(sandbox.files(), ["empty", "notes", "set", "theirs", "w"]);
}

#[test]
fn files_beside_the_output_that_are_not_of_a_build_stay() {
    let sandbox = corpus();
    done(&sandbox, "build", &["w", "-o", "1.h5"]);
    for (name, output) in [
        ("o.h5.partial", "o.h5"),
        ("o.h5.journal", "o.h5"),
        ("o.h5.failures.jsonl", "o.h5"),
        ("o.partial", "o"),
        ("o.journal", "o"),
    ] {
        write(&sandbox, name, b"{\"dear\": \"diary\"}\n");
        let message = format!("{name}: the file is not of a build of this output");
        refused(&sandbox, "build", &["w", "-o", output], &message);
        refused(&sandbox, "merge", &["1.h5", "-o", output], &message);
        done(&sandbox, "build", &["w", "-o", output, "-f"]);
        assert!(!sandbox.path(name).exists(), "{name}");
        let path = sandbox.path(output);
        std::fs::remove_file(&path).or_else(|_| std::fs::remove_dir_all(&path)).unwrap();
        // A folder of other things stays whatever is asked for.
        write(&sandbox, &format!("{name}/x"), b"mine");
        for force in [&[][..], &["-f"]] {
            refused(&sandbox, "build", &[&["w", "-o", output][..], force].concat(), name);
            refused(&sandbox, "merge", &[&["1.h5", "-o", output][..], force].concat(), name);
        }
        std::fs::remove_dir_all(sandbox.path(name)).unwrap();
    }
    // Leftovers of a killed build do not matter.
    for (name, bytes) in
        [("o.h5.journal", &b"5d0a9f3e {\"jour"[..]), ("o.h5.failures.jsonl", b""), ("o.h5.partial", b"")]
    {
        write(&sandbox, name, bytes);
    }
    write(&sandbox, "o.partial/mel.npy.new", b"");
    done(&sandbox, "build", &["w", "-o", "o.h5"]);
    done(&sandbox, "build", &["w", "-o", "o"]);
    assert_eq!(sandbox.files(), ["1.h5", "o", "o.h5", "w"]);
}

#[test]
fn a_folder_called_like_an_audio_file_is_entered() {
    let sandbox = Sandbox::new();
    write(&sandbox, "w/dir.wav/inner.wav", &wav(16_000, &noise(1, 5000)));
    done(&sandbox, "build", &["w", "-o", "a.h5"]);
    assert!(sound::rows(&sandbox.path("a.h5")).iter().all(|row| row.path == "dir.wav/inner.wav" && row.status == 0));
}
