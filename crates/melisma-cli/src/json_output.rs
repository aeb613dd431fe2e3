//! The single JSON object that `--json` prints: the result, the error, or both.

use melisma::Result;
use melisma::lock::Mutex;
use serde_json::{Value, json};

use crate::terminal;

/// Static, because either the main thread or the signal thread ends the process and prints it.
static OUTPUT: Mutex<Output> = Mutex::new(Output::Disabled);

enum Output {
    /// The command prints text.
    Disabled,
    /// An object must be printed.
    Pending,
    /// The result, held until the command ends.
    Ready(Value),
    /// The object was printed.
    Printed,
}

/// Promises an object: from now on the process must print one, whatever happens.
pub fn enable() {
    replace(|output| if matches!(output, Output::Disabled) { Output::Pending } else { output });
}

/// Holds the result until the command ends.
pub fn set_result(result: Value) {
    replace(|output| if matches!(output, Output::Printed) { output } else { Output::Ready(result) });
}

/// Prints the object once, including `error`.
pub fn print(error: Option<Value>) -> Result<()> {
    let mut object = None;
    replace(|output| match output {
        Output::Disabled | Output::Printed => output,
        Output::Pending => {
            object = Some(json!({}));
            Output::Printed
        }
        Output::Ready(result) => {
            object = Some(result);
            Output::Printed
        }
    });
    let Some(mut object) = object else { return Ok(()) };
    if let Some(error) = error {
        object["error"] = error;
    }
    // No escaping for terminals: JSON escapes control characters itself.
    terminal::write(format!("{object:#}\n").as_bytes())
}

fn replace(change: impl FnOnce(Output) -> Output) {
    let mut output = OUTPUT.lock();
    *output = change(std::mem::replace(&mut *output, Output::Printed));
}
