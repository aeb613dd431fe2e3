//! What each client says, and what it must hear.

use std::time::Duration;

use melisma::ErrorKind;
use melisma::audio::{Clip, wav};
use melisma::snac::tokens::Text;
use melisma::snac::{Codes, Frames, Noise};
use melisma_server::websocket::Message;

use super::block::Block;
use super::client::frame;
use super::subject::Subject;
use super::{BenchContext, Error, Result, codes, frame_time};

/// The frames that are repeated.
const CYCLE: usize = 16;
/// Frames whose samples are compared with those of an engine in this process.
const CHECKED: usize = 32;
const SAMPLE_BYTES: usize = 2;

/// How tokens are split into messages.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Split {
    /// One token each, evenly spread over a frame's time, as language models write them.
    Token,
    /// The tokens of a frame.
    Frame,
}

/// The tokens of a stream and its first samples.
pub(super) struct Script {
    /// Messages of each frame of the cycle, ready to send.
    frames: Vec<Vec<Vec<u8>>>,
    pub(super) start: Vec<u8>,
    pub(super) end: Vec<u8>,
    pub(super) n_frames: usize,
    /// The time that a frame plays.
    pub(super) period: Duration,
    frame_len: u64,
    lag: u64,
    sample_rate: u32,
    expected: Vec<u8>,
}

impl Script {
    /// Prepares tokens for `time`.
    pub(super) fn new(subject: &Subject, context: BenchContext<'_>, split: Split, time: Duration) -> Result<Self> {
        let config = subject.model.config();
        let period = frame_time(config);
        let cycle = codes(config, CYCLE)?;
        let message = |text: &str| frame(&Message::Text(text.to_owned()));
        let split = |text: String| match split {
            Split::Frame => vec![message(&text)],
            Split::Token => text.split_inclusive('>').filter(|token| token.ends_with('>')).map(message).collect(),
        };
        let frames = cycle.frames().chunks(1).map(|one| split(Text::Orpheus.lines(one))).collect();
        let mut engine = subject.engine(context)?;
        let lag = engine.lag();
        let n_frames = (time.as_secs_f64() / period.as_secs_f64()).ceil() as usize;
        let mut checked = Codes::empty(config);
        let each: Vec<Frames<'_>> = cycle.frames().chunks(1).collect();
        (0..CHECKED.min(n_frames)).try_for_each(|index| checked.append(each[index % CYCLE]))?;
        let mut samples = engine.decode(&checked, &Noise::default())?;
        // The end of the clip is not the end of the stream.
        samples.truncate(samples.len().saturating_sub(lag));
        let clip = Clip::mono(config.sampling_rate, samples);
        Ok(Self {
            frames,
            start: message(&Text::Orpheus.start(&subject.model)?),
            end: message(r#"{"type":"end"}"#),
            n_frames,
            period,
            frame_len: config.frame_len() as u64,
            lag: lag as u64,
            sample_rate: config.sampling_rate,
            expected: wav::encode(&clip, wav::SampleFormat::S16)?.split_off(44),
        })
    }

    /// Returns the messages of frame `index`.
    pub(super) fn messages(&self, index: usize) -> &[Vec<u8>] {
        &self.frames[index % CYCLE]
    }

    /// Returns the last frame that a block needs; `n_frames` stands for the end of the stream.
    pub(super) fn last_frame_of(&self, block: &Block) -> usize {
        let end = block.position + u64::from(block.n_samples);
        ((end + self.lag).div_ceil(self.frame_len) as usize).saturating_sub(1).min(self.n_frames)
    }

    /// Returns the latency of the audio behind the tokens, in samples.
    #[cfg(test)]
    pub(super) fn lag(&self) -> u64 {
        self.lag
    }

    /// Returns when a sample plays, after the first one.
    pub(super) fn time_of(&self, position: u64) -> Duration {
        Duration::from_secs_f64(position as f64 / f64::from(self.sample_rate))
    }

    /// Returns the bytes of a frame's samples.
    pub(super) fn block_bytes(&self) -> usize {
        self.frame_len as usize * SAMPLE_BYTES
    }

    /// Compares a block with the engine's samples.
    ///
    /// # Errors
    /// They differ.
    pub(super) fn check(&self, block: &Block, samples: &[u8]) -> Result<()> {
        let start = (block.position as usize * SAMPLE_BYTES).min(self.expected.len());
        let expected = &self.expected[start..];
        let n_bytes = expected.len().min(samples.len());
        if expected[..n_bytes] == samples[..n_bytes] {
            return Ok(());
        }
        Err(Error::new(ErrorKind::Check, format!("the samples from {} on are not those of the engine", block.position)))
    }
}
