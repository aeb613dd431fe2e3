//! Bytes in one space: the storage under tensors and pools.

use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::ptr::NonNull;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::device::cuda::{Address, Cuda, InFlight};
use crate::memory::pool::Shelves;
use crate::memory::view::{CudaView, CudaViewMut};
use crate::{Budget, Element, Error, Kind, Remedy, Reservation, Result, Space, View, ViewMut};

/// Wide enough for every vector load and for a cache line.
const ALIGNMENT: usize = 64;

/// Memory of one space. Dropped, it goes back to its pool, or to the system.
#[derive(Debug)]
pub struct Buffer {
    /// Present until drop.
    block: Option<Block>,
    len: usize,
    home: Option<std::sync::Arc<Shelves>>,
}

impl Buffer {
    /// `len` zeroed bytes of pageable memory.
    ///
    /// # Errors
    /// The budget or the system refuses.
    pub fn host(budget: &Budget, len: usize) -> Result<Self> {
        Ok(Self::whole(Block::host(budget, len)?, len))
    }

    /// `len` zeroed bytes of pinned memory for copies from and to `cuda`.
    ///
    /// # Errors
    /// The budget or the driver refuses.
    pub fn pinned(cuda: &Cuda, budget: &Budget, len: usize) -> Result<Self> {
        Ok(Self::whole(Block::pinned(cuda, budget, len)?, len))
    }

    /// `len` bytes of device memory with unspecified content.
    ///
    /// # Errors
    /// The budget or the driver refuses.
    pub fn device(cuda: &Cuda, budget: &Budget, len: usize) -> Result<Self> {
        Ok(Self::whole(Block::device(cuda, budget, len)?, len))
    }

    fn whole(block: Block, len: usize) -> Self {
        Self { block: Some(block), len, home: None }
    }

    pub(crate) fn pooled(block: Block, len: usize, home: std::sync::Arc<Shelves>) -> Self {
        Self { block: Some(block), len, home: Some(home) }
    }

    fn block(&self) -> &Block {
        self.block.as_ref().expect("the block leaves only in drop")
    }

    /// How many bytes it has.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether it has no bytes.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Where the bytes are.
    pub fn space(&self) -> Space {
        self.block().space
    }

    /// All of it as elements of `T`.
    ///
    /// # Errors
    /// The length is not a multiple of the element's size, or a copy that the view waited for failed.
    pub fn view<T: Element>(&self) -> Result<View<'_, T>> {
        let len = self.elements::<T>()?;
        Ok(match self.space() {
            Space::Device => View::Cuda(CudaView::new(self.block().address, len)),
            Space::Host | Space::Pinned => View::Host(bytemuck::cast_slice(self.bytes()?)),
        })
    }

    /// All of it as elements of `T`, for writing.
    ///
    /// # Errors
    /// As [`Buffer::view`].
    pub fn view_mut<T: Element>(&mut self) -> Result<ViewMut<'_, T>> {
        let len = self.elements::<T>()?;
        Ok(match self.space() {
            Space::Device => ViewMut::Cuda(CudaViewMut::new(self.block().address, len)),
            Space::Host | Space::Pinned => ViewMut::Host(bytemuck::cast_slice_mut(self.bytes_mut()?)),
        })
    }

    fn elements<T: Element>(&self) -> Result<usize> {
        if self.len.is_multiple_of(size_of::<T>()) {
            return Ok(self.len / size_of::<T>());
        }
        Err(Error::invalid(format!("{} bytes are not a whole number of {}", self.len, T::DTYPE.name())))
    }

    fn bytes(&self) -> Result<&[u8]> {
        let block = self.block();
        block.settle()?;
        // SAFETY: host and pinned blocks are initialised, live as long as `self`, and no copy is under way.
        Ok(unsafe { std::slice::from_raw_parts(block.host_pointer(), self.len) })
    }

    fn bytes_mut(&mut self) -> Result<&mut [u8]> {
        let block = self.block();
        block.settle()?;
        // SAFETY: host and pinned blocks are initialised, live as long as `self`, and no copy is under way; `&mut self` makes
        // it the only reference.
        Ok(unsafe { std::slice::from_raw_parts_mut(block.host_pointer(), self.len) })
    }

    /// Asks the system for large pages, which make long sweeps cheaper. What it answers changes nothing else.
    pub(crate) fn prefer_huge_pages(&mut self) {
        #[cfg(target_os = "linux")]
        if self.space() == Space::Host {
            const PAGE: usize = 4096;
            let block = self.block();
            let start = (block.address as usize).next_multiple_of(PAGE);
            let end = (block.address as usize + block.capacity) / PAGE * PAGE;
            if start < end {
                // SAFETY: whole pages inside the block; the advice leaves their content alone.
                unsafe { libc::madvise(start as *mut libc::c_void, end - start, libc::MADV_HUGEPAGE) };
            }
        }
    }

    pub(crate) fn address(&self) -> Address {
        self.block().address
    }

    /// The copies that may still use this pinned buffer; host access waits for them.
    pub(crate) fn in_flight(&self) -> MutexGuard<'_, InFlight> {
        self.block().in_flight.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        if let (Some(block), Some(home)) = (self.block.take(), self.home.take()) {
            home.give_back(block);
        }
    }
}

/// One allocation with its place in the budget.
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
    pub(crate) fn host(budget: &Budget, capacity: usize) -> Result<Self> {
        let counted = budget.reserve(Space::Host, capacity as u64)?;
        let layout = Layout::from_size_align(capacity.max(1), ALIGNMENT).map_err(|_| out_of_memory(capacity))?;
        // SAFETY: the layout's size is not 0.
        let pointer = NonNull::new(unsafe { alloc_zeroed(layout) }).ok_or_else(|| out_of_memory(capacity))?;
        Ok(Self::new(Space::Host, pointer.as_ptr() as Address, capacity, None, counted))
    }

    pub(crate) fn pinned(cuda: &Cuda, budget: &Budget, capacity: usize) -> Result<Self> {
        let counted = budget.reserve(Space::Pinned, capacity as u64)?;
        let address = cuda.allocate_pinned(capacity.max(1))?;
        // SAFETY: the driver just gave us `capacity` writable bytes.
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

    fn host_pointer(&self) -> *mut u8 {
        debug_assert!(self.space != Space::Device);
        self.address as *mut u8
    }

    /// Waits for the copy that still uses this block, if any.
    pub(crate) fn settle(&self) -> Result<()> {
        if self.space != Space::Pinned {
            return Ok(());
        }
        self.in_flight.lock().unwrap_or_else(PoisonError::into_inner).wait()
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

// SAFETY: a block owns its memory; the address is used through `&`/`&mut` borrows of its owner only.
unsafe impl Send for Block {}
// SAFETY: a block owns its memory, and shared access only reads.
unsafe impl Sync for Block {}

fn out_of_memory(bytes: usize) -> Error {
    Error::new(Kind::Memory, format!("the system refused {bytes} bytes of host memory"))
        .with_hint(Remedy::LowerMemoryLimit)
        .or_hint("free memory")
}
