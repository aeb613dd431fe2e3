//! Uploads of tables and weights to a device, and their addresses there.

use std::borrow::Cow;

use super::Queue;
use crate::device::cuda::{Address, Cuda};
use crate::{Budget, Device, Element, Result, Tensor};

/// Uploads weights to the device.
pub(crate) struct Upload<'a> {
    budget: &'a Budget,
    queue: Queue,
}

impl<'a> Upload<'a> {
    pub(crate) fn new(cuda: &Cuda, budget: &'a Budget) -> Result<Self> {
        Ok(Self { budget, queue: Device::Cuda(cuda.clone()).queue(budget)? })
    }

    /// Returns a copy of `values`; an empty slice becomes one element, so that the copy has an
    /// address.
    pub(crate) fn slice<T: Element>(&self, values: &[T]) -> Result<Tensor> {
        let values = if values.is_empty() { Cow::Owned(vec![T::zeroed()]) } else { Cow::Borrowed(values) };
        let mut copy = Tensor::new(&self.queue.device(), self.budget, T::DTYPE, &[values.len()])?;
        self.queue.copy(values.as_ref().into(), copy.view_mut::<T>()?)?;
        Ok(copy)
    }
}

/// Returns the device address of a tensor's elements.
pub(crate) fn address<T: Element>(tensor: &Tensor) -> Result<Address> {
    Ok(tensor.view::<T>()?.cuda()?.address_dev)
}
