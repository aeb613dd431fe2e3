//! How tokens are written.

/// How tokens are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Format {
    /// Look at the content.
    #[default]
    Auto,
    /// `<custom_token_N>` in any text.
    Orpheus,
    /// Vocabulary ids.
    Ids,
    /// Lists of codes: JSON, npy or safetensors.
    Codes,
}

impl Format {
    /// Returns the format called `name` on the command line.
    pub fn from_name(name: &str) -> Option<Self> {
        match name {
            "auto" => Some(Self::Auto),
            "orpheus" => Some(Self::Orpheus),
            "ids" => Some(Self::Ids),
            "codes" => Some(Self::Codes),
            _ => None,
        }
    }
}
