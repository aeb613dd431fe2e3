//! Buffers by size class, allocated once and reused, so that the hot paths allocate nothing after
//! their first run.
//!
//! Size classes are 1, 1.25, 1.5 and 1.75 times the powers of two from 256 bytes up, so at most a
//! fifth is wasted. A device pool belongs to the queue it was made for. Work on one queue is
//! ordered, so a buffer may be returned while kernels that use it are still pending. If a buffer is
//! also used on another queue, wait for that queue before returning it.

use std::sync::Arc;

use crate::device::cuda::Cuda;
use crate::memory::block::Block;
use crate::memory::shelf::{FreeLists, capacity_of, class_of};
use crate::{Budget, Buffer, ErrorKind, Result, Space};

/// A source of buffers in one space.
#[derive(Debug, Clone)]
pub struct Pool(Arc<FreeLists>);

impl Pool {
    /// Creates a pool of pageable host memory.
    pub fn host(budget: &Budget) -> Self {
        Self::new(Space::Host, None, budget)
    }

    /// Creates a pool of pinned memory for copies from and to `cuda`.
    pub fn pinned(cuda: &Cuda, budget: &Budget) -> Self {
        Self::new(Space::Pinned, Some(cuda.clone()), budget)
    }

    /// Creates a pool of device memory for the work of one queue.
    pub(crate) fn device(cuda: &Cuda, budget: &Budget) -> Self {
        Self::new(Space::Device, Some(cuda.clone()), budget)
    }

    fn new(space: Space, cuda: Option<Cuda>, budget: &Budget) -> Self {
        Self(Arc::new(FreeLists::new(space, cuda, budget.clone())))
    }

    /// Returns a buffer of `len` bytes with unspecified content.
    ///
    /// # Errors
    /// [`ErrorKind::Memory`] when the budget or the system refuses even after unused buffers were released.
    pub fn take(&self, len: usize) -> Result<Buffer> {
        let class = class_of(len)?;
        let ready = self.0.classes.lock()[class].free.pop();
        let block = match ready {
            Some(block) => block,
            None => self.make(class)?,
        };
        // A block may be returned while a copy still reads it; it is lent again only when the copy
        // is done.
        block.settle()?;
        Ok(Buffer::pooled(block, len, self.0.clone()))
    }

    /// Releases every buffer that is not in use.
    pub fn trim(&self) {
        for shelf in self.0.classes.lock().iter_mut() {
            shelf.made -= shelf.free.len();
            shelf.free.clear();
        }
    }

    fn make(&self, class: usize) -> Result<Block> {
        let block = match self.0.allocate(capacity_of(class)) {
            Err(refused) if refused.kind() == ErrorKind::Memory => {
                self.trim();
                self.0.allocate(capacity_of(class))?
            }
            outcome => outcome?,
        };
        let mut classes = self.0.classes.lock();
        let shelf = &mut classes[class];
        shelf.made += 1;
        let room = shelf.made - shelf.free.len();
        shelf.free.reserve(room);
        Ok(block)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_come_back() {
        let budget = Budget::unlimited();
        let pool = Pool::host(&budget);
        drop([pool.take(1000).unwrap(), pool.take(1000).unwrap()]);
        let held = budget.usage(Space::Host).now;
        assert_eq!(held, 2 * 1024, "two buffers of the class");
        for _ in 0..10 {
            let first = pool.take(1000).unwrap();
            let second = pool.take(900).unwrap();
            assert_eq!((first.len(), second.len()), (1000, 900));
        }
        assert_eq!(budget.usage(Space::Host), crate::Usage { now: held, peak: held });
        pool.trim();
        assert_eq!(budget.usage(Space::Host).now, 0);
    }

    #[test]
    fn unused_buffers_make_room_before_anything_is_refused() {
        let budget = Budget::new(4096, 0);
        let pool = Pool::host(&budget);
        drop(pool.take(3000).unwrap());
        let large = pool.take(4000).unwrap();
        assert_eq!(pool.take(1).unwrap_err().kind(), ErrorKind::Memory);
        drop(large);
        assert!(pool.take(1).is_ok());
        assert!(budget.usage(Space::Host).peak <= 4096);
    }
}
