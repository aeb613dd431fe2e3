//! The free blocks of a pool, by size class.

use crate::device::cuda::Cuda;
use crate::lock::Mutex;
use crate::memory::block::Block;
use crate::{Budget, Error, ErrorKind, Result, Space};

const SMALLEST: usize = 256;
/// Four classes per power of two, from 2^8 up to 2^47.
const N_CLASSES: usize = 160;

/// The unused blocks of one pool.
#[derive(Debug)]
pub(crate) struct FreeLists {
    space: Space,
    cuda: Option<Cuda>,
    budget: Budget,
    pub(super) classes: Mutex<Vec<FreeList>>,
}

/// The free blocks of one class, and the number of blocks of that class in total.
#[derive(Debug, Default)]
pub(super) struct FreeList {
    pub(super) free: Vec<Block>,
    pub(super) made: usize,
}

impl FreeLists {
    pub(super) fn new(space: Space, cuda: Option<Cuda>, budget: Budget) -> Self {
        let classes = (0..N_CLASSES).map(|_| FreeList::default()).collect();
        Self { space, cuda, budget, classes: Mutex::new(classes) }
    }

    pub(super) fn allocate(&self, capacity: usize) -> Result<Block> {
        match (self.space, &self.cuda) {
            (Space::Pinned, Some(cuda)) => Block::pinned(cuda, &self.budget, capacity),
            (Space::Device, Some(cuda)) => Block::device(cuda, &self.budget, capacity),
            _ => Block::host(&self.budget, capacity),
        }
    }

    pub(super) fn give_back(&self, block: Block) {
        if let Ok(class) = class_of(block.capacity) {
            self.classes.lock()[class].free.push(block);
        }
    }
}

/// Returns the smallest class that holds `len` bytes.
pub(super) fn class_of(len: usize) -> Result<usize> {
    let len = len.max(SMALLEST);
    let power = len.ilog2() as usize;
    let quarter = (len - (1 << power)).div_ceil(1 << (power - 2));
    let class = (power - SMALLEST.ilog2() as usize) * 4 + quarter;
    if class < N_CLASSES {
        return Ok(class);
    }
    Err(Error::new(ErrorKind::Memory, format!("a buffer of {len} bytes is larger than any pool holds")))
}

/// Returns the bytes of a block of `class`.
pub(super) fn capacity_of(class: usize) -> usize {
    let power = class / 4 + SMALLEST.ilog2() as usize;
    (1 << power) + (class % 4) * (1 << (power - 2))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_hold_what_they_promise() {
        for len in (0..5000).chain([65_535, 65_536, 65_537, 1 << 40]) {
            let class = class_of(len).unwrap();
            assert!(capacity_of(class) >= len, "{len}");
            assert!(class == 0 || capacity_of(class - 1) < len, "{len} fits a smaller class");
            assert_eq!(class_of(capacity_of(class)).unwrap(), class);
        }
        assert_eq!(class_of(usize::MAX).unwrap_err().kind(), ErrorKind::Memory);
    }
}
