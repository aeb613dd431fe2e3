//! Compiled kernels cached on disk, keyed by their inputs. A damaged entry is compiled again, and
//! an unusable folder is ignored: the cache can only make things faster.
//!
//! An entry is `magic (8) | BLAKE3 of the code (32) | code`.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use super::nvrtc::{self, OPTIONS};
use super::source::Source;
use crate::Result;

const MAGIC: [u8; 8] = *b"MELKRN01";

/// A summary of the cache of compiled kernels.
#[derive(Debug, Clone)]
pub struct CacheReport {
    /// Its folder, if one is known.
    pub path: Option<PathBuf>,
    /// The number of entries.
    pub entries: u64,
    /// Their total bytes.
    pub bytes: u64,
}

/// Reads the summary of the cache of compiled kernels.
pub fn report() -> CacheReport {
    let path = directory();
    let files = path.iter().flat_map(std::fs::read_dir).flatten().flatten();
    let sizes: Vec<u64> = files.filter_map(|file| Some(file.metadata().ok()?.len())).collect();
    CacheReport { path, entries: sizes.len() as u64, bytes: sizes.iter().sum() }
}

/// A compiled kernel on disk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CachedKernel {
    /// The file's name.
    pub name: String,
    /// Its bytes.
    pub bytes: u64,
    /// Whether its content is intact; a damaged entry is compiled again when it is needed.
    pub is_whole: bool,
}

/// Returns the cached kernels by name, each read and checked.
pub fn cached() -> Vec<CachedKernel> {
    let entries = directory().into_iter().flat_map(std::fs::read_dir).flatten().flatten();
    let mut kernels: Vec<CachedKernel> = entries
        .filter_map(|entry| {
            let (name, bytes) = (entry.file_name().to_string_lossy().into_owned(), entry.metadata().ok()?.len());
            Some(CachedKernel { name, bytes, is_whole: read(&entry.path()).is_some() })
        })
        .collect();
    kernels.sort_by(|a, b| a.name.cmp(&b.name));
    kernels
}

/// Removes the cached kernels. Returns their number and total bytes.
///
/// # Errors
/// The system refuses.
pub fn clear_cache() -> std::io::Result<(usize, u64)> {
    let Some(directory) = directory().filter(|directory| directory.is_dir()) else { return Ok((0, 0)) };
    let mut gone = (0, 0);
    for kernel in cached() {
        std::fs::remove_file(directory.join(&kernel.name))?;
        gone = (gone.0 + 1, gone.1 + kernel.bytes);
    }
    Ok(gone)
}

static ROOT: OnceLock<PathBuf> = OnceLock::new();

/// Puts the cache below `root` instead of the folder from the environment. The first call wins.
pub fn set_directory(root: PathBuf) {
    let _ = ROOT.set(root);
}

/// Returns `kernels` below the root of [`set_directory`], else in `MELISMA_CACHE_DIR`, else in
/// `melisma` in the user's cache folder.
fn directory() -> Option<PathBuf> {
    let variable = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let root = ROOT
        .get()
        .cloned()
        .or_else(|| variable("MELISMA_CACHE_DIR"))
        .or_else(|| variable("XDG_CACHE_HOME").map(|cache| cache.join("melisma")))
        .or_else(|| variable("HOME").map(|home| home.join(".cache/melisma")))?;
    Some(root.join("kernels"))
}

/// The target of machine code.
#[derive(Debug, Clone, Copy)]
pub(super) struct Target<'a> {
    pub(super) device: &'a str,
    pub(super) architecture: u32,
    pub(super) driver_version: i32,
}

/// Returns the machine code of `source`, from the cache or compiled now.
pub(super) fn machine_code(source: Source, target: Target<'_>) -> Result<Vec<u8>> {
    machine_code_in(directory(), source, target)
}

fn machine_code_in(directory: Option<PathBuf>, source: Source, target: Target<'_>) -> Result<Vec<u8>> {
    let path = directory.map(|directory| directory.join(file_name(source, target)));
    if let Some(code) = path.as_deref().and_then(read) {
        return Ok(code);
    }
    let code = nvrtc::compile(source, target.architecture)?;
    if let Some(path) = path
        && let Err(error) = write(&path, &code)
    {
        tracing::warn!("compiled kernels are not cached: {}: {error}", path.display());
    }
    Ok(code)
}

fn file_name(source: Source, target: Target<'_>) -> String {
    let mut key = blake3::Hasher::new();
    // Without a compiler, its version is not part of the key, so entries made elsewhere are not
    // found.
    let compiler = nvrtc::version().unwrap_or_default();
    let Target { device, architecture, driver_version } = target;
    let facts = format!("{device} {architecture} {driver_version} {compiler:?} {OPTIONS:?}");
    for part in [facts.as_str(), source.text].into_iter().chain(source.headers.iter().map(|header| header.text)) {
        key.update(&(part.len() as u64).to_le_bytes()).update(part.as_bytes());
    }
    format!("{}-sm{architecture}-{}.cubin", source.name, &key.finalize().to_hex()[..32])
}

fn read(path: &Path) -> Option<Vec<u8>> {
    let entry = std::fs::read(path).ok()?;
    let code = entry.strip_prefix(&MAGIC)?;
    let (hash, code) = code.split_at_checked(32)?;
    (blake3::hash(code).as_bytes() == hash).then(|| code.to_vec())
}

fn write(path: &Path, code: &[u8]) -> std::io::Result<()> {
    let directory = path.parent().unwrap_or(Path::new("."));
    std::fs::create_dir_all(directory)?;
    let partial = path.with_extension(format!("{}.partial", std::process::id()));
    let mut file = std::fs::File::create(&partial)?;
    file.write_all(&MAGIC)?;
    file.write_all(blake3::hash(code).as_bytes())?;
    file.write_all(code)?;
    file.sync_all()?;
    std::fs::rename(&partial, path)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::cuda::source::Header;

    #[test]
    fn damaged_entries_are_not_used() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("kernels").join("entry.cubin");
        assert_eq!(read(&path), None);
        write(&path, b"machine code").unwrap();
        assert_eq!(read(&path).unwrap(), b"machine code");
        let whole = std::fs::read(&path).unwrap();
        for position in 0..whole.len() {
            let mut damaged = whole.clone();
            damaged[position] ^= 1;
            std::fs::write(&path, damaged).unwrap();
            assert_eq!(read(&path), None, "bit flip at byte {position}");
            std::fs::write(&path, &whole[..position]).unwrap();
            assert_eq!(read(&path), None, "cut at byte {position}");
        }
    }

    #[test]
    fn a_damaged_entry_is_made_again_and_a_bad_folder_is_done_without() {
        let Ok(crate::Device::Cuda(cuda)) = crate::Device::cuda(0) else { return crate::suite::skip("no CUDA") };
        let folder = tempfile::tempdir().unwrap();
        let target = Target { device: cuda.name(), architecture: cuda.architecture(), driver_version: 1 };
        let source = crate::convert::cuda::SOURCE;
        let make = |folder: &Path| machine_code_in(Some(folder.to_owned()), source, target).unwrap();
        let made = make(folder.path());
        let path = folder.path().join(file_name(source, target));
        let entry = std::fs::read(&path).unwrap();
        std::fs::write(&path, &entry[..entry.len() / 2]).unwrap();
        assert_eq!(make(folder.path()).len(), made.len());
        assert_eq!(std::fs::read(&path).unwrap().len(), entry.len());
        assert_eq!(make(&path.join("below a file")).len(), made.len());
    }

    #[test]
    fn the_key_holds_everything_that_matters() {
        let header =
            |text: &'static str| -> &'static [Header] { Box::leak(Box::new([Header { name: "h.cuh", text }])) };
        let source = Source { name: "k", text: "a", headers: header("h") };
        let target = Target { device: "card", architecture: 80, driver_version: 13000 };
        let names = [
            file_name(source, target),
            file_name(source, Target { device: "other card", ..target }),
            file_name(source, Target { architecture: 90, ..target }),
            file_name(source, Target { driver_version: 13010, ..target }),
            file_name(Source { text: "b", ..source }, target),
            file_name(Source { headers: header("i"), ..source }, target),
        ];
        let unique: std::collections::HashSet<_> = names.iter().collect();
        assert_eq!(unique.len(), names.len());
    }
}
