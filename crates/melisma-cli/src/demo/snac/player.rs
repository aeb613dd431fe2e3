//! Embedded audio players.

use melisma::Result;
use melisma::audio::{Clip, wav};
use melisma::text::base64;
use melisma::text::table::escape;

/// An audio player with its title and embedded samples.
pub fn html(title: &str, clip: &Clip) -> Result<String> {
    let bytes = wav::write(clip, wav::SampleFormat::S16)?;
    let title = escape(title);
    Ok(format!(
        "<figure><figcaption>{title}</figcaption><audio controls preload=\"metadata\" \
         src=\"data:audio/wav;base64,{}\"></audio></figure>\n",
        base64::encode(&bytes)
    ))
}
