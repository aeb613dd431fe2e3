//! What a program calls: its few globals, and the storages and tensors that they describe.

use super::{Callable, Machine, Tensor, Value};
use crate::format::StoredType;
use crate::{Error, Result};

/// Audio models have no tensors of more dimensions. Without a limit, tensors that share one long
/// shape would take memory quadratic in the program.
const MAX_RANK: usize = 8;

impl<'a> Machine<'a> {
    pub(super) fn global(&mut self, module: &str, name: &str) -> Result<()> {
        let value = match (module, name) {
            ("collections", "OrderedDict") => Value::Callable(Callable::OrderedDict),
            ("torch._utils", "_rebuild_tensor" | "_rebuild_tensor_v2") => Value::Callable(Callable::RebuildTensor),
            ("torch._utils", "_rebuild_tensor_v3") => Value::Callable(Callable::RebuildTypedTensor),
            ("torch._utils", "_rebuild_parameter") => Value::Callable(Callable::RebuildParameter),
            ("torch", "Size") => Value::Callable(Callable::Size),
            ("torch" | "torch.storage", "UntypedStorage") => Value::StorageClass(None),
            ("torch", class) if StoredType::from_storage(class).is_some() => {
                Value::StorageClass(StoredType::from_storage(class))
            }
            ("torch", name) if StoredType::from_torch(name).is_some() => {
                StoredType::from_torch(name).map_or(Value::None, Value::Type)
            }
            _ => {
                let text: String = format!("{module}.{name}").escape_default().take(128).collect();
                return Err(Error::unsupported(format!("the global {text} is not allowed"))
                    .with_hint("only plain state dicts are read; a file that needs more could run code when loaded"));
            }
        };
        self.stack.push(value);
        Ok(())
    }

    /// Reads BINPERSID: ('storage', class, key, location, number of elements).
    pub(super) fn storage(&mut self) -> Result<()> {
        let Value::Tuple(tuple) = self.pop()? else { return Err(Error::corrupt("a storage that is not a tuple")) };
        let &[Value::Str("storage"), Value::StorageClass(dtype), Value::Str(key), Value::Str(_), Value::Int(_)] =
            self.tuples[tuple].as_slice()
        else {
            return Err(Error::corrupt("a storage whose fields are not (storage, class, key, location, length)"));
        };
        self.stack.push(Value::Storage(self.storages.len()));
        self.storages.push((key, dtype));
        Ok(())
    }

    pub(super) fn reduce(&mut self) -> Result<()> {
        let (arguments, callable) = (self.pop()?, self.pop()?);
        let (Value::Tuple(tuple), Value::Callable(callable)) = (arguments, callable) else {
            return Err(Error::corrupt("a call of something that cannot be called"));
        };
        let arguments = self.tuples[tuple].as_slice();
        match (callable, arguments) {
            (Callable::OrderedDict, []) => self.push_dict(),
            (Callable::Size, &[Value::Tuple(tuple)]) => self.stack.push(Value::Tuple(tuple)),
            (Callable::RebuildTensor, &[storage, offset, shape, strides, ref rest @ ..]) => {
                let metadata = rest.get(2).copied();
                self.tensor([storage, offset, shape, strides], None, metadata)?;
            }
            (
                Callable::RebuildTypedTensor,
                &[storage, offset, shape, strides, _, _, Value::Type(dtype), ref rest @ ..],
            ) => {
                let metadata = rest.first().copied();
                self.tensor([storage, offset, shape, strides], Some(dtype), metadata)?;
            }
            (Callable::RebuildParameter, &[Value::Tensor(tensor), ..]) => self.stack.push(Value::Tensor(tensor)),
            _ => return Err(Error::corrupt(format!("{callable:?} with unknown arguments"))),
        }
        Ok(())
    }

    /// Builds a tensor with the type of its storage, unless `dtype` is given. Metadata marks
    /// elements that differ from the stored ones.
    fn tensor(&mut self, place: [Value<'a>; 4], dtype: Option<StoredType>, metadata: Option<Value<'a>>) -> Result<()> {
        let [Value::Storage(storage), offset, Value::Tuple(shape), Value::Tuple(strides)] = place else {
            return Err(Error::corrupt("a tensor with unknown arguments"));
        };
        match metadata {
            None | Some(Value::None) => {}
            Some(Value::Dict(dict)) if self.dicts[dict].is_empty() => {}
            Some(_) => return Err(Error::unsupported("a tensor that is stored conjugated or negated")),
        }
        let (key, of_storage) = self.storages[storage];
        let dtype = dtype.or(of_storage).ok_or_else(|| Error::corrupt("a tensor without a type"))?;
        let (shape, strides) = (sizes(&self.tuples[shape])?, sizes(&self.tuples[strides])?);
        self.stack.push(Value::Tensor(self.tensors.len()));
        self.tensors.push(Tensor { key, dtype, offset: size(offset)?, shape, strides });
        Ok(())
    }
}

fn sizes(values: &[Value<'_>]) -> Result<Vec<usize>> {
    if values.len() > MAX_RANK {
        return Err(Error::corrupt(format!("a tensor has {} dimensions; at most {MAX_RANK}", values.len())));
    }
    values.iter().copied().map(size).collect()
}

fn size(value: Value<'_>) -> Result<usize> {
    match value {
        Value::Int(value) => usize::try_from(value).map_err(|_| Error::corrupt(format!("invalid size {value}"))),
        _ => Err(Error::corrupt("a size is not an integer")),
    }
}
