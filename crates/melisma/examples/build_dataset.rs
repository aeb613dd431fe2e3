//! A folder of audio files built into one HDF5 file of mel spectrograms, then verified and read.
//!
//! `cargo run --release -p melisma --example build_dataset` writes `clips/` and `clips.h5`.

use std::error::Error;
use std::fs;
use std::path::Path;
use std::time::Duration;

use melisma::audio::Clip;
use melisma::dataset::store::Store;
use melisma::dataset::{self, Inputs, Options, Request};
use melisma::mel::Config;
use melisma::{Budget, Existing};

fn main() -> Result<(), Box<dyn Error>> {
    fs::create_dir_all("clips")?;
    for (name, pitch_hz) in [("low.wav", 110.0), ("middle.wav", 220.0), ("high.wav", 440.0)] {
        let wave = |n: u32| 0.5 * (std::f32::consts::TAU * pitch_hz * n as f32 / 16_000.0).sin();
        let clip = Clip::mono(16_000, (0..48_000).map(wave).collect());
        clip.write(Path::new("clips").join(name), Existing::Replace)?;
    }

    let inputs = Inputs::find(&["clips"])?;
    let options = Options::new(Config::preset("whisper-80")?, Duration::from_secs(1))?;
    let outcome = Request::new(&inputs, "clips.h5", options)?.with_existing(Existing::Replace).build()?;
    assert_eq!((outcome.files_ok, outcome.segments), (3, 9));
    dataset::verify("clips.h5", 2, &Budget::unlimited())?.check()?;

    let store = Store::open("clips.h5")?;
    let mel = store.layout.column("mel")?;
    let column = &store.layout.columns[mel];
    let mut row = vec![0; column.row_bytes()];
    store.read(mel, 8, &mut row)?;
    println!(
        "clips.h5: {} rows of {:?} {:?}, {} bytes each",
        store.layout.n_rows,
        column.element,
        column.shape,
        row.len()
    );
    assert!(row.iter().any(|&byte| byte != 0), "the last row is empty");
    Ok(())
}
