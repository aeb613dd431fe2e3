//! The weights of a model by name: in one file or in shards, plain or packed. Plain ones stay in their files.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use melisma_kernels::language::weight::Weight;
use melisma_kernels::layer::step::Rounding;
use melisma_kernels::memory::mapped::InPlace;

use super::source::{BUILTIN, Source};
use crate::format::safetensors::Header;
use crate::pack::{self, Archive, Index, ReadAt, TensorEntry};
use crate::runtime::device::host_threads;
use crate::runtime::memory::{Reservation, Space};
use crate::{Budget, DType, Device, Error, Remedy, Result};

const FILES: [&str; 2] = ["model.safetensors", "model.packed.safetensors"];
const INDICES: [&str; 2] = ["model.safetensors.index.json", "model.packed.safetensors.index.json"];

/// The files of a model, opened.
pub(super) struct Files(Vec<(PathBuf, Contents)>);

/// What a file has.
enum Contents {
    File(File),
    /// A packed file that is part of this library.
    Memory(&'static [u8]),
}

impl Files {
    /// Opens the weights of a model.
    pub(super) fn open(source: &Source<'_>) -> Result<Self> {
        match source {
            Source::Folder(folder) => Self::of_folder(folder),
            Source::Builtin(builtin) => {
                let shard = |bytes: &&'static [u8]| (PathBuf::from(BUILTIN), Contents::Memory(bytes));
                Ok(Self(builtin.shards.iter().map(shard).collect()))
            }
        }
    }

    fn of_folder(folder: &Path) -> Result<Self> {
        if let Some(path) = FILES.iter().map(|name| folder.join(name)).find(|path| path.is_file()) {
            let file = pack::open(&path)?;
            return Ok(Self(vec![(path, Contents::File(file))]));
        }
        let index = match INDICES.iter().map(|name| folder.join(name)).find(|path| path.is_file()) {
            Some(path) => Some(path),
            None => pack::only_index(folder)?,
        };
        if let Some(path) = index {
            let Index { shards, .. } = Index::open(&path)?;
            let shard = |(name, file)| (path.with_file_name(name), Contents::File(file));
            return Ok(Self(shards.into_iter().map(shard).collect()));
        }
        if let Some(path) = pack::only_weights(folder)? {
            let file = pack::open(&path)?;
            return Ok(Self(vec![(path, Contents::File(file))]));
        }
        Err(Error::invalid(format!("{}: no model.safetensors in this folder", folder.display()))
            .with_hint("a model is a folder with config.json and model.safetensors, or its shards and their index"))
    }
}

/// Gives out weights, and remembers which.
pub(super) struct Weights<'a> {
    shards: Vec<Shard<'a>>,
    budget: Budget,
    threads: usize,
    /// How a GPU may round matrices; `None` on the CPU, which takes any.
    gpu: Option<Rounding>,
    taken: RefCell<BTreeSet<String>>,
}

enum Shard<'a> {
    Plain {
        path: &'a Path,
        map: Arc<InPlace>,
        header: Header,
    },
    Packed {
        path: &'a Path,
        archive: Archive<'a>,
    },
    /// A packed file of this library, decoded as a whole: it has many tensors of a tile each.
    Decoded {
        path: &'a Path,
        bytes: Vec<u8>,
        header: Header,
        _memory: Reservation,
    },
}

impl Shard<'_> {
    fn path(&self) -> &Path {
        match self {
            Self::Plain { path, .. } | Self::Packed { path, .. } | Self::Decoded { path, .. } => path,
        }
    }

    fn header(&self) -> &Header {
        match self {
            Self::Plain { header, .. } | Self::Decoded { header, .. } => header,
            Self::Packed { archive, .. } => archive.source(),
        }
    }
}

impl<'a> Weights<'a> {
    /// Reads the headers of `files` for `device`, which may round matrices by `rounding` if it is a GPU. Packed weights
    /// are decoded into `budget`.
    pub(super) fn new(files: &'a Files, (device, rounding): (&Device, Rounding), budget: &Budget) -> Result<Self> {
        let threads = host_threads(device);
        let decoded = |path: &'a Path, packed: &'static [u8]| {
            let archive = Archive::open(&packed, budget)?;
            let memory = budget.reserve(Space::Host, archive.source_len())?;
            let mut bytes = Vec::new();
            archive.unpack(&mut bytes, threads, &|_| ())?;
            let header = Header::read(&&bytes[..])?;
            Ok(Shard::Decoded { path, bytes, header, _memory: memory })
        };
        let packed = |path: &'a Path, file: &'a dyn ReadAt| {
            let archive = Archive::open(file, budget)?;
            if archive.is_delta() {
                return Err(Error::unsupported("a delta is not a whole model").with_hint(Remedy::Unpack));
            }
            archive.check_hash()?;
            Ok(Shard::Packed { path, archive })
        };
        let shard = |(path, contents): &'a (PathBuf, Contents)| {
            let open = || {
                let file = match contents {
                    Contents::Memory(bytes) => return decoded(path, bytes),
                    Contents::File(file) if pack::is_packed(file)? => return packed(path, file),
                    Contents::File(file) => file,
                };
                let map = InPlace::new(file).map_err(|error| Error::io("mapping", error))?;
                Ok(Shard::Plain { path, map: Arc::new(map), header: Header::read(file)? })
            };
            open().map_err(|error: Error| error.at(path.display()))
        };
        let shards = files.0.iter().map(shard).collect::<Result<_>>()?;
        let gpu = matches!(device, Device::Cuda(_)).then_some(rounding);
        Ok(Self { shards, budget: budget.clone(), threads, gpu, taken: RefCell::default() })
    }

    /// Returns the matrix `name`.
    pub(super) fn matrix(&self, name: &str, shape: [usize; 2]) -> Result<Weight> {
        let weight = self.take(name, &shape, shape)?;
        match self.gpu {
            None => Ok(weight),
            Some(Rounding::Bf16) => Ok(weight.rounded()),
            Some(_) if weight.dtype() == DType::BF16 => Ok(weight),
            Some(_) => {
                let found = weight.dtype().name();
                Err(Error::unsupported(format!("{name}: {found} weights; a GPU computes language models in bf16"))
                    .with_hint(Remedy::use_precision(&["bf16"]))
                    .or_hint(Remedy::use_device(&["cpu"])))
            }
        }
    }

    /// Returns the vector `name` as a matrix of one row.
    pub(super) fn vector(&self, name: &str, len: usize) -> Result<Weight> {
        self.take(name, &[len], [1, len])
    }

    fn take(&self, name: &str, stored: &[usize], shape: [usize; 2]) -> Result<Weight> {
        let found = self.shards.iter().find_map(|shard| Some((shard, shard.header().get(name)?)));
        let (shard, entry) = found.ok_or_else(|| {
            Error::corrupt(format!("{name}: this tensor is missing"))
                .with_hint("the weights and config.json must be of the same model")
        })?;
        self.taken.borrow_mut().insert(name.to_owned());
        let read = || {
            let dtype = check(entry, stored)?;
            match shard {
                Shard::Plain { map, header, .. } => {
                    let at = usize::try_from(header.len + entry.bytes[0]).unwrap_or(usize::MAX);
                    Weight::mapped(map, at, (dtype, shape), &self.budget)
                }
                Shard::Decoded { bytes, header, .. } => {
                    let at = |place: u64| usize::try_from(header.len + place).unwrap_or(usize::MAX);
                    let range = at(entry.bytes[0])..at(entry.bytes[1]);
                    let bytes = bytes.get(range).ok_or_else(|| Error::truncated("the file ends within this tensor"))?;
                    Weight::copied(bytes, (dtype, shape), &self.budget)
                }
                Shard::Packed { archive, .. } => {
                    let mut bytes = Vec::new();
                    archive.unpack_tensor(name, &mut bytes, self.threads)?;
                    Weight::copied(&bytes, (dtype, shape), &self.budget)
                }
            }
        };
        read().map_err(|error: Error| error.at(name).at(shard.path().display()))
    }

    /// Refuses tensors that nothing asked for, except those of `spare` names.
    pub(super) fn check_all_taken(&self, spare: impl Fn(&str) -> bool) -> Result<()> {
        let taken = self.taken.borrow();
        for shard in &self.shards {
            let mut names = shard.header().tensors.iter().map(|tensor| tensor.name.as_str());
            if let Some(name) = names.find(|name| !taken.contains(*name) && !spare(name)) {
                return Err(Error::unsupported(format!("{name}: a model of this configuration has no such tensor"))
                    .with_hint("the weights and config.json must be of the same model")
                    .at(shard.path().display()));
            }
        }
        Ok(())
    }
}

fn check(entry: &TensorEntry, shape: &[usize]) -> Result<DType> {
    if !entry.shape.iter().copied().eq(shape.iter().map(|&extent| extent as u64)) {
        let message = format!("expected the shape {shape:?}, the file has {:?}", entry.shape);
        return Err(Error::corrupt(message).with_hint("the weights and config.json must be of the same model"));
    }
    let unsupported = || Error::unsupported(format!("unsupported element type {}", entry.dtype));
    let dtype = DType::from_safetensors(&entry.dtype).ok_or_else(unsupported)?;
    let len = shape.iter().try_fold(dtype.size(), |len, &extent| len.checked_mul(extent));
    if len.map(|len| len as u64) != Some(entry.len()) {
        return Err(Error::corrupt(format!("{} bytes are not {shape:?} of {}", entry.len(), entry.dtype)));
    }
    Ok(dtype)
}
