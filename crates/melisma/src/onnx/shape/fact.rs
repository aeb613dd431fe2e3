//! Known facts about a value before anything runs.

use crate::DType;
use crate::format::Value;
use crate::onnx::{Data, Tensor};

/// Values with more elements are known only by their shape.
const MAX_NUMBERS: u64 = 4096;
/// Shapes with more axes are treated as unknown.
const MAX_AXES: usize = 64;

/// The shape of a value and, if there are few, its elements.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Fact {
    pub shape: Vec<u64>,
    /// Bytes per element in the embedded engine.
    pub size: u64,
    pub numbers: Option<Vec<f64>>,
    /// Whether it follows from constants alone: engines compute these values once and store them.
    pub is_constant: bool,
}

impl Fact {
    /// Creates the facts of a value whose shape is known; `None` if it has more axes than any real
    /// model.
    pub fn new(size: u64, shape: Vec<u64>) -> Option<Self> {
        (shape.len() <= MAX_AXES).then_some(Self { shape, size, numbers: None, is_constant: false })
    }

    /// Adds its elements, if they match the shape and are few.
    #[must_use]
    pub fn with(mut self, numbers: Option<Vec<f64>>) -> Self {
        self.numbers =
            numbers.filter(|numbers| numbers.len() as u64 == self.len() && numbers.len() as u64 <= MAX_NUMBERS);
        self
    }

    /// Creates the facts of a list of numbers.
    pub fn list(numbers: Vec<f64>) -> Option<Self> {
        Some(Self::new(4, vec![numbers.len() as u64])?.with(Some(numbers)))
    }

    pub fn of_value(value: &Value) -> Option<Self> {
        let shape = value.shape().iter().map(|&axis| axis as u64).collect();
        let fact = Self::new(size(value.dtype()), shape)?;
        let numbers = if fact.len() <= MAX_NUMBERS { numbers(value) } else { None };
        Some(fact.with(numbers))
    }

    pub fn of_tensor(tensor: &Tensor) -> Option<Self> {
        let shape = tensor.shape.iter().map(|&axis| axis as u64).collect();
        let dtype = DType::from_code(tensor.dtype).ok()?;
        let fact = Self { is_constant: true, ..Self::new(size(dtype), shape)? };
        let is_small = matches!(tensor.data, Data::Bytes(_)) && fact.len() <= MAX_NUMBERS;
        let numbers = if is_small { numbers(&tensor.value().ok()?) } else { None };
        Some(fact.with(numbers))
    }

    pub fn len(&self) -> u64 {
        self.shape.iter().fold(1, |product, &axis| product.saturating_mul(axis))
    }

    pub fn bytes(&self) -> u64 {
        self.len().saturating_mul(self.size)
    }
}

/// Returns the bytes per element in the embedded engine: 16-bit floats are widened, 64-bit integers
/// narrowed.
pub(crate) fn size(dtype: DType) -> u64 {
    match dtype {
        DType::I8 | DType::U8 => 1,
        DType::F64 => 8,
        _ => 4,
    }
}

fn numbers(value: &Value) -> Option<Vec<f64>> {
    Some(match value.dtype() {
        DType::I64 => value.as_slice::<i64>().ok()?.iter().map(|&x| x as f64).collect(),
        DType::I32 => value.as_slice::<i32>().ok()?.iter().map(|&x| f64::from(x)).collect(),
        DType::F32 => value.as_slice::<f32>().ok()?.iter().map(|&x| f64::from(x)).collect(),
        DType::F64 => value.as_slice::<f64>().ok()?.to_vec(),
        DType::U8 | DType::Bool => value.as_slice::<u8>().ok()?.iter().map(|&x| f64::from(x)).collect(),
        DType::I8 => value.as_slice::<i8>().ok()?.iter().map(|&x| f64::from(x)).collect(),
        _ => return None,
    })
}
