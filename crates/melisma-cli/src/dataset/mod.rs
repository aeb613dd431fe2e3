//! `melisma dataset`.

mod build;

use melisma::Result;

use crate::args::{DatasetArgs, DatasetCommand};
use crate::session::Session;

pub fn run(session: &Session, args: &DatasetArgs) -> Result<()> {
    match &args.command {
        DatasetCommand::Build(args) => build::run(session, args),
    }
}
