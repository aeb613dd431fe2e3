//! Checks lines by themselves, where no file tells what was written: after `cat`, as an example.

use std::borrow::Cow;
use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;

use serde::Deserialize;

use crate::dataset::counters::Counters;
use crate::dataset::store::paths::origin_of;
use crate::dataset::store::verify::Verified;
use crate::runtime::memory::{Budget, Space};
use crate::snac::tokens::{FIRST_ID, FIRST_TOKEN, SLOT_CODES};
use crate::text::count;
use crate::{Error, Result};

/// The longest line, in bytes: about 40 hours of a 24 kHz model.
const MAX_LINE: u64 = 64 << 20;
/// Bytes of a line and of its codes for each byte of the line.
const BYTES_PER_BYTE: u64 = 4;
/// Codes of a frame of Orpheus.
const SLOTS: usize = 7;

#[derive(Deserialize)]
struct Line<'a> {
    #[serde(borrow)]
    path: Cow<'a, str>,
    seconds: f64,
    #[serde(borrow)]
    text: Option<Cow<'a, str>>,
    codes: Option<Vec<Vec<u16>>>,
    codes_list: Option<Vec<i64>>,
}

/// What all lines of a file have in common: those that have frames agree with the first of them.
#[derive(Debug, Default)]
struct Form {
    /// Codes of each level for one of the coarsest; empty for ids of Orpheus.
    per_frame: Option<Vec<usize>>,
}

/// Checks each line at `path` by itself: that it is one JSON object with a path, seconds and codes, that codes are in
/// their range, and that the levels have the lengths of one model.
pub(in crate::dataset) fn check(path: &Path, budget: &Budget, counters: &Counters) -> Result<Verified> {
    let failed = |error| Error::io(path.display(), error);
    let mut reader = BufReader::with_capacity(1 << 18, File::open(path).map_err(failed)?);
    let mut found = Verified { missing_origin: Some(origin_of(path)), ..Verified::default() };
    let (mut form, mut bytes) = (Form::default(), Vec::new());
    loop {
        counters.check_stop()?;
        bytes.clear();
        let n = Read::take(&mut reader, MAX_LINE).read_until(b'\n', &mut bytes).map_err(failed)? as u64;
        if n == 0 {
            return Ok(found);
        }
        if n == MAX_LINE && !bytes.ends_with(b"\n") {
            let message = format!("{}: line {} is longer than {MAX_LINE} bytes", path.display(), found.rows + 1);
            return Err(Error::corrupt(message).with_hint("each row of tokens is one line"));
        }
        let _held = budget.reserve(Space::Host, n * BYTES_PER_BYTE)?;
        if let Err((name, fault)) = form.check(&bytes) {
            let number = found.rows + 1;
            found.fault.get_or_insert_with(|| format!("line {number}: {fault}"));
            found.damage(found.rows, name.as_bytes());
        }
        found.rows += 1;
        found.bytes += n;
    }
}

impl Form {
    /// Checks a line. The error is its name and its fault.
    fn check(&mut self, bytes: &[u8]) -> std::result::Result<(), (String, String)> {
        let line: Line<'_> = serde_json::from_slice(bytes).map_err(|error| (String::new(), error.to_string()))?;
        self.fault(&line).map_or(Ok(()), |fault| Err((line.path.into_owned(), fault)))
    }

    fn fault(&mut self, line: &Line<'_>) -> Option<String> {
        if line.seconds < 0.0 {
            return Some(format!("seconds is {}", line.seconds));
        }
        if line.text.as_ref().is_some_and(|text| text.is_empty()) {
            return Some("an empty text, which is left out where there is none".to_owned());
        }
        match (&line.codes, &line.codes_list) {
            (Some(levels), None) => self.levels(levels),
            (None, Some(ids)) => self.ids(ids),
            _ => Some("neither `codes` nor `codes_list`, or both".to_owned()),
        }
    }

    fn levels(&mut self, levels: &[Vec<u16>]) -> Option<String> {
        let n_frames = levels.first().map_or(0, Vec::len);
        if n_frames == 0 {
            return levels.iter().any(|level| !level.is_empty()).then(|| "its first level is empty".to_owned());
        }
        let of_frame: Vec<usize> = levels.iter().map(|level| level.len() / n_frames).collect();
        let is_whole = levels.iter().zip(&of_frame).all(|(level, n)| *n > 0 && level.len() == n * n_frames);
        if !is_whole {
            let lengths: Vec<String> = levels.iter().map(|level| level.len().to_string()).collect();
            let frames = count(n_frames as u64, "frame");
            return Some(format!("its levels have {} codes, which are not those of {frames}", lengths.join(", ")));
        }
        self.agree(of_frame)
    }

    fn ids(&mut self, ids: &[i64]) -> Option<String> {
        if !ids.len().is_multiple_of(SLOTS) {
            return Some(format!("{}; a frame has {SLOTS}", count(ids.len() as u64, "id")));
        }
        let first = |at: usize| FIRST_ID + FIRST_TOKEN + (at % SLOTS) as i64 * SLOT_CODES;
        let wrong = ids.iter().enumerate().find(|&(at, id)| !(first(at)..first(at) + SLOT_CODES).contains(id));
        match wrong {
            Some((at, id)) => {
                let (least, most) = (first(at), first(at) + SLOT_CODES - 1);
                Some(format!("id {id} at {at}; {least} to {most} are possible there"))
            }
            None if ids.is_empty() => None,
            None => self.agree(Vec::new()),
        }
    }

    fn agree(&mut self, of_frame: Vec<usize>) -> Option<String> {
        match &self.per_frame {
            None => {
                self.per_frame = Some(of_frame);
                None
            }
            Some(first) if *first == of_frame => None,
            Some(_) => Some("its codes have another form than those of the lines before".to_owned()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn verified(text: &str) -> Verified {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.jsonl");
        std::fs::write(&path, text).unwrap();
        check(&path, &Budget::limited(1 << 20), &Counters::default()).unwrap()
    }

    #[test]
    fn lines_of_one_model_are_whole() {
        let codes = r#"{"path":"a.wav","seconds":0.1,"text":"\"a\"","codes":[[1],[2,65535],[3,4,5,6]]}"#;
        let empty = r#"{"path":"b.wav","seconds":0,"snr_db":1.5,"codes":[[],[],[]]}"#;
        let found = verified(&format!("{empty}\n{codes}\n{codes}"));
        assert_eq!((found.rows, found.damaged, found.fault.clone()), (3, 0, None));
        found.check().unwrap();
        let ids: Vec<String> = (0..14).map(|at| (128_266 + (at % 7) * 4096 + 4095).to_string()).collect();
        let line = format!(r#"{{"path":"a","seconds":1,"codes_list":[{}]}}"#, ids.join(","));
        assert_eq!(verified(&format!("{line}\n{line}\n")).damaged, 0);
        assert_eq!(verified("").rows, 0);
    }

    #[test]
    fn every_fault_is_named_with_its_line_and_file() {
        let good = r#"{"path":"a.wav","seconds":0.1,"codes":[[1],[2,3]]}"#;
        for (line, file, word) in [
            ("", "", "line 2: EOF"),
            (&good[..good.len() - 1], "", "line 2: EOF"),
            (r#"{"path":"b.wav","codes":[[1],[2,3]]}"#, "", "missing field `seconds`"),
            (r#"{"path":"b.wav","seconds":-1,"codes":[[1],[2,3]]}"#, "b.wav", "seconds is -1"),
            (r#"{"path":"b.wav","seconds":1,"text":"","codes":[[1],[2,3]]}"#, "b.wav", "empty text"),
            (r#"{"path":"b.wav","seconds":1}"#, "b.wav", "neither"),
            (r#"{"path":"b.wav","seconds":1,"codes":[[1],[2,65536]]}"#, "", "65536"),
            (r#"{"path":"b.wav","seconds":1,"codes":[[1],[2,3,4,5,6]]}"#, "b.wav", "another form"),
            (r#"{"path":"b.wav","seconds":1,"codes":[[1,1],[2,3,4]]}"#, "b.wav", "levels have 2, 3 codes"),
            (r#"{"path":"b.wav","seconds":1,"codes":[[],[2]]}"#, "b.wav", "first level is empty"),
            (r#"{"path":"b.wav","seconds":1,"codes_list":[128266]}"#, "b.wav", "1 id; a frame has 7"),
            (r#"{"path":"b.wav","seconds":1,"codes_list":[0,0,0,0,0,0,0]}"#, "b.wav", "id 0 at 0; 128266 to 132361"),
        ] {
            let found = verified(&format!("{good}\n{line}\n{good}\n"));
            assert_eq!((found.rows, found.damaged, &found.first_damaged[..]), (3, 1, &[1][..]), "{line}");
            assert_eq!(found.first_files, [file], "{line}");
            let error = found.check().unwrap_err().to_string();
            assert!(error.contains("line 2: ") && error.contains(word), "{line}: {error}");
        }
    }
}
