//! The single JSON object that `--json` prints: the result, the error, or both.

use melisma::Result;
use melisma::lock::Mutex;
use serde_json::{Value, json};

use crate::terminal;

/// Static, because either the main thread or the signal thread ends the process and prints it.
static ANSWER: Mutex<Answer> = Mutex::new(Answer::Unwanted);

enum Answer {
    /// The command prints text.
    Unwanted,
    /// An object must be printed.
    Due,
    /// The result, held until the command ends.
    Held(Value),
    /// The object was printed.
    Given,
}

/// From now on the process must print an object, whatever happens.
pub fn expect() {
    replace(|answer| if matches!(answer, Answer::Unwanted) { Answer::Due } else { answer });
}

/// Holds the result until the command ends.
pub fn hold(result: Value) {
    replace(|answer| if matches!(answer, Answer::Given) { answer } else { Answer::Held(result) });
}

/// Prints the object once, including `error`.
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
    // No escaping for terminals: JSON escapes control characters itself.
    terminal::write(format!("{object:#}\n").as_bytes())
}

fn replace(change: impl FnOnce(Answer) -> Answer) {
    let mut answer = ANSWER.lock();
    *answer = change(std::mem::replace(&mut *answer, Answer::Given));
}
