//! Voice models by name.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use melisma::snac;
use melisma::speak::{BUILTIN, Opening, Speaker, has_builtin};
use melisma::{Context, Device, Error, Result};

use super::{Decoding, OwnCodec, Setup, Speakers, beside};
use crate::config::Speakers as Sizing;
use crate::log::{Level, Log};
use crate::speech::UPSTREAM;

/// The most bytes of a name.
const MAX_NAME: usize = 64;
/// What clients call the built-in voice unless it is named.
const BUILTIN_NAME: &str = "voice";
/// Stands for no voice model at all.
const NONE: &str = "none";

/// A folder with a language model that speaks, or the built-in voice, and what clients call it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VoiceModel {
    /// The `model` of requests.
    pub name: String,
    /// The folder, or `builtin:voice`.
    pub folder: PathBuf,
}

/// How voice models are opened.
#[derive(Debug)]
pub struct Loading<'a> {
    /// Where they run.
    pub context: &'a Context,
    /// What makes audio of their frames.
    pub codec: &'a Arc<snac::Model>,
    /// How each is opened.
    pub opening: Opening,
    /// How many texts each speaks at a time.
    pub sizing: Sizing,
    /// How their frames are decoded.
    pub decoding: Decoding,
    /// Where they tell of themselves.
    pub log: Log,
}

impl VoiceModel {
    /// Names the model in `folder`; without a name it has that of the folder.
    ///
    /// # Errors
    /// There is no such built-in voice, or the name has characters other than letters, digits, `.`, `_` and `-`, or is
    /// longer than 64.
    pub fn new(name: Option<&str>, folder: &Path) -> Result<Self> {
        if let Some(other) = folder.to_str().filter(|name| name.starts_with("builtin:") && *name != BUILTIN) {
            return Err(Error::invalid(format!("{other}: unknown built-in voice model"))
                .with_hint(format!("{BUILTIN} is the only one")));
        }
        let unnamed = || if folder == Path::new(BUILTIN) { BUILTIN_NAME.to_owned() } else { folder_name(folder) };
        let name = name.map_or_else(unnamed, str::to_owned);
        let is_plain = |letter: char| letter.is_ascii_alphanumeric() || ".-_".contains(letter);
        match !name.is_empty() && name.len() <= MAX_NAME && name.chars().all(is_plain) {
            true => Ok(Self { name, folder: folder.to_owned() }),
            false => {
                let message = format!("the voice model in {} has no name that clients could write", folder.display());
                Err(Error::invalid(message)
                    .with_hint("name it, as in orpheus=DIR, with up to 64 letters, digits, `.`, `_` and `-`"))
            }
        }
    }

    /// Returns the voice that is part of this library, if it is part of this build.
    pub fn builtin() -> Option<Self> {
        has_builtin().then(|| Self { name: BUILTIN_NAME.to_owned(), folder: BUILTIN.into() })
    }

    /// Reads a list of `[NAME=]DIR`; `none` alone is an empty one.
    ///
    /// # Errors
    /// As [`VoiceModel::new`] and [`VoiceModel::check_names`], or `none` stands beside others.
    pub fn parse_all(texts: &[String]) -> Result<Vec<Self>> {
        match texts {
            [only] if only == NONE => Ok(Vec::new()),
            texts if texts.iter().any(|text| text == NONE) => Err(Error::invalid("`none` stands beside a voice model")
                .with_hint("leave `none` out, or write ./none for a folder of this name")),
            texts => {
                let models = texts.iter().map(|text| Self::parse(text)).collect::<Result<Vec<_>>>()?;
                Self::check_names(&models).map(|()| models)
            }
        }
    }

    /// Reads `[NAME=]DIR`.
    ///
    /// # Errors
    /// As [`VoiceModel::new`].
    pub fn parse(text: &str) -> Result<Self> {
        match text.split_once('=').filter(|(name, _)| !name.contains(['/', '\\'])) {
            Some((name, folder)) => Self::new(Some(name), Path::new(folder)),
            None => Self::new(None, Path::new(text)),
        }
    }

    /// Checks that clients can tell `models` from each other and from an upstream.
    ///
    /// # Errors
    /// Two have the same name, or one has that of the upstream.
    pub fn check_names(models: &[Self]) -> Result<()> {
        for (index, Self { name, .. }) in models.iter().enumerate() {
            let refused = |what: &str| Err(Error::invalid(what).with_hint("name each, as in orpheus=DIR"));
            if models[..index].iter().any(|other| other.name == *name) {
                return refused(&format!("two voice models have the name {name}"));
            }
            if name == UPSTREAM {
                return refused(&format!("the name {name} is that of an upstream"));
            }
        }
        Ok(())
    }
}

/// Returns the name of a folder, also of one such as `.`.
fn folder_name(folder: &Path) -> String {
    let own = |folder: &Path| folder.file_name().map(|name| name.to_string_lossy().into_owned());
    own(folder).or_else(|| own(&std::fs::canonicalize(folder).ok()?)).unwrap_or_default()
}

/// Opens voice models that share the memory that is free.
///
/// # Errors
/// A model cannot be read or does not belong to the codec, or memory is too small.
pub fn open_all(models: &[VoiceModel], loading: Loading<'_>) -> Result<Vec<Speakers>> {
    let Loading { context, codec, opening, sizing, decoding, log } = loading;
    // A CPU has the weights in the same memory, where nothing else counts them.
    let part = match context.device() {
        Device::Cpu(_) => 0.5,
        Device::Cuda(_) => 0.9,
    };
    let open = |(index, VoiceModel { name, folder }): (usize, &VoiceModel)| {
        let own = OwnCodec::open(context, folder, (&decoding, &log))?;
        let codec = own.as_ref().map_or(codec, |own| &own.model);
        let speaker = Speaker::open_as_in(&beside(context)?, folder, Arc::clone(codec), opening.clone())?;
        if speaker.format().codec.is_none() && codec.is_builtin() {
            let text = format!(
                "warning: voice model {name} does not say which codec it was trained with; if it is not \
                 builtin:mini24, it speaks noise: name its codec with --model"
            );
            log.line(Level::Warn, &text);
        }
        let memory_share = part / (models.len() - index) as f64;
        let (name, n_streams, cache, log) = (name.clone(), decoding.n_streams, decoding.cache.clone(), log.clone());
        let stopper = decoding.stopper.clone();
        Speakers::start(speaker, Setup { name, sizing, n_streams, codec: own, memory_share, cache, log, stopper })
    };
    models.iter().enumerate().map(open).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_given_or_those_of_the_folder() {
        for (text, name, folder) in [
            ("models/orpheus", "orpheus", "models/orpheus"),
            ("models/orpheus/", "orpheus", "models/orpheus/"),
            ("tara=models/orpheus", "tara", "models/orpheus"),
            ("tts-1=./a=b", "tts-1", "./a=b"),
            ("builtin:voice", "voice", "builtin:voice"),
            ("ann=builtin:voice", "ann", "builtin:voice"),
        ] {
            let expected = VoiceModel { name: name.to_owned(), folder: folder.into() };
            assert_eq!(VoiceModel::parse(text).unwrap(), expected);
        }
        for text in ["/", "=models", "two words=models", "./a=b", "models/ä", &format!("{}=m", "n".repeat(65))] {
            let error = VoiceModel::parse(text).unwrap_err().to_string();
            assert!(error.contains("has no name that clients could write"), "{error}");
        }
    }

    #[test]
    fn one_voice_is_built_in() {
        let error = VoiceModel::parse("ann=builtin:mini24").unwrap_err();
        assert_eq!(error.to_string(), "builtin:mini24: unknown built-in voice model");
        assert_eq!(error.hint().unwrap(), "builtin:voice is the only one");
    }

    #[test]
    fn none_is_no_model_and_stands_alone() {
        let parse = |texts: &[&str]| VoiceModel::parse_all(&texts.iter().map(ToString::to_string).collect::<Vec<_>>());
        assert_eq!(parse(&["none"]).unwrap(), []);
        assert_eq!(parse(&["./none", "a=x"]).unwrap().len(), 2);
        let beside = parse(&["a=x", "none"]).unwrap_err();
        assert_eq!(beside.to_string(), "`none` stands beside a voice model");
        assert!(beside.hint().is_some());
    }

    #[test]
    fn names_are_those_of_one_model() {
        let check = |texts: &[&str]| {
            let models: Vec<VoiceModel> = texts.iter().map(|text| VoiceModel::parse(text).unwrap()).collect();
            VoiceModel::check_names(&models).map_err(|error| error.to_string())
        };
        assert_eq!(check(&["a=x", "x/b"]), Ok(()));
        assert_eq!(check(&["a=x", "y/a"]), Err("two voice models have the name a".to_owned()));
        assert_eq!(check(&["upstream=x"]), Err("the name upstream is that of an upstream".to_owned()));
    }
}
