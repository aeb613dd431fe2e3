//! `melisma unpack`: restores the source file byte for byte, or writes one tensor or tile to its
//! own file.

mod file;
mod shards;

use melisma::Result;

use crate::args::UnpackArgs;
use crate::pack::index::is_index;
use crate::pack::resource::Resources;
use crate::session::Session;

pub fn run(session: &Session, args: &UnpackArgs) -> Result<()> {
    let _span = tracing::info_span!("unpack").entered();
    let resources = Resources::of(session)?;
    if is_index(&args.input) {
        return shards::unpack(session, &resources, args);
    }
    let path = match &args.output {
        Some(path) => path.clone(),
        None => file::default_output(&args.input)?,
    };
    file::one(session, &resources, args, [&args.input, &path])
}
