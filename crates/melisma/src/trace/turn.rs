//! Collectors that take turns in one process.

use melisma_kernels::lock::Mutex;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::{Registry, reload};

use super::Collector;
use crate::{Error, Result};

/// Changes the collector of the process, once there is one.
static TURN: Mutex<Option<reload::Handle<Option<Collector>, Registry>>> = Mutex::new(None);

impl Collector {
    /// Collects from every thread of the process until [`Collector::stop_all`] or until another collector starts. Unlike
    /// [`Collector::install`] it can be repeated.
    ///
    /// # Errors
    /// A subscriber of another kind is installed.
    pub fn start(&self) -> Result<()> {
        let mut turn = TURN.lock();
        if let Some(handle) = &*turn {
            return handle.reload(Some(self.clone())).map_err(|error| refused().with_source(error));
        }
        let (layer, handle) = reload::Layer::new(Some(self.clone()));
        tracing::subscriber::set_global_default(tracing_subscriber::registry().with(layer))
            .map_err(|error| refused().with_source(error))?;
        *turn = Some(handle);
        Ok(())
    }

    /// Ends the collection that [`Collector::start`] began. Spans then cost nothing again.
    pub fn stop_all() {
        if let Some(handle) = &*TURN.lock() {
            // It fails only when the subscriber is gone, and nothing is collected then.
            let _ = handle.reload(None);
        }
    }
}

fn refused() -> Error {
    Error::invalid("spans are collected already")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::Sort;

    /// The only test of the process's own subscriber.
    #[test]
    fn collectors_take_turns() {
        let step = |name: &'static str| match name {
            "first" => drop(tracing::info_span!("turn_first").entered()),
            "second" => drop(tracing::info_span!("turn_second").entered()),
            _ => drop(tracing::info_span!("turn_nobody").entered()),
        };
        let [first, second] = [Collector::new(), Collector::new()];
        first.start().unwrap();
        step("first");
        second.start().unwrap();
        std::thread::spawn(move || step("second")).join().unwrap();
        Collector::stop_all();
        step("nobody");
        let names = |collector: &Collector| collector.report().text(Sort::Name, 1000);
        let (first, second) = (names(&first), names(&second));
        assert!(first.contains("turn_first") && !first.contains("turn_second"), "{first}");
        assert!(second.contains("turn_second") && !second.contains("turn_first"), "{second}");
        assert!(!first.contains("turn_nobody") && !second.contains("turn_nobody"));
    }
}
