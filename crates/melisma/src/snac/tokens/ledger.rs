//! Single tokens to whole frames.

/// The account of all tokens.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Ledger {
    /// Tokens that went into a frame.
    pub accepted: u64,
    /// Tokens outside the ranges, or out of order.
    pub rejected: u64,
    /// Times that a token's slot was not the expected one.
    pub resyncs: u64,
    /// Frames handed out, concealed ones included.
    pub frames: u64,
    /// Frames that were completed from the frame before.
    pub concealed_frames: u64,
    /// Frames that were given up.
    pub dropped_frames: u64,
}

impl Ledger {
    /// Returns all tokens.
    pub fn seen(&self) -> u64 {
        self.accepted + self.rejected
    }

    /// Returns the account of both.
    #[cfg(feature = "speak")]
    pub(crate) fn with(self, other: Self) -> Self {
        Self {
            accepted: self.accepted + other.accepted,
            rejected: self.rejected + other.rejected,
            resyncs: self.resyncs + other.resyncs,
            frames: self.frames + other.frames,
            concealed_frames: self.concealed_frames + other.concealed_frames,
            dropped_frames: self.dropped_frames + other.dropped_frames,
        }
    }
}

/// Puts tokens into the slots of the current frame.
///
/// A token of a later slot leaves a hole; slot 0 begins the next frame. Any other step back is rejected, unless the
/// next token continues it: then the start of a frame was lost, and the two begin it. The holes of a frame
/// with more than half of its tokens are filled from the frame before; one with fewer, or without a frame before it, is
/// dropped.
#[derive(Debug)]
pub struct Assembler {
    frame: Vec<Option<i32>>,
    expected: usize,
    n_held: usize,
    /// The last token, when it was a step back.
    suspect: Option<(usize, i32)>,
    previous: Option<Vec<i32>>,
    ledger: Ledger,
}

impl Assembler {
    /// Creates an empty ledger for frames of `n_slots`.
    pub fn new(n_slots: usize) -> Self {
        let frame = vec![None; n_slots];
        Self { frame, expected: 0, n_held: 0, suspect: None, previous: None, ledger: Ledger::default() }
    }

    pub fn ledger(&self) -> Ledger {
        self.ledger
    }

    /// Counts a token that belongs to no slot or codebook.
    pub fn reject(&mut self) {
        self.ledger.rejected += 1;
    }

    /// Takes a token; `slot` must be one of the frame's.
    pub fn offer(&mut self, slot: usize, code: i32, frames: &mut Vec<i32>) {
        if slot != self.expected {
            self.ledger.resyncs += 1;
        }
        if slot < self.expected {
            match self.suspect {
                _ if slot == 0 => self.close(frames),
                Some((before, code)) if before + 1 == slot => {
                    self.close(frames);
                    self.ledger.rejected -= 1;
                    self.put(before, code, frames);
                }
                _ => {
                    self.suspect = Some((slot, code));
                    return self.reject();
                }
            }
        }
        self.put(slot, code, frames);
    }

    /// Ends the stream.
    pub fn finish(&mut self, frames: &mut Vec<i32>) {
        self.close(frames);
    }

    fn put(&mut self, slot: usize, code: i32, frames: &mut Vec<i32>) {
        self.frame[slot] = Some(code);
        self.n_held += 1;
        self.expected = slot + 1;
        self.suspect = None;
        self.ledger.accepted += 1;
        if self.expected == self.frame.len() {
            self.close(frames);
        }
    }

    fn close(&mut self, frames: &mut Vec<i32>) {
        let complete = self.n_held == self.frame.len();
        let start = frames.len();
        if complete {
            frames.extend(self.frame.iter().flatten());
        } else if let Some(previous) = self.previous.as_ref().filter(|_| 2 * self.n_held > self.frame.len()) {
            frames.extend(self.frame.iter().zip(previous).map(|(code, previous)| code.unwrap_or(*previous)));
            self.ledger.concealed_frames += 1;
        } else if self.n_held > 0 {
            self.ledger.dropped_frames += 1;
        }
        if frames.len() > start {
            self.ledger.frames += 1;
            self.previous = Some(frames[start..].to_vec());
        }
        self.frame.fill(None);
        (self.expected, self.n_held, self.suspect) = (0, 0, None);
    }
}
