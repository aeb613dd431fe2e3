//! Packs a safetensors file: reserves the header, writes the blobs, patches the header, decodes
//! everything to verify it, and appends the hash.

use melisma_kernels::Isa;
use melisma_kernels::rans::{Decoder, Encoder, Tile};

use super::archive::Archive;
use super::blob::{self, Content};
use super::hash::hash;
use super::header::{packed_header, reserved_len};
use super::in_order::in_order;
use super::layout::{Layout, Run, Runs, TILE_SIZES};
use super::memory::{Need, resize};
use super::storage::{ReadAt, Sink, exclusive_or, read};
use super::trailer::{HASH_LEN, Trailer};
use super::{TRAILER, VERSION_KEY, gpu_index, memory, tile_size};
use crate::format::safetensors::Header;
use crate::runtime::memory::Budget;
use crate::{Error, ErrorKind, Remedy, Result};

/// Packing options. The result does not depend on the number of threads.
#[derive(Clone, Copy)]
#[non_exhaustive]
pub struct Options<'a> {
    /// Rows and columns of a tile, one of [`TILE_SIZES`](super::TILE_SIZES). The default is 512 for
    /// elements of one and two bytes, and the size that gives the smallest file for wider ones.
    pub tile_size: Option<u32>,
    /// The number of threads.
    pub threads: usize,
    /// A base file. Its tensors of the same name, type and shape are XORed out first.
    pub base: Option<&'a dyn ReadAt>,
    /// The memory budget. Under a limit, fewer tiles are in flight.
    pub budget: &'a Budget,
    /// Elements per segment of the index for GPUs, see [`SEGMENT`](super::SEGMENT). `None` writes
    /// no index.
    pub gpu_index: Option<u32>,
}

impl<'a> Options<'a> {
    /// Returns one thread within `budget`, automatic tile sizes, no base and no index.
    pub fn new(budget: &'a Budget) -> Self {
        Self { tile_size: None, threads: 1, base: None, budget, gpu_index: None }
    }

    setters! {
        /// Sets the rows and columns of a tile, one of [`TILE_SIZES`](super::TILE_SIZES).
        pub fn with_tile_size(tile_size: impl Into<Option<u32>>);
        /// Sets the number of threads.
        pub fn with_threads(threads: usize);
        /// Sets a base file, whose tensors are XORed out first.
        pub fn with_base(base: &'a dyn ReadAt);
        /// Sets the elements per segment of the index for GPUs, see [`SEGMENT`](super::SEGMENT).
        pub fn with_gpu_index(gpu_index: impl Into<Option<u32>>);
    }
}

/// The result of packing.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub struct Packed {
    /// Bytes of the source file.
    pub source_len: u64,
    /// Bytes of the packed file.
    pub packed_len: u64,
    /// Seconds until the file was written, excluding verification.
    pub encode_seconds: f64,
}

/// Packs `source` into `sink`, reads it back and decodes every tile. `progress` receives the number
/// of source bytes as they are encoded, and again as they are verified.
///
/// # Errors
/// `InvalidArgument`: the tile size is not one of [`TILE_SIZES`], the source is already packed, has a tensor called `__melisma__`, or has
/// nothing in common with the base. `Corrupt` or `Truncated`: it is not a safetensors file.
/// `Memory`: the budget has no room for one row of tiles. `Check`: the output does not decode to
/// the source.
pub fn pack(source: &dyn ReadAt, sink: &mut dyn Sink, options: &Options<'_>, progress: &dyn Fn(u64)) -> Result<Packed> {
    let begin = std::time::Instant::now();
    if let Some(size) = options.tile_size.filter(|size| !TILE_SIZES.contains(size)) {
        let sizes = TILE_SIZES.map(|size| size.to_string()).join(", ");
        return Err(Error::invalid(format!("a tile size of {size}; the sizes are {sizes}")));
    }
    let header = Header::read(source)?;
    if header.metadata.contains_key(VERSION_KEY) {
        return Err(Error::invalid("this file is packed already").with_hint(Remedy::Unpack));
    }
    if let Some(tensor) = header.tensors.iter().find(|tensor| [TRAILER, gpu_index::NAME].contains(&&*tensor.name)) {
        return Err(Error::invalid(format!("a tensor is called `{}`, which is reserved", tensor.name)));
    }
    let base = options.base.map(|base| Ok::<_, Error>((base, base_header(base)?))).transpose()?;
    let mut plans = Vec::with_capacity(header.tensors.len());
    for tensor in &header.tensors {
        let in_base = base.as_ref().and_then(|(_, base)| base.get(&tensor.name).map(|entry| (entry, base.len)));
        let base_at = in_base
            .filter(|(entry, _)| entry.dtype == tensor.dtype && entry.shape == tensor.shape)
            .map(|(entry, len)| len + entry.bytes[0]);
        let layout = Layout::of(tensor, options.tile_size.unwrap_or(TILE_SIZES[0]))?;
        plans.push(Plan { layout, at: header.len + tensor.bytes[0], base_at });
    }
    if base.is_some() && !plans.is_empty() && plans.iter().all(|plan| plan.base_at.is_none()) {
        return Err(
            Error::invalid("the base has no tensor of the same name, type and shape").with_hint(Remedy::PackWhole)
        );
    }
    memory::check(least(&header, options)?, options.budget)?;
    if options.tile_size.is_none() {
        let input = Input { source, base: options.base, plans: &plans };
        let (workers, _held) = memory::choosing(&header)?.workers(options.threads, options.budget)?;
        let layouts =
            tile_size::layouts(&header, workers, |tensor, offset, bytes| input.read(&plans[tensor], offset, bytes))?;
        plans.iter_mut().zip(layouts).for_each(|(plan, layout)| plan.layout = layout);
    }
    let source_len = source.size()?;
    let header_len = reserved_len(&header, source_len, options.gpu_index);
    sink.append(&vec![0; header_len as usize])?;
    let input = Input { source, base: options.base, plans: &plans };
    let lens = blobs(&header, &input, sink, options, progress)?;
    let trailer = Trailer {
        source_len,
        base: options.base.map_or(Ok([0; 32]), hash)?,
        header: read(source, 0, header.len as usize)?,
    };
    sink.append(&trailer.to_bytes())?;
    sink.patch(0, &packed_header(&header, &lens, header_len)?)?;
    let encode_seconds = begin.elapsed().as_secs_f64();
    let hash = verify(sink, options.threads, options.budget, progress)?;
    sink.append(&hash)?;
    let packed_len = header_len + lens.iter().sum::<u64>() + Trailer::stored_len(header.len);
    Ok(Packed { source_len, packed_len, encode_seconds })
}

/// Returns the header of a base, which must be a plain safetensors file.
fn base_header(base: &dyn ReadAt) -> Result<Header> {
    let header = Header::read(base).map_err(|error| error.at("the base"))?;
    if header.metadata.contains_key(VERSION_KEY) {
        return Err(Error::invalid("the base is packed").with_hint(Remedy::Unpack));
    }
    Ok(header)
}

/// Where a tensor's bytes are, and how they are divided into tiles.
struct Plan {
    layout: Layout,
    at: u64,
    base_at: Option<u64>,
}

impl Plan {
    fn content(&self) -> Content {
        if self.base_at.is_some() { Content::Delta } else { Content::Plain }
    }
}

struct Input<'a> {
    source: &'a dyn ReadAt,
    base: Option<&'a dyn ReadAt>,
    plans: &'a [Plan],
}

/// One run in progress: source bytes, then records.
#[derive(Default)]
struct Work {
    bytes: Vec<u8>,
    records: Vec<u8>,
    tiles: Vec<Tile>,
    index: Vec<u8>,
}

/// The reusable state of a worker.
struct Worker {
    encoder: Encoder,
    tile: Vec<u8>,
    /// Set if an index is requested; it records the index.
    decoder: Option<Decoder>,
    decoded: Vec<u8>,
}

/// Returns the least memory that suffices for every step, whichever tile sizes are chosen.
fn least(header: &Header, options: &Options<'_>) -> Result<u64> {
    let mut need = if options.tile_size.is_none() { memory::choosing(header)? } else { Need::default() };
    for tile_size in options.tile_size.map_or_else(|| TILE_SIZES.to_vec(), |size| vec![size]) {
        let layouts = header.tensors.iter().map(|tensor| match options.tile_size {
            Some(size) => Layout::of(tensor, size),
            None => tile_size::candidate(tensor, tile_size),
        });
        let layouts: Vec<Layout> = layouts.collect::<Result<_>>()?;
        need = need.max(memory::encoding(header, &layouts, options.gpu_index));
        need = need.max(memory::verifying(header, &layouts));
    }
    Ok(need.least())
}

/// Writes the blobs, and the index for GPUs if one is requested. Returns the length of each. The
/// index stays in memory until it is written, a thirtieth of the source.
fn blobs(
    header: &Header,
    input: &Input<'_>,
    sink: &mut dyn Sink,
    options: &Options<'_>,
    progress: &dyn Fn(u64),
) -> Result<Vec<u64>> {
    let layouts: Vec<Layout> = input.plans.iter().map(|plan| plan.layout).collect();
    let (workers, _held) =
        memory::encoding(header, &layouts, options.gpu_index).workers(options.threads, options.budget)?;
    let runs = Runs::new(input.plans.iter().map(|plan| plan.layout.n_runs()));
    let mut open = Open { header, plans: input.plans, sink, lens: Vec::new(), tiles: Vec::new(), written: 0 };
    let isa = Isa::from_env()?;
    let decoder = || options.gpu_index.map(|segment| Decoder::indexing(isa, segment)).transpose();
    decoder()?;
    let mut index_of_all = options.gpu_index.map(gpu_index::header).unwrap_or_default();
    in_order(
        workers,
        runs.len(),
        || Worker {
            encoder: Encoder::new(isa),
            tile: Vec::new(),
            decoder: decoder().unwrap_or(None),
            decoded: Vec::new(),
        },
        |worker, index, work: &mut Work| {
            let (tensor, run) = runs.get(index);
            let plan = &input.plans[tensor];
            let Run { bytes, .. } = plan.layout.run(run);
            resize(&mut work.bytes, (bytes.end - bytes.start) as usize);
            input.read(plan, bytes.start, &mut work.bytes)?;
            encode_run(worker, &plan.layout, run, work).map_err(|error| error.at(&header.tensors[tensor].name))
        },
        |index, work| {
            open.add(runs.get(index).0, work)?;
            index_of_all.extend_from_slice(&work.index);
            progress(work.bytes.len() as u64);
            Ok(())
        },
    )?;
    open.begin(input.plans.len())?;
    let Open { mut lens, sink, .. } = open;
    if options.gpu_index.is_some() {
        index_of_all.resize(index_of_all.len().next_multiple_of(blob::ALIGN as usize), 0);
        sink.append(&index_of_all)?;
        lens.push(index_of_all.len() as u64);
    }
    Ok(lens)
}

impl Input<'_> {
    /// Reads bytes of a tensor from `offset` on, XORed with those of the base.
    fn read(&self, plan: &Plan, offset: u64, bytes: &mut [u8]) -> Result<()> {
        self.source.read_at(plan.at + offset, bytes)?;
        match (self.base, plan.base_at) {
            (Some(base), Some(at)) => exclusive_or(base, at + offset, bytes),
            _ => Ok(()),
        }
    }
}

fn encode_run(worker: &mut Worker, layout: &Layout, run: u64, work: &mut Work) -> Result<()> {
    let Worker { encoder, tile, decoder, decoded } = worker;
    work.records.clear();
    work.tiles.clear();
    work.index.clear();
    work.records.reserve_exact(work.bytes.len());
    for number in layout.run(run).tiles {
        let [first, step, row_len] = layout.rows_in_run(number);
        let elements = if step == row_len {
            &work.bytes
        } else {
            tile.clear();
            work.bytes[first..].chunks(step).for_each(|row| tile.extend_from_slice(&row[..row_len]));
            &*tile
        };
        let start = work.records.len();
        let entry = encoder.encode(layout.split, number, elements, &mut work.records)?;
        if let Some(decoder) = decoder {
            decoded.resize(elements.len(), 0);
            decoder.decode(layout.split, number, &entry, &work.records[start..], decoded)?;
            work.index.extend_from_slice(decoder.index());
        }
        work.tiles.push(entry);
    }
    Ok(())
}

/// The blob that is being written.
struct Open<'a> {
    header: &'a Header,
    plans: &'a [Plan],
    sink: &'a mut dyn Sink,
    /// Lengths of the completed blobs.
    lens: Vec<u64>,
    tiles: Vec<Tile>,
    written: u64,
}

impl Open<'_> {
    fn add(&mut self, tensor: usize, work: &Work) -> Result<()> {
        self.begin(tensor)?;
        self.sink.append(&work.records)?;
        self.written += work.records.len() as u64;
        self.tiles.extend_from_slice(&work.tiles);
        Ok(())
    }

    /// Completes every blob before that of `tensor`, and starts that one.
    fn begin(&mut self, tensor: usize) -> Result<()> {
        loop {
            let current = self.lens.len();
            let Some(plan) = self.plans.get(current) else { return Ok(()) };
            let header = blob::header(&plan.layout, plan.content());
            if self.written == 0 {
                self.sink.append(&header)?;
                self.written = header.len() as u64;
            }
            if current == tensor {
                return Ok(());
            }
            let footer = blob::footer(&self.header.tensors[current].name, &header, &self.tiles, self.written);
            self.sink.append(&footer)?;
            self.lens.push(self.written + footer.len() as u64);
            self.tiles.clear();
            self.written = 0;
        }
    }
}

/// Decodes everything that was written, and returns the hash of the file.
fn verify(sink: &mut dyn Sink, threads: usize, budget: &Budget, progress: &dyn Fn(u64)) -> Result<[u8; HASH_LEN]> {
    let mut hash = [0; HASH_LEN];
    sink.check(&mut |file| {
        let complete = Complete { file, size: file.size()? + HASH_LEN as u64 };
        Archive::open(&complete, budget)?.check_tiles(threads, progress)?;
        hash = super::hash::hash(file)?;
        Ok(())
    })
    .map_err(|error| {
        Error::new(ErrorKind::Check, format!("what was written does not verify: {error}")).with_source(error)
    })?;
    Ok(hash)
}

/// A file whose hash is not written yet.
struct Complete<'a> {
    file: &'a dyn ReadAt,
    size: u64,
}

impl ReadAt for Complete<'_> {
    fn size(&self) -> Result<u64> {
        Ok(self.size)
    }

    fn read_at(&self, at: u64, out: &mut [u8]) -> Result<()> {
        self.file.read_at(at, out)
    }
}
