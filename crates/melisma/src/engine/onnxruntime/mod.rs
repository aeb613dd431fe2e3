//! ONNX Runtime, if the user has it: its library is located and loaded at run time.
//!
//! [`TensorRt::options`] and [`Cuda::options`] create the provider options, and [`Register`] passes
//! them on, so that tests can record them. A session with the TensorRT or CUDA provider fails if
//! that provider is missing.

mod library;
mod profile;
mod provider;
#[cfg(test)]
pub(crate) mod recorder;
#[cfg(test)]
mod tests;

use std::path::Path;

use half::{bf16, f16};
use ort::error::ErrorCode;
use ort::session::builder::SessionBuilder;
use ort::session::{Session, SessionInputValue};
use ort::value::{DynValue, PrimitiveTensorElementType, TensorRef};

pub(crate) use library::how_to_get_provider;
pub use library::{Runtime, find, find_provider, find_tensorrt, how_to_get, runtime, tensorrt_version};
pub use provider::{Algorithms, Cuda, Cudnn, Provider, Register, TensorRt, Workspace};

use super::{Engine, EngineName, Operator, Options, Port, Ports};
use crate::format::Value;
use crate::onnx::Model;
use crate::{DType, Element, Error, ErrorKind, Result};

/// A session of ONNX Runtime.
#[derive(Debug)]
pub struct Onnxruntime {
    session: Session,
    name: EngineName,
    ports: Ports,
    times: ProfiledRuns,
}

/// Whether the session writes a profile, and which of its runs count.
#[derive(Debug)]
enum ProfiledRuns {
    Off,
    /// Number of runs so far, and before the first profiled one.
    On {
        n_runs: usize,
        first: Option<usize>,
    },
}

impl Onnxruntime {
    /// Creates a session for `model`. With a folder, it writes a profile there for
    /// [`Engine::profile`].
    ///
    /// # Errors
    /// The library or the provider is missing, or it rejects the model.
    pub fn new(model: &Model, options: &Options, (provider, folder): (&Provider, Option<&Path>)) -> Result<Self> {
        let mut builder = builder(options, provider)?;
        if let Some(folder) = folder {
            builder = builder.with_profiling(folder.join("profile")).map_err(|error| failed(&error.into()))?;
        }
        let times = if folder.is_some() { ProfiledRuns::On { n_runs: 0, first: None } } else { ProfiledRuns::Off };
        let (session, name) = (commit(builder, model)?, provider.name());
        Ok(Self { session, name, ports: Ports::of(model)?, times })
    }
}

impl Engine for Onnxruntime {
    fn name(&self) -> EngineName {
        self.name
    }

    fn ports(&self) -> &Ports {
        &self.ports
    }

    fn execute(&mut self, inputs: &[Value]) -> Result<Vec<Value>> {
        if let ProfiledRuns::On { n_runs, .. } = &mut self.times {
            *n_runs += 1;
        }
        let flags: Vec<Vec<bool>> = inputs.iter().map(flags).collect();
        let named = self.ports.inputs.iter().zip(inputs).zip(&flags);
        let named = named.map(|((port, value), flags)| Ok((port.name.as_str(), input_value(value, flags)?)));
        let results = self.session.run(named.collect::<Result<Vec<_>>>()?).map_err(|error| failed_run(&error))?;
        let output = |port: &Port| {
            let value = results.get(&port.name);
            let value = value.ok_or_else(|| Error::device(format!("onnxruntime: no output `{}`", port.name)))?;
            output_value(value).map_err(|error| error.at(format!("output `{}`", port.name)))
        };
        self.ports.outputs.iter().map(output).collect()
    }

    /// Runs the model; [`Engine::end_profile`] returns the times, because the library writes them at the end.
    fn profile(&mut self, inputs: &[Value]) -> Result<(Vec<Value>, Vec<Operator>)> {
        if let ProfiledRuns::On { n_runs, first } = &mut self.times {
            first.get_or_insert(*n_runs);
        }
        Ok((self.run(inputs)?, Vec::new()))
    }

    fn end_profile(&mut self) -> Result<Vec<Operator>> {
        match std::mem::replace(&mut self.times, ProfiledRuns::Off) {
            ProfiledRuns::On { first: Some(first), .. } => profile::read(&mut self.session, first),
            _ => Ok(Vec::new()),
        }
    }
}

fn builder(options: &Options, provider: &Provider) -> Result<SessionBuilder> {
    let runtime = runtime()?;
    // The library takes 0 as its own default.
    let threads = options.threads;
    let builder = Session::builder(&runtime.environment).map_err(|error| failed(&error))?;
    let builder = builder.with_intra_threads(threads).map_err(|error| failed(&error.into()))?;
    let builder = builder.with_inter_threads(1).map_err(|error| failed(&error.into()))?;
    let mut session = provider::Session(builder);
    provider.register(&mut session)?;
    Ok(session.0)
}

fn commit(mut builder: SessionBuilder, model: &Model) -> Result<Session> {
    builder.commit_from_memory(&model.to_bytes()?).map_err(|error| {
        Error::unsupported(format!("onnxruntime does not take the model: {}", first_line(&error.to_string())))
    })
}

/// Returns the elements of a boolean tensor, in the library's type.
fn flags(value: &Value) -> Vec<bool> {
    if value.dtype() == DType::Bool { value.bytes().iter().map(|byte| *byte != 0).collect() } else { Vec::new() }
}

fn input_value<'v>(value: &'v Value, flags: &'v [bool]) -> Result<SessionInputValue<'v>> {
    fn of<'v, T: Element + PrimitiveTensorElementType + std::fmt::Debug + Clone + 'static>(
        value: &'v Value,
    ) -> Result<SessionInputValue<'v>> {
        tensor(value.shape(), value.as_slice::<T>()?)
    }
    fn tensor<'v, T: PrimitiveTensorElementType + std::fmt::Debug + Clone + 'static>(
        shape: &[usize],
        values: &'v [T],
    ) -> Result<SessionInputValue<'v>> {
        let made = TensorRef::from_array_view((shape.to_vec(), values));
        made.map(Into::into).map_err(|error| failed(&error))
    }
    match value.dtype() {
        DType::F32 => of::<f32>(value),
        DType::F64 => of::<f64>(value),
        DType::F16 => of::<f16>(value),
        DType::BF16 => of::<bf16>(value),
        DType::I8 => of::<i8>(value),
        DType::I16 => of::<i16>(value),
        DType::I32 => of::<i32>(value),
        DType::I64 => of::<i64>(value),
        DType::U8 => of::<u8>(value),
        DType::U16 => of::<u16>(value),
        DType::U32 => of::<u32>(value),
        DType::U64 => of::<u64>(value),
        DType::Bool => tensor(value.shape(), flags),
        DType::I24 => Err(Error::unsupported("ONNX has no 24-bit integers")),
    }
}

fn output_value(value: &DynValue) -> Result<Value> {
    fn of<T: Element + PrimitiveTensorElementType>(value: &DynValue) -> Option<Result<Value>> {
        let (shape, values) = value.try_extract_tensor::<T>().ok()?;
        Some(axes(shape).and_then(|shape| Value::from_slice(values, &shape)))
    }
    fn flags(value: &DynValue) -> Option<Result<Value>> {
        let (shape, values) = value.try_extract_tensor::<bool>().ok()?;
        let bytes: Vec<u8> = values.iter().map(|flag| u8::from(*flag)).collect();
        Some(axes(shape).and_then(|shape| Value::from_bytes(DType::Bool, &shape, &bytes)))
    }
    fn axes(shape: &[i64]) -> Result<Vec<usize>> {
        let axis = |&axis: &i64| usize::try_from(axis).map_err(|_| Error::device(format!("bad axis {axis}")));
        shape.iter().map(axis).collect()
    }
    type Extract = fn(&DynValue) -> Option<Result<Value>>;
    let tries: [Extract; 13] = [
        of::<f32>, of::<i64>, of::<f16>, of::<f64>, of::<bf16>, of::<i32>, of::<i8>, of::<u8>, of::<i16>, of::<u16>,
        of::<u32>, of::<u64>, flags,
    ];
    let found = tries.into_iter().find_map(|extract| extract(value));
    found.unwrap_or_else(|| Err(Error::unsupported(format!("onnxruntime gives {:?}", value.dtype()))))
}

/// Returns the error of a run. An index out of range is an invalid argument of the node that looks it up.
fn failed_run(error: &ort::Error) -> Error {
    match error.code() {
        ErrorCode::InvalidArgument => Error::invalid(format!("onnxruntime: {}", first_line(&error.to_string()))),
        _ => failed(error),
    }
}

fn failed(error: &ort::Error) -> Error {
    Error::new(ErrorKind::Device, format!("onnxruntime: {}", first_line(&error.to_string())))
}

fn first_line(text: &str) -> &str {
    text.lines().next().unwrap_or("it failed without a word")
}
