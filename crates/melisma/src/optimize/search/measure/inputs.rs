//! Inputs to measure with: generated from a seed or read from files.

use std::path::{Path, PathBuf};

use super::accuracy;
use super::draw::Range;
use crate::engine::Port;
use crate::format::{Value, npy};
use crate::onnx::lookup::{Lookup, lookups};
use crate::onnx::{Dim, Model};
use crate::optimize::search::request::{Content, Given, Request, SEED};
use crate::optimize::search::{InputValues, Source};
use crate::output::{self, Existing};
use crate::random::SplitMix64;
use crate::text::count;
use crate::{Error, ErrorKind, Remedy, Result};

/// Limit on the input sets in a calibration folder.
const MAX_SETS: usize = 64;
/// How many sets are drawn if values are generated: with several, an output that never changes shows.
const N_DRAWS: usize = 3;
/// Larger inputs are drawn once.
const MANY_ELEMENTS: usize = 1 << 22;

/// Sets of inputs, each with one value per input, in order. Timing uses the first set.
#[derive(Debug, Clone)]
pub struct Sets {
    /// The inputs with their final shapes.
    pub ports: Vec<Port>,
    /// At least one set.
    pub values: Vec<Vec<Value>>,
    /// Where the values of each input come from.
    pub origins: Vec<InputValues>,
    /// Whether integers were drawn from all that lookups allow.
    pub(in crate::optimize::search) is_wide: bool,
}

/// From how many integers indices are drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::optimize::search) enum Width {
    /// All that the model's lookups allow.
    Wide,
    /// 0 and 1.
    Narrow,
}

impl Sets {
    /// Makes the sets that `request` asks for.
    ///
    /// # Errors
    /// An unknown input, a missing or wrong shape, or a file that is not an array, has the wrong
    /// type, or contains NaN or infinities.
    pub fn make(model: &Model, request: &Request) -> Result<Self> {
        Self::draw(model, request, Width::Wide)
    }

    /// Makes the sets, with indices from as many integers as `width` says.
    ///
    /// # Errors
    /// As [`Sets::make`].
    pub(in crate::optimize::search) fn draw(model: &Model, request: &Request, width: Width) -> Result<Self> {
        let mut ports = Port::inputs(model)?;
        if let Some(unknown) = request.inputs.iter().find(|given| !ports.iter().any(|port| port.name == given.name)) {
            let names: Vec<&str> = ports.iter().map(|port| port.name.as_str()).collect();
            return Err(Error::invalid(format!("the model has no input `{}`", unknown.name))
                .with_hint(format!("its inputs are {}", names.join(", "))));
        }
        let calibration = request.calibrate.as_deref().map(|folder| sets_in(folder, &ports)).transpose()?;
        let (values, origins, is_wide) = match calibration {
            Some(sets) => {
                let text = format!("from the calibration data, {}", count(sets.len() as u64, "set"));
                let origin = |port: &Port| InputValues::new(&port.name, Source::Given, text.clone());
                let origins = ports.iter().map(origin).collect();
                (sets, origins, false)
            }
            None => {
                let plan = Plan::of(model, &ports, request, width)?;
                let n_sets = plan.n_sets();
                let is_wide = plan.0.iter().any(Planned::is_wide);
                (plan.draw(n_sets)?, plan.describe(n_sets), is_wide)
            }
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
        Ok(Self { ports, values, origins, is_wide })
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
    let hashed = |given: &Given, value: &Value| {
        let hash = match request.calibrate {
            Some(_) => String::new(),
            None => format!(" {}", blake3::hash(value.bytes()).to_hex()),
        };
        format!("{}={:?}{hash}", given.name, value.shape())
    };
    let text = |given: &Given| {
        Ok(match &given.content {
            Content::Shape(shape) => format!("{}={shape:?}", given.name),
            Content::File(path) => hashed(given, &read_checked(path)?),
            Content::Array(value) => hashed(given, value),
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
        let Some(port) = ports.iter().find(|port| port.name == given.name) else { continue };
        match &given.content {
            Content::File(path) => port.check(&npy::read(path)?).map_err(|error| error.at(path.display()))?,
            Content::Array(value) => port.check(value)?,
            Content::Shape(_) => {}
        }
    }
    Ok(())
}

/// How the values of an input are made.
enum Planned {
    /// They are given.
    Given { value: Value, text: String },
    /// They are drawn.
    Drawn { shape: Vec<usize>, range: Range },
}

impl Planned {
    fn is_wide(&self) -> bool {
        matches!(self, Self::Drawn { range, .. } if range.is_wide())
    }
}

/// How the values of all inputs are made, in order.
struct Plan<'p>(Vec<Planned>, &'p [Port]);

impl<'p> Plan<'p> {
    fn of(model: &Model, ports: &'p [Port], request: &Request, width: Width) -> Result<Self> {
        let given = |port: &Port| request.inputs.iter().find(|given| given.name == port.name);
        let mut shapes = Vec::new();
        for port in ports {
            let shape = match given(port).map(|given| &given.content) {
                Some(content) => content.shape(),
                None => known(port),
            };
            shapes.push(shape.map_err(|error| error.at(format!("input `{}`", port.name)))?);
        }
        let axes = |shape: &[usize]| shape.iter().map(|&axis| axis as u64).collect();
        let named = ports.iter().zip(&shapes).map(|(port, shape)| (port.name.as_str(), axes(shape)));
        let found = if width == Width::Wide { lookups(model, named) } else { Default::default() };
        let plan = |(port, shape): (&Port, Vec<usize>)| {
            let planned = match given(port).map(|given| &given.content) {
                Some(Content::File(path)) => Planned::Given {
                    value: read_checked(path).map_err(|error| error.at(format!("input `{}`", port.name)))?,
                    text: format!("from {}", path.display()),
                },
                Some(Content::Array(value)) => {
                    let text = "from the given array".to_owned();
                    check_finite(value, &format!("input `{}`", port.name))?;
                    Planned::Given { value: value.clone(), text }
                }
                Some(Content::Shape(_)) | None => {
                    let lookup: Option<&Lookup> = found.get(port.name.as_str());
                    Planned::Drawn { shape, range: Range::of(port.dtype, lookup) }
                }
            };
            Ok(planned)
        };
        Ok(Self(ports.iter().zip(shapes).map(plan).collect::<Result<_>>()?, ports))
    }

    fn n_sets(&self) -> usize {
        let drawn = self.0.iter().filter_map(|planned| match planned {
            Planned::Given { .. } => None,
            Planned::Drawn { shape, .. } => Some(shape.iter().fold(1usize, |n, &axis| n.saturating_mul(axis))),
        });
        match drawn.reduce(usize::saturating_add) {
            Some(1..=MANY_ELEMENTS) => N_DRAWS,
            _ => 1,
        }
    }

    fn draw(&self, n_sets: usize) -> Result<Vec<Vec<Value>>> {
        let mut random = SplitMix64::new(SEED);
        let mut value = |(planned, port): (&Planned, &Port)| match planned {
            Planned::Given { value, .. } => Ok(value.clone()),
            Planned::Drawn { shape, range } => {
                let drawn = range.draw(&mut random, port.dtype, shape);
                drawn.map_err(|error| error.at(format!("input `{}`", port.name)))
            }
        };
        (0..n_sets).map(|_| self.0.iter().zip(self.1).map(&mut value).collect()).collect()
    }

    fn describe(&self, n_sets: usize) -> Vec<InputValues> {
        let describe = |(planned, port): (&Planned, &Port)| match planned {
            Planned::Given { text, .. } => InputValues::new(&port.name, Source::Given, text.clone()),
            Planned::Drawn { range, .. } => {
                let text = format!("generated: {}, {}", range.describe(), count(n_sets as u64, "draw"));
                InputValues::new(&port.name, Source::Generated, text)
            }
        };
        self.0.iter().zip(self.1).map(describe).collect()
    }
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
    check_finite(&value, &path.display().to_string())?;
    Ok(value)
}

fn check_finite(value: &Value, name: &str) -> Result<()> {
    let floats = accuracy::floats(value)?;
    match floats.iter().position(|value| !value.is_finite()) {
        None => Ok(()),
        Some(index) => {
            let message = format!("{name}: element {index} is {}, not a number to measure with", floats[index]);
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
