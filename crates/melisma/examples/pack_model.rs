//! A model packed without loss, read tensor by tensor, and loaded onto a device.
//!
//! `cargo run --release -p melisma --example pack_model` writes `mini24.packed.safetensors`.

use std::error::Error;
use std::fs;

use melisma::pack::{self, Archive, Options};
use melisma::snac::mini24_weights;
use melisma::{Budget, f16};

const PACKED: &str = "mini24.packed.safetensors";

fn main() -> Result<(), Box<dyn Error>> {
    let weights = mini24_weights();
    let (budget, mut packed) = (Budget::limited(1 << 30), Vec::new());
    let facts = pack::pack(&weights, &mut packed, &Options::new(&budget).with_threads(2), &|_| {})?;
    fs::write(PACKED, &packed)?;
    let share = 100.0 * facts.packed_len as f64 / facts.source_len as f64;
    println!("{PACKED}: {} bytes, {share:.1} % of the source", facts.packed_len);

    let packed = fs::read(PACKED)?;
    let archive = Archive::open(&packed, &budget)?;
    let largest = archive.list()?.into_iter().max_by_key(|tensor| tensor.packed_len).ok_or("no tensors")?;
    println!("largest tensor: {} {:?}", largest.entry.name, largest.entry.shape);

    let (tile, [rows, columns]) = archive.tile(&largest.entry.name, [0, 0])?;
    println!("its first tile, read alone: rows {rows:?}, columns {columns:?}, {} bytes", tile.len());

    let mut restored = Vec::new();
    archive.unpack(&mut restored, 2, &|_| {})?;
    assert!(restored == weights, "unpacking restores the source byte for byte");

    // `pack::load_in` with `Context::auto()?` decodes on a GPU instead, while the file is read.
    let loaded = pack::load(PACKED)?;
    let codebook = loaded.view::<f16>("quantizer.quantizers.0.codebook.weight")?;
    println!("{} tensors in memory; the first codebook has {} values", loaded.tensors().len(), codebook.len());
    Ok(())
}
