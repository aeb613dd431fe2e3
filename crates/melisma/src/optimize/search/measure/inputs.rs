//! Inputs to measure with: generated from a seed or read from files.

use std::path::{Path, PathBuf};

use half::{bf16, f16};

use super::accuracy;
use crate::engine::Port;
use crate::format::{Value, npy};
use crate::onnx::{Dim, Model};
use crate::optimize::search::request::{Content, Given, Request, SEED};
use crate::output::{self, Existing};
use crate::random::SplitMix64;
use crate::{DType, Error, ErrorKind, Remedy, Result};

/// Limit on the input sets in a calibration folder.
const MAX_SETS: usize = 64;
/// Limit on the elements of a generated input.
const MAX_ELEMENTS: usize = 1 << 28;

/// Sets of inputs, each with one value per input, in order. Timing uses the first set.
#[derive(Debug, Clone)]
pub struct Sets {
    /// The inputs with their final shapes.
    pub ports: Vec<Port>,
    /// At least one set.
    pub values: Vec<Vec<Value>>,
}

impl Sets {
    /// Makes the sets that `request` asks for.
    ///
    /// # Errors
    /// An unknown input, a missing or wrong shape, or a file that is not an array, has the wrong
    /// type, or contains NaN or infinities.
    pub fn make(model: &Model, request: &Request) -> Result<Self> {
        let mut ports = Port::inputs(model)?;
        if let Some(unknown) = request.inputs.iter().find(|given| !ports.iter().any(|port| port.name == given.name)) {
            let names: Vec<&str> = ports.iter().map(|port| port.name.as_str()).collect();
            return Err(Error::invalid(format!("the model has no input `{}`", unknown.name))
                .with_hint(format!("its inputs are {}", names.join(", "))));
        }
        let calibration = request.calibrate.as_deref().map(|folder| sets_in(folder, &ports)).transpose()?;
        let values = match calibration {
            Some(sets) => sets,
            None => vec![request_values(&ports, request)?],
        };
        check(&ports, &values[0])?;
        for given in &request.inputs {
            if let Some(port) = ports.iter_mut().find(|port| port.name == given.name) {
                port.shape = Some(known_dims(&given.content.shape()?));
            }
        }
        check(&ports, &values[0])
            .map_err(|error| error.with_hint("give the inputs the shapes of the calibration data"))?;
        for (port, value) in ports.iter_mut().zip(&values[0]) {
            port.shape = Some(known_dims(value.shape()));
        }
        for set in &values[1..] {
            check(&ports, set).map_err(|error| error.with_hint("give all sets the shapes of the first"))?;
        }
        Ok(Self { ports, values })
    }
}

/// Checks that a set has a valid value for each port.
fn check(ports: &[Port], set: &[Value]) -> Result<()> {
    ports.iter().zip(set).try_for_each(|(port, value)| port.check(value))
}

fn known_dims(shape: &[usize]) -> Vec<Dim> {
    shape.iter().map(|&axis| Dim::Known(axis as i64)).collect()
}

/// Returns the given shapes by name, as part of the key; shapes that the model fixes are part of
/// the model. Values from files count only if the search measures with them, which it does not if
/// there is calibration data.
pub(in crate::optimize::search) fn describe(request: &Request) -> Result<String> {
    let text = |given: &Given| {
        Ok(match &given.content {
            Content::Shape(shape) => format!("{}={shape:?}", given.name),
            Content::File(path) => {
                let value = read_checked(path)?;
                let hash = match request.calibrate {
                    Some(_) => String::new(),
                    None => format!(" {}", blake3::hash(value.bytes()).to_hex()),
                };
                format!("{}={:?}{hash}", given.name, value.shape())
            }
        })
    };
    let mut texts = request.inputs.iter().map(text).collect::<Result<Vec<_>>>()?;
    texts.sort();
    Ok(texts.join("; "))
}

/// Checks the input files against the model's inputs.
pub(in crate::optimize::search) fn check_files(model: &Model, request: &Request) -> Result<()> {
    let ports = Port::inputs(model)?;
    for given in &request.inputs {
        if let Content::File(path) = &given.content
            && let Some(port) = ports.iter().find(|port| port.name == given.name)
        {
            port.check(&npy::read(path)?).map_err(|error| error.at(path.display()))?;
        }
    }
    Ok(())
}

fn request_values(ports: &[Port], request: &Request) -> Result<Vec<Value>> {
    let mut random = SplitMix64::new(SEED);
    let value = |port: &Port| {
        let given = request.inputs.iter().find(|given| given.name == port.name);
        match given.map(|given| &given.content) {
            Some(Content::File(path)) => read_checked(path),
            Some(Content::Shape(shape)) => random_value(&mut random, port.dtype, shape),
            None => known(port).and_then(|shape| random_value(&mut random, port.dtype, &shape)),
        }
        .map_err(|error| error.at(format!("input `{}`", port.name)))
    };
    ports.iter().map(value).collect()
}

fn known(port: &Port) -> Result<Vec<usize>> {
    let missing = || {
        Error::invalid(format!("its shape {} is not fixed", port.describe()))
            .with_hint(Remedy::NameInputShape(port.name.clone()))
    };
    let shape = port.shape.as_ref().ok_or_else(missing)?;
    let axis = |dim: &Dim| match dim {
        Dim::Known(axis) => usize::try_from(*axis).map_err(|_| missing()),
        _ => Err(missing()),
    };
    shape.iter().map(axis).collect()
}

/// Reads `NAME.npy` for every input, from the folder itself or from each of its subfolders.
fn sets_in(folder: &Path, ports: &[Port]) -> Result<Vec<Vec<Value>>> {
    let entries = std::fs::read_dir(folder).map_err(|error| Error::io(folder.display(), error))?;
    let mut folders: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).filter(|path| path.is_dir()).collect();
    folders.sort();
    folders.truncate(MAX_SETS);
    if folders.is_empty() {
        folders.push(folder.to_owned());
    }
    let set = |folder: &PathBuf| {
        let file = |port: &Port| read_checked(&folder.join(format!("{}.npy", port.name.replace(['/', '\0'], "_"))));
        ports.iter().map(file).collect::<Result<Vec<_>>>()
    };
    folders.iter().map(set).collect()
}

fn read_checked(path: &Path) -> Result<Value> {
    let value = npy::read(path)?;
    let floats = accuracy::floats(&value)?;
    match floats.iter().position(|value| !value.is_finite()) {
        None => Ok(value),
        Some(index) => {
            let message =
                format!("{}: element {index} is {}, not a number to measure with", path.display(), floats[index]);
            Err(Error::new(ErrorKind::InvalidArgument, message))
        }
    }
}

/// Stores a set next to an engine for its self-check.
pub(in crate::optimize::search) fn write(folder: &Path, values: &[Value]) -> Result<()> {
    for (index, value) in values.iter().enumerate() {
        let path = folder.join(format!("input{index}.npy"));
        output::write(&path, &npy::encode(value), Existing::Replace)?;
    }
    Ok(())
}

/// Reads the set that [`write`] stored.
pub(in crate::optimize::search) fn read(folder: &Path) -> Result<Vec<Value>> {
    let paths = (0..).map(|index| folder.join(format!("input{index}.npy")));
    paths.take_while(|path| path.is_file()).map(|path| npy::read(&path)).collect()
}

/// Draws floats between -1 and 1, and integers 0 and 1, which are valid indices for every table and axis.
fn random_value(random: &mut SplitMix64, dtype: DType, shape: &[usize]) -> Result<Value> {
    let n = shape.iter().try_fold(1usize, |n, &axis| n.checked_mul(axis)).filter(|n| *n <= MAX_ELEMENTS);
    if n.is_none() {
        return Err(Error::invalid(format!("shape {shape:?} has more than {MAX_ELEMENTS} elements")));
    }
    let mut value = Value::zeros(dtype, shape)?;
    match dtype {
        DType::F32 => value.as_mut_slice::<f32>()?.fill_with(|| random.signed()),
        DType::F64 => value.as_mut_slice::<f64>()?.fill_with(|| f64::from(random.signed())),
        DType::F16 => value.as_mut_slice::<f16>()?.fill_with(|| f16::from_f32(random.signed())),
        DType::BF16 => value.as_mut_slice::<bf16>()?.fill_with(|| bf16::from_f32(random.signed())),
        _ => value.bytes_mut().chunks_mut(dtype.size()).for_each(|element| element[0] = (random.bits() & 1) as u8),
    }
    Ok(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_seed_gives_the_same_numbers_everywhere() {
        let value = random_value(&mut SplitMix64::new(SEED), DType::F32, &[3]).unwrap();
        assert!(value.as_slice::<f32>().unwrap().iter().all(|x| x.abs() <= 1.0));
        assert_eq!(value.bytes(), random_value(&mut SplitMix64::new(SEED), DType::F32, &[3]).unwrap().bytes());
        assert!(random_value(&mut SplitMix64::new(1), DType::F32, &[1 << 20, 1 << 20]).is_err());
        let flags = random_value(&mut SplitMix64::new(1), DType::I64, &[100]).unwrap();
        assert!(flags.as_slice::<i64>().unwrap().iter().all(|x| matches!(x, 0 | 1)));
    }
}
