//! Replaces the decoder when the feature `codecs` is disabled: only WAV files are read.

use std::io::Read;
use std::path::Path;

use super::Channel;
use super::clipping::Clipping;
use crate::{Error, Result};

/// A decoder that always fails to open.
#[derive(Debug)]
pub(super) enum Decoder {}

impl Decoder {
    pub(super) fn open(_: &Path, _: Channel) -> Result<Self> {
        Err(refused())
    }

    pub(super) fn live(_: impl Read + Send + Sync + 'static, _: Channel) -> Result<Self> {
        Err(refused())
    }

    pub(super) fn count(_: &Path) -> Result<u64> {
        Err(refused())
    }

    pub(super) fn sample_rate(&self) -> u32 {
        match *self {}
    }

    pub(super) fn n_channels(&self) -> usize {
        match *self {}
    }

    pub(super) fn clipping(&self) -> &Clipping {
        match *self {}
    }

    pub(super) fn read_next(&mut self, _: &mut [f32]) -> Result<usize> {
        match *self {}
    }

    pub(super) fn read_mono(&mut self, _: u64, _: &mut [f32]) -> Result<()> {
        match *self {}
    }
}

fn refused() -> Error {
    Error::unsupported("not a WAV file, and this build has no decoders for compressed audio")
        .with_hint("build melisma with the feature `codecs`, or convert the file to WAV")
}
