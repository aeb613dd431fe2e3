//! A pickle reader that can only describe tensors.
//!
//! It knows the opcodes and the few globals that `torch.save` writes for a state dict, and rejects
//! all others by name. "Calling" a global only builds a description. Values live in flat arenas and
//! refer to each other by index, so there is no recursion, however deep a file nests, and memory
//! stays within a small multiple of the program.

mod call;
mod state;

use std::collections::HashMap;

use super::StoredType;
use crate::{Error, ErrorKind, Result};
pub use state::State;

/// The longest program. State dicts of the largest models take a few megabytes.
pub const MAX_PROGRAM_LEN: usize = 64 << 20;

/// A tensor as the pickle describes it, not yet checked against a storage.
#[derive(Debug, Clone)]
pub struct Tensor<'a> {
    pub key: &'a str,
    pub dtype: StoredType,
    pub offset: usize,
    pub shape: Vec<usize>,
    pub strides: Vec<usize>,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Value<'a> {
    Mark,
    None,
    Bool,
    Int(i64),
    Float,
    Str(&'a str),
    Tuple(usize),
    List,
    Dict(usize),
    Callable(Callable),
    Type(StoredType),
    /// A typed storage, or one of bytes whose tensors state their type.
    StorageClass(Option<StoredType>),
    Storage(usize),
    Tensor(usize),
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Callable {
    OrderedDict,
    RebuildTensor,
    /// Takes the type as an additional argument.
    RebuildTypedTensor,
    RebuildParameter,
    Size,
}

struct Machine<'a> {
    program: &'a [u8],
    at: usize,
    stack: Vec<Value<'a>>,
    memo: HashMap<u32, Value<'a>>,
    tuples: Vec<Vec<Value<'a>>>,
    dicts: Vec<Vec<(Value<'a>, Value<'a>)>>,
    storages: Vec<(&'a str, Option<StoredType>)>,
    tensors: Vec<Tensor<'a>>,
}

/// Reads the tensors of a pickled state dict.
pub fn decode(program: &[u8]) -> Result<State<'_>> {
    let mut machine = Machine {
        program,
        at: 0,
        stack: Vec::new(),
        memo: HashMap::new(),
        tuples: Vec::new(),
        dicts: Vec::new(),
        storages: Vec::new(),
        tensors: Vec::new(),
    };
    while machine.step()? {}
    let Value::Dict(dict) = machine.pop()? else { return Err(Error::corrupt("not a dictionary of tensors")) };
    machine.state(dict)
}

impl<'a> Machine<'a> {
    /// Runs one opcode; false after STOP.
    fn step(&mut self) -> Result<bool> {
        let at = self.at;
        let [opcode] = self.take()?;
        match opcode {
            0x80 => {
                let [version] = self.take()?;
                if version > 5 {
                    let message = format!("pickle protocol {version}; 5 is the latest known");
                    return Err(Error::new(ErrorKind::Version, message));
                }
            }
            0x95 => self.take::<8>().map(drop)?,
            b'.' => return Ok(false),
            b'(' => self.stack.push(Value::Mark),
            b'N' => self.stack.push(Value::None),
            0x88 | 0x89 => self.stack.push(Value::Bool),
            b'J' => {
                let value = i32::from_le_bytes(self.take()?);
                self.stack.push(Value::Int(value.into()));
            }
            b'K' => {
                let [value] = self.take()?;
                self.stack.push(Value::Int(value.into()));
            }
            b'M' => {
                let value = u16::from_le_bytes(self.take()?);
                self.stack.push(Value::Int(value.into()));
            }
            0x8A => self.long()?,
            b'G' => {
                self.take::<8>()?;
                self.stack.push(Value::Float);
            }
            b'X' => {
                let len = u32::from_le_bytes(self.take()?);
                self.string(len as usize)?;
            }
            0x8C => {
                let [len] = self.take()?;
                self.string(len.into())?;
            }
            b')' => self.push_tuple(Vec::new()),
            b't' => {
                let items = self.pop_to_mark()?;
                self.push_tuple(items);
            }
            0x85..=0x87 => {
                let start = self.stack.len().checked_sub(usize::from(opcode - 0x84)).ok_or_else(underflow)?;
                let items = self.stack.split_off(start);
                self.push_tuple(items);
            }
            b']' => self.stack.push(Value::List),
            b'a' => {
                self.pop()?;
                self.expect_list()?;
            }
            b'e' => {
                self.pop_to_mark()?;
                self.expect_list()?;
            }
            b'}' => self.push_dict(),
            b's' => {
                let (value, key) = (self.pop()?, self.pop()?);
                self.extend_dict(&[key, value])?;
            }
            b'u' => {
                let items = self.pop_to_mark()?;
                self.extend_dict(&items)?;
            }
            b'q' => {
                let [slot] = self.take()?;
                self.store(slot.into())?;
            }
            b'r' => {
                let slot = u32::from_le_bytes(self.take()?);
                self.store(slot)?;
            }
            0x94 => self.store(self.memo.len() as u32)?,
            b'h' => {
                let [slot] = self.take()?;
                self.recall(slot.into())?;
            }
            b'j' => {
                let slot = u32::from_le_bytes(self.take()?);
                self.recall(slot)?;
            }
            b'c' => {
                let (module, name) = (self.line()?, self.line()?);
                self.global(module, name)?;
            }
            0x93 => match (self.pop()?, self.pop()?) {
                (Value::Str(name), Value::Str(module)) => self.global(module, name)?,
                _ => return Err(Error::corrupt("a global whose name is not a string")),
            },
            b'Q' => self.storage()?,
            b'R' => self.reduce()?,
            // BUILD sets attributes of an OrderedDict (the module versions), which describe no
            // tensors.
            b'b' => {
                self.pop()?;
                if !matches!(self.stack.last(), Some(Value::Dict(_))) {
                    return Err(Error::corrupt("attributes for a value that is not a dictionary"));
                }
            }
            _ => {
                return Err(Error::unsupported(format!("opcode {opcode:#04x} at byte {at} is not allowed"))
                    .with_hint("only plain state dicts are read; convert the file to .safetensors"));
            }
        }
        Ok(true)
    }

    fn take<const N: usize>(&mut self) -> Result<[u8; N]> {
        self.bytes(N)?.try_into().map_err(|_| underflow())
    }

    fn bytes(&mut self, len: usize) -> Result<&'a [u8]> {
        let rest = self.program.get(self.at..).unwrap_or(&[]);
        let bytes = rest
            .get(..len)
            .ok_or_else(|| Error::truncated(format!("{len} bytes needed at {}, {} are left", self.at, rest.len())))?;
        self.at += len;
        Ok(bytes)
    }

    fn string(&mut self, len: usize) -> Result<()> {
        let at = self.at;
        let text =
            std::str::from_utf8(self.bytes(len)?).map_err(|_| Error::corrupt(format!("text at {at} is not UTF-8")))?;
        self.stack.push(Value::Str(text));
        Ok(())
    }

    fn line(&mut self) -> Result<&'a str> {
        let rest = self.program.get(self.at..).unwrap_or(&[]);
        let len = rest.iter().take(256).position(|&byte| byte == b'\n');
        let len = len.ok_or_else(|| Error::truncated(format!("a name at {} without an end", self.at)))?;
        let line = std::str::from_utf8(self.bytes(len)?).map_err(|_| Error::corrupt("a global's name is not UTF-8"))?;
        self.at += 1;
        Ok(line)
    }

    fn long(&mut self) -> Result<()> {
        let [len] = self.take()?;
        if len > 8 {
            return Err(Error::corrupt(format!("an integer has {len} bytes; at most 8")));
        }
        let bytes = self.bytes(len.into())?;
        let sign = bytes.last().map_or(0, |&top| if top & 0x80 != 0 { 0xFF } else { 0 });
        let mut wide = [sign; 8];
        wide[..bytes.len()].copy_from_slice(bytes);
        self.stack.push(Value::Int(i64::from_le_bytes(wide)));
        Ok(())
    }

    fn pop(&mut self) -> Result<Value<'a>> {
        self.stack.pop().ok_or_else(underflow)
    }

    fn pop_to_mark(&mut self) -> Result<Vec<Value<'a>>> {
        let mark = self.stack.iter().rposition(|value| *value == Value::Mark).ok_or_else(underflow)?;
        let items = self.stack.split_off(mark + 1);
        self.stack.truncate(mark);
        Ok(items)
    }

    fn push_tuple(&mut self, items: Vec<Value<'a>>) {
        self.stack.push(Value::Tuple(self.tuples.len()));
        self.tuples.push(items);
    }

    fn push_dict(&mut self) {
        self.stack.push(Value::Dict(self.dicts.len()));
        self.dicts.push(Vec::new());
    }

    fn extend_dict(&mut self, items: &[Value<'a>]) -> Result<()> {
        let Some(&Value::Dict(dict)) = self.stack.last() else {
            return Err(Error::corrupt("items for a value that is not a dictionary"));
        };
        let (pairs, rest) = items.as_chunks::<2>();
        if !rest.is_empty() {
            return Err(Error::corrupt("a key without a value"));
        }
        self.dicts[dict].extend(pairs.iter().map(|&[key, value]| (key, value)));
        Ok(())
    }

    fn expect_list(&self) -> Result<()> {
        match self.stack.last() {
            Some(Value::List) => Ok(()),
            _ => Err(Error::corrupt("items for a value that is not a list")),
        }
    }

    fn store(&mut self, slot: u32) -> Result<()> {
        let value = *self.stack.last().ok_or_else(underflow)?;
        self.memo.insert(slot, value);
        Ok(())
    }

    fn recall(&mut self, slot: u32) -> Result<()> {
        let value = self.memo.get(&slot).ok_or_else(|| Error::corrupt(format!("memo {slot} was never stored")))?;
        self.stack.push(*value);
        Ok(())
    }
}

fn underflow() -> Error {
    Error::corrupt("an opcode without its operands")
}
