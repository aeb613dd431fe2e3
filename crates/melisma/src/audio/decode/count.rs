//! Finds the length of a file and checks that it is complete.

use std::path::Path;

use symphonia::core::codecs::audio::AudioDecoderOptions;
use symphonia::core::codecs::audio::well_known::CODEC_ID_ALAC;
use symphonia::core::formats::well_known::FORMAT_ID_OGG;
use symphonia::core::packet::Packet;

use super::super::Channel;
use super::super::check::{self, Format};
use super::super::edit::too_short;
use super::super::file::open_regular;
use super::{Decoder, audio_track, guarded, opus};
use crate::{Error, Result};

impl Decoder {
    /// Returns the total number of samples, found by passing over a complete file to
    /// its end.
    pub(in crate::audio) fn count(path: &Path) -> Result<u64> {
        // Runs before the decoder, which does not say where a file is damaged.
        let begins_as = check::sniff(open_regular(path)?)?;
        let checked = begins_as.map(|format| check::count_samples(format, open_regular(path)?)).transpose()?;
        guarded(|| {
            let opened = Self::of_file(path, Channel::Mix, AudioDecoderOptions::default().verify(true))?;
            let format = opened.checked_format();
            let declared = match (format, checked) {
                (Some(format), Some(declared)) if begins_as == Some(format) => declared,
                (Some(format), _) => check::count_samples(format, open_regular(path)?)?,
                (None, _) => audio_track(&*opened.format)?.num_frames,
            };
            opened.count_to_end(format, declared)
        })
    }

    /// Passes over everything and returns the number of samples. Fails if there are fewer than
    /// `declared`.
    fn count_to_end(mut self, format: Option<Format>, declared: Option<u64>) -> Result<u64> {
        loop {
            self.start += self.ready.len() as u64;
            self.ready.clear();
            if !self.pass()? {
                break;
            }
        }
        self.check_end(format, declared).map(|()| self.start)
    }

    /// Checks all samples against their declared number and checksum, if any.
    pub(super) fn check_end(&mut self, format: Option<Format>, mut declared: Option<u64>) -> Result<()> {
        if format == Some(Format::Ogg) {
            declared = declared.map(|declared| declared.saturating_sub(self.n_before));
        }
        let decoded = if format.is_some() { self.start } else { self.edits.at };
        // The last packet of ALAC states its own length; some CAF writers declare a full packet.
        let is_alac = self.decoder.codec_params().codec == CODEC_ID_ALAC;
        let tolerated = if is_alac { self.last_packet.saturating_sub(1) } else { 0 };
        if let Some(declared) = declared.filter(|&declared| declared > decoded + tolerated) {
            return Err(too_short(declared, decoded));
        }
        match self.decoder.finalize().verify_ok {
            Some(false) => {
                let message = format!("the MD5 of its {} samples is not the one that it declares", self.start);
                Err(Error::corrupt(message))
            }
            _ => Ok(()),
        }
    }

    /// Passes over one packet; false at the end of the file. Opus is not decoded: the headers of its
    /// packets tell their lengths, so that a file is decoded only once, when it is read.
    fn pass(&mut self) -> Result<bool> {
        let Some(packet) = self.next_packet()? else { return Ok(false) };
        if !self.is_opus() {
            return self.sound(&packet).map(|_| true);
        }
        let (n, trimmed) = (opus::n_samples(&packet.data)? as u64, packet.trim_start.get() + packet.trim_end.get());
        let kept = self.edits.take(n.saturating_sub(trimmed) as usize);
        self.start += kept.map(|part| part.len() as u64).sum::<u64>();
        Ok(true)
    }

    /// Checks that symphonia's reader of Ogg knows the length of an Opus packet, on which its clock
    /// depends.
    pub(super) fn check_length(&self, packet: &Packet) -> Result<()> {
        let is_ogg = self.format.format_info().format == FORMAT_ID_OGG;
        if is_ogg && self.is_opus() && packet.block_dur().get() != opus::n_samples(&packet.data)? as u64 {
            return Err(Error::unsupported("an Opus packet of 32 frames or more in Ogg; at most 31 are read"));
        }
        Ok(())
    }
}
