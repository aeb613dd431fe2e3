//! Audio written in the format that a file's name asks for.
//!
//! `cargo run --release -p melisma --example convert_audio -- IN OUT.mp3` converts an audio file; a third
//! argument, 0.25 to 4, is its new speed. Without arguments it writes a tone to `tone.opus`.

use std::error::Error;
use std::fs::File;
use std::path::Path;

use melisma::audio::stretch::Stretch;
use melisma::audio::wav::SampleFormat;
use melisma::audio::{Clip, Format, Layout, Writer};

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match &arguments[..] {
        [] => {
            let tone = (0..24_000).map(|n| 0.3 * (n as f32 * 0.06).sin()).collect();
            write(&Clip::mono(24_000, tone), "tone.opus", 1.0)
        }
        [input, output] => write(&Clip::read(input)?, output, 1.0),
        [input, output, speed] => write(&Clip::read(input)?, output, speed.parse()?),
        _ => Err("usage: convert_audio [IN OUT.flac|mp3|opus [SPEED]]".into()),
    }
}

fn write(clip: &Clip, output: &str, speed: f64) -> Result<(), Box<dyn Error>> {
    let file = File::options().read(true).write(true).create(true).truncate(true).open(output)?;
    let layout = Layout::new(clip.sample_rate, clip.n_channels);
    let mut writer = Writer::new(file, Format::of(Path::new(output), SampleFormat::S16)?, layout)?;
    let mut stretch = Stretch::new(layout, speed)?;
    // Live audio would come in pieces like these.
    for piece in clip.samples.chunks(480 * clip.n_channels) {
        writer.write(stretch.push(piece))?;
    }
    writer.write(&stretch.finish())?;
    writer.seal()?;
    println!("{output}: {:.2} s", clip.seconds() / speed);
    Ok(())
}
