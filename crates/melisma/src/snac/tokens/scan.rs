//! Tokens in text, byte by byte.

use super::format::Format;

/// Long enough for every token and stamp.
const MAX_LEN: usize = 64;
const TOKEN: &str = "custom_token_";
const STAMP: &str = "melisma_model_";

/// One thing found in the text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Token<'a> {
    /// N of `<custom_token_N>`.
    Number(i64),
    /// A vocabulary id.
    Id(i64),
    /// Looks like a token, but its number cannot be read.
    Malformed,
    /// The hash of `<melisma_model_HASH>`.
    Stamp(&'a str),
}

/// Finds tokens in text that arrives in pieces.
#[derive(Debug)]
pub struct Scanner {
    kind: Kind,
    /// The text after an open `<`, or the current word.
    held: Vec<u8>,
    state: State,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Tags,
    Words,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Outside,
    Inside,
    /// More than [`MAX_LEN`] bytes: what follows is ignored to the end of the word.
    Overlong,
}

impl Scanner {
    /// Scans for `<custom_token_N>` anywhere.
    pub fn tags() -> Self {
        Self { kind: Kind::Tags, held: Vec::with_capacity(MAX_LEN), state: State::Outside }
    }

    /// Scans for integers.
    pub fn words() -> Self {
        Self { kind: Kind::Words, ..Self::tags() }
    }

    pub fn format(&self) -> Format {
        match self.kind {
            Kind::Tags => Format::Orpheus,
            Kind::Words => Format::Ids,
        }
    }

    /// Hands every token that ends in `bytes` to `found`.
    pub fn push(&mut self, bytes: &[u8], mut found: impl FnMut(Token<'_>)) {
        for &byte in bytes {
            match self.kind {
                Kind::Tags => self.tag_byte(byte, &mut found),
                Kind::Words => self.word_byte(byte, &mut found),
            }
        }
    }

    /// Ends the text: the last word needs no separator, and a tag without its `>` is not a token.
    pub fn finish(&mut self, mut found: impl FnMut(Token<'_>)) {
        if self.kind == Kind::Words {
            self.word_byte(b'\n', &mut found);
        }
    }

    #[cfg(test)]
    pub fn held_len(&self) -> usize {
        self.held.capacity()
    }

    fn tag_byte(&mut self, byte: u8, found: &mut impl FnMut(Token<'_>)) {
        match (byte, self.state) {
            (b'<', _) => {
                self.held.clear();
                self.state = State::Inside;
            }
            (b'>', State::Inside) => {
                if let Some(token) = tag(&self.held) {
                    found(token);
                }
                self.state = State::Outside;
            }
            (_, State::Inside) if self.held.len() == MAX_LEN => {
                if self.held.starts_with(TOKEN.as_bytes()) {
                    found(Token::Malformed);
                }
                self.state = State::Outside;
            }
            (_, State::Inside) => self.held.push(byte),
            _ => {}
        }
    }

    fn word_byte(&mut self, byte: u8, found: &mut impl FnMut(Token<'_>)) {
        let separator = is_separator(byte);
        match self.state {
            State::Outside if separator => {}
            State::Outside => {
                self.held.clear();
                self.held.push(byte);
                self.state = State::Inside;
            }
            State::Inside | State::Overlong if separator => {
                let id = if self.state == State::Inside { integer(&self.held) } else { None };
                found(id.map_or(Token::Malformed, Token::Id));
                self.state = State::Outside;
            }
            State::Inside if self.held.len() == MAX_LEN => self.state = State::Overlong,
            State::Inside => self.held.push(byte),
            State::Overlong => {}
        }
    }
}

/// Returns whether `byte` may stand between ids.
pub fn is_separator(byte: u8) -> bool {
    byte.is_ascii_whitespace() || matches!(byte, b',' | b';' | b'[' | b']')
}

/// Returns a decimal integer with an optional minus, saturated to what all later arithmetic can
/// bear.
pub fn integer(word: &[u8]) -> Option<i64> {
    let digits = word.strip_prefix(b"-").unwrap_or(word);
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let value = digits.iter().fold(0_i64, |value, digit| (value * 10 + i64::from(digit - b'0')).min(1 << 40));
    Some(if digits.len() < word.len() { -value } else { value })
}

fn tag(text: &[u8]) -> Option<Token<'_>> {
    if let Some(number) = text.strip_prefix(TOKEN.as_bytes()) {
        return Some(integer(number).map_or(Token::Malformed, Token::Number));
    }
    let hash = std::str::from_utf8(text.strip_prefix(STAMP.as_bytes())?).ok()?;
    hash.bytes().all(|byte| byte.is_ascii_hexdigit()).then_some(Token::Stamp(hash))
}
