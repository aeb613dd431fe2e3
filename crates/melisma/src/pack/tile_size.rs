//! Chooses the tile size that stores a tensor in the fewest bytes. Small tiles adapt to changes
//! within the tensor; large tiles need fewer tables.

use melisma_kernels::Isa;
use melisma_kernels::rans::Encoder;

use super::in_order::{Workers, in_order};
use super::layout::{Layout, TILE_SIZES};
use crate::Result;
use crate::format::safetensors::{Header, TensorEntry};

/// Elements of at most this many bytes always use tiles of [`NARROW_TILE_SIZE`], which decode
/// fastest.
const NARROW: usize = 2;
const NARROW_TILE_SIZE: u32 = 512;
/// The number of elements in a sampled part, and the number of parts sampled per tensor.
const PART: u64 = 1 << 20;
const N_PARTS: u64 = 2;

/// Returns the layout of every tensor; `read` reads a tensor's bytes from an offset on.
///
/// # Errors
/// As [`Layout::of`], or those of `read`.
pub(super) fn layouts(
    header: &Header,
    workers: Workers,
    read: impl Fn(usize, u64, &mut [u8]) -> Result<()> + Sync,
) -> Result<Vec<Layout>> {
    let isa = Isa::from_env()?;
    let mut layouts = Vec::with_capacity(header.tensors.len());
    in_order(
        workers,
        header.tensors.len(),
        || Chooser { encoder: Encoder::new(isa), part: Vec::new(), tile: Vec::new() },
        |chooser, index, layout: &mut Option<Layout>| {
            *layout = Some(chooser.layout(&header.tensors[index], |offset, bytes| read(index, offset, bytes))?);
            Ok(())
        },
        |_, layout| {
            layouts.extend(layout.take());
            Ok(())
        },
    )?;
    Ok(layouts)
}

/// Returns the layout of a tensor for `tile_size`. Narrow elements ignore it.
pub(super) fn candidate(tensor: &TensorEntry, tile_size: u32) -> Result<Layout> {
    let layout = Layout::of(tensor, tile_size)?;
    if part(&layout).is_some() { Ok(layout) } else { Layout::of(tensor, NARROW_TILE_SIZE) }
}

/// Returns the rows and columns of a sampled part; `None` if there is nothing to choose.
pub(super) fn part(whole: &Layout) -> Option<[u64; 2]> {
    if whole.split.width() <= NARROW || whole.n_tiles() == 0 {
        return None;
    }
    let cols = whole.cols.min(PART);
    Some([whole.rows.min((PART / cols).max(1)), cols])
}

/// The state of a thread that chooses tile sizes.
struct Chooser {
    encoder: Encoder,
    part: Vec<u8>,
    tile: Vec<u8>,
}

impl Chooser {
    /// Chooses the layout of `tensor`; `read` reads its bytes from an offset on.
    fn layout(&mut self, tensor: &TensorEntry, mut read: impl FnMut(u64, &mut [u8]) -> Result<()>) -> Result<Layout> {
        let whole = Layout::of(tensor, NARROW_TILE_SIZE)?;
        let width = whole.split.width();
        let Some([rows, cols]) = part(&whole) else { return Ok(whole) };
        let len = rows * cols * width as u64;
        // Parts start at a row, if they hold at least one.
        let unit = if cols == whole.cols { cols * width as u64 } else { width as u64 };
        let n_parts = tensor.len().div_ceil(len).min(N_PARTS);
        let mut costs = [0; TILE_SIZES.len()];
        for index in 0..n_parts {
            let at = (tensor.len() - len) / (n_parts - 1).max(1) * index;
            self.part.resize(len as usize, 0);
            read(at / unit * unit, &mut self.part)?;
            for (cost, tile_size) in costs.iter_mut().zip(TILE_SIZES) {
                *cost += self.cost(&Layout::new(whole.split, rows, cols, tile_size))?;
            }
        }
        let least = costs.iter().min().copied().unwrap_or(0);
        let tile_size =
            TILE_SIZES.iter().zip(costs).rfind(|(_, cost)| *cost == least).map_or(NARROW_TILE_SIZE, |(size, _)| *size);
        Layout::of(tensor, tile_size)
    }

    /// Returns the bytes of the records of the sampled part.
    fn cost(&mut self, layout: &Layout) -> Result<u64> {
        let (width, row_len) = (layout.split.width(), layout.cols as usize * layout.split.width());
        let mut bytes = 0;
        for number in 0..layout.n_tiles() {
            let [rows, cols] = layout.tile(number);
            self.tile.clear();
            for row in rows {
                let first = row as usize * row_len;
                self.tile.extend_from_slice(
                    &self.part[first + cols.start as usize * width..first + cols.end as usize * width],
                );
            }
            bytes += self.encoder.cost(layout.split, &self.tile)?;
        }
        Ok(bytes)
    }
}
