//! The texts of audio files: a file beside each, or the rows of a table.

use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::sync::Arc;

use super::Input;
use super::inputs::Inputs;
use super::metadata::Metadata;
use super::text::{MAX_TEXT, Text};
use crate::dataset::failure::Failure;
use crate::{Error, Result};

/// Where the texts of files are.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum Texts {
    /// In `NAME.txt` beside `NAME.wav`. Files without one have no text.
    Beside,
    /// In the rows of a table. Files without a row are listed.
    Table(Arc<Metadata>),
}

impl Texts {
    /// Returns the columns of the corpus that come from here, beside that of the texts.
    pub(in crate::dataset) fn kept(&self) -> Vec<&str> {
        match self {
            Self::Beside => Vec::new(),
            Self::Table(table) => table.kept().collect(),
        }
    }

    /// Returns the text of `input`, then what is kept beside it.
    pub(in crate::dataset) fn find(&self, input: &Input) -> Result<Vec<Text>> {
        match self {
            Self::Beside => match beside(input.path())? {
                None => Ok(vec![Text::NONE]),
                Some(text) => Ok(vec![Text::new(&text, 0)?]),
            },
            Self::Table(table) => table.find(input),
        }
    }

    /// Reads what [`Texts::find`] found again.
    pub(in crate::dataset) fn read(&self, input: &Input, found: &[Text]) -> Result<Vec<String>> {
        let source = match found.first() {
            Some(first) if first.source != Text::NONE.source => first.source,
            _ => return Ok(vec![String::new(); found.len()]),
        };
        let again = match self {
            Self::Beside => vec![beside(input.path())?.unwrap_or_default()],
            Self::Table(table) => table.cells_at(source)?,
        };
        let is_same = |(cell, found): (&String, &Text)| Text::new(cell, source).is_ok_and(|text| text == *found);
        match again.len() == found.len() && again.iter().zip(found).all(is_same) {
            true => Ok(again),
            false => Err(Error::invalid(format!("{}: its text has changed since it was first read", input.name()))
                .with_hint("run it again when nothing writes to it")),
        }
    }

    /// Fails if a table has no row for any of `inputs`.
    pub(in crate::dataset) fn check_inputs(&self, inputs: &Inputs) -> Result<()> {
        match self {
            Self::Beside => Ok(()),
            Self::Table(table) => table.check_inputs(inputs),
        }
    }

    /// Returns texts that belong to none of `inputs`, and rows of the table that cannot be read.
    pub(in crate::dataset) fn without_file(&self, inputs: &Inputs) -> Result<Vec<Failure>> {
        match self {
            Self::Beside => Ok(Vec::new()),
            Self::Table(table) => table.without_file(inputs),
        }
    }
}

/// Returns the content of `NAME.txt` beside `path`, without white space at its ends.
fn beside(path: &Path) -> Result<Option<String>> {
    let path = path.with_extension("txt");
    let name = path.file_name().unwrap_or_default().display().to_string();
    let failed = |error| Error::io(&name, error);
    if !path.is_file() {
        return Ok(None);
    }
    let mut bytes = Vec::new();
    File::open(&path).map_err(failed)?.take(MAX_TEXT as u64 + 1).read_to_end(&mut bytes).map_err(failed)?;
    if bytes.len() > MAX_TEXT {
        return Err(Error::invalid(format!("{name}: more than {MAX_TEXT} bytes")));
    }
    let text = std::str::from_utf8(&bytes).map_err(|error| {
        let line = 1 + bytes[..error.valid_up_to()].iter().filter(|&&byte| byte == b'\n').count();
        Error::corrupt(format!("{name}, line {line}: this is not UTF-8"))
    })?;
    Ok(Some(text.strip_prefix('\u{feff}').unwrap_or(text).trim().to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_beside_files_are_read_and_bad_ones_named() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        let input = |name: &str| Input::new(name.as_ref(), at(name));
        std::fs::write(at("a.b.txt"), "\u{feff} Grüße\n").unwrap();
        std::fs::write(at("c.txt"), b"one\ntwo \xff").unwrap();
        std::fs::write(at("d.txt"), vec![b'x'; MAX_TEXT + 1]).unwrap();
        let found = Texts::Beside.find(&input("a.b.wav")).unwrap();
        assert_eq!(Texts::Beside.read(&input("a.b.wav"), &found).unwrap(), ["Grüße"]);
        assert_eq!(Texts::Beside.find(&input("absent.wav")).unwrap(), [Text::NONE]);
        assert_eq!(Texts::Beside.find(&input("c.wav")).unwrap_err().to_string(), "c.txt, line 2: this is not UTF-8");
        assert!(Texts::Beside.find(&input("d.wav")).unwrap_err().to_string().contains("65536 bytes"));
        std::fs::write(at("a.b.txt"), "other").unwrap();
        assert!(Texts::Beside.read(&input("a.b.wav"), &found).is_err());
    }
}
