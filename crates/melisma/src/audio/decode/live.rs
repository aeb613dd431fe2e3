//! Decodes forwards, to the end: files, and pipes while they arrive.

use std::io::Read;

use symphonia::core::codecs::audio::AudioDecoderOptions;
use symphonia::core::io::ReadOnlySource;

use super::super::Channel;
use super::super::check::Watch;
use super::{Decoder, audio_track, guarded};
use crate::Result;

impl Decoder {
    /// Decodes `pipe` while it arrives.
    pub(in crate::audio) fn live(pipe: impl Read + Send + Sync + 'static, channel: Channel) -> Result<Self> {
        guarded(|| {
            let (mut watch, pipe) = Watch::new(pipe);
            let source = Box::new(ReadOnlySource::new(pipe));
            let opened = Self::new(source, None, channel, AudioDecoderOptions::default().verify(true));
            let mut opened = opened.map_err(|error| watch.explain_start(error))?;
            watch.begin(opened.checked_format())?;
            opened.watch = Some(watch);
            Ok(opened)
        })
    }

    /// Reads samples from the current position on and returns their number: at least one, or 0 at
    /// the end.
    pub(in crate::audio) fn read_next(&mut self, to: &mut [f32]) -> Result<usize> {
        guarded(|| {
            while self.ready.is_empty() {
                let decoded = self.decode().map_err(|error| match &mut self.watch {
                    Some(watch) => watch.explain(error),
                    None => error,
                });
                if !decoded? {
                    return self.end().map(|()| 0);
                }
            }
            let n = self.ready.len().min(to.len());
            to[..n].copy_from_slice(&self.ready[..n]);
            self.ready.drain(..n);
            self.start += n as u64;
            Ok(n)
        })
    }

    /// Checks a pipe at its end.
    fn end(&mut self) -> Result<()> {
        let Some(watch) = &mut self.watch else { return Ok(()) };
        let declared = watch.end()?;
        match self.checked_format() {
            None => self.check_end(None, audio_track(&*self.format)?.num_frames),
            format => self.check_end(format, declared),
        }
    }
}
