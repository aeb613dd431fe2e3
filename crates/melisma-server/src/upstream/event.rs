//! Server-sent events: lines of `data: ...`, an empty line after each event.

use crate::http::failure::Failure;

use super::fault;

/// Splits bytes into the data of events. It holds at most one event.
#[derive(Debug)]
pub struct Events {
    line: Vec<u8>,
    data: Option<String>,
    /// The most bytes of a line, and of an event's data.
    limit: usize,
    /// The line feed of a CR LF is still to come.
    skips_feed: bool,
}

impl Events {
    /// Allows events of `limit` bytes.
    pub fn new(limit: usize) -> Self {
        Self { line: Vec::new(), data: None, limit, skips_feed: false }
    }

    /// Takes bytes in any split. Returns the data of the events that they complete.
    ///
    /// # Errors
    /// A line is too long or not UTF-8.
    pub fn push(&mut self, bytes: &[u8]) -> Result<Vec<String>, Failure> {
        let mut events = Vec::new();
        for &byte in bytes {
            let is_second = std::mem::take(&mut self.skips_feed) && byte == b'\n';
            match byte {
                b'\n' if is_second => {}
                b'\n' | b'\r' => {
                    self.skips_feed = byte == b'\r';
                    events.extend(self.end_line()?);
                }
                _ if self.line.len() >= self.limit => return Err(self.too_long()),
                _ => self.line.push(byte),
            }
        }
        Ok(events)
    }

    /// Returns the event that an empty line completes.
    fn end_line(&mut self) -> Result<Option<String>, Failure> {
        if self.line.is_empty() {
            return Ok(self.data.take());
        }
        let line = std::mem::take(&mut self.line);
        let line = std::str::from_utf8(&line).map_err(|_| {
            fault::garbage("a line is not UTF-8").with_detail(String::from_utf8_lossy(&line).into_owned())
        })?;
        // Other fields and comments, which begin with a colon, carry no tokens.
        let Some(value) = line.strip_prefix("data:") else { return Ok(None) };
        let value = value.strip_prefix(' ').unwrap_or(value);
        match &mut self.data {
            None => self.data = Some(value.to_owned()),
            Some(data) if data.len() + value.len() >= self.limit => return Err(self.too_long()),
            Some(data) => {
                data.push('\n');
                data.push_str(value);
            }
        }
        Ok(None)
    }

    fn too_long(&self) -> Failure {
        let begin = self.data.as_deref().map_or_else(|| String::from_utf8_lossy(&self.line), Into::into);
        fault::garbage(&format!("an event of more than {} bytes", self.limit)).with_detail(begin)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn events_are_found_whatever_the_line_ends_are() {
        for text in [
            "data: one\n\n: ping\n\nevent: x\ndata:two\ndata: three\n\n",
            "data: one\r\n\r\n: ping\r\n\r\nid: 4\r\ndata:two\r\ndata: three\r\n\r\n",
            "data: one\r\r: ping\r\rdata:two\rdata: three\r\r",
        ] {
            let mut events = Events::new(100);
            assert_eq!(events.push(text.as_bytes()).unwrap(), ["one", "two\nthree"], "{text:?}");
        }
    }

    #[test]
    fn long_lines_long_events_and_other_bytes_are_faults() {
        assert!(Events::new(10).push(b"data: 1234").is_ok());
        assert!(Events::new(10).push(b"data: 12345").is_err());
        assert!(Events::new(10).push(&b"data: 1\n".repeat(6)).is_err());
        assert!(Events::new(10).push(b"data: \xff\n").is_err());
    }

    proptest! {
        #[test]
        fn any_split_gives_the_same_events(bytes in prop::collection::vec(prop::sample::select(b"data: x\r\n".to_vec()), 0..80), cut in 0_usize..80) {
            let cut = cut.min(bytes.len());
            let whole = Events::new(1000).push(&bytes).unwrap();
            let mut events = Events::new(1000);
            let mut parts = events.push(&bytes[..cut]).unwrap();
            parts.extend(events.push(&bytes[cut..]).unwrap());
            prop_assert_eq!(whole, parts);
        }
    }
}
