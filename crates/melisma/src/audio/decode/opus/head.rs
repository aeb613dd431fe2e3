//! The header of Opus (RFC 7845, section 5.1): channels, gain, and what to skip at the start.

use symphonia::core::codecs::audio::AudioCodecParameters;

use crate::{Error, Result};

const MAGIC: &[u8] = b"OpusHead";
/// Bytes before the table of channels.
const LEN: usize = 19;
/// Where the number of the channel mapping stands.
pub(super) const FAMILY: usize = 18;
/// The source of a channel that is silent.
const SILENT: u8 = 255;
/// For each number of channels from 3 on: which of Vorbis' channels stands where in a WAV file.
const WAV_ORDER: [&[usize]; 6] = [
    &[0, 2, 1],
    &[0, 1, 2, 3],
    &[0, 2, 1, 3, 4],
    &[0, 2, 1, 5, 3, 4],
    &[0, 2, 1, 6, 5, 3, 4],
    &[0, 2, 1, 7, 5, 6, 3, 4],
];

/// A parsed header.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Head {
    /// Samples at the start that are not audio.
    pub pre_skip: u64,
    /// The gain in 1/256 dB.
    pub gain_q8: i32,
    pub n_streams: usize,
    /// The first streams have two channels each.
    n_coupled: usize,
    /// For each channel, in the order of a WAV file, which decoded channel it is; `None` is silence.
    pub sources: Vec<Option<usize>>,
}

impl Head {
    /// Reads the header of a track.
    pub(super) fn of(parameters: &AudioCodecParameters) -> Result<Self> {
        let bytes = parameters.extra_data.as_deref();
        Self::parse(bytes.ok_or_else(|| Error::corrupt("an Opus track without its header"))?)
    }

    pub(super) fn parse(bytes: &[u8]) -> Result<Self> {
        if !bytes.starts_with(MAGIC) || bytes.len() < LEN {
            return Err(Error::corrupt(format!("an Opus header of {} bytes; {LEN} or more are expected", bytes.len())));
        }
        let (version, n_channels, family) = (bytes[8], usize::from(bytes[9]), bytes[FAMILY]);
        if version >> 4 != 0 {
            return Err(Error::unsupported(format!("an Opus header of version {version}; versions up to 15 are read")));
        }
        let fits = match family {
            0 => (1..=2).contains(&n_channels),
            1 => (1..=8).contains(&n_channels),
            255 => n_channels > 0,
            _ => {
                let message = format!("an Opus file with the channel mapping {family}; 0, 1 and 255 are read");
                return Err(Error::unsupported(message));
            }
        };
        if !fits {
            return Err(Error::corrupt(format!("an Opus header of {n_channels} channels with the mapping {family}")));
        }
        let (n_streams, n_coupled, table) = match family {
            0 => (1, n_channels - 1, vec![0, 1]),
            _ => {
                let table = bytes.get(LEN + 2..LEN + 2 + n_channels);
                let table =
                    table.ok_or_else(|| Error::corrupt("the table of channels in the Opus header is cut off"))?;
                (usize::from(bytes[LEN]), usize::from(bytes[LEN + 1]), table.to_vec())
            }
        };
        let n_decoded = n_streams + n_coupled;
        if n_streams == 0 || n_coupled > n_streams || n_decoded > usize::from(SILENT) {
            let message = format!("an Opus header of {n_streams} streams, {n_coupled} of them with two channels");
            return Err(Error::corrupt(message));
        }
        let source = |channel: usize| match table[channel] {
            SILENT => Ok(None),
            source if usize::from(source) < n_decoded => Ok(Some(usize::from(source))),
            source => Err(Error::corrupt(format!("channel {source} of {n_decoded} in the Opus header"))),
        };
        let order = (family == 1 && n_channels > 2).then(|| WAV_ORDER[n_channels - 3]);
        let sources = (0..n_channels).map(|channel| source(order.map_or(channel, |order| order[channel])));
        Ok(Self {
            pre_skip: u16::from_le_bytes([bytes[10], bytes[11]]).into(),
            gain_q8: i16::from_le_bytes([bytes[16], bytes[17]]).into(),
            n_streams,
            n_coupled,
            sources: sources.collect::<Result<_>>()?,
        })
    }

    /// Returns the number of channels of stream `index`.
    pub(super) fn channels_of(&self, index: usize) -> usize {
        1 + usize::from(index < self.n_coupled)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn head(n_channels: u8, family: u8, table: &[u8]) -> Vec<u8> {
        [MAGIC, &[1, n_channels, 0x38, 1, 0x80, 0xbb, 0, 0, 0, 0xff, family], table].concat()
    }

    #[test]
    fn channels_stand_as_in_a_wav_file() {
        let mono = Head::parse(&head(1, 0, &[])).unwrap();
        assert_eq!((mono.pre_skip, mono.gain_q8, mono.n_streams), (312, -256, 1));
        assert_eq!((mono.channels_of(0), mono.sources), (1, vec![Some(0)]));
        let stereo = Head::parse(&head(2, 0, &[])).unwrap();
        assert_eq!((stereo.channels_of(0), stereo.sources), (2, vec![Some(0), Some(1)]));
        // Left, centre, right, the two at the back, and the low frequencies.
        let surround = Head::parse(&head(6, 1, &[4, 2, 0, 4, 1, 2, 3, 5])).unwrap();
        assert_eq!([0, 1, 2, 3].map(|index| surround.channels_of(index)), [2, 2, 1, 1]);
        assert_eq!(surround.sources, [0, 1, 4, 5, 2, 3].map(Some));
        let discrete = Head::parse(&head(3, 255, &[3, 0, 2, 255, 0])).unwrap();
        assert_eq!(discrete.sources, [Some(2), None, Some(0)]);
    }

    #[test]
    fn headers_that_contradict_themselves_are_refused() {
        for (bytes, message) in [
            (head(1, 0, &[])[..18].to_vec(), "an Opus header of 18 bytes; 19 or more are expected"),
            (head(3, 0, &[]), "an Opus header of 3 channels with the mapping 0"),
            (head(9, 1, &[]), "an Opus header of 9 channels with the mapping 1"),
            (head(4, 2, &[4, 0, 0, 1, 2, 3]), "an Opus file with the channel mapping 2; 0, 1 and 255 are read"),
            (head(2, 1, &[1, 1, 0]), "the table of channels in the Opus header is cut off"),
            (head(2, 1, &[1, 2, 0, 1]), "an Opus header of 1 streams, 2 of them with two channels"),
            (head(2, 1, &[0, 0, 0, 1]), "an Opus header of 0 streams, 0 of them with two channels"),
            (head(2, 1, &[1, 1, 0, 2]), "channel 2 of 2 in the Opus header"),
        ] {
            assert_eq!(Head::parse(&bytes).unwrap_err().to_string(), message);
        }
        let mut later = head(1, 0, &[]);
        later[8] = 16;
        assert!(Head::parse(&later).is_err());
    }
}
