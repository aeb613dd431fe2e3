//! A stand-in for a session of ONNX Runtime that records provider options.

use super::{Provider, Register};
use crate::Result;

/// A provider's name and options.
pub(crate) type ProviderOptions = (&'static str, Vec<(String, String)>);

#[derive(Default)]
struct Recorder(Vec<ProviderOptions>);

impl Register for Recorder {
    fn demand(&mut self, name: &'static str, options: &[(String, String)]) -> Result<()> {
        self.0.push((name, options.to_vec()));
        Ok(())
    }
}

/// Returns the providers that a session with `provider` registers, in order.
pub(crate) fn recorded(provider: &Provider) -> Vec<ProviderOptions> {
    let mut recorder = Recorder::default();
    provider.register(&mut recorder).unwrap();
    recorder.0
}

/// Returns the value of an option.
pub(crate) fn value<'a>(options: &'a [(String, String)], key: &str) -> &'a str {
    &options.iter().find(|(name, _)| name == key).unwrap_or_else(|| panic!("{key} in {options:?}")).1
}
