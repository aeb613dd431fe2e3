//! Tests in processes of their own.

use std::process::Command;

/// Set in a process that [`alone`] has started.
const ALONE: &str = "MELISMA_TEST_ALONE";

/// Runs the test called `name` in a process of its own, with a variable of the environment.
pub fn run(name: &str, (variable, value): (&str, &str)) {
    let mut child = Command::new(std::env::current_exe().unwrap());
    child.args(["--exact", name, "--include-ignored", "--nocapture"]).env(variable, value);
    let output = child.output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    print!("{text}");
    assert!(
        output.status.success() && text.contains("1 passed"),
        "{value}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
}

/// Runs `test` in a process without other tests; `name` is the test that calls this.
pub fn alone(name: &str, test: impl FnOnce()) {
    match std::env::var_os(ALONE) {
        Some(_) => test(),
        None => run(name, (ALONE, "1")),
    }
}
