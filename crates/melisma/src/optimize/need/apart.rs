//! An engine in a process of its own, which the system gives no more memory than it may take.

use std::path::{Path, PathBuf};

use super::Hidden;
use super::admit::whole_mebibytes;
use crate::optimize::cache;
use crate::optimize::engine::{Engine, Port, check_inputs};
use crate::optimize::onnx::Model;
use crate::optimize::search::{Candidate, Done, NAMES, Spec, Surroundings, Task, Worker, read_files, write_files};
use crate::optimize::value::Value;
use crate::runtime::size;
use crate::{Error, Kind, Result};

/// A model whose memory depends on data.
#[derive(Debug)]
pub struct Apart {
    /// The model's file.
    pub path: PathBuf,
    /// How it is run.
    pub candidate: Candidate,
    /// What starts the process.
    pub worker: Worker,
    /// The most bytes that the process may take.
    pub most_bytes: Option<u64>,
    surroundings: Surroundings,
    hidden: Vec<Hidden>,
    inputs: Vec<Port>,
    outputs: Vec<Port>,
}

/// Files of one run, gone when dropped.
struct Folder(PathBuf);

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

impl Apart {
    /// The model at `path`, which was read as `model`; `hidden` are the nodes whose size is not known.
    ///
    /// # Errors
    /// `Unsupported` for an input or output that is not a tensor of numbers.
    pub fn new(
        path: &Path,
        model: &Model,
        (candidate, worker): (Candidate, Worker),
        hidden: Vec<Hidden>,
    ) -> Result<Self> {
        let (inputs, outputs) = (Port::inputs(model)?, Port::outputs(model)?);
        let (path, surroundings) = (path.to_owned(), Surroundings::cpu());
        Ok(Self { path, candidate, worker, most_bytes: None, surroundings, hidden, inputs, outputs })
    }

    /// With a limit.
    #[must_use]
    pub fn within(mut self, most_bytes: Option<u64>) -> Self {
        self.most_bytes = most_bytes;
        self
    }

    /// With what the engine is told beside the candidate.
    #[must_use]
    pub fn with(mut self, surroundings: Surroundings) -> Self {
        self.surroundings = surroundings;
        self
    }

    fn go(&self, inputs: &[Value]) -> Result<Vec<Value>> {
        let folder = Folder(cache::temporary()?);
        let given = write_files(inputs, &folder.0, 0)?;
        let outputs = folder.0.join("outputs");
        std::fs::create_dir_all(&outputs).map_err(|error| Error::io(outputs.display(), error))?;
        let spec = Spec {
            model: self.path.clone(),
            candidate: self.candidate.clone(),
            surroundings: self.surroundings.clone(),
            inputs: vec![given],
            outputs,
            seconds: 0.0,
            most_runs: 1,
            most_bytes: self.most_bytes,
            task: Task::Measure,
        };
        match self.worker.measure(&spec) {
            Ok(Done { outputs, .. }) => match outputs.first() {
                Some(set) => read_files(set),
                None => Err(Error::new(Kind::Device, "the worker gave no outputs")),
            },
            Err(error) if error.kind() == Kind::Memory => Err(self.named(&error, &spec)),
            Err(error) => Err(error),
        }
    }

    /// Runs once more, with every node written down that ends: the one that is missing took the memory.
    fn named(&self, error: &Error, spec: &Spec) -> Error {
        let said = match self.worker.measure(&Spec { task: Task::Trace, ..spec.clone() }) {
            Err(_) => std::fs::read_to_string(spec.outputs.join("stdout")).unwrap_or_default(),
            Ok(_) => String::new(),
        };
        let ended = |hidden: &&Hidden| said.lines().any(|line| line.ends_with(&format!(" ({})", hidden.name)));
        let node = self.hidden.iter().find(|hidden| !ended(hidden)).or(self.hidden.first());
        let node = node.map_or_else(|| "the model".to_owned(), |hidden| hidden.label.clone());
        let limit = self.most_bytes.map_or_else(String::new, |most| format!(", the limit is {}", size::show(most)));
        let hint = match self.most_bytes {
            Some(most) => format!(
                "its size depends on the values of the inputs: use other ones, or try --memory-limit {}",
                whole_mebibytes(most.saturating_mul(2))
            ),
            None => "its size depends on the values of the inputs: use other ones".to_owned(),
        };
        Error::new(Kind::Memory, format!("{node}: {error}{limit}")).with_hint(hint)
    }
}

impl Engine for Apart {
    fn name(&self) -> &'static str {
        NAMES.into_iter().find(|name| *name == self.candidate.engine).unwrap_or("unknown")
    }

    fn inputs(&self) -> &[Port] {
        &self.inputs
    }

    fn outputs(&self) -> &[Port] {
        &self.outputs
    }

    fn run(&mut self, inputs: &[Value]) -> Result<Vec<Value>> {
        check_inputs(&self.inputs, inputs)?;
        self.go(inputs)
    }
}
