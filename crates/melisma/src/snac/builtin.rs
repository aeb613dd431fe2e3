//! The files of the small models that are part of this library, where the features `builtin` and `voice` are on.

use crate::Result;

/// The name of the small model for speech and music, where the feature `builtin` is on.
pub const MINI24: &str = "builtin:mini24";
/// The name of the codec of the built-in voice, which has no encoder, where the feature `voice` is on.
pub const SOLO24: &str = "builtin:solo24";

pub(super) struct Builtin {
    pub(super) config: &'static [u8],
    pub(super) weights: &'static [u8],
}

/// Returns the files of [`MINI24`] or [`SOLO24`].
pub(super) fn open(name: &str) -> Result<Builtin> {
    if name == SOLO24 { solo24() } else { mini24() }
}

/// Returns the weights of a built-in model, a safetensors file that may be packed, if this build has one of this name.
pub fn builtin_weights(name: &str) -> Option<&'static [u8]> {
    let is_builtin = [MINI24, SOLO24].contains(&name);
    is_builtin.then(|| open(name).ok()).flatten().map(|builtin| builtin.weights)
}

#[cfg(feature = "builtin")]
fn mini24() -> Result<Builtin> {
    use melisma_models::mini24;
    Ok(Builtin { config: mini24::CONFIG, weights: mini24::weights() })
}

#[cfg(not(feature = "builtin"))]
fn mini24() -> Result<Builtin> {
    Err(crate::Error::unsupported(format!("{MINI24}: this build has no built-in model"))
        .with_hint("name a model's folder, or build with the feature `builtin`"))
}

#[cfg(feature = "voice")]
fn solo24() -> Result<Builtin> {
    use melisma_voice::solo24;
    Ok(Builtin { config: solo24::CONFIG, weights: solo24::weights() })
}

#[cfg(not(feature = "voice"))]
fn solo24() -> Result<Builtin> {
    Err(crate::Error::unsupported(format!("{SOLO24}: this build has no built-in voice"))
        .with_hint("name a model's folder, or build with the feature `voice`"))
}

/// Returns the weights of the small model that is part of this library, a safetensors file.
#[cfg(feature = "builtin")]
pub fn mini24_weights() -> &'static [u8] {
    melisma_models::mini24::weights()
}

#[cfg(test)]
mod tests {
    #[cfg(any(not(feature = "builtin"), not(feature = "voice")))]
    fn check_missing(name: &str, words: &str) {
        use crate::ErrorKind;
        use crate::snac::{Config, Model};
        for error in [Model::open(name).unwrap_err(), Config::open(name).unwrap_err()] {
            assert_eq!(error.kind(), ErrorKind::Unsupported);
            assert!(error.to_string().starts_with(&format!("{name}: this build has no {words}")), "{error}");
            assert!(error.hint().is_some());
        }
    }

    #[cfg(not(feature = "builtin"))]
    #[test]
    fn a_build_without_the_model_says_so() {
        check_missing(super::MINI24, "built-in model");
    }

    #[cfg(not(feature = "voice"))]
    #[test]
    fn a_build_without_the_codec_of_the_voice_says_so() {
        check_missing(super::SOLO24, "built-in voice");
    }

    #[cfg(feature = "voice")]
    #[test]
    fn the_codec_of_the_voice_decodes_and_refuses_to_encode_by_its_name() {
        use crate::snac::{Decoder, Encoder, Model, SOLO24, reference};
        let mut decoder = Decoder::open(SOLO24).unwrap();
        let codes = decoder.codes(&[0, 1, 2, 3, 4, 5, 6]).unwrap();
        assert_eq!(decoder.decode(&codes).unwrap().len(), 2048);
        let model = Model::open(SOLO24).unwrap();
        assert!(!model.has_encoder() && !model.is_builtin());
        assert_eq!(model.builtin_name(), Some(SOLO24));
        for error in [Encoder::open(SOLO24).unwrap_err(), reference::encode(&model, &[0.0]).unwrap_err()] {
            assert!(error.to_string().starts_with("builtin:solo24: this codec has no encoder"), "{error}");
            assert!(error.hint().unwrap().contains("builtin:mini24"), "{error}");
        }
    }
}
