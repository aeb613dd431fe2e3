//! The contents of the cache: listing, eviction and quarantine.

use std::path::{Path, PathBuf};
use std::time::SystemTime;

use super::access::Access;
use super::folder::{BUILDING, Cache, LOCKS, QUARANTINE, USED, uses};
use super::key::Key;
use super::manifest::Manifest;
use crate::Result;
use crate::output::failed;
use crate::runtime::machine::disk_use;

/// Limit on quarantined entries; beyond it, the oldest are removed.
const MAX_SET_ASIDE: usize = 8;

/// An entry in a listing.
#[derive(Debug)]
#[non_exhaustive]
pub struct EntryInfo {
    /// Its key, or the name of a foreign file in the folder.
    pub name: String,
    /// Total size of its files.
    pub bytes: u64,
    /// When it was last used.
    pub used: Option<SystemTime>,
    /// How often it was used.
    pub uses: u64,
    /// Whether it can be used.
    pub health: Health,
}

/// Whether an entry can be used.
#[derive(Debug)]
pub enum Health {
    /// The manifest is valid, and so are the files if they were checked.
    Good(Box<Manifest>),
    /// It is damaged, from another version, or owned by another user.
    Bad(String),
    /// It is in quarantine, for this reason.
    SetAside(String),
}

impl Cache {
    /// Lists all entries, then the quarantined ones, without reading their files.
    pub fn list(&self) -> Vec<EntryInfo> {
        let describe = |folder: &Path, key: &Key| match Manifest::read(folder, key) {
            Ok(manifest) => Health::Good(Box::new(manifest)),
            Err(error) => Health::Bad(error.to_string()),
        };
        self.listed(describe)
    }

    /// Works like [`Cache::list`], but reads and compares every file; damaged entries are quarantined.
    pub fn verify(&self) -> Vec<EntryInfo> {
        let listed = self.listed(|folder, key| match self.check(folder, key) {
            Ok(manifest) => Health::Good(Box::new(manifest)),
            Err(error) => Health::Bad(error.to_string()),
        });
        for entry in &listed {
            if let (Health::Bad(reason), Some(key)) = (&entry.health, Key::parse(&entry.name)) {
                self.set_aside(&key, reason);
            }
        }
        listed
    }

    /// Removes everything except builds in progress. Returns how many entries and bytes were
    /// removed.
    ///
    /// # Errors
    /// The cache is off, or the system denies the removal.
    pub fn clear(&self) -> Result<(usize, u64)> {
        let Some(folder) = self.folder() else { return Ok((0, 0)) };
        let mut gone = (0, 0);
        for name in names(folder) {
            let path = folder.join(&name);
            let is_entry = Key::parse(&name).is_some();
            if is_entry || name == QUARANTINE || (name.starts_with(BUILDING) && self.is_left(&name)) {
                let bytes = disk_use(&path).1;
                std::fs::remove_dir_all(&path).map_err(|error| failed(&path, error))?;
                gone = (gone.0 + usize::from(is_entry), gone.1 + bytes);
            }
        }
        Ok(gone)
    }

    /// Returns the manifests of all entries, and the number of unreadable ones. Files are not
    /// checked.
    #[doc(hidden)]
    pub fn entries(&self) -> (Vec<(Key, Manifest)>, usize) {
        let Some(folder) = self.folder() else { return (Vec::new(), 0) };
        let (mut entries, mut n_bad) = (Vec::new(), 0);
        for key in names(folder).iter().filter_map(|name| Key::parse(name)) {
            match Manifest::read(&folder.join(key.as_str()), &key) {
                Ok(manifest) => entries.push((key, manifest)),
                Err(_) => n_bad += 1,
            }
        }
        (entries, n_bad)
    }

    /// Quarantines an entry, and describes what happened to it.
    pub(super) fn set_aside(&self, key: &Key, reason: &str) -> String {
        let Some(folder) = self.folder() else { return reason.to_owned() };
        if let Access::ReadOnly(..) = self.access {
            return format!("the entry cannot be used: {reason}; it stays where it is");
        }
        let quarantine = folder.join(QUARANTINE);
        let moved = std::fs::create_dir_all(&quarantine).and_then(|()| {
            let number = names(&quarantine).len();
            let free = (number..).map(|n| quarantine.join(format!("{}.{n}", key.as_str()))).find(|path| !path.exists());
            let aside = free.unwrap_or_else(|| quarantine.join(key.as_str()));
            std::fs::rename(folder.join(key.as_str()), &aside)?;
            std::fs::write(reason_of(&aside), reason)
        });
        let mut aside: Vec<PathBuf> =
            names(&quarantine).iter().map(|name| quarantine.join(name)).filter(|path| path.is_dir()).collect();
        aside.sort_by_key(|path| set_aside_at(path));
        for old in aside.iter().take(aside.len().saturating_sub(MAX_SET_ASIDE)) {
            let _ = std::fs::remove_dir_all(old);
            let _ = std::fs::remove_file(reason_of(old));
        }
        match moved {
            Ok(()) => format!("the entry was set aside: {reason}"),
            Err(error) => format!("the entry cannot be used: {reason}; it stays where it is: {error}"),
        }
    }

    /// Removes the entry for `key`. Returns whether there was one that could be removed.
    #[doc(hidden)]
    pub fn forget(&self, key: &Key) -> bool {
        self.folder().is_some_and(|folder| self.remove(&folder.join(key.as_str())))
    }

    /// Removes leftovers of dead builders, then the entries used or quarantined least recently,
    /// until the rest fits. `keep` is never removed.
    pub(super) fn make_room(&self, keep: &Key) {
        let Some(folder) = self.folder() else { return };
        let all = names(folder);
        for left in all.iter().filter(|name| name.starts_with(BUILDING) && self.is_left(name)) {
            let _ = std::fs::remove_dir_all(folder.join(left));
        }
        let entries = all.iter().filter(|name| Key::parse(name).is_some()).map(|name| {
            let path = folder.join(name);
            (last_use(&path), path)
        });
        let quarantine = folder.join(QUARANTINE);
        let aside = names(&quarantine).into_iter().map(|name| quarantine.join(name)).filter(|path| path.is_dir());
        let mut oldest: Vec<(Option<SystemTime>, PathBuf)> =
            entries.chain(aside.map(|path| (set_aside_at(&path), path))).collect();
        oldest.sort();
        // Counts builds in progress too.
        let mut total = disk_use(folder).1;
        for (_, path) in oldest.into_iter().filter(|(_, path)| !path.ends_with(keep.as_str())) {
            if total <= self.limit_bytes {
                break;
            }
            let bytes = disk_use(&path).1;
            if self.remove(&path) {
                total = total.saturating_sub(bytes);
            }
        }
    }

    /// Removes an entry, quarantined or not. It is renamed first so that nobody sees it half
    /// removed; open files stay readable.
    fn remove(&self, path: &Path) -> bool {
        let (Some(folder), Some(name)) = (self.folder(), path.file_name()) else { return false };
        let name = format!("{BUILDING}{}-gone-{}", name.to_string_lossy(), std::process::id());
        let gone = folder.join(name);
        let is_gone = std::fs::rename(path, &gone).is_ok();
        if is_gone {
            let _ = std::fs::remove_dir_all(&gone);
            let _ = std::fs::remove_file(reason_of(path));
        }
        is_gone
    }

    /// Removes the leftovers of killed builders of `key`. The caller holds the lock.
    pub(super) fn remove_leftovers(&self, key: &Key) {
        let Some(folder) = self.folder() else { return };
        let left = format!("{BUILDING}{}", key.as_str());
        for name in names(folder).into_iter().filter(|name| name.starts_with(&left)) {
            let _ = std::fs::remove_dir_all(folder.join(name));
        }
    }

    /// Returns whether the builder of a folder is dead.
    fn is_left(&self, name: &str) -> bool {
        let key = name.strip_prefix(BUILDING).and_then(|rest| Key::parse(rest.get(..64)?));
        let (Some(folder), Some(key)) = (self.folder(), key) else { return true };
        let Ok(lock) = std::fs::File::open(folder.join(LOCKS).join(key.as_str())) else { return true };
        match lock.try_lock() {
            Ok(()) => true,
            Err(std::fs::TryLockError::WouldBlock) => false,
            // Without file locks, the process id at the end of the name decides.
            Err(std::fs::TryLockError::Error(_)) => {
                let id = name.rsplit('-').next().and_then(|id| id.parse::<u32>().ok());
                id.is_none_or(|id| !Path::new("/proc").join(id.to_string()).exists())
            }
        }
    }

    fn listed(&self, describe: impl Fn(&Path, &Key) -> Health) -> Vec<EntryInfo> {
        let Some(folder) = self.folder() else { return Vec::new() };
        let entries = names(folder).into_iter().filter(|name| !matches!(name.as_str(), LOCKS | QUARANTINE));
        let mut listed: Vec<EntryInfo> = entries
            .filter(|name| !name.starts_with('.'))
            .map(|name| {
                let path = folder.join(&name);
                let health = match Key::parse(&name) {
                    Some(key) => describe(&path, &key),
                    None => Health::Bad("not an entry of the cache".to_owned()),
                };
                EntryInfo { bytes: disk_use(&path).1, used: last_use(&path), uses: uses(&path), health, name }
            })
            .collect();
        listed.sort_by_key(|entry| std::cmp::Reverse(entry.used));
        let quarantine = folder.join(QUARANTINE);
        for name in names(&quarantine).into_iter().filter(|name| quarantine.join(name).is_dir()) {
            let path = quarantine.join(&name);
            let reason = std::fs::read_to_string(reason_of(&path)).unwrap_or_else(|_| "unknown".to_owned());
            let health = Health::SetAside(reason);
            listed.push(EntryInfo { bytes: disk_use(&path).1, used: last_use(&path), uses: uses(&path), health, name });
        }
        listed
    }
}

/// Returns the time at which its reason was written.
fn set_aside_at(aside: &Path) -> Option<SystemTime> {
    let written = std::fs::metadata(reason_of(aside)).and_then(|data| data.modified());
    written.ok().or_else(|| last_use(aside))
}

fn reason_of(aside: &Path) -> PathBuf {
    let mut name = aside.as_os_str().to_owned();
    name.push(".reason");
    name.into()
}

fn last_use(entry: &Path) -> Option<SystemTime> {
    let used = std::fs::metadata(entry.join(USED)).or_else(|_| std::fs::metadata(entry));
    used.and_then(|data| data.modified()).ok()
}

fn names(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let mut names: Vec<String> = entries.filter_map(|entry| entry.file_name().into_string().ok()).collect();
    names.sort();
    names
}
