//! The files of the small model that is part of this library, where the feature `builtin` is on.

use crate::Result;

pub(super) struct Builtin {
    pub(super) config: &'static [u8],
    pub(super) weights: &'static [u8],
}

#[cfg(feature = "builtin")]
pub(super) fn mini24() -> Result<Builtin> {
    use melisma_models::mini24;
    Ok(Builtin { config: mini24::CONFIG, weights: mini24::weights() })
}

#[cfg(not(feature = "builtin"))]
pub(super) fn mini24() -> Result<Builtin> {
    Err(crate::Error::unsupported("builtin:mini24: this build has no built-in model")
        .with_hint("name a model's folder, or build with the feature `builtin`"))
}

/// Returns the weights of the small model that is part of this library, a safetensors file.
#[cfg(feature = "builtin")]
pub fn mini24_weights() -> &'static [u8] {
    melisma_models::mini24::weights()
}

#[cfg(test)]
#[cfg(not(feature = "builtin"))]
mod tests {
    use crate::ErrorKind;
    use crate::snac::{Config, Model};

    #[test]
    fn a_build_without_the_model_says_so() {
        for error in [Model::open("builtin:mini24").unwrap_err(), Config::open("builtin:mini24").unwrap_err()] {
            assert_eq!(error.kind(), ErrorKind::Unsupported);
            assert!(error.to_string().starts_with("builtin:mini24: this build has no"), "{error}");
            assert!(error.hint().is_some());
        }
    }
}
