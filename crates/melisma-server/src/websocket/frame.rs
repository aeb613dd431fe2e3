//! Frames of WebSockets (RFC 6455), without input or output: bytes to messages and back.

use std::ops::Range;

/// The longest payload of a control frame.
const MAX_CONTROL: usize = 125;

/// A message of one side to the other.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Message {
    /// Text.
    Text(String),
    /// Bytes.
    Binary(Vec<u8>),
    /// Asks for a pong with the same bytes.
    Ping(Vec<u8>),
    /// Answers a ping.
    Pong(Vec<u8>),
    /// The last message, with a code and a reason.
    Close(Option<(u16, String)>),
}

/// A breach of the protocol: the code and the reason to close with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Violation {
    /// RFC 6455, section 7.4.1.
    pub code: u16,
    /// The reason.
    pub reason: &'static str,
}

const PROTOCOL: u16 = 1002;
const NOT_TEXT: u16 = 1007;
const TOO_LARGE: u16 = 1009;

/// Which side wrote the frames: clients mask theirs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Writer {
    /// A client.
    Client,
    /// A server.
    Server,
}

/// Reads messages from bytes in any pieces. It holds at most one message and one frame's header more
/// than it was fed.
#[derive(Debug)]
pub struct Reader {
    writer: Writer,
    limit: usize,
    bytes: Vec<u8>,
    /// The message whose fragments arrive: its opcode and its payload.
    partial: Option<(u8, Vec<u8>)>,
}

/// A frame's header.
struct Head {
    is_final: bool,
    opcode: u8,
    mask: Option<[u8; 4]>,
    payload: Range<usize>,
}

const CONTINUATION: u8 = 0;
const TEXT: u8 = 1;
const BINARY: u8 = 2;
const CLOSE: u8 = 8;
const PING: u8 = 9;
const PONG: u8 = 10;

impl Reader {
    /// Reads frames of `writer` and messages of at most `limit` bytes.
    pub fn new(writer: Writer, limit: usize) -> Self {
        Self { writer, limit, bytes: Vec::new(), partial: None }
    }

    /// Takes bytes.
    pub fn feed(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// Returns the next whole message, or `None` if more bytes are needed.
    ///
    /// # Errors
    /// The other side broke the protocol or a limit.
    pub fn message(&mut self) -> Result<Option<Message>, Violation> {
        while let Some(head) = self.head()? {
            if self.bytes.len() < head.payload.end {
                return Ok(None);
            }
            let mut payload = self.bytes[head.payload.clone()].to_vec();
            self.bytes.drain(..head.payload.end);
            if let Some(mask) = head.mask {
                payload.iter_mut().zip(mask.iter().cycle()).for_each(|(byte, mask)| *byte ^= mask);
            }
            if let Some(message) = self.take(&head, payload)? {
                return Ok(Some(message));
            }
        }
        Ok(None)
    }

    /// Checks a header as soon as it is complete, so that a frame that is too long is refused at once.
    fn head(&self) -> Result<Option<Head>, Violation> {
        let wrong = |reason| Err(Violation { code: PROTOCOL, reason });
        let [first, second, rest @ ..] = &self.bytes[..] else { return Ok(None) };
        let (is_final, opcode) = (first & 0x80 != 0, first & 0x0f);
        if first & 0x70 != 0 {
            return wrong("reserved bits are set");
        }
        if !matches!(opcode, CONTINUATION | TEXT | BINARY | CLOSE | PING | PONG) {
            return wrong("unknown opcode");
        }
        let is_masked = second & 0x80 != 0;
        if is_masked != (self.writer == Writer::Client) {
            return wrong("frames of clients must be masked, those of servers must not");
        }
        let (n_extra, least) = match second & 0x7f {
            126 => (2, 126),
            127 => (8, 1 << 16),
            _ => (0, 0),
        };
        let Some(extra) = rest.get(..n_extra) else { return Ok(None) };
        let len = match n_extra {
            0 => u64::from(second & 0x7f),
            _ => extra.iter().fold(0u64, |len, byte| len << 8 | u64::from(*byte)),
        };
        if n_extra > 0 && len < least {
            return wrong("a length is not written in the shortest form");
        }
        if opcode >= CLOSE && (!is_final || len > MAX_CONTROL as u64) {
            return wrong("a control frame is fragmented or too long");
        }
        let held = if opcode < CLOSE { self.partial.as_ref().map_or(0, |(_, held)| held.len()) } else { 0 };
        let len = usize::try_from(len).ok().filter(|len| len.saturating_add(held) <= self.limit.max(MAX_CONTROL));
        let Some(len) = len else { return Err(Violation { code: TOO_LARGE, reason: "the message is too long" }) };
        let n_mask = if is_masked { 4 } else { 0 };
        let Some(mask) = rest.get(n_extra..n_extra + n_mask) else { return Ok(None) };
        let start = 2 + n_extra + n_mask;
        let mask = <[u8; 4]>::try_from(mask).ok();
        Ok(Some(Head { is_final, opcode, mask, payload: start..start + len }))
    }

    fn take(&mut self, head: &Head, payload: Vec<u8>) -> Result<Option<Message>, Violation> {
        let wrong = |reason| Err(Violation { code: PROTOCOL, reason });
        let &Head { is_final, opcode, .. } = head;
        match (opcode, self.partial.take()) {
            (CLOSE, _) => return close(&payload).map(Message::Close).map(Some),
            (PING | PONG, partial) => {
                self.partial = partial;
                return Ok(Some(if opcode == PING { Message::Ping(payload) } else { Message::Pong(payload) }));
            }
            (CONTINUATION, None) => return wrong("a continuation frame without a message to continue"),
            (CONTINUATION, Some((kind, mut held))) => {
                held.extend(payload);
                self.partial = Some((kind, held));
            }
            (_, Some(_)) => return wrong("a new message started inside another"),
            (kind, None) => self.partial = Some((kind, payload)),
        }
        match self.partial.take_if(|_| is_final) {
            None => Ok(None),
            Some((TEXT, held)) => text(held).map(Message::Text).map(Some),
            Some((_, held)) => Ok(Some(Message::Binary(held))),
        }
    }
}

fn text(bytes: Vec<u8>) -> Result<String, Violation> {
    String::from_utf8(bytes).map_err(|_| Violation { code: NOT_TEXT, reason: "text is not UTF-8" })
}

fn close(payload: &[u8]) -> Result<Option<(u16, String)>, Violation> {
    match payload {
        [] => Ok(None),
        [_] => Err(Violation { code: PROTOCOL, reason: "half a close code" }),
        [high, low, reason @ ..] => {
            let code = u16::from_be_bytes([*high, *low]);
            if !matches!(code, 1000..=1003 | 1007..=1014 | 3000..=4999) {
                return Err(Violation { code: PROTOCOL, reason: "unknown close code" });
            }
            Ok(Some((code, text(reason.to_vec())?)))
        }
    }
}

impl Message {
    /// Returns one frame; clients give a mask.
    pub fn frame(&self, mask: Option<[u8; 4]>) -> Vec<u8> {
        let closing;
        let (opcode, payload): (u8, &[u8]) = match self {
            Self::Text(text) => (TEXT, text.as_bytes()),
            Self::Binary(bytes) => (BINARY, bytes),
            Self::Ping(bytes) => (PING, bytes),
            Self::Pong(bytes) => (PONG, bytes),
            Self::Close(None) => (CLOSE, &[]),
            Self::Close(Some((code, reason))) => {
                let mut end = reason.len().min(MAX_CONTROL - 2);
                while !reason.is_char_boundary(end) {
                    end -= 1;
                }
                closing = [&code.to_be_bytes()[..], &reason.as_bytes()[..end]].concat();
                (CLOSE, &closing)
            }
        };
        let mut frame = Vec::with_capacity(payload.len() + 14);
        frame.push(0x80 | opcode);
        let masked = if mask.is_some() { 0x80 } else { 0 };
        match payload.len() {
            len @ 0..126 => frame.push(masked | len as u8),
            len @ 126..0x1_0000 => {
                frame.push(masked | 126);
                frame.extend_from_slice(&(len as u16).to_be_bytes());
            }
            len => {
                frame.push(masked | 127);
                frame.extend_from_slice(&(len as u64).to_be_bytes());
            }
        }
        match mask {
            None => frame.extend_from_slice(payload),
            Some(mask) => {
                frame.extend_from_slice(&mask);
                frame.extend(payload.iter().zip(mask.iter().cycle()).map(|(byte, mask)| byte ^ mask));
            }
        }
        frame
    }
}

#[cfg(test)]
mod tests;
