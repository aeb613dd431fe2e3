//! The step `machine`: the facts that `doctor` finds.

use melisma::Result;

use crate::doctor::Facts;
use crate::session::Session;

pub fn run(session: &Session) -> Result<String> {
    Ok(Facts::look(session)?.table().html())
}
