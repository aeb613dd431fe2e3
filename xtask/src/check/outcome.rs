//! The outcome of a step that did not fail.

/// The result of a step that did not fail.
pub enum Outcome {
    Passed,
    /// Passed, with a figure for the report.
    Counted(String),
    /// Could not run here, with the reason.
    Skipped(String),
}
