//! The formats and codings that are read: symphonia's, Matroska and Opus.

use std::sync::LazyLock;

use symphonia::core::codecs::audio::{AudioDecoder, AudioDecoderOptions};
use symphonia::core::codecs::registry::CodecRegistry;
use symphonia::core::errors::Error as Symphonia;
use symphonia::core::formats::FormatReader;
use symphonia::core::formats::probe::Probe;

use super::{audio_track, failed, matroska, opus};
use crate::{Error, Result};

/// Finds the format of a file.
pub(super) static PROBE: LazyLock<Probe> = LazyLock::new(|| {
    let mut probe = Probe::default();
    symphonia::default::register_enabled_formats(&mut probe);
    probe.register_format::<matroska::Reader<'_>>();
    probe
});

static CODECS: LazyLock<CodecRegistry> = LazyLock::new(|| {
    let mut codecs = CodecRegistry::new();
    symphonia::default::register_enabled_codecs(&mut codecs);
    codecs.register_audio_decoder::<opus::Decoder>();
    codecs
});

/// Creates the decoder of the audio track.
pub(super) fn decoder(format: &dyn FormatReader, options: &AudioDecoderOptions) -> Result<Box<dyn AudioDecoder>> {
    let parameters = audio_track(format)?.codec_params.as_ref().and_then(|parameters| parameters.audio());
    let parameters = parameters.ok_or_else(|| Error::unsupported("the coding of its audio track is not known"))?;
    CODECS.make_audio_decoder(parameters, options).map_err(|error| match error {
        Symphonia::Unsupported(what) => Error::unsupported(format!("its audio coding is not known: {what}")),
        error => failed(error),
    })
}
