//! Embedded audio players, each above a picture of its sound.

use melisma::Result;
use melisma::audio::{Clip, flac};
use melisma::text::base64;
use melisma::text::html::escape;

/// Returns an audio player with its title, its samples, a picture and a line below it.
pub fn html(title: &str, clip: &Clip, picture: &str, caption: &str) -> Result<String> {
    let bytes = flac::encode(clip, flac::Depth::S16)?;
    let title = escape(title);
    Ok(format!(
        "<figure><p class=\"title\">{title}</p><audio controls preload=\"metadata\" aria-label=\"{title}\" \
         src=\"data:audio/flac;base64,{}\"></audio>\n{picture}<figcaption>{caption}</figcaption></figure>\n",
        base64::encode(&bytes)
    ))
}
