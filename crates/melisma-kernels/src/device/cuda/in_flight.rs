//! Copies in flight between a GPU and a pinned buffer.

use std::sync::Arc;

use super::event::Event;
use super::stream::Stream;
use crate::Result;

/// The copies that may still use a pinned buffer.
#[derive(Debug, Default)]
pub(crate) struct InFlight {
    /// Created at the first copy, recorded again at each later one.
    event: Option<Event>,
    /// The stream of the last copy that nobody has waited for.
    pending: Option<Arc<Stream>>,
    /// The stream of a captured copy, which is repeated at every launch of its graph.
    replayed: Option<Arc<Stream>>,
}

impl InFlight {
    /// Records that a copy was just submitted to `stream`.
    pub(crate) fn mark(&mut self, stream: &Arc<Stream>) -> Result<()> {
        if stream.is_capturing()? {
            self.replayed = Some(stream.clone());
            return Ok(());
        }
        if self.pending.as_ref().is_some_and(|pending| !Arc::ptr_eq(pending, stream)) {
            self.wait()?;
        }
        if self.event.is_none() {
            self.event = Some(Event::new(stream.cuda())?);
        }
        if let Some(event) = &self.event {
            stream.record(event)?;
        }
        self.pending = Some(stream.clone());
        Ok(())
    }

    pub(crate) fn wait(&mut self) -> Result<()> {
        if self.pending.take().is_some()
            && let Some(event) = &self.event
        {
            event.synchronize()?;
        }
        self.replayed.as_ref().map_or(Ok(()), |stream| stream.synchronize())
    }
}
