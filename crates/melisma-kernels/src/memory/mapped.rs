//! Memory-mapped files. Bytes are copied by system calls, so a file that shrinks or a disk that
//! fills up makes the call fail instead of raising a signal.
//!
//! # Why system calls?
//!
//! `process_vm_readv` and `process_vm_writev` on our own process copy like `memcpy`, but a missing
//! page makes the call fail instead of raising SIGBUS, and no reference ever points to memory that
//! others may change. Only [`InPlace`] gives that up, for weights that are too large to copy.
//!
//! Where these calls are missing, as in QEMU, or forbidden, as in some containers, bytes are read
//! from the file and written to it.

use std::fs::File;
use std::io::{Error, ErrorKind, Result};
use std::os::fd::AsRawFd;
use std::ptr::{NonNull, null_mut};
use std::sync::LazyLock;

use super::direct::Direct;

/// Whether the system copies within this process: a byte is copied to itself by both calls.
static CAN_COPY: LazyLock<bool> = LazyLock::new(|| {
    let mut byte = 0u8;
    let part = libc::iovec { iov_base: (&raw mut byte).cast(), iov_len: 1 };
    let part = &raw const part;
    // SAFETY: both sides are `byte`, and a copy to itself changes nothing.
    unsafe {
        libc::process_vm_readv(libc::getpid(), part, 1, part, 1, 0) == 1
            && libc::process_vm_writev(libc::getpid(), part, 1, part, 1, 0) == 1
    }
});

/// A map of the first `len` bytes of a file.
#[derive(Debug)]
pub struct Mapped {
    address: NonNull<libc::c_void>,
    len: usize,
    /// Set where the system cannot copy from a map.
    direct: Option<Direct>,
}

// SAFETY: nothing in this process refers to the memory; the system orders what it copies.
unsafe impl Send for Mapped {}
// SAFETY: nothing in this process refers to the memory; the system orders what it copies.
unsafe impl Sync for Mapped {}

/// The purpose of a map.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// Sequential reads; the system is advised to read ahead.
    ReadAhead,
    /// Writes, at any position.
    Write,
}

impl Mapped {
    /// Maps the first `len` bytes of `file`; `len` must be at least 1.
    ///
    /// # Errors
    /// The system refuses.
    pub fn new(file: &File, len: usize, access: Access) -> Result<Self> {
        let direct = if *CAN_COPY { None } else { Some(Direct::new(file, len)?) };
        let protection = match access {
            Access::ReadAhead => libc::PROT_READ,
            Access::Write => libc::PROT_READ | libc::PROT_WRITE,
        };
        // SAFETY: a new mapping at an address that the system chooses.
        let address = unsafe { libc::mmap(null_mut(), len, protection, libc::MAP_SHARED, file.as_raw_fd(), 0) };
        if address == libc::MAP_FAILED {
            return Err(Error::last_os_error());
        }
        let address = NonNull::new(address).ok_or(ErrorKind::OutOfMemory)?;
        if access == Access::ReadAhead {
            for advice in [libc::MADV_SEQUENTIAL, libc::MADV_WILLNEED] {
                // SAFETY: the whole mapping; advice changes no content.
                unsafe { libc::madvise(address.as_ptr(), len, advice) };
            }
        }
        Ok(Self { address, len, direct })
    }

    /// Copies bytes starting at `at` into `to`.
    ///
    /// # Errors
    /// `UnexpectedEof` if the file has become shorter; otherwise the system's error.
    pub fn read(&self, at: usize, to: &mut [u8]) -> Result<()> {
        if let Some(direct) = &self.direct {
            return direct.read(at, to);
        }
        let local = libc::iovec { iov_base: to.as_mut_ptr().cast(), iov_len: to.len() };
        // SAFETY: `local` is `to`; the system checks the other side.
        self.transfer(at, local, |local, remote| unsafe {
            libc::process_vm_readv(libc::getpid(), local, 1, remote, 1, 0)
        })
    }

    /// Copies `from` to the bytes starting at `at`.
    ///
    /// # Errors
    /// As [`Mapped::read`].
    pub fn write(&self, at: usize, from: &[u8]) -> Result<()> {
        if let Some(direct) = &self.direct {
            return direct.write(at, from);
        }
        let local = libc::iovec { iov_base: from.as_ptr().cast_mut().cast(), iov_len: from.len() };
        // SAFETY: `local` is `from`, which is only read; the system checks the other side.
        self.transfer(at, local, |local, remote| unsafe {
            libc::process_vm_writev(libc::getpid(), local, 1, remote, 1, 0)
        })
    }

    /// Brings the pages of `len` bytes starting at `at` into memory at once, which makes later
    /// writes cheaper. Does nothing where the system does not support it.
    pub fn populate(&self, at: usize, len: usize) {
        const PAGE: usize = 4096;
        let (start, end) = (at / PAGE * PAGE, at.saturating_add(len).min(self.len));
        if start < end {
            let address = self.address.as_ptr().cast::<u8>().wrapping_add(start).cast();
            // SAFETY: the pages belong to the mapping, and their content does not change.
            unsafe { libc::madvise(address, end - start, libc::MADV_POPULATE_WRITE) };
        }
    }

    fn transfer(
        &self,
        at: usize,
        mut local: libc::iovec,
        copy: impl Fn(*const libc::iovec, *const libc::iovec) -> isize,
    ) -> Result<()> {
        let mut at = at;
        if at.checked_add(local.iov_len).is_none_or(|end| end > self.len) {
            return Err(ErrorKind::UnexpectedEof.into());
        }
        while local.iov_len > 0 {
            let base = self.address.as_ptr().cast::<u8>().wrapping_add(at).cast();
            let remote = libc::iovec { iov_base: base, iov_len: local.iov_len };
            let n = copy(&raw const local, &raw const remote);
            if n <= 0 {
                let error = Error::last_os_error();
                return Err(if error.raw_os_error() == Some(libc::EFAULT) {
                    ErrorKind::UnexpectedEof.into()
                } else {
                    error
                });
            }
            local.iov_base = local.iov_base.cast::<u8>().wrapping_add(n as usize).cast();
            local.iov_len -= n as usize;
            at += n as usize;
        }
        Ok(())
    }
}

/// A whole file, read in place: its pages are those of the system's cache, and nothing is copied.
///
/// The file must keep its bytes while it is open. If another program cuts it, the system ends this process when it reads
/// beyond the new end; if another program writes to it, the bytes change.
#[derive(Debug)]
pub struct InPlace {
    address: NonNull<libc::c_void>,
    len: usize,
}

// SAFETY: the memory is only read, and unmapped by its owner alone.
unsafe impl Send for InPlace {}
// SAFETY: the memory is only read.
unsafe impl Sync for InPlace {}

impl InPlace {
    /// Maps `file`.
    ///
    /// # Errors
    /// The file is empty, or the system refuses.
    pub fn new(file: &File) -> Result<Self> {
        let len = usize::try_from(file.metadata()?.len()).map_err(|_| ErrorKind::FileTooLarge)?;
        let (protection, flags) = (libc::PROT_READ, libc::MAP_PRIVATE);
        // SAFETY: a new mapping at an address that the system chooses.
        let address = unsafe { libc::mmap(null_mut(), len, protection, flags, file.as_raw_fd(), 0) };
        if address == libc::MAP_FAILED {
            return Err(Error::last_os_error());
        }
        let address = NonNull::new(address).ok_or(ErrorKind::OutOfMemory)?;
        // SAFETY: the whole mapping; advice changes no content.
        unsafe { libc::madvise(address.as_ptr(), len, libc::MADV_WILLNEED) };
        Ok(Self { address, len })
    }

    /// Returns the bytes of the file.
    pub fn bytes(&self) -> &[u8] {
        // SAFETY: the mapping has `len` readable bytes as long as `self` lives; that the file keeps them is the type's
        // condition.
        unsafe { std::slice::from_raw_parts(self.address.as_ptr().cast(), self.len) }
    }
}

impl Drop for InPlace {
    fn drop(&mut self) {
        // SAFETY: mapped in `new`, unmapped once.
        unsafe { libc::munmap(self.address.as_ptr(), self.len) };
    }
}

/// Allocates disk space for the first `len` bytes of `file`, so that the disk cannot fill up under
/// a map.
///
/// # Errors
/// The disk is full. File systems that cannot reserve space are not an error.
pub fn reserve(file: &File, len: u64) -> Result<()> {
    let len = libc::off_t::try_from(len).map_err(|_| ErrorKind::FileTooLarge)?;
    loop {
        // SAFETY: a call on an open file.
        if len == 0 || unsafe { libc::fallocate(file.as_raw_fd(), 0, 0, len) } == 0 {
            return Ok(());
        }
        let error = Error::last_os_error();
        match error.raw_os_error() {
            Some(libc::EINTR) => {}
            Some(libc::EOPNOTSUPP | libc::ENOSYS | libc::EINVAL) => return Ok(()),
            _ => return Err(error),
        }
    }
}

impl Drop for Mapped {
    fn drop(&mut self) {
        // SAFETY: mapped in `new`, unmapped once.
        unsafe { libc::munmap(self.address.as_ptr(), self.len) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_read_in_place() {
        use std::io::Write;
        let mut file = tempfile::tempfile().unwrap();
        assert!(InPlace::new(&file).is_err());
        file.write_all(b"weights").unwrap();
        assert_eq!(InPlace::new(&file).unwrap().bytes(), b"weights");
    }

    #[test]
    fn what_is_written_is_there_and_a_shorter_file_is_an_error() {
        check(Mapped::new);
    }

    #[test]
    fn a_system_without_copies_from_maps_reads_and_writes_the_file() {
        check(|file, len, access| {
            let mut map = Mapped::new(file, len, access)?;
            map.direct = Some(Direct::new(file, len)?);
            Ok(map)
        });
    }

    fn check(new: impl Fn(&File, usize, Access) -> Result<Mapped>) {
        let file = tempfile::tempfile().unwrap();
        file.set_len(100_000).unwrap();
        reserve(&file, 100_000).unwrap();
        let map = new(&file, 100_000, Access::Write).unwrap();
        let bytes: Vec<u8> = (0..90_000u32).map(|i| i as u8).collect();
        map.populate(5000, 90_000);
        map.populate(99_999, usize::MAX);
        map.write(5000, &bytes).unwrap();
        let mut back = vec![0; 90_000];
        new(&file, 100_000, Access::ReadAhead).unwrap().read(5000, &mut back).unwrap();
        assert!(back == bytes);
        assert_eq!(map.write(50_000, &bytes).unwrap_err().kind(), ErrorKind::UnexpectedEof);
        file.set_len(10).unwrap();
        assert_eq!(map.read(5000, &mut back).unwrap_err().kind(), ErrorKind::UnexpectedEof);
        assert_eq!(map.write(5000, &bytes).unwrap_err().kind(), ErrorKind::UnexpectedEof);
        assert_eq!(file.metadata().unwrap().len(), 10);
    }
}
