//! Allocations: memory in one space, counted in a budget until it is freed.

use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::ptr::NonNull;

use crate::device::cuda::{Address, Cuda, InFlight};
use crate::lock::{Mutex, MutexGuard};
use crate::{Budget, Error, ErrorKind, Remedy, Reservation, Result, Space};

/// Wide enough for every vector load and for a cache line.
const ALIGNMENT: usize = 64;

/// One allocation with its reservation in the budget.
#[derive(Debug)]
pub(crate) struct Block {
    pub(crate) space: Space,
    /// A host pointer for host and pinned memory, a device pointer for device memory.
    address: Address,
    pub(crate) capacity: usize,
    cuda: Option<Cuda>,
    in_flight: Mutex<InFlight>,
    _counted: Reservation,
}

impl Block {
    pub(super) fn host(budget: &Budget, capacity: usize) -> Result<Self> {
        let counted = budget.reserve(Space::Host, capacity as u64)?;
        let layout = Layout::from_size_align(capacity.max(1), ALIGNMENT).map_err(|_| out_of_memory(capacity))?;
        // SAFETY: the layout's size is not 0.
        let pointer = NonNull::new(unsafe { alloc_zeroed(layout) }).ok_or_else(|| out_of_memory(capacity))?;
        Ok(Self::new(Space::Host, pointer.as_ptr() as Address, capacity, None, counted))
    }

    pub(crate) fn pinned(cuda: &Cuda, budget: &Budget, capacity: usize) -> Result<Self> {
        let counted = budget.reserve(Space::Pinned, capacity as u64)?;
        let address = cuda.allocate_pinned(capacity.max(1))?;
        // SAFETY: the driver just returned `capacity` writable bytes.
        unsafe { std::ptr::write_bytes(address as *mut u8, 0, capacity) };
        Ok(Self::new(Space::Pinned, address, capacity, Some(cuda.clone()), counted))
    }

    pub(crate) fn device(cuda: &Cuda, budget: &Budget, capacity: usize) -> Result<Self> {
        let counted = budget.reserve(Space::Device, capacity as u64)?;
        let address = cuda.allocate(capacity.max(1))?;
        Ok(Self::new(Space::Device, address, capacity, Some(cuda.clone()), counted))
    }

    fn new(space: Space, address: Address, capacity: usize, cuda: Option<Cuda>, counted: Reservation) -> Self {
        Self { space, address, capacity, cuda, in_flight: Mutex::default(), _counted: counted }
    }

    /// Returns a host pointer for host and pinned memory, a device pointer for device memory.
    pub(super) fn address(&self) -> Address {
        self.address
    }

    /// Returns the copies that may still use this block.
    pub(super) fn in_flight(&self) -> MutexGuard<'_, InFlight> {
        self.in_flight.lock()
    }

    pub(super) fn host_pointer(&self) -> *mut u8 {
        debug_assert!(self.space != Space::Device);
        self.address as *mut u8
    }

    /// Waits for the copy that still uses this block, if any.
    pub(crate) fn settle(&self) -> Result<()> {
        if self.space != Space::Pinned {
            return Ok(());
        }
        self.in_flight().wait()
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        // A failed wait means a lost device, whose driver frees everything with the context.
        let _ = self.settle();
        match (self.space, &self.cuda) {
            (Space::Pinned, Some(cuda)) => cuda.free_pinned(self.address),
            (Space::Device, Some(cuda)) => cuda.free(self.address),
            _ => {
                if let Ok(layout) = Layout::from_size_align(self.capacity.max(1), ALIGNMENT) {
                    // SAFETY: allocated in `Block::host` with this layout.
                    unsafe { dealloc(self.host_pointer(), layout) }
                }
            }
        }
    }
}

// SAFETY: a block owns its memory; its address is used only through `&`/`&mut` borrows of its
// owner.
unsafe impl Send for Block {}
// SAFETY: a block owns its memory, and shared access only reads.
unsafe impl Sync for Block {}

fn out_of_memory(bytes: usize) -> Error {
    Error::new(ErrorKind::Memory, format!("the system refused {bytes} bytes of host memory"))
        .with_hint(Remedy::LowerMemoryLimit)
        .or_hint("free memory")
}
