//! The step `machine`: the facts that `doctor` finds.

use melisma::Result;

use super::Chapter;
use super::folder::Folder;
use crate::doctor::Facts;
use crate::session::Session;

pub fn run(session: &Session, _: &Folder) -> Result<Chapter> {
    Ok(Chapter { folded: Facts::collect(session)?.table().html(), ..Chapter::default() })
}
