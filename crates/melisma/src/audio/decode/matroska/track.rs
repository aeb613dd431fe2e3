//! The audio track of a Matroska file, as symphonia's decoders know it.

use symphonia::core::audio::Channels;
use symphonia::core::codecs::audio::{AudioCodecId, AudioCodecParameters, well_known};

use super::super::opus;
use super::ebml::{children, float, unsigned};
use crate::{Error, Result};

const ENTRY: u32 = 0xae;
const NUMBER: u32 = 0xd7;
const TYPE: u32 = 0x83;
const DEFAULT: u32 = 0x88;
const CODEC: u32 = 0x86;
const PRIVATE: u32 = 0x63a2;
const DELAY: u32 = 0x56aa;
const ENCODINGS: u32 = 0x6d80;
const AUDIO: u32 = 0xe1;
const RATE: u32 = 0xb5;
const CHANNELS: u32 = 0x9f;
const BITS: u32 = 0x6264;
/// The type of audio tracks.
const IS_AUDIO: u64 = 2;
/// Bytes of the block of properties that a FLAC track begins with, and where it stands.
const FLAC: std::ops::Range<usize> = 8..42;

/// An audio track.
#[derive(Debug)]
pub(super) struct Track {
    pub number: u64,
    pub parameters: AudioCodecParameters,
    /// Samples at the start that are not audio.
    pub delay: u64,
    is_default: bool,
}

impl Track {
    /// Returns the default audio track among `tracks`, or else the first one.
    pub(super) fn find(tracks: &[u8]) -> Result<Self> {
        let mut found = None;
        for (_, entry) in children(tracks)?.into_iter().filter(|(id, _)| *id == ENTRY) {
            let Some(track) = Self::parse(entry)? else { continue };
            if track.is_default {
                return Ok(track);
            }
            found.get_or_insert(track);
        }
        found.ok_or_else(|| Error::unsupported("it has no audio track"))
    }

    /// Reads an entry; `None` if it is not audio.
    fn parse(entry: &[u8]) -> Result<Option<Self>> {
        let fields = children(entry)?;
        let field = |id| fields.iter().find(|(found, _)| *found == id).map(|(_, body)| *body);
        let number = |id| field(id).and_then(unsigned);
        if number(TYPE) != Some(IS_AUDIO) {
            return Ok(None);
        }
        if field(ENCODINGS).is_some() {
            return Err(Error::unsupported("its audio track is compressed twice or encrypted"));
        }
        let audio = children(field(AUDIO).unwrap_or_default())?;
        let property = |id| audio.iter().find(|(found, _)| *found == id).map(|(_, body)| *body);
        let rate = property(RATE).map_or(Some(8000.0), float).filter(|rate| (1.0..=f64::from(u32::MAX)).contains(rate));
        let n_channels = property(CHANNELS).map_or(Some(1), unsigned).and_then(|n| u16::try_from(n).ok());
        let bits = property(BITS).and_then(unsigned).unwrap_or(0);
        let (Some(rate), Some(n_channels @ 1..), Some(number @ 1..)) = (rate, n_channels, number(NUMBER)) else {
            return Err(Error::corrupt("an audio track in Matroska without a number, a rate or channels"));
        };
        let name = String::from_utf8_lossy(field(CODEC).unwrap_or_default()).trim_end_matches('\0').to_owned();
        let Some(codec) = codec(&name, bits) else {
            return Err(Error::unsupported(format!("its audio coding is not known: `{}`", name.escape_debug())));
        };
        let rate = if codec == well_known::CODEC_ID_OPUS { opus::RATE.into() } else { rate };
        let private = field(PRIVATE).unwrap_or_default();
        let private = if codec == well_known::CODEC_ID_FLAC { private.get(FLAC).unwrap_or_default() } else { private };
        let mut parameters = AudioCodecParameters::new();
        parameters.for_codec(codec).with_sample_rate(rate.round() as u32).with_channels(Channels::Discrete(n_channels));
        if !private.is_empty() {
            parameters.with_extra_data(private.into());
        }
        if (1..=64).contains(&bits) {
            parameters.with_bits_per_sample(bits as u32);
        }
        let delay = number_of_samples(field(DELAY).and_then(unsigned).unwrap_or(0), rate);
        let is_default = field(DEFAULT).and_then(unsigned) != Some(0);
        Ok(Some(Self { number, parameters, delay, is_default }))
    }
}

/// Returns the number of samples in `ns` nanoseconds.
pub(super) fn number_of_samples(ns: u64, rate: f64) -> u64 {
    (ns as f64 * rate / 1e9).round() as u64
}

fn codec(name: &str, bits: u64) -> Option<AudioCodecId> {
    use well_known::{
        CODEC_ID_AAC, CODEC_ID_ALAC, CODEC_ID_FLAC, CODEC_ID_MP3, CODEC_ID_OPUS, CODEC_ID_PCM_F32LE,
        CODEC_ID_PCM_F64LE, CODEC_ID_PCM_S16BE, CODEC_ID_PCM_S16LE, CODEC_ID_PCM_S24BE, CODEC_ID_PCM_S24LE,
        CODEC_ID_PCM_S32BE, CODEC_ID_PCM_S32LE, CODEC_ID_VORBIS,
    };
    Some(match (name, bits) {
        ("A_OPUS", _) => CODEC_ID_OPUS,
        ("A_VORBIS", _) => CODEC_ID_VORBIS,
        ("A_FLAC", _) => CODEC_ID_FLAC,
        ("A_MPEG/L3", _) => CODEC_ID_MP3,
        ("A_ALAC", _) => CODEC_ID_ALAC,
        ("A_AAC", _) | ("A_AAC/MPEG2/LC" | "A_AAC/MPEG4/LC", _) => CODEC_ID_AAC,
        ("A_PCM/INT/LIT", 16) => CODEC_ID_PCM_S16LE,
        ("A_PCM/INT/LIT", 24) => CODEC_ID_PCM_S24LE,
        ("A_PCM/INT/LIT", 32) => CODEC_ID_PCM_S32LE,
        ("A_PCM/INT/BIG", 16) => CODEC_ID_PCM_S16BE,
        ("A_PCM/INT/BIG", 24) => CODEC_ID_PCM_S24BE,
        ("A_PCM/INT/BIG", 32) => CODEC_ID_PCM_S32BE,
        ("A_PCM/FLOAT/IEEE", 32) => CODEC_ID_PCM_F32LE,
        ("A_PCM/FLOAT/IEEE", 64) => CODEC_ID_PCM_F64LE,
        _ => return None,
    })
}
