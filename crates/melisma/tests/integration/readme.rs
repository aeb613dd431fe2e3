//! The Rust lines of the README run as they are written there.

use crate::repository;

/// The lines of the README.
fn samples() -> Result<[Vec<f32>; 2], melisma::Error> {
    use melisma::snac::Decoder;
    use melisma::speak::{Delivery, Speaker};

    let speaker = Speaker::open("builtin:voice")?;
    let delivery = Delivery::from(speaker.format().settings());
    let pieces = speaker.speak(speaker.script("Hello!", None, 0)?, &delivery)?; // an iterator

    let mut decoder = Decoder::open("builtin:mini24")?;
    let codes = decoder.codes(&[0, 1, 2, 3, 4, 5, 6])?;
    let samples = decoder.decode(&codes)?;
    let spoken = pieces.map(|piece| Ok(piece?.samples)).collect::<Result<Vec<_>, melisma::Error>>()?.concat();
    Ok([spoken, samples])
}

#[test]
fn the_rust_lines_of_the_readme_run() {
    let readme = std::fs::read_to_string(repository::path("README.md")).unwrap();
    let blocks: Vec<&str> = readme.split("```rust\n").skip(1).map(|rest| rest.split("```").next().unwrap()).collect();
    let [block] = blocks[..] else { panic!("{} blocks", blocks.len()) };
    let indented = block.lines().map(|line| format!("    {line}").trim_end().to_owned() + "\n").collect::<String>();
    assert!(include_str!("readme.rs").contains(&indented), "not in this test:\n{block}");
    let [spoken, samples] = samples().unwrap();
    assert!(samples.len() == 2048 && spoken.len() > 2048, "{} samples were spoken", spoken.len());
}
