//! One JSON object for each event.

use std::fmt;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::Value;

/// Where events go.
#[derive(Clone)]
pub struct Log {
    write: Arc<dyn Fn(&Value) + Send + Sync>,
}

impl Log {
    /// Calls `write` for each event.
    pub fn new(write: impl Fn(&Value) + Send + Sync + 'static) -> Self {
        Self { write: Arc::new(write) }
    }

    /// Writes an event, an object, with its time.
    pub fn event(&self, mut event: Value) {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        event["unix_seconds"] = now.as_secs_f64().into();
        (self.write)(&event);
    }
}

impl Default for Log {
    fn default() -> Self {
        Self::new(|_| {})
    }
}

impl fmt::Debug for Log {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Log")
    }
}
