//! The one JSON object of `--json`: the result, what went wrong, or both.

use std::sync::{Mutex, PoisonError};

use melisma::Result;
use serde_json::{Value, json};

use crate::terminal;

/// Static, because whoever ends the process prints it: the main thread or the one that waits for signals.
static ANSWER: Mutex<Answer> = Mutex::new(Answer::Unwanted);

enum Answer {
    /// The command prints text.
    Unwanted,
    /// An object is due.
    Due,
    /// The result, until the command has ended.
    Held(Value),
    /// It was printed.
    Given,
}

/// An object is due from now on, whatever happens.
pub fn expect() {
    replace(|answer| if matches!(answer, Answer::Unwanted) { Answer::Due } else { answer });
}

/// Keeps the result until the command has ended.
pub fn hold(result: Value) {
    replace(|answer| if matches!(answer, Answer::Given) { answer } else { Answer::Held(result) });
}

/// Prints the object, once, with `error` in it.
pub fn give(error: Option<Value>) -> Result<()> {
    let mut object = None;
    replace(|answer| match answer {
        Answer::Unwanted | Answer::Given => answer,
        Answer::Due => {
            object = Some(json!({}));
            Answer::Given
        }
        Answer::Held(result) => {
            object = Some(result);
            Answer::Given
        }
    });
    let Some(mut object) = object else { return Ok(()) };
    if let Some(error) = error {
        object["error"] = error;
    }
    // JSON has its own escapes.
    terminal::write(format!("{object:#}\n").as_bytes())
}

fn replace(change: impl FnOnce(Answer) -> Answer) {
    let mut answer = ANSWER.lock().unwrap_or_else(PoisonError::into_inner);
    *answer = change(std::mem::replace(&mut *answer, Answer::Given));
}
