//! On a GPU: decodes records in device memory to elements in device memory, hash included, beside a
//! copy of the same bytes and beside nvCOMP; and loads models from the page cache into device
//! memory. Kernel times are device times between two events.

use std::path::Path;
use std::time::Instant;

use melisma::pack::{self, Decoder, Encoder, Header, Layout, Loader, Options, SEGMENT, TensorEntry};
use melisma::random::Lcg64;
use melisma::runtime::device::Device;
use melisma::{Budget, Error, Result};
use melisma_kernels::device::cuda::Cuda;
use melisma_kernels::rans::{Batch, Job, Lens, Segments};
use melisma_kernels::{Buffer, Isa, Queue};

use super::{Figures, PEERS, beside, check_equal, speed};
use crate::forecast::id;
use crate::measure::of_times;
use crate::{BenchContext, Measured, Peer, Row, peer};

/// A block of weights, repeated in memory up to a given size.
const ROWS: u64 = 4096;
const COLS: u64 = 4096;
/// Layers decoded in turn, so that none is still in a cache.
const LAYERS: usize = 12;

pub(super) fn rows(context: BenchContext<'_>) -> Result<Vec<Row>> {
    let Device::Cuda(cuda) = context.device else { return Err(Error::unsupported("this bench needs a GPU")) };
    let bench = Bench { cuda, device: context.device, queue: context.device.queue(context.memory.budget())?, context };
    let mut rows = Vec::new();
    for (name, dtype, megabytes) in
        [("bf16", "BF16", 512), ("bf16", "BF16", 2048), ("f16", "F16", 512), ("f32", "F32", 512)]
    {
        let matrix = Matrix::new(dtype, ROWS, COLS)?;
        for segment in [None, Some(SEGMENT)] {
            rows.extend(bench.large(name, &matrix, megabytes, segment)?);
        }
    }
    let layer = Matrix::new("BF16", 2048, 2816)?;
    for segment in [None, Some(4 * SEGMENT), Some(2 * SEGMENT), Some(SEGMENT), Some(SEGMENT / 2)] {
        rows.push(bench.layer(&layer, segment)?);
    }
    rows.extend(bench.ladder(&layer)?);
    rows.extend(bench.load()?);
    Ok(rows)
}

/// Approximately normal weights.
struct Matrix {
    entry: TensorEntry,
    bytes: Vec<u8>,
}

impl Matrix {
    fn new(dtype: &str, rows: u64, cols: u64) -> Result<Self> {
        let mut random = Lcg64::new(11);
        let weights = (0..rows * cols).map(|_| (0..12).map(|_| random.unit() - 0.5).sum::<f32>() * 0.02);
        let bytes: Vec<u8> = match dtype {
            "BF16" => weights.flat_map(|weight| half::bf16::from_f32(weight).to_le_bytes()).collect(),
            "F16" => weights.flat_map(|weight| half::f16::from_f32(weight).to_le_bytes()).collect(),
            _ => weights.flat_map(f32::to_le_bytes).collect(),
        };
        let len = bytes.len();
        let json = format!(r#"{{"w":{{"dtype":"{dtype}","shape":[{rows},{cols}],"data_offsets":[0,{len}]}}}}"#);
        let entry = Header::parse(json.as_bytes(), len as u64)?.tensors.remove(0);
        Ok(Self { entry, bytes })
    }

    /// Returns the jobs of its tiles, and their packed bytes.
    fn encode(&self, segment: Option<u32>) -> Result<(Vec<Job>, Vec<u8>)> {
        let layout = Layout::of(&self.entry, 512)?;
        let width = layout.split.width() as u64;
        let isa = Isa::best();
        let mut encoder = Encoder::new(isa);
        let mut decoder = segment.map(|segment| Decoder::indexing(isa, segment)).transpose()?;
        let (mut jobs, mut packed) = (Vec::new(), Vec::new());
        for number in 0..layout.n_tiles() {
            let [rows, cols] = layout.tile(number);
            let row_len = ((cols.end - cols.start) * width) as usize;
            let row = |row: u64| &self.bytes[((row * layout.cols + cols.start) * width) as usize..][..row_len];
            let elements: Vec<u8> = rows.clone().flat_map(row).copied().collect();
            let record = packed.len();
            let tile = encoder.encode(layout.split, number, &elements, &mut packed)?;
            let mut segments = None;
            if let (Some(len), Some(decoder)) = (segment, &mut decoder) {
                decoder.decode(layout.split, number, &tile, &packed[record..], &mut vec![0; elements.len()])?;
                segments = Some(Segments { at: packed.len() as u64, len });
                packed.extend_from_slice(decoder.index());
            }
            jobs.push(Job {
                split: layout.split,
                number,
                tile,
                record: record as u64,
                out: (rows.start * layout.cols + cols.start) * width,
                row_len: row_len as u32,
                rows: (rows.end - rows.start) as u32,
                row_step: layout.cols * width,
                segments,
            });
        }
        Ok((jobs, packed))
    }
}

/// Several copies of a matrix in device memory, ready to be decoded.
struct Decoding {
    batch: Batch,
    packed: Buffer,
    out: Buffer,
    status: Buffer,
}

struct Bench<'a> {
    cuda: &'a Cuda,
    device: &'a Device,
    queue: Queue,
    context: BenchContext<'a>,
}

impl Bench<'_> {
    fn buffer(&self, len: usize) -> Result<Buffer> {
        Buffer::device(self.cuda, self.context.memory.budget(), len)
    }

    fn decoding(&self, matrix: &Matrix, segment: Option<u32>, times: usize) -> Result<(Decoding, f64)> {
        let (one, bytes) = matrix.encode(segment)?;
        let (packed_len, out_len) = (bytes.len(), matrix.bytes.len());
        let mut jobs = Vec::with_capacity(one.len() * times);
        for index in 0..times as u64 {
            jobs.extend(one.iter().map(|job| Job {
                record: job.record + index * packed_len as u64,
                out: job.out + index * out_len as u64,
                segments:
                    job.segments.map(|segments| Segments { at: segments.at + index * packed_len as u64, ..segments }),
                ..*job
            }));
        }
        let lens = Lens { packed: packed_len * times, out: out_len * times };
        let batch = Batch::plan(self.device, self.context.memory.budget(), &jobs, lens)?;
        let mut packed = self.buffer(packed_len * times)?;
        for index in 0..times {
            let to = packed.view_mut::<u8>()?.range(index * packed_len..(index + 1) * packed_len)?;
            self.queue.copy(bytes[..].into(), to)?;
        }
        let (out, status) = (self.buffer(out_len * times)?, self.buffer(size_of::<i32>() * jobs.len())?);
        let ratio = packed_len as f64 / out_len as f64;
        Ok((Decoding { batch, packed, out, status }, ratio))
    }

    fn run(&self, decoding: &mut Decoding) -> Result<()> {
        let Decoding { batch, packed, out, status } = decoding;
        batch.run(&self.queue, packed.view()?, out.view_mut()?, status.view_mut()?)
    }

    /// Checks that every tile decodes without an error, and that the last copy equals the matrix.
    fn verify(&self, decoding: &Decoding, matrix: &Matrix) -> Result<()> {
        let mut words = vec![1i32; decoding.batch.len()];
        self.queue.copy(decoding.status.view()?, words[..].as_mut().into())?;
        check_equal(&words, &vec![0; words.len()], "a tile on the GPU")?;
        let mut found = vec![0u8; matrix.bytes.len()];
        let end = decoding.out.len();
        self.queue.copy(decoding.out.view::<u8>()?.range(end - found.len()..end)?, found[..].as_mut().into())?;
        check_equal(&found, &matrix.bytes, "a matrix on the GPU")
    }

    fn time(&self, n: usize, mut work: impl FnMut(usize) -> Result<()>) -> Result<Measured> {
        (0..n.min(5)).try_for_each(&mut work)?;
        let mut times = Vec::new();
        for index in 0..n {
            let start = self.queue.record()?;
            work(index)?;
            let end = self.queue.record()?;
            end.synchronize()?;
            times.push(end.since(&start)?.as_secs_f64());
        }
        Ok(of_times(times))
    }

    /// Measures the rates of decoding and of a copy, and the size.
    fn large(&self, name: &str, matrix: &Matrix, megabytes: usize, segment: Option<u32>) -> Result<Vec<Row>> {
        let times = (megabytes << 20).div_ceil(matrix.bytes.len());
        let (mut decoding, ratio) = self.decoding(matrix, segment, times)?;
        let gigabytes = decoding.out.len() as f64 / 1e9;
        let decoded = self.time(20, |_| self.run(&mut decoding))?;
        self.verify(&decoding, matrix)?;
        let kind = if segment.is_some() { " with an index" } else { "" };
        let name = format!("pack/decode {name} {megabytes} MB{kind} cuda");
        let mut row = decoded.rate(&name, "GB/s", gigabytes);
        if segment.is_none() {
            row.peers = self.nvcomp(matrix, times);
        }
        let mut copy = self.buffer(decoding.out.len())?;
        let copied = self.time(20, |_| self.queue.copy(decoding.out.view::<u8>()?, copy.view_mut()?))?;
        row.peers.push(Peer { name: "device copy".to_owned(), median: gigabytes / copied.median });
        let size = Row { unit: "share".to_owned(), median: ratio, spread: 0.0, n: 1, ..row.clone() };
        let size = Row { name: format!("{name}: size"), peers: Vec::new(), ..size };
        Ok(vec![if matrix.entry.dtype == "BF16" { row.with_id(id::UNPACK) } else { row }, size])
    }

    fn nvcomp(&self, matrix: &Matrix, times: usize) -> Vec<Peer> {
        let path = std::env::temp_dir().join(format!("melisma-bench-{}.bin", std::process::id()));
        if std::fs::write(&path, &matrix.bytes).is_err() {
            return Vec::new();
        }
        let args = ["nvcomp", &path.display().to_string(), &times.to_string(), &matrix.entry.dtype];
        let value = peer("nvCOMP", PEERS, &args);
        // Only a temporary file, so errors are ignored.
        let _ = std::fs::remove_file(&path);
        let figures: Figures = value.and_then(|value| serde_json::from_value(value).ok()).unwrap_or_default();
        let mut peers = beside(&figures, "decode", 1.0);
        let ratios = beside(&figures, "ratio", 1.0);
        peers.extend(ratios.into_iter().map(|peer| Peer { name: format!("{} size", peer.name), ..peer }));
        peers
    }

    /// Measures the decoding of one layer of 11 MB, a different one each time.
    fn layer(&self, matrix: &Matrix, segment: Option<u32>) -> Result<Row> {
        let mut layers = Vec::new();
        for _ in 0..LAYERS {
            layers.push(self.decoding(matrix, segment, 1)?.0);
        }
        let decoded = self.time(10 * LAYERS, |index| self.run(&mut layers[index % LAYERS]))?;
        layers.iter().try_for_each(|layer| self.verify(layer, matrix))?;
        let kind = segment.map_or("without an index".to_owned(), |segment| format!("with an index of {segment}"));
        let row = decoded.seconds(&format!("pack/decode bf16 layer of 11 MB {kind} cuda"));
        Ok(Row { unit: "us".to_owned(), median: row.median * 1e6, ..row })
    }

    /// Measures the last step of the ladder: five layers decoded by all cores, then by the GPU in
    /// one launch.
    fn ladder(&self, matrix: &Matrix) -> Result<Vec<Row>> {
        let threads = melisma_kernels::available_threads();
        let on_cores = speed::decode_on(threads, &file(std::iter::repeat_n(matrix, 5)))?;
        let (mut five, _) = self.decoding(matrix, Some(SEGMENT), 5)?;
        let on_gpu = self.time(50, |_| self.run(&mut five))?;
        self.verify(&five, matrix)?;
        let row = |measured: Measured, name: &str| {
            let row = measured.seconds(&format!("pack/ladder {name}"));
            Row { unit: "ms".to_owned(), median: row.median * 1e3, ..row }
        };
        let factor = on_cores.median / on_gpu.median;
        let before = row(on_cores, &format!("8 all cores, {threads} threads, five layers decoded"));
        let after = row(on_gpu, "9 GPU, five layers decoded");
        let name = "pack/ladder 9 GPU: factor, expected 5 ms for a layer".to_owned();
        let factor = Row { name, unit: "x".to_owned(), median: factor, ..after.clone() };
        Ok(vec![before, after, factor])
    }

    /// Measures the loading of a model of 1 GB from the page cache, packed and unpacked.
    fn load(&self) -> Result<Vec<Row>> {
        let folder = std::env::temp_dir();
        let paths = ["plain", "packed", "indexed"]
            .map(|kind| folder.join(format!("melisma-bench-{}-{kind}.safetensors", std::process::id())));
        let outcome = self.load_files(&paths.each_ref().map(|path| path.as_path()));
        for path in &paths {
            // Only temporary files, so errors are ignored.
            let _ = std::fs::remove_file(path);
        }
        outcome
    }

    fn load_files(&self, [plain, packed, indexed]: &[&Path; 3]) -> Result<Vec<Row>> {
        let source = model()?;
        let threads = melisma_kernels::available_threads();
        std::fs::write(plain, &source).map_err(|error| Error::io(plain.display(), error))?;
        for (path, gpu_index) in [(packed, None), (indexed, Some(SEGMENT))] {
            let mut bytes = Vec::new();
            pack::pack(
                &source,
                &mut bytes,
                &Options::new(&Budget::unlimited()).with_threads(threads).with_gpu_index(gpu_index),
                &|_| {},
            )?;
            std::fs::write(path, &bytes).map_err(|error| Error::io(path.display(), error))?;
        }
        let gigabytes = source.len() as f64 / 1e9;
        drop(source);
        let mut loader = Loader::new(self.device, self.context.memory.budget())?;
        let mut rows: Vec<Row> = Vec::new();
        for (path, name) in [(plain, "plain"), (packed, "packed"), (indexed, "packed with an index")] {
            let file = std::fs::File::open(path).map_err(|error| Error::io(path.display(), error))?;
            let mut times = Vec::new();
            for round in 0..9 {
                let start = Instant::now();
                let loaded = loader.load(&file)?;
                if round > 1 {
                    times.push(start.elapsed().as_secs_f64());
                }
                check_equal(loaded.tensors().len(), N_TENSORS, "a loaded model")?;
            }
            let mut row = of_times(times).rate(&format!("pack/load 1 GB of bf16 {name} to cuda"), "GB/s", gigabytes);
            row.peers.extend(rows.first().map(|plain| Peer { name: "plain".to_owned(), median: plain.median }));
            rows.push(row);
        }
        Ok(rows)
    }
}

const N_TENSORS: usize = 32;

fn model() -> Result<Vec<u8>> {
    Ok(file(std::iter::repeat_n(&Matrix::new("BF16", ROWS, COLS)?, N_TENSORS)))
}

/// Returns a safetensors file of `matrices`.
fn file<'a>(matrices: impl Iterator<Item = &'a Matrix>) -> Vec<u8> {
    let (mut json, mut data) = (String::new(), Vec::new());
    for (index, Matrix { entry, bytes }) in matrices.enumerate() {
        let (begin, end) = (data.len(), data.len() + bytes.len());
        let comma = if index > 0 { "," } else { "" };
        let TensorEntry { dtype, shape, .. } = entry;
        json += &format!(r#"{comma}"w{index}":{{"dtype":"{dtype}","shape":{shape:?},"data_offsets":[{begin},{end}]}}"#);
        data.extend_from_slice(bytes);
    }
    let mut file = (json.len() as u64 + 2).to_le_bytes().to_vec();
    file.extend_from_slice(format!("{{{json}}}").as_bytes());
    file.append(&mut data);
    file
}
