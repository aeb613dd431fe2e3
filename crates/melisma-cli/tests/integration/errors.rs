//! Bad input: the message, the hint, the exit code, and that nothing is left behind.

use std::fs::File;
use std::process::Stdio;

use crate::sandbox::{Ran, Sandbox, golden};

#[test]
fn wrong_usage_and_bad_settings_give_an_error_a_hint_and_a_code() {
    let sandbox = Sandbox::new();
    let write = |name: &str, text: &str| std::fs::write(sandbox.path(name), text).unwrap();
    write("not.yaml", "threads: [1\ndevice: }\n");
    write("unknown.yaml", "# settings\ndevise: cpu\n");
    write("type.yaml", "tensor_optimizations:\n  enabled: maybe\n");
    write("zero.yaml", "memory_limit: 0\n");
    write("twice.yaml", "threads: 1\nthreads: 2\n");
    write("record.json", "{\"machine\": 3}");
    write("taken.json", "mine");
    let cases: &[(i32, &[&str])] = &[
        (2, &[]),
        (2, &["--devic", "cpu", "doctor"]),
        (2, &["doctro"]),
        (2, &["code"]),
        (2, &["bench", "-o", "r.json", "compare", "record.json", "record.json"]),
        (2, &["doctor", "--trace", "-"]),
        (2, &["--profile", "holiday", "doctor"]),
        (2, &["bench", "compare", "record.json"]),
        (2, &["--quiet", "--verbose", "doctor"]),
        (2, &["doctor", "--config", "not.yaml"]),
        (2, &["doctor", "--config", "unknown.yaml"]),
        (2, &["doctor", "--config", "type.yaml"]),
        (2, &["doctor", "--config", "zero.yaml"]),
        (2, &["doctor", "--config", "twice.yaml"]),
        (2, &["doctor", "--config", "absent.yaml"]),
        (2, &["doctor", "--memory-limit", "0"]),
        (2, &["doctor", "--memory-limit", "lots"]),
        (2, &["doctor", "--threads", "0"]),
        (2, &["doctor", "--device", "abacus"]),
        (2, &["doctor", "--trace", "taken.json"]),
        (2, &["doctor", "--trace", "no/such/folder/trace.json"]),
        (2, &["bench", "cellar"]),
        (2, &["bench", "compare", "record.json", "record.json"]),
        (2, &["bench", "compare", "absent.json", "record.json"]),
    ];
    let before = sandbox.files();
    let mut transcript = String::new();
    for (code, args) in cases {
        let Ran { code: found, stdout, stderr } = sandbox.run(args);
        assert_eq!((found, stdout.as_str()), (*code, ""), "{args:?}: {stderr}");
        let mut lines = stderr.lines();
        assert!(lines.next().unwrap_or_default().starts_with("error: "), "{args:?}: {stderr}");
        assert!(!stderr.contains("panicked") && !stderr.contains("\u{1b}["), "{stderr}");
        transcript += &format!("$ melisma {}\n{stderr}[{found}]\n\n", args.join(" "));
    }
    golden("errors.txt", &transcript);
    assert_eq!(sandbox.files(), before);
    assert_eq!(std::fs::read_to_string(sandbox.path("taken.json")).unwrap(), "mine");
}

#[test]
fn a_device_that_does_not_exist_is_code_4() {
    let sandbox = Sandbox::new();
    let ran = sandbox.run(&["doctor", "--device", "cuda:4242"]);
    assert_eq!((ran.code, ran.stdout.as_str()), (4, ""), "{}", ran.stderr);
    assert!(ran.stderr.starts_with("error: cuda:4242: ") && ran.stderr.contains("\nhint: "), "{}", ran.stderr);
}

#[test]
fn an_unwritable_output_is_refused_before_any_work() {
    let sandbox = Sandbox::new();
    for output in ["/proc/melisma", "/dev/null/demo"] {
        let ran = sandbox.run(&["demo", "-o", output]);
        assert_eq!(ran.code, 2, "{}", ran.stderr);
        assert!(
            ran.stderr.starts_with(&format!("error: {output}")) && ran.stderr.contains("\nhint: "),
            "{}",
            ran.stderr
        );
    }
}

#[cfg(target_os = "linux")]
#[test]
fn a_full_disk_is_code_4_and_leaves_nothing() {
    let sandbox = Sandbox::new();
    let full = || Stdio::from(File::create("/dev/full").unwrap());
    let stdout = Ran::from(sandbox.command(&["doctor"]).stdout(full()).stderr(Stdio::piped()).output().unwrap());
    let trace = sandbox.run(&["doctor", "--trace", "/dev/full"]);
    for (ran, place) in [(stdout, "stdout"), (trace, "/dev/full")] {
        assert_eq!(ran.code, 4, "{}", ran.stderr);
        assert!(ran.stderr.starts_with(&format!("error: {place}: No space left")), "{}", ran.stderr);
        assert!(ran.stderr.contains("\nhint: free some space"), "{}", ran.stderr);
    }
    assert!(sandbox.files().is_empty(), "{:?}", sandbox.files());
}

#[test]
fn a_closed_pipe_is_no_error() {
    let sandbox = Sandbox::new();
    let mut child =
        sandbox.command(&["completions", "bash"]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    let ran = Ran::from(child.wait_with_output().unwrap());
    assert_eq!((ran.code, ran.stderr.as_str()), (0, ""));
}

#[test]
fn an_interrupt_is_code_130_and_still_writes_the_trace() {
    let sandbox = Sandbox::new();
    let mut child = sandbox
        .command(&["bench", "runtime", "--trace", "trace.json", "-o", "record.json"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // Both partial files are there once the bench itself has begun.
    sandbox.signal_at(&mut child, "record.json.partial", "-INT");
    let ran = Ran::from(child.wait_with_output().unwrap());
    assert_eq!((ran.code, ran.stderr.as_str()), (130, "interrupted\n"));
    assert_eq!(sandbox.files(), ["trace.json"]);
    let text = std::fs::read(sandbox.path("trace.json")).unwrap();
    assert!(serde_json::from_slice::<serde_json::Value>(&text).unwrap()["traceEvents"].is_array());
}
