//! Bytes in one space: the storage under tensors and pools.

use std::sync::Arc;

use crate::device::cuda::{Address, Cuda, InFlight};
use crate::lock::MutexGuard;
use crate::memory::block::Block;
use crate::memory::shelf::FreeLists;
use crate::memory::view::{CudaView, CudaViewMut};
use crate::{Budget, Element, Error, Result, Space, View, ViewMut};

/// Memory in one space. On drop it returns to its pool, or to the system.
#[derive(Debug)]
pub struct Buffer {
    /// `Some` until drop.
    block: Option<Block>,
    len: usize,
    home: Option<Arc<FreeLists>>,
}

impl Buffer {
    /// Returns `len` zeroed bytes of pageable memory.
    ///
    /// # Errors
    /// The budget or the system refuses.
    pub fn host(budget: &Budget, len: usize) -> Result<Self> {
        Ok(Self::unpooled(Block::host(budget, len)?, len))
    }

    /// Returns `len` zeroed bytes of pinned memory for copies from and to `cuda`.
    ///
    /// # Errors
    /// The budget or the driver refuses.
    pub fn pinned(cuda: &Cuda, budget: &Budget, len: usize) -> Result<Self> {
        Ok(Self::unpooled(Block::pinned(cuda, budget, len)?, len))
    }

    /// Returns `len` bytes of device memory with unspecified content.
    ///
    /// # Errors
    /// The budget or the driver refuses.
    pub fn device(cuda: &Cuda, budget: &Budget, len: usize) -> Result<Self> {
        Ok(Self::unpooled(Block::device(cuda, budget, len)?, len))
    }

    fn unpooled(block: Block, len: usize) -> Self {
        Self { block: Some(block), len, home: None }
    }

    pub(crate) fn pooled(block: Block, len: usize, home: Arc<FreeLists>) -> Self {
        Self { block: Some(block), len, home: Some(home) }
    }

    fn block(&self) -> &Block {
        self.block.as_ref().expect("the block leaves only in drop")
    }

    /// Returns the length in bytes.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Returns whether it has no bytes.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns where the bytes are.
    pub fn space(&self) -> Space {
        self.block().space
    }

    /// Returns the whole buffer as elements of `T`.
    ///
    /// # Errors
    /// The length is not a multiple of the element's size, or a copy that the view waited for failed.
    pub fn view<T: Element>(&self) -> Result<View<'_, T>> {
        let len = self.elements::<T>()?;
        Ok(match self.space() {
            Space::Device => View::Cuda(CudaView::new(self.block().address(), len)),
            Space::Host | Space::Pinned => View::Host(bytemuck::cast_slice(self.bytes()?)),
        })
    }

    /// Returns the whole buffer as elements of `T`, for writing.
    ///
    /// # Errors
    /// As [`Buffer::view`].
    pub fn view_mut<T: Element>(&mut self) -> Result<ViewMut<'_, T>> {
        let len = self.elements::<T>()?;
        Ok(match self.space() {
            Space::Device => ViewMut::Cuda(CudaViewMut::new(self.block().address(), len)),
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

    /// Asks the system for huge pages, which make long sweeps cheaper. The system may ignore this.
    pub(crate) fn prefer_huge_pages(&mut self) {
        #[cfg(target_os = "linux")]
        if self.space() == Space::Host {
            const PAGE: usize = 4096;
            let block = self.block();
            let start = (block.address() as usize).next_multiple_of(PAGE);
            let end = (block.address() as usize + block.capacity) / PAGE * PAGE;
            if start < end {
                // SAFETY: whole pages inside the block; the advice leaves their content alone.
                unsafe { libc::madvise(start as *mut libc::c_void, end - start, libc::MADV_HUGEPAGE) };
            }
        }
    }

    pub(crate) fn address(&self) -> Address {
        self.block().address()
    }

    /// Returns the copies that may still use this pinned buffer; host access waits for them.
    pub(crate) fn in_flight(&self) -> MutexGuard<'_, InFlight> {
        self.block().in_flight()
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        if let (Some(block), Some(home)) = (self.block.take(), self.home.take()) {
            home.give_back(block);
        }
    }
}
