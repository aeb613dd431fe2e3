//! Numbers that the host writes and kernels read: token ids, positions and pages.

use crate::device::cuda::{Address, Cuda};
use crate::{Budget, Buffer, Device, Error, Queue, Result};

/// A list of numbers in host memory, with a copy on the GPU that reads it.
#[derive(Debug)]
pub struct Numbers {
    host: Vec<u32>,
    copy: Option<Copied>,
}

/// The copy on a GPU, and the memory that it goes through.
#[derive(Debug)]
struct Copied {
    cuda: Cuda,
    budget: Budget,
    pinned: Buffer,
    copy_dev: Buffer,
    is_sent: bool,
}

impl Numbers {
    /// Returns an empty list for kernels on `device`. The copy moves when there are more than `room` of them.
    ///
    /// # Errors
    /// The budget or the device refuses.
    pub fn new(device: &Device, room: usize, budget: &Budget) -> Result<Self> {
        let copy = match device {
            Device::Cpu(_) => None,
            Device::Cuda(cuda) => Some(Copied::new(cuda, budget, size_of::<u32>() * room.max(1))?),
        };
        Ok(Self { host: Vec::new(), copy })
    }

    /// Returns the numbers.
    pub fn as_slice(&self) -> &[u32] {
        &self.host
    }

    /// Returns how many they are.
    pub fn len(&self) -> usize {
        self.host.len()
    }

    /// Returns whether there are none.
    pub fn is_empty(&self) -> bool {
        self.host.is_empty()
    }

    /// Removes all numbers.
    pub fn clear(&mut self) {
        self.host.clear();
        self.change();
    }

    /// Adds numbers. Before kernels read them they are [sent](Numbers::send).
    pub fn extend(&mut self, numbers: impl IntoIterator<Item = u32>) {
        self.host.extend(numbers);
        self.change();
    }

    fn change(&mut self) {
        if let Some(copy) = &mut self.copy {
            copy.is_sent = false;
        }
    }

    /// Copies the numbers to the device. On the CPU they are where kernels read them.
    ///
    /// # Errors
    /// The budget or the device refuses.
    pub fn send(&mut self, queue: &Queue) -> Result<()> {
        let Some(copy) = &mut self.copy else { return Ok(()) };
        let bytes = size_of_val(&self.host[..]);
        if copy.pinned.len() < bytes {
            // Work that reads the earlier copy may be under way.
            queue.synchronize()?;
            *copy = Copied::new(&copy.cuda, &copy.budget, bytes.next_power_of_two())?;
        }
        copy.pinned.view_mut::<u32>()?.host()?[..self.host.len()].copy_from_slice(&self.host);
        queue.start_copy(&copy.pinned, &mut copy.copy_dev, bytes)?;
        copy.is_sent = true;
        Ok(())
    }

    /// Returns the address of the copy on the GPU.
    pub(super) fn address(&self) -> Result<Address> {
        match &self.copy {
            Some(copy) if copy.is_sent => Ok(copy.copy_dev.view::<u32>()?.cuda()?.address_dev),
            Some(_) => Err(Error::invalid("the numbers of this step were not sent to the GPU")),
            None => Err(Error::invalid("the numbers of this step are in host memory")),
        }
    }
}

impl Copied {
    fn new(cuda: &Cuda, budget: &Budget, bytes: usize) -> Result<Self> {
        let (pinned, copy_dev) = (Buffer::pinned(cuda, budget, bytes)?, Buffer::device(cuda, budget, bytes)?);
        Ok(Self { cuda: cuda.clone(), budget: budget.clone(), pinned, copy_dev, is_sent: false })
    }
}
