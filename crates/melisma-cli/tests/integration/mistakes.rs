//! What users get wrong: each mistake gives a message, a hint and an exit code, and changes no file.

use std::fs::{self, Permissions};
use std::net::TcpListener;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::os::unix::process::CommandExt;
use std::process::Command;

use crate::sandbox::{Ran, Sandbox, golden, golden_file, skip};

/// The exit code and the command line of each mistake. Variables of the environment may stand before it; `PORT` is a port
/// in use.
const MISTAKES: &str = include_str!("../mistakes.txt");
/// Those of a user who may not read `secret.*` and `closed`, nor write to `locked` or make new files.
const FORBIDDEN: &str = include_str!("../mistakes_forbidden.txt");
/// Root may do everything, so this user makes the mistakes for it.
const NOBODY: u32 = 65_534;

/// Makes the files that the mistakes name.
fn prepared() -> Sandbox {
    let sandbox = Sandbox::new();
    let write = |name: &str, bytes: &[u8]| fs::write(sandbox.path(name), bytes).unwrap();
    write("text.txt", b"hello\n");
    write("notes.wav", b"notes\n");
    write("zero.wav", b"");
    write("bad.json", b"{\"a\": 1}");
    write("junk.mid", &[7; 400]);
    fs::create_dir(sandbox.path("empty")).unwrap();
    fs::copy(golden_file("optimize/vocoder.onnx"), sandbox.path("vocoder.onnx")).unwrap();
    fs::copy(golden_file("optimize/vocoder.x.npy"), sandbox.path("x.npy")).unwrap();
    let make = |line: &str| assert_eq!(sandbox.line(line).code, 0, "{line}");
    make("-q synth preset:focus -o sound.wav --seconds 1 --rate 24000");
    make("-q encode sound.wav -o tokens.json");
    let sound = fs::read(sandbox.path("sound.wav")).unwrap();
    write("cut.wav", &sound[..1000]);
    let weights = concat!(env!("CARGO_MANIFEST_DIR"), "/../melisma-models/mini24/model.safetensors");
    fs::copy(weights, sandbox.path("w.safetensors")).unwrap();
    make("-q pack w.safetensors -o w.packed.safetensors");
    write("cut.safetensors", &fs::read(weights).unwrap()[..5000]);
    let mut packed = fs::read(sandbox.path("w.packed.safetensors")).unwrap();
    packed[200_000] ^= 1;
    write("bad.packed.safetensors", &packed);
    // A disk that is always full.
    for name in ["full.wav", "full.json", "full.npy"] {
        symlink("/dev/full", sandbox.path(name)).unwrap();
    }
    sandbox
}

/// Makes the mistakes of `lines` and returns what was said. `user` changes a command before it runs.
fn transcript(sandbox: &Sandbox, lines: &str, user: impl Fn(&mut Command)) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port().to_string();
    let mut transcript = String::new();
    for line in lines.lines() {
        let (code, line) = line.split_once(' ').unwrap();
        let mut words: Vec<&str> = line.split(' ').map(|word| if word == "PORT" { &port } else { word }).collect();
        let n_variables = words.iter().take_while(|word| word.starts_with("MELISMA_")).count();
        let variables: Vec<&str> = words.drain(..n_variables).collect();
        let mut command = sandbox.command(&words);
        command.envs(variables.iter().map(|variable| variable.split_once('=').unwrap()));
        user(&mut command);
        let ran = Ran::from(command.output().unwrap());
        assert_eq!((ran.code.to_string(), &*ran.stdout), (code.to_owned(), ""), "{line}: {}", ran.stderr);
        let said: Vec<&str> = ran.stderr.lines().filter(|line| !line.starts_with("note: ")).collect();
        assert!(
            matches!(said[..], [error, hint] if error.starts_with("error: ") && hint.starts_with("hint: ")),
            "{line}: {said:?}"
        );
        let command = [&variables[..], &["melisma"]].concat().join(" ");
        let line = &line[variables.iter().map(|variable| variable.len() + 1).sum()..];
        transcript += &format!("$ {command} {line}\n{}[{code}]\n\n", ran.stderr.replace(&port, "PORT"));
    }
    transcript
}

#[test]
fn a_mistake_is_told_with_its_place_and_a_way_out() {
    let sandbox = prepared();
    let before = sandbox.files();
    assert!(MISTAKES.lines().count() >= 90, "{}", MISTAKES.lines().count());
    let transcript = transcript(&sandbox, MISTAKES, |_| ());
    golden("mistakes.txt", &transcript);
    let after: Vec<String> = sandbox.files().into_iter().filter(|name| name != ".cache").collect();
    assert_eq!(after, before);
}

#[test]
fn what_is_not_allowed_is_told_with_its_place_and_a_way_out() {
    let sandbox = prepared();
    for name in ["sound.wav", "w.safetensors", "vocoder.onnx"] {
        let secret = sandbox.path("secret").with_extension(name.split_once('.').unwrap().1);
        fs::copy(sandbox.path(name), secret).unwrap();
    }
    fs::write(sandbox.path("secret.yaml"), "threads: 1\n").unwrap();
    fs::write(sandbox.path("secret.txt"), "a key\n").unwrap();
    let set = |name: &str, mode| fs::set_permissions(sandbox.path(name), Permissions::from_mode(mode)).unwrap();
    for name in ["secret.wav", "secret.safetensors", "secret.onnx", "secret.yaml", "secret.txt"] {
        set(name, 0);
    }
    for (name, mode) in [("closed", 0), ("locked", 0o555)] {
        fs::create_dir(sandbox.path(name)).unwrap();
        set(name, mode);
    }
    let is_root = fs::metadata(sandbox.directory.path()).unwrap().uid() == 0;
    let user = |command: &mut Command| {
        // The cache is off: a note about it would depend on the user.
        command.env("MELISMA_CACHE_DIR", "/dev/null/cache");
        if is_root {
            command.uid(NOBODY).gid(NOBODY);
        }
    };
    set(".", 0o555);
    let mut probe = sandbox.command(&["--version"]);
    user(&mut probe);
    if !probe.output().is_ok_and(|output| output.status.success()) {
        set(".", 0o755);
        return skip("another user cannot start the program");
    }
    let transcript = transcript(&sandbox, FORBIDDEN, user);
    // So that the folder can be removed.
    ["closed", "locked", "."].into_iter().for_each(|name| set(name, 0o755));
    golden("mistakes_forbidden.txt", &transcript);
    assert!(fs::read_dir(sandbox.path("locked")).unwrap().next().is_none());
}
