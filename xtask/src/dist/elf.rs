//! What an ELF file of 64 bits asks of the system that runs it.
//!
//! # Why our own reader?
//!
//! Three numbers and two lists are needed, and `objdump` is not on every machine.

use anyhow::{Context, Result, ensure};

/// The parts of a program or library that are read here.
#[derive(Debug)]
pub struct Elf {
    pub machine: u16,
    /// The shared libraries that it is linked with.
    pub libraries: Vec<String>,
    /// The versions of their symbols that it uses, as in `GLIBC_2.28`.
    pub versions: Vec<String>,
}

const DYNAMIC: u32 = 6;
const VERSIONS_NEEDED: u32 = 0x6fff_fffe;
const LIBRARY: u64 = 1;

impl Elf {
    /// Reads a whole file.
    ///
    /// # Errors
    /// The bytes are not a little-endian 64-bit ELF file, or a part lies outside of it.
    pub fn read(bytes: &[u8]) -> Result<Self> {
        ensure!(bytes.starts_with(b"\x7fELF\x02\x01"), "not a little-endian 64-bit ELF file");
        let sections = Section::all(bytes)?;
        let mut elf = Self { machine: u16_at(bytes, 18)?, libraries: Vec::new(), versions: Vec::new() };
        for section in &sections {
            let texts = || sections.get(section.link).context("a section without its texts");
            match section.kind {
                DYNAMIC => elf.read_libraries(bytes, section, texts()?)?,
                VERSIONS_NEEDED => elf.read_versions(bytes, section, texts()?)?,
                _ => {}
            }
        }
        Ok(elf)
    }

    fn read_libraries(&mut self, bytes: &[u8], section: &Section, texts: &Section) -> Result<()> {
        for at in (section.offset..section.end()).step_by(16) {
            if u64_at(bytes, at)? == LIBRARY {
                self.libraries.push(texts.text(bytes, to_usize(u64_at(bytes, at + 8)?)?)?);
            }
        }
        Ok(())
    }

    fn read_versions(&mut self, bytes: &[u8], section: &Section, texts: &Section) -> Result<()> {
        let mut library = section.offset;
        for _ in 0..section.info {
            let mut version = library + u32_at(bytes, library + 8)? as usize;
            for _ in 0..u16_at(bytes, library + 2)? {
                self.versions.push(texts.text(bytes, u32_at(bytes, version + 8)? as usize)?);
                version += u32_at(bytes, version + 12)? as usize;
            }
            library += u32_at(bytes, library + 12)? as usize;
        }
        Ok(())
    }
}

struct Section {
    kind: u32,
    offset: usize,
    len: usize,
    link: usize,
    info: u32,
}

impl Section {
    fn all(bytes: &[u8]) -> Result<Vec<Self>> {
        let (start, size) = (to_usize(u64_at(bytes, 40)?)?, usize::from(u16_at(bytes, 58)?));
        (0..usize::from(u16_at(bytes, 60)?))
            .map(|index| Self::read(bytes, start.saturating_add(index * size)))
            .collect()
    }

    fn read(bytes: &[u8], at: usize) -> Result<Self> {
        let header = slice(bytes, at, 64)?;
        Ok(Self {
            kind: u32_at(header, 4)?,
            offset: to_usize(u64_at(header, 24)?)?,
            len: to_usize(u64_at(header, 32)?)?,
            link: u32_at(header, 40)? as usize,
            info: u32_at(header, 44)?,
        })
    }

    fn end(&self) -> usize {
        self.offset.saturating_add(self.len)
    }

    /// Returns the text at `offset` of this section, up to its zero.
    fn text(&self, bytes: &[u8], offset: usize) -> Result<String> {
        let texts = slice(bytes, self.offset, self.len)?;
        let text = texts.get(offset..).and_then(|rest| rest.split(|byte| *byte == 0).next());
        Ok(String::from_utf8_lossy(text.context("a text outside of its section")?).into_owned())
    }
}

fn slice(bytes: &[u8], at: usize, len: usize) -> Result<&[u8]> {
    let end = at.checked_add(len);
    end.and_then(|end| bytes.get(at..end)).with_context(|| format!("the file ends before byte {at} + {len}"))
}

fn u16_at(bytes: &[u8], at: usize) -> Result<u16> {
    Ok(u16::from_le_bytes(slice(bytes, at, 2)?.try_into()?))
}

fn u32_at(bytes: &[u8], at: usize) -> Result<u32> {
    Ok(u32::from_le_bytes(slice(bytes, at, 4)?.try_into()?))
}

fn u64_at(bytes: &[u8], at: usize) -> Result<u64> {
    Ok(u64::from_le_bytes(slice(bytes, at, 8)?.try_into()?))
}

fn to_usize(value: u64) -> Result<usize> {
    usize::try_from(value).context("a place that no file has")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{env, fs};

    #[test]
    fn this_program_needs_the_c_library() {
        let elf = Elf::read(&fs::read(env::current_exe().unwrap()).unwrap()).unwrap();
        assert!([62, 183].contains(&elf.machine), "{elf:?}");
        assert!(elf.libraries.iter().any(|library| library == "libc.so.6"), "{elf:?}");
        assert!(elf.versions.iter().any(|version| version.starts_with("GLIBC_2.")), "{elf:?}");
    }

    #[test]
    fn other_files_and_cut_ones_are_errors() {
        let whole = fs::read(env::current_exe().unwrap()).unwrap();
        assert!(Elf::read(b"#!/bin/sh").is_err());
        for len in [6, 19, 61, 64, whole.len() / 2, whole.len() - 1] {
            assert!(Elf::read(&whole[..len]).is_err(), "{len}");
        }
    }

    /// Every byte of the head in turn with every bit set: no answer is looked at, none may panic.
    #[test]
    fn broken_heads_do_not_panic() {
        let mut whole = fs::read(env::current_exe().unwrap()).unwrap();
        for at in 6..64 {
            let byte = std::mem::replace(&mut whole[at], 0xff);
            let _ = Elf::read(&whole);
            whole[at] = byte;
        }
    }
}
