//! Records to tiles: planes are decoded a chunk at a time, and joined and hashed while they are in
//! L1.

use super::cpu::{self, Stream};
use super::hash::{self, Lanes};
use super::index::{self, Collector, Entry};
use super::job::Status;
use super::planes::{self, Split};
use super::record::{self, Coded, MAX_PLANES, MAX_TILE_LEN, Mode, Tile};
use super::table::{self, Lookup};
use super::{M, MAX_SLICES, Slices};
use crate::{Error, Isa, Result};

/// Elements of each slice decoded at once.
const CHUNK: usize = 2048;

/// Decodes tiles on one thread; reusable, and allocation-free after the first tile of the widest
/// elements.
#[derive(Debug)]
pub struct Decoder {
    isa: Isa,
    /// One table per coded plane.
    lookups: Vec<Box<Lookup>>,
    /// A chunk of each slice of each plane.
    bytes: Vec<u8>,
    /// A chunk of pairs of each slice.
    pairs: Vec<u8>,
    collector: Collector,
}

/// Why a tile was not decoded.
#[derive(Debug)]
pub(super) struct Fault {
    pub(super) status: Status,
    error: Error,
}

impl Fault {
    fn stream(message: &str) -> Self {
        Self { status: Status::Stream, error: Error::corrupt(message) }
    }
}

impl From<Error> for Fault {
    fn from(error: Error) -> Self {
        Self { status: Status::Malformed, error }
    }
}

/// The source of a plane's bytes.
#[expect(clippy::large_enum_variant, reason = "on the stack, since a box would be an allocation for each tile")]
enum Source<'a> {
    Raw(&'a [u8]),
    Constant,
    Coded {
        mode: Mode,
        palette: [u8; 16],
        streams: PerSlice<Stream<'a>>,
        escapes: [&'a [u8]; MAX_SLICES],
        n_escapes: [usize; MAX_SLICES],
    },
}

impl Source<'_> {
    /// Writes its position in slice `k` to the index.
    fn put(&self, k: usize, entry: &mut Entry<'_>) {
        if let Self::Coded { streams, escapes, n_escapes, .. } = self {
            let (words, states) = streams[k].position();
            entry.put([words as u32, (n_escapes[k] - escapes[k].len()) as u32, 0, 0]);
            entry.put(*states);
        }
    }
}

type PerSlice<T> = [T; MAX_SLICES];

impl Decoder {
    /// Creates a decoder for this instruction set.
    pub fn new(isa: Isa) -> Self {
        Self { isa, lookups: Vec::new(), bytes: Vec::new(), pairs: Vec::new(), collector: Collector::default() }
    }

    /// Creates a decoder that also builds the index of each tile, with segments of `segment`
    /// elements.
    ///
    /// # Errors
    /// `segment` is 0 or not a multiple of [`SEGMENT_STEP`](super::SEGMENT_STEP).
    pub fn indexing(isa: Isa, segment: u32) -> Result<Self> {
        if segment == 0 || !segment.is_multiple_of(index::SEGMENT_STEP) {
            let message = format!("segments of {segment} elements, not a multiple of {}", index::SEGMENT_STEP);
            return Err(Error::invalid(message));
        }
        let mut decoder = Self::new(isa);
        decoder.collector.segment = segment as usize;
        Ok(decoder)
    }

    /// Returns the index of the last tile; empty if the tile needs none.
    pub fn index(&self) -> &[u8] {
        &self.collector.bytes
    }

    /// Decodes tile `number` from `record` into `out`, which is exactly as long as the tile, and
    /// checks its hash. After an error the content of `out` is unspecified.
    ///
    /// # Errors
    /// `Corrupt`, `Truncated` or `Version` if the record is not what the encoder wrote for this
    /// tile.
    pub fn decode(&mut self, split: Split, number: u64, tile: &Tile, record: &[u8], out: &mut [u8]) -> Result<()> {
        self.try_decode(split, number, tile, record, out).map_err(|fault| fault.error)
    }

    /// Works like [`Decoder::decode`]; a fault also says which part of the tile is wrong.
    pub(super) fn try_decode(
        &mut self,
        split: Split,
        number: u64,
        tile: &Tile,
        record: &[u8],
        out: &mut [u8],
    ) -> Result<(), Fault> {
        let _span = tracing::info_span!("rans decode", bytes = (record.len() + out.len()) as u64).entered();
        let width = split.width();
        if out.len() > MAX_TILE_LEN || !out.len().is_multiple_of(width) {
            return Err(Error::invalid(format!("a tile cannot have {} bytes of {width} each", out.len())).into());
        }
        if record.len() != tile.len as usize {
            let message = format!("a record of {} bytes, the index says {}", record.len(), tile.len);
            return Err(Error::truncated(message).into());
        }
        let slices = Slices::of(out.len() / width);
        let found = match slices.count {
            1 => self.run::<1>(split, number, tile, record, out)?,
            2 => self.run::<2>(split, number, tile, record, out)?,
            _ => self.run::<4>(split, number, tile, record, out)?,
        };
        if found == tile.hash {
            return Ok(());
        }
        let error = Error::corrupt(format!("the tile's hash is {found:016x}, not {:016x}", tile.hash));
        Err(Fault { status: Status::Hash, error })
    }

    fn run<const N: usize>(
        &mut self,
        split: Split,
        number: u64,
        tile: &Tile,
        record: &[u8],
        out: &mut [u8],
    ) -> Result<u64, Fault> {
        let width = split.width();
        let slices = Slices::of(out.len() / width);
        self.grow(width);
        let mut sources = self.sources(split, slices, tile, record)?;
        self.collector.begin(split, tile, slices)?;
        let mut lanes: [Lanes; N] = std::array::from_fn(|_| Lanes::new());
        for start in (0..slices.len).step_by(CHUNK) {
            let chunk = |k: usize| {
                let range = slices.range(k);
                (range.start + start).min(range.end)..(range.start + start + CHUNK).min(range.end)
            };
            let ranges: [_; N] = std::array::from_fn(chunk);
            for (plane, source) in sources[..width].iter_mut().enumerate() {
                let bytes = &mut self.bytes[plane * MAX_SLICES * CHUNK..][..MAX_SLICES * CHUNK];
                if let Source::Coded { mode, palette, streams, escapes, .. } = source {
                    let lens = ranges.each_ref().map(|range| range.len());
                    let mut place =
                        ChunkDecoder { isa: self.isa, lookup: &self.lookups[plane], pairs: &mut self.pairs };
                    let decoded = match mode {
                        Mode::Pairs => place.pairs::<N>(palette, streams, escapes, lens, bytes),
                        _ => place.bytes::<N>(streams, lens, bytes),
                    };
                    if !decoded {
                        return Err(Fault::stream("a stream goes on beyond its end"));
                    }
                }
            }
            for (k, range) in ranges.iter().enumerate() {
                let mut parts = [&[][..]; MAX_PLANES];
                for (plane, part) in parts[..width].iter_mut().enumerate() {
                    *part = match &sources[plane] {
                        Source::Raw(bytes) => &bytes[range.clone()],
                        _ => &self.bytes[(plane * MAX_SLICES + k) * CHUNK..][..range.len()],
                    };
                }
                planes::join(self.isa, split, &parts, &mut out[range.start * width..range.end * width]);
            }
            let joined = ranges.each_ref().map(|range| &out[range.start * width..range.end * width]);
            let (twos, rest) = lanes.as_chunks_mut::<2>();
            for (two, bytes) in twos.iter_mut().zip(joined.as_chunks::<2>().0) {
                Lanes::update_two(two, self.isa, *bytes);
            }
            if let ([lanes], [.., bytes]) = (rest, &joined[..]) {
                lanes.update(self.isa, bytes);
            }
            for (k, range) in ranges.iter().enumerate() {
                let slice = slices.range(k);
                if let Some(mut entry) = self.collector.entry(k, range.end - slice.start, slice.len()) {
                    entry.put(lanes[k].words());
                    sources[..width].iter().for_each(|source| source.put(k, &mut entry));
                }
            }
        }
        check_ends(&sources[..width])?;
        Ok(hash::fold(number, out.len(), &lanes))
    }

    fn grow(&mut self, width: usize) {
        let bytes = width * MAX_SLICES * CHUNK;
        if self.bytes.len() < bytes {
            self.bytes.resize(bytes, 0);
        }
        self.pairs.resize(MAX_SLICES * CHUNK / 2, 0);
        while self.lookups.len() < width {
            self.lookups.push(vec![0; M].into_boxed_slice().try_into().unwrap_or_else(|_| Box::new([0; M])));
        }
    }

    fn sources<'a>(
        &mut self,
        split: Split,
        slices: Slices,
        tile: &Tile,
        record: &'a [u8],
    ) -> Result<[Source<'a>; MAX_PLANES]> {
        let parts = record::planes(record, split.width())?;
        let mut sources = [const { Source::Constant }; MAX_PLANES];
        for (plane, part) in parts[..split.width()].iter().enumerate() {
            let wrong = |needed: usize| {
                let message = format!("plane {plane} has {} bytes, not {needed}", part.len());
                Err(Error::corrupt(message))
            };
            sources[plane] = match (tile.mode(plane)?, *part) {
                (Mode::Raw, part) if part.len() == slices.n => Source::Raw(part),
                (Mode::Raw, _) => return wrong(slices.n),
                (Mode::Constant, &[byte]) => {
                    self.bytes[plane * MAX_SLICES * CHUNK..][..MAX_SLICES * CHUNK].fill(byte);
                    Source::Constant
                }
                (Mode::Constant, _) => return wrong(1),
                (mode, part) => {
                    let coded = Coded::read(mode, slices, part)?;
                    table::fill(&coded.frequencies, &mut self.lookups[plane]);
                    let mut streams = std::array::from_fn(|_| Stream::empty());
                    for (k, stream) in streams[..slices.count].iter_mut().enumerate() {
                        *stream = Stream::new(coded.states[k], coded.words[k])?;
                    }
                    let n_escapes = coded.escapes.map(<[u8]>::len);
                    Source::Coded { mode, palette: coded.palette, streams, escapes: coded.escapes, n_escapes }
                }
            };
        }
        Ok(sources)
    }
}

fn check_ends(sources: &[Source<'_>]) -> Result<(), Fault> {
    for source in sources {
        if let Source::Coded { streams, escapes, .. } = source
            && !(streams.iter().all(Stream::is_finished) && escapes.iter().all(|escapes| escapes.is_empty()))
        {
            return Err(Fault::stream("a stream does not end where it should"));
        }
    }
    Ok(())
}

/// The context for decoding a chunk of a plane.
struct ChunkDecoder<'a> {
    isa: Isa,
    lookup: &'a Lookup,
    pairs: &'a mut [u8],
}

impl ChunkDecoder<'_> {
    fn bytes<const N: usize>(&mut self, streams: &mut PerSlice<Stream<'_>>, lens: [usize; N], out: &mut [u8]) -> bool {
        let mut parts = out.chunks_mut(CHUNK);
        let mut out = lens.map(|len| &mut parts.next().unwrap_or_default()[..len]);
        first::<N, _>(streams).is_some_and(|streams| cpu::decode(self.isa, self.lookup, streams, &mut out))
    }

    fn pairs<const N: usize>(
        &mut self,
        palette: &[u8; 16],
        streams: &mut PerSlice<Stream<'_>>,
        escapes: &mut [&[u8]; MAX_SLICES],
        lens: [usize; N],
        out: &mut [u8],
    ) -> bool {
        let mut parts = self.pairs.chunks_mut(CHUNK / 2);
        let mut symbols = lens.map(|len| &mut parts.next().unwrap_or_default()[..len.div_ceil(2)]);
        let decoded =
            first::<N, _>(streams).is_some_and(|streams| cpu::decode(self.isa, self.lookup, streams, &mut symbols));
        let out = out.chunks_mut(CHUNK).zip(lens).map(|(out, len)| &mut out[..len]);
        decoded
            && symbols
                .iter()
                .zip(escapes)
                .zip(out)
                .all(|((symbols, escapes), out)| cpu::expand(self.isa, palette, symbols, escapes, out))
    }
}

fn first<const N: usize, T>(array: &mut [T; MAX_SLICES]) -> Option<&mut [T; N]> {
    array.first_chunk_mut::<N>()
}

#[cfg(test)]
mod tests {
    use super::super::{Encoder, tests::brain_floats};
    use super::*;
    use crate::random::SplitMix64;

    /// The first byte of the padding after the escapes is counted as one of them.
    #[test]
    fn an_escape_too_many_is_found() {
        let mut n_checked = 0;
        for n in 33_000..33_008 {
            let weights = brain_floats(&mut SplitMix64::new(17), n);
            let mut record = Vec::new();
            let tile = Encoder::new(Isa::best()).encode(Split::BrainFloat16, 0, &weights, &mut record).unwrap();
            assert_eq!(tile.mode(0).unwrap(), Mode::Pairs);
            // After the lengths of the planes: the number of words and of escapes of each slice.
            let counts = 16..16 + 8 * Slices::of(n).count;
            let escapes = |counts: &[u8]| u32::from_le_bytes(counts[4..].try_into().unwrap());
            let total: u32 = record[counts.clone()].chunks(8).map(escapes).sum();
            if !total.is_multiple_of(record::ALIGN as u32) {
                let more = escapes(&record[counts.end - 8..counts.end]) + 1;
                record[counts.end - 4..counts.end].copy_from_slice(&more.to_le_bytes());
                for isa in Isa::available() {
                    let out = &mut vec![0; weights.len()];
                    let outcome = Decoder::new(isa).decode(Split::BrainFloat16, 0, &tile, &record, out);
                    assert!(outcome.unwrap_err().to_string().contains("does not end where it should"));
                }
                n_checked += 1;
            }
        }
        assert!(n_checked > 0);
    }
}
