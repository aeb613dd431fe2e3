//! Folders, lists and several files: a corpus of tokens.

use melisma::{Error, Result};

use crate::args::EncodeArgs;
use crate::session::Session;

pub fn run(_: &Session, _: &EncodeArgs) -> Result<()> {
    Err(Error::invalid("folders, lists and several files are not encoded yet").with_hint("name one audio file"))
}
