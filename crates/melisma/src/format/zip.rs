//! Reads the directory of a zip file with stored (uncompressed) entries, as PyTorch writes it.

use std::collections::BTreeMap;

use super::read_at::{ReadAt, read};
use crate::{Error, Result};

const END_LEN: usize = 22;
const ENTRY_LEN: usize = 46;
const LOCAL_LEN: u64 = 30;
const LOCATOR_LEN: usize = 20;
const END_64_LEN: usize = 56;
/// The extra field with the numbers that do not fit into 32 bits.
const ZIP_64: u16 = 1;
/// The largest directory. Checkpoints take a few hundred bytes per tensor here.
const MAX_DIRECTORY: u64 = 64 << 20;

/// The location of an entry's contents in the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Entry {
    pub at: u64,
    pub len: u64,
}

/// Maps the name of every entry in the central directory to its contents.
pub fn entries(file: &dyn ReadAt) -> Result<BTreeMap<String, Entry>> {
    let size = file.size()?;
    let Directory { at, len, n_entries } = directory(file, size)?;
    if len > MAX_DIRECTORY {
        return Err(Error::unsupported(format!("the zip directory has {len} bytes; at most {MAX_DIRECTORY}")));
    }
    if at.checked_add(len).is_none_or(|end| end > size) {
        return Err(Error::truncated(format!("{len} bytes at {at} of a zip file of {size} bytes")));
    }
    let bytes = read(file, at, len as usize)?;
    let mut entries = BTreeMap::new();
    let (mut next, mut total) = (0, 0u64);
    for _ in 0..n_entries {
        let head = slice(&bytes, next, ENTRY_LEN)?;
        if !head.starts_with(b"PK\x01\x02") {
            return Err(Error::corrupt(format!("no zip directory entry at byte {}", at + next as u64)));
        }
        let [name_len, extra_len, comment_len] = [28, 30, 32].map(|field| u16_at(head, field).map(usize::from));
        let (name_len, extra_len) = (name_len?, extra_len?);
        let name = std::str::from_utf8(slice(&bytes, next + ENTRY_LEN, name_len)?)
            .map_err(|_| Error::corrupt(format!("a zip entry at byte {} whose name is not UTF-8", at + next as u64)))?;
        if u16_at(head, 10)? != 0 {
            return Err(Error::unsupported(format!("{name}: a compressed zip entry"))
                .with_hint("TorchScript and other archives are not read; save the state dict with torch.save"));
        }
        let extra = slice(&bytes, next + ENTRY_LEN + name_len, extra_len)?;
        let entry = contents(file, size, place(head, extra)?).map_err(|error| error.at(name))?;
        total = total.saturating_add(entry.len);
        if total > size {
            return Err(Error::corrupt(format!("{name}: zip entries overlap")));
        }
        if entries.insert(name.to_owned(), entry).is_some() {
            return Err(Error::corrupt(format!("{name}: two zip entries of this name")));
        }
        next += ENTRY_LEN + name_len + extra_len + comment_len?;
    }
    Ok(entries)
}

struct Directory {
    at: u64,
    len: u64,
    n_entries: u64,
}

/// Finds the end record, which is last in the file except for a comment of up to 65,535 bytes.
fn directory(file: &dyn ReadAt, size: u64) -> Result<Directory> {
    let tail_len = size.min((END_LEN + LOCATOR_LEN + usize::from(u16::MAX)) as u64);
    let tail = read(file, size - tail_len, tail_len as usize)?;
    let last = tail.len().checked_sub(END_LEN).ok_or_else(cut)?;
    let end = (0..=last).rev().find(|&at| tail[at..].starts_with(b"PK\x05\x06")).ok_or_else(cut)?;
    let [n_entries, len, at] = [u16_at(&tail, end + 10)?.into(), u32_at(&tail, end + 12)?, u32_at(&tail, end + 16)?];
    if n_entries != u32::from(u16::MAX) && at != u32::MAX && len != u32::MAX {
        return Ok(Directory { at: at.into(), len: len.into(), n_entries: n_entries.into() });
    }
    let locator = end.checked_sub(LOCATOR_LEN).map(|at| &tail[at..end]);
    let locator = locator.filter(|locator| locator.starts_with(b"PK\x06\x07")).ok_or_else(cut)?;
    let end_64 = u64_at(locator, 8)?;
    if end_64.checked_add(END_64_LEN as u64).is_none_or(|end| end > size) {
        return Err(cut());
    }
    let record = read(file, end_64, END_64_LEN)?;
    if !record.starts_with(b"PK\x06\x06") {
        return Err(Error::corrupt(format!("no zip64 end record at byte {end_64}")));
    }
    Ok(Directory { n_entries: u64_at(&record, 32)?, len: u64_at(&record, 40)?, at: u64_at(&record, 48)? })
}

/// Returns the offset of an entry's local header and the length of its contents, from the
/// directory.
fn place(head: &[u8], extra: &[u8]) -> Result<Entry> {
    let [packed_len, len, at] = [20, 24, 42].map(|field| u32_at(head, field).map(u64::from));
    let (mut len, mut at) = (len?, at?);
    let mut wide = &[][..];
    let mut rest = extra;
    while rest.len() >= 4 {
        let field_len = usize::from(u16_at(rest, 2)?);
        let field = slice(rest, 4, field_len)?;
        if u16_at(rest, 0)? == ZIP_64 {
            wide = field;
        }
        rest = &rest[4 + field_len..];
    }
    // The 64-bit values come in this order, each only if its 32-bit field is full.
    let mut next = 0;
    let mut widen = |narrow: &mut u64| -> Result<()> {
        if *narrow == u64::from(u32::MAX) {
            *narrow = u64_at(wide, next)?;
            next += 8;
        }
        Ok(())
    };
    widen(&mut len)?;
    widen(&mut packed_len?)?;
    widen(&mut at)?;
    Ok(Entry { at, len })
}

/// Finds the contents after a local header.
fn contents(file: &dyn ReadAt, size: u64, Entry { at, len }: Entry) -> Result<Entry> {
    let outside = || Error::truncated(format!("{len} bytes at {at} of a zip file of {size} bytes"));
    if at.checked_add(LOCAL_LEN).is_none_or(|end| end > size) {
        return Err(outside());
    }
    let head = read(file, at, LOCAL_LEN as usize)?;
    if !head.starts_with(b"PK\x03\x04") {
        return Err(Error::corrupt(format!("no zip entry at byte {at}")));
    }
    let start = at + LOCAL_LEN + u64::from(u16_at(&head, 26)?) + u64::from(u16_at(&head, 28)?);
    match start.checked_add(len) {
        Some(end) if end <= size => Ok(Entry { at: start, len }),
        _ => Err(outside()),
    }
}

fn slice(bytes: &[u8], at: usize, len: usize) -> Result<&[u8]> {
    let range = at..at.checked_add(len).ok_or_else(cut)?;
    bytes.get(range).ok_or_else(cut)
}

fn u16_at(bytes: &[u8], at: usize) -> Result<u16> {
    Ok(u16::from_le_bytes(slice(bytes, at, 2)?.try_into().map_err(|_| cut())?))
}

fn u32_at(bytes: &[u8], at: usize) -> Result<u32> {
    Ok(u32::from_le_bytes(slice(bytes, at, 4)?.try_into().map_err(|_| cut())?))
}

fn u64_at(bytes: &[u8], at: usize) -> Result<u64> {
    Ok(u64::from_le_bytes(slice(bytes, at, 8)?.try_into().map_err(|_| cut())?))
}

fn cut() -> Error {
    Error::truncated("a zip file without its directory; it was probably not downloaded completely")
}
