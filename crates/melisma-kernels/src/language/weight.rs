//! Weights in the type of their file: in memory, or in place in a mapped file. On a GPU, in bf16.

use std::sync::Arc;

use half::{bf16, f16};

use super::lanes::is_stored;
use crate::device::cuda::Cuda;
use crate::matmul::{self, Scalar};
use crate::memory::mapped::InPlace;
use crate::{Budget, Cpu, DType, Device, Element, Error, Isa, Queue, Result, Tensor, View};

/// Elements that are rounded at a time.
const ROUNDED: usize = 1 << 18;

/// A matrix `[O, K]` of f32, f16 or bf16. Clones share its memory.
#[derive(Debug, Clone)]
pub struct Weight {
    dtype: DType,
    shape: [usize; 2],
    storage: Storage,
    may_round: bool,
}

#[derive(Debug, Clone)]
enum Storage {
    Mapped {
        file: Arc<InPlace>,
        /// The first byte.
        at: usize,
    },
    Memory(Arc<Tensor>),
    /// Bf16 in the memory of a GPU.
    Device(Arc<Tensor>),
}

/// The elements of a matrix, by type.
pub(super) enum Values<'a> {
    F32(&'a [f32]),
    F16(&'a [f16]),
    Bf16(&'a [bf16]),
}

/// Evaluates an expression with the elements of a matrix, for every type of them.
macro_rules! with_values {
    ($weight:expr, $values:ident => $value:expr) => {
        match $weight.values() {
            $crate::language::weight::Values::F32($values) => $value,
            $crate::language::weight::Values::F16($values) => $value,
            $crate::language::weight::Values::Bf16($values) => $value,
        }
    };
}
pub(super) use with_values;

impl Weight {
    /// Returns the matrix whose elements begin at byte `at` of `file`. Elements that lie across their natural addresses
    /// are copied.
    ///
    /// # Errors
    /// An element type without floats, a file that is too short, or the budget refuses a copy.
    pub fn mapped(
        file: &Arc<InPlace>,
        at: usize,
        (dtype, shape): (DType, [usize; 2]),
        budget: &Budget,
    ) -> Result<Self> {
        let len = byte_len(dtype, shape)?;
        let bytes = at.checked_add(len).and_then(|end| file.bytes().get(at..end)).ok_or_else(|| {
            let message = format!("{len} bytes from {at} on are beyond a file of {}", file.bytes().len());
            Error::truncated(message)
        })?;
        if bytes.as_ptr().addr().is_multiple_of(dtype.size()) {
            return Ok(Self::new((dtype, shape), Storage::Mapped { file: Arc::clone(file), at }));
        }
        Self::copied(bytes, (dtype, shape), budget)
    }

    /// Returns a matrix with a copy of `bytes`.
    ///
    /// # Errors
    /// An element type without floats, another number of bytes, or the budget refuses.
    pub fn copied(bytes: &[u8], (dtype, shape): (DType, [usize; 2]), budget: &Budget) -> Result<Self> {
        let len = byte_len(dtype, shape)?;
        if bytes.len() != len {
            return Err(Error::invalid(format!("weights {shape:?} need {len} bytes, got {}", bytes.len())));
        }
        let mut tensor = Tensor::new(&Device::Cpu(Cpu { isa: Isa::SCALAR, threads: 1 }), budget, dtype, &shape)?;
        tensor.bytes_mut()?.host()?.copy_from_slice(bytes);
        Ok(Self::new((dtype, shape), Storage::Memory(Arc::new(tensor))))
    }

    /// Returns a matrix with a copy of `values`.
    ///
    /// # Errors
    /// As [`Weight::copied`].
    pub fn of<T: Element>(values: &[T], shape: [usize; 2], budget: &Budget) -> Result<Self> {
        Self::copied(bytemuck::cast_slice(values), (T::DTYPE, shape), budget)
    }

    fn new((dtype, shape): (DType, [usize; 2]), storage: Storage) -> Self {
        Self { dtype, shape, storage, may_round: false }
    }

    /// Returns the same matrix, which a GPU may round to bf16, as well as what it is multiplied with.
    #[must_use]
    pub fn rounded(self) -> Self {
        Self { may_round: true, ..self }
    }

    /// Returns whether a GPU may round it, and what it is multiplied with, to bf16.
    pub(super) fn may_round(&self) -> bool {
        self.may_round
    }

    /// Returns the matrix in the memory of `device`, so that several plans share it. On the CPU it stays where it is.
    ///
    /// # Errors
    /// The elements are not bf16 and may not be rounded, or the budget or the device refuses.
    pub fn on(&self, device: &Device, budget: &Budget) -> Result<Self> {
        let Device::Cuda(cuda) = device else { return Ok(self.clone()) };
        let storage = Storage::Device(stacked(&[self], cuda, budget)?);
        Ok(Self { may_round: self.may_round, ..Self::new((DType::BF16, self.shape), storage) })
    }

    /// Returns the element type.
    pub fn dtype(&self) -> DType {
        self.dtype
    }

    /// Returns O and K.
    pub fn shape(&self) -> [usize; 2] {
        self.shape
    }

    /// Checks that the CPU can read the elements.
    pub(super) fn check_host(&self, kernel: &str) -> Result<()> {
        match self.storage {
            Storage::Device(_) => Err(Error::invalid(format!("{kernel}: the weights are in the memory of a GPU"))),
            _ => Ok(()),
        }
    }

    /// Returns the elements of a matrix in host memory.
    pub(super) fn values(&self) -> Values<'_> {
        let len = self.shape[0] * self.shape[1] * self.dtype.size();
        let bytes = match &self.storage {
            Storage::Mapped { file, at } => &file.bytes()[*at..at + len],
            Storage::Memory(tensor) | Storage::Device(tensor) => {
                let bytes = tensor.bytes().and_then(View::host).expect("`check_host` was called");
                &bytes[..len]
            }
        };
        match self.dtype {
            DType::F32 => Values::F32(bytemuck::cast_slice(bytes)),
            DType::F16 => Values::F16(bytemuck::cast_slice(bytes)),
            _ => Values::Bf16(bytemuck::cast_slice(bytes)),
        }
    }
}

/// Returns matrices one below the other in the memory of a GPU, in bf16. A single one that is there already is shared.
pub(super) fn stacked(weights: &[&Weight], cuda: &Cuda, budget: &Budget) -> Result<Arc<Tensor>> {
    if let [Weight { storage: Storage::Device(tensor), .. }] = weights {
        return Ok(Arc::clone(tensor));
    }
    let device = Device::Cuda(cuda.clone());
    let queue = device.queue(budget)?;
    let lens = weights.iter().map(|weight| weight.shape[0] * weight.shape[1]);
    let mut all = Tensor::new(&device, budget, DType::BF16, &[lens.clone().sum()])?;
    let mut at = 0;
    for (weight, len) in weights.iter().zip(lens) {
        weight.upload(&queue, (&mut all, at))?;
        at += len;
    }
    // Other queues read it from now on.
    queue.synchronize()?;
    Ok(Arc::new(all))
}

impl Weight {
    /// Copies the elements to those of a tensor from `at` on.
    fn upload(&self, queue: &Queue, (to, at): (&mut Tensor, usize)) -> Result<()> {
        let place = at..at + self.shape[0] * self.shape[1];
        if let Storage::Device(tensor) = &self.storage {
            return queue.copy::<bf16>(tensor.view()?, to.view_mut()?.range(place)?);
        }
        match self.values() {
            Values::Bf16(values) => queue.copy(values.into(), to.view_mut()?.range(place)?),
            _ if !self.may_round => {
                let message = format!("weights of type {} on a GPU, which computes in bf16", self.dtype.name());
                Err(Error::unsupported(message).with_hint("allow a GPU to round them"))
            }
            Values::F32(values) => round(queue, values, (to, at)),
            Values::F16(values) => round(queue, values, (to, at)),
        }
    }
}

/// Rounds elements on their way to a GPU.
fn round<T: Scalar>(queue: &Queue, values: &[T], (to, mut at): (&mut Tensor, usize)) -> Result<()> {
    let (mut floats, mut rounded) = (Vec::new(), Vec::new());
    for values in values.chunks(ROUNDED) {
        floats.resize(values.len(), 0.0);
        rounded.resize(values.len(), bf16::ZERO);
        matmul::load(values, &mut floats);
        matmul::store(&floats, &mut rounded);
        queue.copy(rounded[..].into(), to.view_mut()?.range(at..at + values.len())?)?;
        at += values.len();
    }
    Ok(())
}

fn byte_len(dtype: DType, [outputs, k]: [usize; 2]) -> Result<usize> {
    if !is_stored(dtype) {
        return Err(Error::unsupported(format!("weights of type {}", dtype.name()))
            .with_hint("f32, f16 and bf16 are supported"));
    }
    let len = outputs.checked_mul(k).and_then(|len| len.checked_mul(dtype.size()));
    len.ok_or_else(|| Error::invalid(format!("weights [{outputs}, {k}] overflow")))
}

/// Returns a matrix that the bench's device takes, and its elements: a GPU has them in bf16.
#[cfg(test)]
pub(super) fn stored(bench: &crate::suite::Bench, values: &[f32], shape: [usize; 2]) -> (Weight, Vec<f32>) {
    let Device::Cuda(_) = bench.device else {
        return (Weight::of(values, shape, &bench.budget).unwrap(), values.to_vec());
    };
    let rounded: Vec<bf16> = values.iter().map(|&value| bf16::from_f32(value)).collect();
    (Weight::of(&rounded, shape, &bench.budget).unwrap(), rounded.iter().map(|value| value.to_f32()).collect())
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    #[test]
    fn odd_places_are_copied_and_the_end_is_checked() {
        let mut file = tempfile::tempfile().unwrap();
        let values = [1.0f32, -2.0, 3.5];
        file.write_all(&[7]).unwrap();
        file.write_all(bytemuck::cast_slice(&values)).unwrap();
        file.write_all(bytemuck::cast_slice(&values)).unwrap();
        file.write_all(&[0; 3]).unwrap();
        let map = Arc::new(InPlace::new(&file).unwrap());
        let budget = Budget::unlimited();
        let weight = Weight::mapped(&map, 1, (DType::F32, [1, 3]), &budget).unwrap();
        assert!(matches!(weight.storage, Storage::Memory(_)));
        assert!(matches!(weight.values(), Values::F32(found) if found == values));
        let bytes = Weight::mapped(&map, 2, (DType::BF16, [2, 2]), &budget).unwrap();
        assert!(matches!(bytes.storage, Storage::Mapped { .. }));
        assert!(Weight::mapped(&map, 20, (DType::F32, [1, 3]), &budget).is_err());
        assert!(Weight::mapped(&map, usize::MAX, (DType::F32, [1, 3]), &budget).is_err());
        assert!(Weight::mapped(&map, 0, (DType::I16, [1, 3]), &budget).is_err());
        assert!(Weight::mapped(&map, 0, (DType::F32, [usize::MAX, 3]), &budget).is_err());
    }
}
