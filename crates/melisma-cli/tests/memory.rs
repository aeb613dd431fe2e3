//! `--memory-limit` holds, and `-v` says what was held.
#![allow(missing_docs, clippy::unwrap_used, reason = "a failed expectation is the test's own message")]

mod melisma;

use melisma::Sandbox;

#[cfg(target_os = "linux")]
#[test]
fn verbose_runs_say_what_memory_they_held() {
    let sandbox = Sandbox::new();
    let (ran, peak) = sandbox.measure(&["completions", "bash"]);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    assert!(peak.resident > (1 << 20) as f64 && peak.counted.is_none(), "{peak:?}");
    let (ran, peak) = sandbox.measure(&["doctor", "--device", "cpu"]);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    assert!(peak.counted.is_some(), "{peak:?}");
}
