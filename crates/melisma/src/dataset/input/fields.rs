//! The columns of a table that are read.

use crate::dataset::store::{TOKEN_COLUMNS, is_column_name};
use crate::{Error, Result};

/// The column of a corpus with the speakers.
const SOURCE: &str = "source";

/// The columns of a table that are read. A column is a number counted from 1, or a name in the first line.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Fields {
    /// The column with the texts.
    pub text: String,
    /// The column with the names of the files; `None` for `path`, or else the first.
    pub path: Option<String>,
    /// Columns that become columns of the corpus, by their names.
    pub kept: Vec<String>,
    /// The column with the speakers, which begin the texts and become the column `source` of the corpus.
    pub speaker: Option<String>,
}

impl Fields {
    /// Reads the texts of a column.
    pub fn new(text: impl Into<String>) -> Self {
        Self { text: text.into(), path: None, kept: Vec::new(), speaker: None }
    }

    setters! {
        /// Sets the column with the names of the files; `None` for `path`, or else the first.
        pub fn with_path(path: Option<String>);
        /// Sets the columns that become columns of the corpus.
        pub fn with_kept(kept: Vec<String>);
        /// Sets the column with the speakers: texts begin with `SPEAKER: `, and the corpus has a column `source`.
        pub fn with_speaker(speaker: Option<String>);
    }

    /// Returns the columns that the corpus gets, that of the speakers first: names that no other column has.
    pub(super) fn outputs(&self) -> Result<Vec<String>> {
        let has_source = self.speaker.is_some();
        let mut all: Vec<String> = has_source.then(|| SOURCE.to_owned()).into_iter().collect();
        for name in &self.kept {
            let why = match name.as_str() {
                "" => "a column without a name cannot be kept".to_owned(),
                name if name.parse::<u64>().is_ok() => format!("column {name} cannot be kept: its name is needed"),
                name if TOKEN_COLUMNS.contains(&name) || name == "codes_list" => {
                    format!("`{name}` cannot be kept: a corpus has a column of its own with this name")
                }
                SOURCE if has_source => "`source` cannot be kept beside the column of the speakers".to_owned(),
                name if all.iter().any(|other| other == name) => format!("`{name}` is kept twice"),
                name if !is_column_name(name) => format!("`{}` cannot be the name of a column", name.escape_debug()),
                _ => {
                    all.push(name.clone());
                    continue;
                }
            };
            return Err(Error::invalid(why).with_hint("name columns of the table, as in speaker,lang"));
        }
        Ok(all)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_a_corpus_cannot_have_are_refused() {
        let kept = |names: &[&str]| Fields::new("text").with_kept(names.iter().map(|&name| name.to_owned()).collect());
        let spoken = |names: &[&str]| kept(names).with_speaker(Some("who".to_owned()));
        assert_eq!(spoken(&["lang", "my age"]).outputs().unwrap(), ["source", "lang", "my age"]);
        assert_eq!(kept(&["source"]).outputs().unwrap(), ["source"]);
        let long = "x".repeat(65);
        for names in [
            &[""][..],
            &["3"],
            &["text"],
            &["codes_list"],
            &["row_hash"],
            &["a", "a"],
            &["a_offsets"],
            &["a/b"],
            &[".a"],
            &["a\nb"],
            &["a,b"],
            &[&long],
        ] {
            assert!(kept(names).outputs().is_err(), "{names:?}");
        }
        assert!(spoken(&["source"]).outputs().unwrap_err().to_string().contains("beside"));
    }
}
