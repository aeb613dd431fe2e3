//! Access to single tiles of a packed file.

use melisma_kernels::rans::Decoder;
use melisma_kernels::{Device, Isa};

use super::archive::Archive;
use super::blob::Content;
use super::contents::damaged;
use super::memory::{Need, resize};
use super::stream;
use crate::{Error, Result};

impl Archive<'_> {
    /// Returns the bytes of one tile, row-major, and the rows and columns it covers in the tensor's
    /// matrix. Reads only the tile's record.
    ///
    /// # Errors
    /// `InvalidArgument`: no such tensor or tile. `Corrupt` or similar: the tile is damaged.
    pub fn tile(&self, name: &str, at: [u64; 2]) -> Result<(Vec<u8>, [std::ops::Range<u64>; 2])> {
        let index = self.find(name)?;
        let blob = &self.contents.blobs[index];
        let [down, across] = blob.layout.grid();
        if at[0] >= down || at[1] >= across {
            let message = format!("{name}: no tile {},{}; the tensor has {down} x {across}", at[0], at[1]);
            return Err(Error::invalid(message));
        }
        let number = at[0] * across + at[1];
        let mut out = vec![0; blob.layout.tile_len(number)];
        if let Some(gpu) = &self.gpu {
            self.tile_on(gpu, index, number, &mut out)?;
        } else {
            let need = self.decoding_need(index..index + 1);
            let (_, _held) = Need { result: out.len() as u64, ..need }.workers(1, &self.budget)?;
            let mut decoder = Decoder::new(Isa::from_env()?);
            self.decode_tile(&mut decoder, index, number, &mut Vec::new(), &mut out)?;
        }
        self.undo_delta(index, number, &mut out)?;
        Ok((out, blob.layout.tile(number)))
    }

    /// Undoes the XOR of a decoded tile with the base file, if the tensor is a delta.
    pub(super) fn undo_delta(&self, index: usize, number: u64, tile: &mut [u8]) -> Result<()> {
        let blob = &self.contents.blobs[index];
        if blob.content == Content::Plain {
            return Ok(());
        }
        let [rows, cols] = blob.layout.tile(number);
        let width = blob.layout.split.width() as u64;
        let row_len = ((cols.end - cols.start) * width) as usize;
        for (row, part) in rows.zip(tile.chunks_mut(row_len)) {
            self.apply_base(index, (row * blob.layout.cols + cols.start) * width, part)?;
        }
        Ok(())
    }

    /// Decodes one tile of tensor `index`, together with the row of tiles that contains it.
    fn tile_on(&self, gpu: &Device, index: usize, number: u64, out: &mut [u8]) -> Result<()> {
        let layout = &self.contents.blobs[index].layout;
        let is_in = |run: &u64| layout.run(*run).tiles.contains(&number);
        let run = (0..layout.n_runs()).find(is_in).unwrap_or(0);
        let [first, step, row_len] = layout.rows_in_run(number);
        let work = stream::Work { gpu, threads: 1, runs: &[(index, run)] };
        stream::decode(self, &work, |_, _, _| Ok(()), &mut |bytes| {
            let rows = bytes.get(first..).unwrap_or_default().chunks(step.max(1));
            out.chunks_mut(row_len.max(1)).zip(rows).for_each(|(to, from)| to.copy_from_slice(&from[..to.len()]));
            Ok(())
        })
    }

    /// Decodes one tile of tensor `index` into `out`; `record` is scratch.
    pub(super) fn decode_tile(
        &self,
        decoder: &mut Decoder,
        index: usize,
        number: u64,
        record: &mut Vec<u8>,
        out: &mut [u8],
    ) -> Result<()> {
        let blob = &self.contents.blobs[index];
        let tile = &blob.tiles[number as usize];
        resize(record, tile.len as usize);
        let place = || format!("{}, tile {number}", self.contents.source.tensors[index].name);
        self.file.read_at(blob.starts[number as usize], record).map_err(|error| error.at(place()))?;
        decoder.decode(blob.layout.split, number, tile, record, out).map_err(|error| damaged(error).at(place()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::safetensors::HeaderJson;
    use crate::pack::{Options, pack};
    use crate::runtime::memory::Budget;

    #[test]
    fn a_tile_is_the_one_at_its_row_and_column() {
        let (mut json, budget) = (HeaderJson::new(&[]), Budget::unlimited());
        json.push("matrix", "I16", "[300, 600]", 360_000);
        let values = (0..180_000u32).flat_map(|i| ((i.wrapping_mul(2_654_435_761) >> 16) as u16).to_le_bytes());
        let values: Vec<u8> = values.collect();
        let (source, mut packed) = ([json.header(), values.clone()].concat(), Vec::new());
        pack(&source, &mut packed, &Options { tile_size: Some(256), ..Options::new(&budget) }, &|_| {}).unwrap();
        let archive = Archive::open(&packed, &budget).unwrap();
        let layout = archive.contents.blobs[0].layout;
        assert_eq!(layout.grid(), [2, 3]);
        let mut bad = packed.clone();
        bad[archive.contents.blobs[0].starts[4] as usize + 99] ^= 4;
        let error = Archive::open(&bad, &budget).unwrap().tile("matrix", [1, 1]).unwrap_err();
        assert!(error.hint().unwrap().ends_with("make or fetch it again"), "{error}");
        for at in [[0, 0], [0, 1], [0, 2], [1, 0], [1, 1], [1, 2]] {
            let (tile, [rows, cols]) = archive.tile("matrix", at).unwrap();
            assert_eq!([rows.start, cols.start], [at[0] * layout.tile_rows, at[1] * layout.tile_cols]);
            let row = |row: u64| &values[2 * (row * 600 + cols.start) as usize..2 * (row * 600 + cols.end) as usize];
            assert!(tile == rows.map(row).collect::<Vec<_>>().concat(), "{at:?}");
        }
    }
}
