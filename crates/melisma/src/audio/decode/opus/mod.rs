//! Decodes Opus (RFC 6716, RFC 7845) at 48 kHz, as one of symphonia's decoders. A packet holds one
//! stream of one or two channels, or several; the header says which channel is which.

mod delimited;
mod head;
mod stream;

use opus_pure::packet::samples_48k;
use symphonia::core::audio::{
    AsGenericAudioBufferRef, AudioBuffer, AudioMut, AudioSpec, Channels, GenericAudioBufferRef,
};
use symphonia::core::codecs::CodecInfo;
use symphonia::core::codecs::audio::well_known::CODEC_ID_OPUS;
use symphonia::core::codecs::audio::{AudioCodecParameters, AudioDecoder, AudioDecoderOptions, FinalizeResult};
use symphonia::core::codecs::registry::{RegisterableAudioDecoder, SupportedAudioCodec};
use symphonia::core::errors::Result as SymphoniaResult;
use symphonia::core::packet::PacketRef;

use super::carried;
use crate::{Error, Result};
use head::Head;
use stream::Stream;

/// Samples per second, whatever the rate of the recording was.
pub(super) const RATE: u32 = 48_000;

const CODEC: SupportedAudioCodec =
    SupportedAudioCodec { id: CODEC_ID_OPUS, info: CodecInfo { short_name: "opus", long_name: "Opus", profiles: &[] } };

/// Returns the number of samples of `packet`, per channel, by its header.
pub(super) fn n_samples(packet: &[u8]) -> Result<usize> {
    samples_48k(packet).map_err(failed)
}

/// Returns a packet that was not sent, for a stream with these parameters and as long as a frame of the
/// packet that begins with `toc`: what was heard before goes on instead.
pub(super) fn unsent(parameters: &AudioCodecParameters, toc: u8) -> Result<Vec<u8>> {
    // Of the first byte the last two bits count the frames. Every stream but the last one has the length
    // of its frame, which is 0.
    let mut packet = [toc & !3, 0].repeat(Head::of(parameters)?.n_streams);
    packet.pop();
    Ok(packet)
}

/// Returns the samples at the start of a stream with these parameters that are not audio.
pub(super) fn pre_skip(parameters: &AudioCodecParameters) -> Result<u64> {
    Ok(if parameters.codec == CODEC_ID_OPUS { Head::of(parameters)?.pre_skip } else { 0 })
}

/// Returns the pre-skip in the header of an Ogg stream. Symphonia's reader leaves streams out that it
/// does not know, without a word.
pub(in crate::audio) fn pre_skip_in_ogg(header: &[u8]) -> Result<u64> {
    let head = Head::parse(header)?;
    match header.get(head::FAMILY) {
        Some(0 | 1) => Ok(head.pre_skip),
        family => {
            let family = family.copied().unwrap_or_default();
            let message = format!("Opus in Ogg with the channel mapping {family}; 0 and 1 are read");
            Err(Error::unsupported(message).with_hint("convert it, as in `ffmpeg -i IN OUT.flac`"))
        }
    }
}

/// Returns the number of channels of an Opus stream with these parameters.
pub(super) fn n_channels(parameters: &AudioCodecParameters) -> Result<usize> {
    Head::of(parameters).map(|head| head.sources.len())
}

/// The decoder of a track.
pub(super) struct Decoder {
    parameters: AudioCodecParameters,
    head: Head,
    streams: Vec<Stream>,
    /// One stream's packet, without the length that tells where it ends.
    packet: Vec<u8>,
    /// One stream's samples, interleaved.
    samples: Vec<f32>,
    sound: AudioBuffer<f32>,
}

impl Decoder {
    fn new(parameters: &AudioCodecParameters) -> Result<Self> {
        let head = Head::of(parameters)?;
        let stream = |index| Stream::new(head.channels_of(index), head.gain_q8).map_err(failed);
        let streams = (0..head.n_streams).map(stream).collect::<Result<_>>()?;
        let spec = AudioSpec::new(RATE, Channels::Discrete(head.sources.len() as u16));
        let (packet, samples, sound) = (Vec::new(), Vec::new(), AudioBuffer::new(spec, opus_pure::MAX_PACKET_SAMPLES));
        Ok(Self { parameters: parameters.clone(), head, streams, packet, samples, sound })
    }

    fn decode(&mut self, mut bytes: &[u8]) -> Result<()> {
        let n = n_samples(bytes)?;
        self.sound.render_silence(Some(n));
        let last = self.streams.len() - 1;
        let mut first_channel = 0;
        for (index, stream) in self.streams.iter_mut().enumerate() {
            let packet = match index == last {
                true => bytes,
                false => {
                    bytes = delimited::take(bytes, &mut self.packet)
                        .ok_or_else(|| Error::corrupt(format!("stream {} of an Opus packet is cut off", index + 1)))?;
                    &self.packet
                }
            };
            let n_there = n_samples(packet)?;
            if n_there != n {
                let message = format!("the streams of an Opus packet have {n} and {n_there} samples");
                return Err(Error::corrupt(message));
            }
            let n_channels = self.head.channels_of(index);
            self.samples.resize(n * n_channels, 0.0);
            let decoded = stream.decode(packet, n, &mut self.samples).map_err(failed)?;
            if decoded != n {
                return Err(Error::corrupt(format!("an Opus packet of {n} samples gave {decoded}")));
            }
            for channel in 0..n_channels {
                let planes = self.head.sources.iter().enumerate();
                for (plane, _) in planes.filter(|(_, source)| **source == Some(first_channel + channel)) {
                    let Some(plane) = self.sound.plane_mut(plane) else { continue };
                    let samples = self.samples.iter().skip(channel).step_by(n_channels);
                    plane.iter_mut().zip(samples).for_each(|(to, &sample)| *to = sample);
                }
            }
            first_channel += n_channels;
        }
        Ok(())
    }
}

impl AudioDecoder for Decoder {
    fn reset(&mut self) {
        for stream in &mut self.streams {
            // It fails for rates only that no stream was created with.
            let _ = stream.reset();
        }
        self.sound.clear();
    }

    fn codec_info(&self) -> &CodecInfo {
        &CODEC.info
    }

    fn codec_params(&self) -> &AudioCodecParameters {
        &self.parameters
    }

    fn decode_ref(&mut self, packet: &PacketRef<'_>) -> SymphoniaResult<GenericAudioBufferRef<'_>> {
        self.sound.clear();
        self.decode(packet.data).map_err(carried)?;
        self.sound.trim(packet.trim_start.get() as usize, packet.trim_end.get() as usize);
        Ok(self.sound.as_generic_audio_buffer_ref())
    }

    fn finalize(&mut self) -> FinalizeResult {
        FinalizeResult::default()
    }

    fn last_decoded(&self) -> GenericAudioBufferRef<'_> {
        self.sound.as_generic_audio_buffer_ref()
    }
}

impl RegisterableAudioDecoder for Decoder {
    fn try_registry_new(
        parameters: &AudioCodecParameters,
        _: &AudioDecoderOptions,
    ) -> SymphoniaResult<Box<dyn AudioDecoder>> {
        Ok(Box::new(Self::new(parameters).map_err(carried)?))
    }

    fn supported_codecs() -> &'static [SupportedAudioCodec] {
        &[CODEC]
    }
}

fn failed(error: opus_pure::Error) -> Error {
    Error::corrupt(format!("Opus: {error}"))
}
