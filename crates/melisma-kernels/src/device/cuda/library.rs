//! Searches the CUDA libraries in `MELISMA_CUDA_PATH`, then the loader's path, then the active
//! Python's packages.
//!
//! # Why are they loaded at run time?
//!
//! The same binary runs with and without CUDA and builds on machines without it, so CUDA code is
//! always compiled and never rots behind a feature: without one, `absent` stands in for the bindings
//! only. The libraries are probed before the bindings are touched, because the bindings panic when
//! one is missing.

use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use libloading::os::unix::{Library as Loaded, RTLD_GLOBAL, RTLD_NOW};

use crate::{Error, Remedy, Result};

/// Whether this build has the bindings.
const IS_BUILT: bool = cfg!(any(feature = "cuda-12", feature = "cuda-13"));
/// The major CUDA version of this build.
const MAJOR: &str = if cfg!(feature = "cuda-12") { "12" } else { "13" };

/// The libraries we use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Library {
    Driver,
    Nvrtc,
    CublasLt,
    Nvtx,
    Nvml,
}

impl Library {
    pub(crate) const ALL: [Self; 5] = [Self::Driver, Self::Nvrtc, Self::CublasLt, Self::Nvtx, Self::Nvml];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Driver => "driver",
            Self::Nvrtc => "nvrtc",
            Self::CublasLt => "cublaslt",
            Self::Nvtx => "nvtx",
            Self::Nvml => "nvml",
        }
    }

    fn file_names(self) -> Vec<String> {
        match self {
            Self::Driver => vec!["libcuda.so.1".into(), "libcuda.so".into()],
            Self::Nvrtc => vec![format!("libnvrtc.so.{MAJOR}")],
            Self::CublasLt => vec![format!("libcublasLt.so.{MAJOR}")],
            Self::Nvtx => vec!["libnvtx3interop.so.1".into(), "libnvToolsExt.so.1".into()],
            Self::Nvml => vec!["libnvidia-ml.so.1".into()],
        }
    }

    /// Returns the libraries that it opens by bare name, and that must be loaded first.
    fn companions(self, directory: &Path) -> Vec<PathBuf> {
        let prefix = match self {
            Self::Nvrtc => "libnvrtc-builtins.so",
            Self::CublasLt => "libnvJitLink.so",
            Self::Driver | Self::Nvtx | Self::Nvml => return Vec::new(),
        };
        let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
        entries.map(|entry| entry.path()).filter(|path| file_name(path).starts_with(prefix)).collect()
    }
}

/// A loaded library and where it was found: a path, or a name that the loader resolved.
#[derive(Debug)]
pub(crate) struct Found {
    pub(crate) place: String,
    pub(crate) library: Loaded,
}

/// Loads the library once. Afterwards the bindings of `cudarc` find it too, because the loader
/// knows its name.
///
/// # Errors
/// The library is not found anywhere, or this build has no CUDA.
pub(crate) fn require(library: Library) -> Result<&'static Found> {
    if !IS_BUILT {
        return Err(Error::device("this build has no CUDA")
            .with_hint("build with the feature cuda-13")
            .or_hint(Remedy::use_device(&["cpu"])));
    }
    static FOUND: [OnceLock<Option<Found>>; 5] = [const { OnceLock::new() }; 5];
    FOUND[library as usize].get_or_init(|| search(library)).as_ref().ok_or_else(|| absent(library))
}

fn absent(library: Library) -> Error {
    let names = library.file_names().join(" or ");
    let absent = Error::device(format!("CUDA's {} library was not found ({names})", library.name()));
    match library {
        Library::Driver => absent.with_hint("install an NVIDIA driver").or_hint(Remedy::use_device(&["cpu"])),
        _ => absent.with_hint("set MELISMA_CUDA_PATH to the folder of a CUDA toolkit"),
    }
}

fn search(library: Library) -> Option<Found> {
    let toolkit = std::env::var_os("MELISMA_CUDA_PATH").map(PathBuf::from).map(toolkit_directories);
    from_directories(library, toolkit.into_iter().flatten())
        .or_else(|| library.file_names().into_iter().find_map(|name| open(Path::new(&name))))
        .or_else(|| from_directories(library, python_directories().into_iter()))
}

fn from_directories(library: Library, directories: impl Iterator<Item = PathBuf>) -> Option<Found> {
    let names = library.file_names();
    directories.into_iter().find_map(|directory| {
        let path = names.iter().map(|name| directory.join(name)).find(|path| path.is_file())?;
        for companion in library.companions(&directory) {
            // If the companion is missing, the library itself reports it.
            let _ = open(&companion).map(std::mem::forget);
        }
        open(&path)
    })
}

fn open(path: &Path) -> Option<Found> {
    // SAFETY: loading a library runs its initialisers; they are NVIDIA's, or those of a replacement
    // the user installed.
    let library = unsafe { Loaded::open(Some(path), RTLD_NOW | RTLD_GLOBAL) }.ok()?;
    Some(Found { place: path.display().to_string(), library })
}

fn toolkit_directories(root: PathBuf) -> Vec<PathBuf> {
    ["", "lib64", "lib", "targets/x86_64-linux/lib", "targets/aarch64-linux/lib"].map(|part| root.join(part)).to_vec()
}

/// Returns `nvidia/*/lib` of the packages visible to the first `python3` on the path.
fn python_directories() -> Vec<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let Some(python) = std::env::split_paths(&path).map(|entry| entry.join("python3")).find(|python| python.is_file())
    else {
        return Vec::new();
    };
    let homes = [Some(python.clone()), python.canonicalize().ok()];
    let prefixes = homes.iter().flatten().filter_map(|python| python.parent()?.parent());
    let mut directories = Vec::new();
    for packages in prefixes.flat_map(|prefix| matching(&prefix.join("lib"), "python3")) {
        for kind in ["site-packages", "dist-packages"] {
            let vendors = matching(&packages.join(kind).join("nvidia"), "");
            directories.extend(vendors.into_iter().map(|vendor| vendor.join("lib")).filter(|lib| lib.is_dir()));
        }
    }
    directories
}

fn matching(directory: &Path, prefix: &str) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
    let mut paths: Vec<PathBuf> =
        entries.map(|entry| entry.path()).filter(|path| file_name(path).starts_with(prefix)).collect();
    paths.sort();
    paths
}

fn file_name(path: &Path) -> &str {
    path.file_name().and_then(|name| name.to_str()).unwrap_or_default()
}
