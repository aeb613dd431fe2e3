//! The directory of a zip file whose entries are stored, not compressed, as PyTorch writes them.

use std::collections::BTreeMap;

use crate::{Error, Kind, Result};

const END_LEN: usize = 22;
const ENTRY_LEN: usize = 46;
const LOCAL_LEN: usize = 30;

/// Name to contents, for every entry of the central directory.
pub fn entries(bytes: &[u8]) -> Result<BTreeMap<&str, &[u8]>> {
    let end = find_end(bytes)?;
    let n_entries = u16_at(bytes, end + 10)?;
    let mut at = u32_at(bytes, end + 16)? as usize;
    if n_entries == u16::MAX || at == u32::MAX as usize {
        return Err(Error::unsupported("a checkpoint in zip64 format"));
    }
    let mut entries = BTreeMap::new();
    let mut total = 0;
    for _ in 0..n_entries {
        let head = slice(bytes, at, ENTRY_LEN)?;
        if !head.starts_with(b"PK\x01\x02") {
            return Err(corrupt(format!("no zip directory entry at byte {at}")));
        }
        let [name_len, extra_len, comment_len] = [28, 30, 32].map(|field| u16_at(head, field).map(usize::from));
        let name_len = name_len?;
        let name = std::str::from_utf8(slice(bytes, at + ENTRY_LEN, name_len)?)
            .map_err(|_| corrupt(format!("a zip entry at byte {at} whose name is not UTF-8")))?;
        if u16_at(head, 10)? != 0 {
            return Err(Error::unsupported(format!("{name}: a compressed zip entry")));
        }
        let data = contents(bytes, u32_at(head, 42)? as usize, u32_at(head, 24)? as usize)?;
        total += data.len();
        if total > bytes.len() {
            return Err(corrupt(format!("{name}: zip entries overlap")));
        }
        if entries.insert(name, data).is_some() {
            return Err(corrupt(format!("{name}: two zip entries of this name")));
        }
        at += ENTRY_LEN + name_len + extra_len? + comment_len?;
    }
    Ok(entries)
}

/// The end record is the last thing in the file but for a comment of up to 65,535 bytes.
fn find_end(bytes: &[u8]) -> Result<usize> {
    let last = bytes.len().checked_sub(END_LEN).ok_or_else(cut)?;
    let first = last.saturating_sub(usize::from(u16::MAX));
    (first..=last).rev().find(|&at| bytes[at..].starts_with(b"PK\x05\x06")).ok_or_else(cut)
}

fn contents(bytes: &[u8], at: usize, len: usize) -> Result<&[u8]> {
    let head = slice(bytes, at, LOCAL_LEN)?;
    if !head.starts_with(b"PK\x03\x04") {
        return Err(corrupt(format!("no zip entry at byte {at}")));
    }
    let skipped = usize::from(u16_at(head, 26)?) + usize::from(u16_at(head, 28)?);
    slice(bytes, at + LOCAL_LEN + skipped, len)
}

fn slice(bytes: &[u8], at: usize, len: usize) -> Result<&[u8]> {
    let range = at..at.checked_add(len).ok_or_else(cut)?;
    bytes.get(range).ok_or_else(|| {
        Error::new(Kind::Truncated, format!("{len} bytes at {at} of a zip file of {} bytes", bytes.len()))
    })
}

fn u16_at(bytes: &[u8], at: usize) -> Result<u16> {
    Ok(u16::from_le_bytes(slice(bytes, at, 2)?.try_into().map_err(|_| cut())?))
}

fn u32_at(bytes: &[u8], at: usize) -> Result<u32> {
    Ok(u32::from_le_bytes(slice(bytes, at, 4)?.try_into().map_err(|_| cut())?))
}

fn cut() -> Error {
    Error::new(Kind::Truncated, "a zip file without its directory; it was probably not downloaded completely")
}

fn corrupt(message: impl Into<String>) -> Error {
    Error::new(Kind::Corrupt, message)
}
