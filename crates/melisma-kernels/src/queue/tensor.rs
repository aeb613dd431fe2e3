//! Copies of tensors between the host and a queue's device.

use super::Queue;
use crate::{Budget, Element, Result, Tensor};

impl Tensor {
    /// Returns a copy in the memory of `queue`'s device.
    ///
    /// # Errors
    /// The budget or the device refuses.
    pub fn to(&self, queue: &Queue, budget: &Budget) -> Result<Self> {
        let mut copy = Self::new(&queue.device(), budget, self.dtype(), self.shape())?;
        queue.copy(self.bytes()?, copy.bytes_mut()?)?;
        Ok(copy)
    }

    /// Returns the elements as a vector; waits for `queue` where needed.
    ///
    /// # Errors
    /// `T` is not its element type, or the device fails.
    pub fn to_vec<T: Element>(&self, queue: &Queue) -> Result<Vec<T>> {
        let view = self.view::<T>()?;
        let mut values = vec![T::zeroed(); view.len()];
        queue.copy(view, values.as_mut_slice().into())?;
        Ok(values)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{DType, Device};

    #[test]
    fn a_tensor_without_elements_is_fine() {
        let budget = Budget::unlimited();
        let device = Device::cpu().unwrap();
        let tensor = Tensor::new(&device, &budget, DType::F16, &[0, 7]).unwrap();
        assert!(tensor.is_empty());
        assert_eq!(tensor.to_vec::<half::f16>(&device.queue(&budget).unwrap()).unwrap(), []);
    }

    #[test]
    fn copies_have_one_length() {
        let queue = Device::cpu().unwrap().queue(&Budget::unlimited()).unwrap();
        for len in [2, 4] {
            let refused = queue.copy([1f32; 3][..].into(), (&mut vec![0f32; len][..]).into()).unwrap_err();
            assert!(refused.to_string().starts_with("copy: "), "{refused}");
        }
    }
}
