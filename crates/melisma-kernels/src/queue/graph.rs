//! Work recorded once and replayed with one call.

use std::fmt;

use super::{CudaQueue, Queue};
use crate::Result;
use crate::device::cuda::bindings::driver::{result as driver, sys};
use crate::device::cuda::{Timeline, failed};

/// Work on the buffers in `state`, recorded once. On a GPU, a launch replays the recorded kernels.
/// On the CPU, and when each kernel is timed, it calls the work again. Both give the same bits as a
/// plain call.
///
/// The recorded kernels use the buffers that `state` held during capture: change their content, but
/// do not replace them.
pub struct Graph<S> {
    state: S,
    work: fn(&Queue, &mut S) -> Result<()>,
    recorded: Option<Recorded>,
}

struct Recorded {
    queue: CudaQueue,
    graph: sys::CUgraph,
    executable: sys::CUgraphExec,
}

// SAFETY: the driver's graphs may be used from any thread, one at a time, which `&mut self` in `launch` ensures.
unsafe impl Send for Recorded {}

impl<S> Graph<S> {
    /// Records `work` on `queue` without running it.
    ///
    /// # Errors
    /// `work` fails, or does something that cannot be recorded (a copy that touches pageable
    /// memory, an allocation).
    pub fn capture(queue: &Queue, mut state: S, work: fn(&Queue, &mut S) -> Result<()>) -> Result<Self> {
        let recorded = match queue {
            Queue::Cpu(_) => None,
            Queue::Cuda(cuda) => Some(Recorded::capture(cuda, || work(queue, &mut state))?),
        };
        Ok(Self { state, work, recorded })
    }

    /// Runs the work on `queue`.
    ///
    /// # Errors
    /// The work or the device fails.
    pub fn launch(&mut self, queue: &Queue) -> Result<()> {
        let _span = tracing::info_span!("graph").entered();
        match (&self.recorded, queue) {
            (Some(recorded), Queue::Cuda(cuda)) if !Timeline::wants_kernels() => {
                let _timing = queue.time("graph", 0);
                recorded.launch(cuda)
            }
            _ => (self.work)(queue, &mut self.state),
        }
    }

    /// Returns the buffers that the work uses.
    pub fn state(&self) -> &S {
        &self.state
    }

    /// Returns the buffers that the work uses, to change what is in them.
    pub fn state_mut(&mut self) -> &mut S {
        &mut self.state
    }
}

impl<S> fmt::Debug for Graph<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Graph").field("is_recorded", &self.recorded.is_some()).finish_non_exhaustive()
    }
}

impl Recorded {
    fn capture(queue: &CudaQueue, work: impl FnOnce() -> Result<()>) -> Result<Self> {
        queue.cuda().bind()?;
        // Libraries load their kernels at first use, which the stricter modes sometimes reject.
        let mode = sys::CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_RELAXED;
        // SAFETY: the stream lives.
        unsafe { driver::stream::begin_capture(queue.handle(), mode) }
            .map_err(|error| failed("begin to record a graph", error))?;
        let outcome = work();
        // SAFETY: the capture was begun above; it is ended whatever `work` returned.
        let graph =
            unsafe { driver::stream::end_capture(queue.handle()) }.map_err(|error| failed("record a graph", error));
        outcome?;
        let graph = graph?;
        // SAFETY: `graph` was just made.
        let executable = unsafe { driver::graph::instantiate(graph, sys::CUgraphInstantiate_flags(0)) }
            .map_err(|error| failed("make a graph", error))?;
        Ok(Self { queue: queue.clone(), graph, executable })
    }

    fn launch(&self, queue: &CudaQueue) -> Result<()> {
        queue.cuda().bind()?;
        // SAFETY: the graph lives; its buffers are in the state beside it.
        unsafe { driver::graph::launch(self.executable, queue.handle()) }.map_err(|error| failed("run a graph", error))
    }
}

impl Drop for Recorded {
    fn drop(&mut self) {
        // The graph may still run; its buffers are dropped after it.
        let _ = self.queue.synchronize();
        // SAFETY: made in `capture`, destroyed once.
        let _ = unsafe { driver::graph::exec_destroy(self.executable) };
        // SAFETY: made in `capture`, destroyed once, after the executable made from it.
        let _ = unsafe { driver::graph::destroy(self.graph) };
    }
}
