//! Where the body of a request ends. The bytes stay as they are: hyper decodes them.

/// The rest of a body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Framing {
    /// Bytes.
    Length(u64),
    /// Chunks.
    Chunks(Chunk),
}

/// A state of the parser of chunks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Chunk {
    /// Before the first digit of a size.
    Start,
    /// In the size, or at its end.
    Size(u64),
    /// Behind the size, in what is ignored.
    Extension(u64),
    /// At the line feed behind a size.
    SizeEnd(u64),
    /// In a chunk.
    Data(u64),
    /// At the line end behind a chunk.
    DataEnd(&'static [u8]),
    /// At the start of a line behind the last chunk.
    Trailer,
    /// In such a line.
    TrailerLine,
    /// At the line feed behind all.
    End,
    /// Behind all.
    Over,
}

/// The body is not in chunks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Broken;

impl Framing {
    /// Returns whether the body has ended.
    pub fn is_over(self) -> bool {
        matches!(self, Self::Length(0) | Self::Chunks(Chunk::Over))
    }

    /// Goes over the next bytes, and returns how many of them belong to the body.
    ///
    /// # Errors
    /// The bytes are not valid chunks.
    pub fn pass(&mut self, bytes: &[u8]) -> Result<usize, Broken> {
        let chunk = match self {
            Self::Length(left) => {
                let n = bytes.len().min(usize::try_from(*left).unwrap_or(usize::MAX));
                *left -= n as u64;
                return Ok(n);
            }
            Self::Chunks(chunk) => chunk,
        };
        let mut at = 0;
        while let Some(byte) = bytes.get(at).filter(|_| *chunk != Chunk::Over) {
            let n = match *chunk {
                Chunk::Data(left) => (bytes.len() - at).min(usize::try_from(left).unwrap_or(usize::MAX)),
                _ => 1,
            };
            *chunk = chunk.after(*byte, n)?;
            at += n;
        }
        Ok(at)
    }
}

impl Chunk {
    /// Returns the state after `n` bytes that start with `byte`.
    fn after(self, byte: u8, n: usize) -> Result<Self, Broken> {
        let digit = char::from(byte).to_digit(16).map(u64::from);
        Ok(match (self, byte) {
            (Self::Start, _) => Self::Size(digit.ok_or(Broken)?),
            (Self::Size(size) | Self::Extension(size), b'\r') => Self::SizeEnd(size),
            (Self::Size(size), b' ' | b'\t' | b';') => Self::Extension(size),
            (Self::Size(size), _) => {
                let digit = digit.ok_or(Broken)?;
                Self::Size(size.checked_mul(16).and_then(|size| size.checked_add(digit)).ok_or(Broken)?)
            }
            (Self::Extension(_), b'\n') => return Err(Broken),
            (Self::Extension(size), _) => Self::Extension(size),
            (Self::SizeEnd(0) | Self::TrailerLine, b'\n') => Self::Trailer,
            (Self::SizeEnd(size), b'\n') => Self::Data(size),
            (Self::Data(left), _) if left == n as u64 => Self::DataEnd(b"\r\n"),
            (Self::Data(left), _) => Self::Data(left - n as u64),
            (Self::DataEnd([first, rest @ ..]), _) if *first == byte => match rest {
                [] => Self::Start,
                _ => Self::DataEnd(rest),
            },
            (Self::Trailer, b'\r') => Self::End,
            (Self::Trailer | Self::TrailerLine, _) => Self::TrailerLine,
            (Self::End, b'\n') => Self::Over,
            (Self::SizeEnd(_) | Self::DataEnd(_) | Self::End | Self::Over, _) => return Err(Broken),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the bytes of the body, given in pieces of `len` bytes.
    fn body(mut framing: Framing, bytes: &[u8], len: usize) -> Result<usize, Broken> {
        let mut n = 0;
        for piece in bytes.chunks(len) {
            n += framing.pass(piece)?;
        }
        assert_eq!(framing.is_over(), n < bytes.len());
        Ok(n)
    }

    #[test]
    fn bodies_end_where_they_say_however_they_are_cut() {
        let bodies: [&[u8]; 5] = [
            b"0\r\n\r\n",
            b"5\r\nhello\r\n0\r\n\r\n",
            b"0A;x=\"y\"\r\n0123456789\r\n000\r\n\r\n",
            b"1 \t \r\n\n\r\n1\r\n\r\r\n0\r\nx: y\r\nz: \r\n\r\n",
            b"2;;\r\n\r\n\r\n0\r\n\r\n",
        ];
        for bytes in bodies {
            let more = [bytes, b"GET /"].concat();
            for len in 1..more.len() {
                assert_eq!(body(Framing::Chunks(Chunk::Start), &more, len), Ok(bytes.len()), "{bytes:?} by {len}");
            }
        }
        for len in 1..9 {
            assert_eq!(body(Framing::Length(5), b"hello GET", len), Ok(5));
        }
        assert!(Framing::Length(0).is_over());
    }

    #[test]
    fn what_is_no_chunk_is_broken() {
        let bodies: [&[u8]; 9] = [
            b"\r\n",
            b"-1\r\n",
            b"0x1\r\n",
            b"11111111111111111\r\n",
            b"1\n",
            b"1;\n",
            b"1\r\nab\r\n",
            b"1\r\na\n",
            b"0\r\n\ra",
        ];
        for bytes in bodies {
            assert!(bytes.len() > 1 && Framing::Chunks(Chunk::Start).pass(bytes).is_err(), "{bytes:?}");
        }
    }
}
