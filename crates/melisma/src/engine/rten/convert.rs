//! Converts values to and from the engine, which supports f32, i32, i8 and u8.

use half::f16;
use rten_tensor::{AsView, Layout};

use super::super::Port;
use crate::format::Value;
use crate::{DType, Error, Result};

/// Checks that the engine supports this port.
pub(in super::super) fn check(port: &Port) -> Result<()> {
    match port.dtype {
        DType::F32 | DType::F16 | DType::I32 | DType::I64 | DType::I8 | DType::U8 | DType::Bool => Ok(()),
        other => Err(Error::unsupported(format!("{}: `{}` is {}", super::NAME, port.name, other.name()))
            .with_hint("the embedded engine has f32, f16, i64, i32, i8, u8 and bool; onnxruntime has more")),
    }
}

pub(in super::super) fn to_engine(name: &str, value: &Value) -> Result<rten::Value> {
    let shape = value.shape();
    let unfit = |error: &dyn std::fmt::Display| Error::invalid(format!("input `{name}`: {error}"));
    match value.dtype() {
        DType::F32 => rten::Value::from_shape(shape, value.as_slice::<f32>()?.to_vec()).map_err(|e| unfit(&e)),
        DType::F16 => {
            let floats = value.as_slice::<f16>()?.iter().map(|half| half.to_f32()).collect::<Vec<_>>();
            rten::Value::from_shape(shape, floats).map_err(|e| unfit(&e))
        }
        DType::I32 => rten::Value::from_shape(shape, value.as_slice::<i32>()?.to_vec()).map_err(|e| unfit(&e)),
        DType::I64 => {
            let narrow = |&wide: &i64| {
                i32::try_from(wide).map_err(|_| unfit(&format!("{wide} does not fit into the engine's 32 bits")))
            };
            let ints = value.as_slice::<i64>()?.iter().map(narrow).collect::<Result<Vec<_>>>()?;
            rten::Value::from_shape(shape, ints).map_err(|e| unfit(&e))
        }
        DType::Bool => {
            let ints = value.bytes().iter().map(|&byte| i32::from(byte != 0)).collect::<Vec<_>>();
            rten::Value::from_shape(shape, ints).map_err(|e| unfit(&e))
        }
        DType::I8 => rten::Value::from_shape(shape, value.as_slice::<i8>()?.to_vec()).map_err(|e| unfit(&e)),
        DType::U8 => rten::Value::from_shape(shape, value.as_slice::<u8>()?.to_vec()).map_err(|e| unfit(&e)),
        other => Err(Error::unsupported(format!("{}: input `{name}` is {}", super::NAME, other.name()))),
    }
}

/// Converts an output to the type and shape that the model declares.
pub(in super::super) fn from_engine(port: &Port, value: rten::Value) -> Result<Value> {
    let value = unchecked(port, value)?;
    port.check(&value).map_err(|_| {
        let message = format!("{}: output `{}` is {value:?}, not {}", super::NAME, port.name, port.describe());
        Error::unsupported(message)
    })?;
    Ok(value)
}

fn unchecked(port: &Port, value: rten::Value) -> Result<Value> {
    let wrong = |found: &str| {
        Error::unsupported(format!("{}: output `{}` is {found}, not {}", super::NAME, port.name, port.dtype.name()))
    };
    match value {
        rten::Value::FloatTensor(tensor) => {
            let (shape, tensor) = (tensor.shape().to_vec(), tensor.to_contiguous());
            let floats = tensor.data();
            match port.dtype {
                DType::F32 => Value::from_slice(floats, &shape),
                DType::F16 => Value::from_slice(&floats.iter().map(|&x| f16::from_f32(x)).collect::<Vec<_>>(), &shape),
                _ => Err(wrong("f32")),
            }
        }
        rten::Value::Int32Tensor(tensor) => {
            let (shape, tensor) = (tensor.shape().to_vec(), tensor.to_contiguous());
            let ints = tensor.data();
            match port.dtype {
                DType::I32 => Value::from_slice(ints, &shape),
                DType::I64 => Value::from_slice(&ints.iter().map(|&x| i64::from(x)).collect::<Vec<_>>(), &shape),
                DType::Bool => {
                    let bytes: Vec<u8> = ints.iter().map(|&x| u8::from(x != 0)).collect();
                    Value::from_bytes(DType::Bool, &shape, &bytes)
                }
                _ => Err(wrong("i32")),
            }
        }
        rten::Value::Int8Tensor(tensor) if port.dtype == DType::I8 => {
            Value::from_slice(&tensor.to_vec(), tensor.shape())
        }
        rten::Value::UInt8Tensor(tensor) if port.dtype == DType::U8 => {
            Value::from_slice(&tensor.to_vec(), tensor.shape())
        }
        rten::Value::Int8Tensor(_) => Err(wrong("i8")),
        rten::Value::UInt8Tensor(_) => Err(wrong("u8")),
        _ => Err(wrong("a sequence")),
    }
}
