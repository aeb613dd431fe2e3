//! Locates the library: `MELISMA_ONNXRUNTIME`, then the usual folders, then the Python wheel. No
//! program is run to find it.

use std::env::{split_paths, var_os};
use std::panic::catch_unwind;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use crate::{Error, ErrorKind, Result};

/// The loaded library.
#[derive(Debug)]
pub struct Runtime {
    /// The path of its file.
    pub path: PathBuf,
    /// Its version.
    pub version: String,
    pub(super) environment: ort::environment::Environment,
}

/// Loads the library once.
///
/// # Errors
/// [`ErrorKind::Device`] if it is missing or incompatible with this build; the message names its path.
pub fn runtime() -> Result<&'static Runtime> {
    static LOADED: OnceLock<std::result::Result<Runtime, (String, &'static str)>> = OnceLock::new();
    let loaded = LOADED.get_or_init(|| match find() {
        Ok(path) => load(&path)
            .map_err(|reason| (reason, "set MELISMA_ONNXRUNTIME to a libonnxruntime.so of version 1.17 or later")),
        Err(error) => Err((error.to_string(), how_to_get())),
    });
    loaded.as_ref().map_err(|(reason, hint)| Error::new(ErrorKind::Device, reason.clone()).with_hint(*hint))
}

/// Returns how to get the library where it was not found: it may be installed already if
/// `MELISMA_ONNXRUNTIME` points elsewhere.
pub fn how_to_get() -> &'static str {
    match is_named() {
        true => "set MELISMA_ONNXRUNTIME to a libonnxruntime.so of version 1.17 or later, or unset it",
        false => {
            "pip install onnxruntime (onnxruntime-gpu for CUDA and TensorRT), or set MELISMA_ONNXRUNTIME to its library"
        }
    }
}

/// Returns how to get the provider `name`, `cuda` or `tensorrt`, where it does not work.
pub(crate) fn how_to_get_provider(name: &str) -> &'static str {
    how_to_get_provider_of(find_provider(name).is_ok(), is_named())
}

pub(super) fn how_to_get_provider_of(is_there: bool, is_named: bool) -> &'static str {
    match (is_there, is_named) {
        (true, _) => {
            "ONNX Runtime's GPU build is there: install the CUDA, cuDNN or TensorRT that it needs, or put their folders \
             into LD_LIBRARY_PATH"
        }
        (false, true) => "set MELISMA_ONNXRUNTIME to the library of ONNX Runtime's GPU build, or unset it",
        (false, false) => "pip install onnxruntime-gpu, or set MELISMA_ONNXRUNTIME to its library",
    }
}

/// Returns whether `MELISMA_ONNXRUNTIME` says where the library is.
fn is_named() -> bool {
    var_os("MELISMA_ONNXRUNTIME").is_some_and(|value| !value.is_empty())
}

/// Finds the file of the library.
///
/// # Errors
/// It is not found, or `MELISMA_ONNXRUNTIME` points to the wrong place.
pub fn find() -> Result<PathBuf> {
    let named = var_os("MELISMA_ONNXRUNTIME").filter(|value| !value.is_empty()).map(PathBuf::from);
    find_in(named, usual_folders())
}

pub(super) fn find_in(named: Option<PathBuf>, folders: impl IntoIterator<Item = PathBuf>) -> Result<PathBuf> {
    if let Some(named) = named {
        let found = if named.is_dir() { in_folder(&named) } else { Some(named.clone()).filter(|path| path.is_file()) };
        return found.ok_or_else(|| {
            let message = format!("MELISMA_ONNXRUNTIME: no library at {}", named.display());
            Error::new(ErrorKind::Device, message)
        });
    }
    let found = folders.into_iter().find_map(|folder| in_folder(&folder));
    found.ok_or_else(|| Error::new(ErrorKind::Device, "onnxruntime: its library was not found"))
}

/// Finds the library of a provider, `cuda` or `tensorrt`, next to the runtime's own.
///
/// # Errors
/// The runtime is not found, or was built without that provider.
pub fn find_provider(name: &str) -> Result<PathBuf> {
    let runtime = find()?;
    let path = runtime.with_file_name(format!("libonnxruntime_providers_{name}.so"));
    if path.is_file() {
        return Ok(path);
    }
    let message = format!("{}: built without the provider {name}", runtime.display());
    Err(Error::new(ErrorKind::Device, message).with_hint(how_to_get_provider_of(false, is_named())))
}

/// Finds TensorRT's library by its name, without loading it.
///
/// # Errors
/// It is not found.
pub fn find_tensorrt() -> Result<PathBuf> {
    let runtime = find().ok();
    let beside = runtime.iter().filter_map(|path| path.parent()).map(Path::to_owned);
    // The wheel `tensorrt` is among the Python packages, next to the runtime's.
    let packages = runtime.iter().filter_map(|path| path.ancestors().nth(3)).map(|folder| folder.join("tensorrt_libs"));
    let folders = beside.chain(packages).chain(usual_folders()).collect::<Vec<_>>();
    find_tensorrt_in(&folders).ok_or_else(|| {
        Error::new(ErrorKind::Device, "TensorRT: libnvinfer.so was not found")
            .with_hint("install TensorRT, or put its folder into LD_LIBRARY_PATH")
    })
}

pub(super) fn find_tensorrt_in(folders: &[PathBuf]) -> Option<PathBuf> {
    folders.iter().find_map(|folder| beginning(folder, "libnvinfer.so").into_iter().rfind(|path| path.is_file()))
}

/// Returns the version in the name of TensorRT's library, after resolving links. Engines depend on
/// it.
pub fn tensorrt_version() -> Option<String> {
    find_tensorrt().ok().map(|path| tensorrt_version_of(&path))
}

pub(super) fn tensorrt_version_of(path: &Path) -> String {
    let real = path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let of = |path: &Path| {
        let name = path.file_name()?.to_str()?;
        name.split_once(".so.").map(|(_, version)| version.to_owned())
    };
    of(&real).or_else(|| of(path)).unwrap_or_else(|| "unknown".to_owned())
}

pub(super) fn load(path: &Path) -> std::result::Result<Runtime, String> {
    let place = path.display();
    // The bindings assert properties that other builds of the library may lack.
    let loaded = catch_unwind(|| {
        let environment = ort::init_from(path).map_err(|error| error.to_string())?;
        let environment = environment.with_name("melisma").with_telemetry(false).build();
        environment.map(|environment| (environment, ort::info().to_owned())).map_err(|error| error.to_string())
    });
    match loaded {
        Ok(Ok((environment, info))) => {
            Ok(Runtime { path: path.to_owned(), version: version(path, &info), environment })
        }
        Ok(Err(reason)) => Err(format!("{place}: {}", super::first_line(&reason))),
        Err(_) => Err(format!("{place}: this is not a library of ONNX Runtime")),
    }
}

/// Returns the version in the file's name, else the branch in the build description, with the
/// commit.
fn version(path: &Path, info: &str) -> String {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let of_name = name.split_once(".so.").map(|(_, version)| version.to_owned());
    let word = |key: &str| {
        let (_, rest) = info.split_once(key)?;
        Some(rest.split([',', ' ']).next()?.to_owned())
    };
    let version = of_name.or_else(|| word("git-branch=")).unwrap_or_else(|| "unknown".to_owned());
    match word("git-commit-id=") {
        Some(commit) => format!("{version} ({commit})"),
        None => version,
    }
}

fn usual_folders() -> Vec<PathBuf> {
    let mut folders: Vec<PathBuf> = var_os("LD_LIBRARY_PATH").iter().flat_map(split_paths).collect();
    let system = ["/usr/local/lib", "/usr/lib", "/usr/lib64", "/opt/onnxruntime/lib"];
    folders.extend(system.map(PathBuf::from));
    folders.push(format!("/usr/lib/{}-linux-gnu", std::env::consts::ARCH).into());
    folders.extend(packages().into_iter().map(|packages| packages.join("onnxruntime/capi")));
    folders
}

/// Returns the package folders of the active Python: from `MELISMA_PYTHON`, the virtual
/// environment, `python3` in the path, and the user.
fn packages() -> Vec<PathBuf> {
    let variable = |name: &str| var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let in_path = var_os("PATH")
        .and_then(|path| split_paths(&path).map(|folder| folder.join("python3")).find(|python| python.is_file()));
    let mut prefixes = Vec::new();
    for python in [variable("MELISMA_PYTHON"), in_path].into_iter().flatten() {
        for python in [Some(python.clone()), python.canonicalize().ok()].into_iter().flatten() {
            prefixes.extend(python.parent().and_then(Path::parent).map(Path::to_owned));
        }
    }
    prefixes.splice(0..0, variable("VIRTUAL_ENV").filter(|_| variable("MELISMA_PYTHON").is_none()));
    prefixes.extend(variable("HOME").map(|home| home.join(".local")));
    let mut packages = Vec::new();
    for lib in prefixes.iter().flat_map(|prefix| beginning(&prefix.join("lib"), "python3")) {
        packages.extend(["site-packages", "dist-packages"].map(|kind| lib.join(kind)));
    }
    packages
}

fn in_folder(folder: &Path) -> Option<PathBuf> {
    beginning(folder, "libonnxruntime.so").into_iter().rfind(|path| path.is_file())
}

fn beginning(folder: &Path, prefix: &str) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let names = entries.filter(|entry| entry.file_name().to_string_lossy().starts_with(prefix));
    let mut paths: Vec<PathBuf> = names.map(|entry| entry.path()).collect();
    paths.sort();
    paths
}
