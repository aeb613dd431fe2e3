//! Packing and unpacking whole files.

use melisma::pack::{self, Archive, Array, Decoder, Encoder, Header, Layout, Options, Split};
use melisma::runtime::{Isa, Space};
use melisma::{Budget, Device, Queue, Remedy};

use crate::gpu;
use crate::pack_source::{self, Random, UNLIMITED, assert_reads_into_slices, file, options};
use crate::repository;

fn packed(source: &[u8], options: &Options<'_>) -> Vec<u8> {
    let mut out = Vec::new();
    let told = std::cell::Cell::new(0);
    let summary = pack::pack(&source.to_vec(), &mut out, options, &|bytes| told.set(told.get() + bytes)).unwrap();
    assert_eq!((summary.source_len, summary.packed_len), (source.len() as u64, out.len() as u64));
    let data_len = source.len() as u64 - Header::read(&source.to_vec()).unwrap().len;
    assert_eq!(told.get(), 2 * data_len, "encoded and verified");
    out
}

fn unpacked(packed: &[u8], threads: usize) -> Vec<u8> {
    let packed = packed.to_vec();
    let archive = Archive::open(&packed, &UNLIMITED).unwrap();
    archive.check(threads, &|_| {}).unwrap();
    let mut out = Vec::new();
    archive.unpack(&mut out, threads, &|_| {}).unwrap();
    out
}

/// Every type and many shapes: scalars, empty ones, vectors, wide, tall and three-dimensional ones.
fn all_sorts() -> Vec<u8> {
    let mut random = Random::new(1);
    let mut tensors: Vec<pack_source::Tensor<'_>> = vec![
        ("wide", "BF16", &[3, 70_001], random.bf16(3 * 70_001)),
        ("tall", "BF16", &[70_001, 3], random.bf16(3 * 70_001)),
        ("matrix", "BF16", &[700, 900], random.bf16(700 * 900)),
        ("scalar", "F32", &[], vec![1, 2, 3, 4]),
        ("empty", "F32", &[0, 7], vec![]),
        ("empty too", "I64", &[7, 0], vec![]),
        ("noise", "U8", &[100_000], random.bytes(100_000)),
        ("zeros", "F64", &[333, 100], vec![0; 8 * 33_300]),
    ];
    for (name, dtype, width) in [
        ("a", "BOOL", 1),
        ("b", "I8", 1),
        ("c", "F8_E4M3", 1),
        ("d", "F8_E5M2", 1),
        ("e", "I16", 2),
        ("f", "U16", 2),
        ("g", "F16", 2),
        ("h", "I32", 4),
        ("i", "U32", 4),
        ("j", "F32", 4),
        ("k", "F64", 8),
        ("l", "I64", 8),
        ("m", "U64", 8),
        ("n", "C64", 8),
        ("o", "F8_E8M0", 1),
        ("p", "F4", 1),
        ("q", "FROM_THE_FUTURE", 1),
    ] {
        let bytes = (0..3 * 5 * 411 * width).map(|_| (random.bits() & random.bits()) as u8).collect();
        tensors.push((name, dtype, &[3, 5, 411], bytes));
    }
    file(&tensors)
}

#[test]
fn files_come_back_byte_for_byte_whatever_the_threads() {
    let source = all_sorts();
    for tile_size in pack::TILE_SIZES {
        let one = packed(&source, &options().with_tile_size(tile_size));
        assert!(one.len() < source.len());
        for threads in [2, 3, 16] {
            let more = packed(&source, &options().with_tile_size(tile_size).with_threads(threads));
            assert!(one == more, "{tile_size}, {threads}");
        }
        for threads in [1, 4] {
            assert!(unpacked(&one, threads) == source, "{tile_size}, {threads}");
        }
    }
}

/// One tensor whose bands are of different scales, and one that is the same everywhere.
#[test]
fn wide_elements_get_the_tiles_that_suit_them() {
    let mut random = Random::new(8);
    let mut floats = |scale: &dyn Fn(usize) -> f32| -> Vec<u8> {
        (0..1024 * 512).flat_map(|i| (random.weight() * scale(i)).to_le_bytes()).collect()
    };
    let banded = floats(&|i| ((i >> 16) as f32 * 5.0).exp2());
    let even = floats(&|_| 1.0);
    let source = file(&[("banded", "F32", &[1024, 512], banded), ("even", "F32", &[1024, 512], even)]);
    let chosen = packed(&source, &options());
    assert!(unpacked(&chosen, 2) == source);
    assert!(chosen == packed(&source, &options().with_threads(3)));
    for tile_size in pack::TILE_SIZES {
        let fixed = packed(&source, &options().with_tile_size(tile_size));
        assert!(chosen.len() < fixed.len(), "{tile_size}: {} and {}", chosen.len(), fixed.len());
    }
}

#[test]
fn tensors_and_tiles_can_be_read_alone() {
    let source = all_sorts();
    let header = Header::read(&source).unwrap();
    let packed = packed(&source, &options().with_tile_size(256).with_threads(2));
    let archive = Archive::open(&packed, &UNLIMITED).unwrap();
    assert_reads_into_slices(&archive, &source);
    for entry in &header.tensors {
        let expected = &source[(header.len + entry.bytes[0]) as usize..(header.len + entry.bytes[1]) as usize];
        let mut bytes = Vec::new();
        archive.unpack_tensor(&entry.name, &mut bytes, 2).unwrap();
        assert!(bytes == expected, "{}", entry.name);
        let layout = Layout::of(entry, 256).unwrap();
        let width = layout.split.width();
        for row in 0..layout.grid()[0].min(2) {
            for col in 0..layout.grid()[1].min(2) {
                let (tile, [rows, cols]) = archive.tile(&entry.name, [row, col]).unwrap();
                let row_len = (cols.end - cols.start) as usize * width;
                for (row, found) in rows.zip(tile.chunks(row_len)) {
                    let at = (row * layout.cols + cols.start) as usize * width;
                    assert_eq!(found, &expected[at..at + row_len], "{}", entry.name);
                }
            }
        }
    }
    assert!(archive.tile("matrix", [0, 99]).unwrap_err().to_string().contains("no tile 0,99; the tensor has 3 x 4"));
    assert!(archive.tile("matrx", [0, 0]).unwrap_err().hint().unwrap().contains("matrix"));
    let matrix = archive.list().unwrap().into_iter().find(|info| info.entry.name == "matrix").unwrap();
    assert!(matrix.packed_len < matrix.entry.len() * 7 / 10, "{matrix:?}");
    assert_eq!(matrix.modes, [[("pairs", 12)], [("raw", 12)]]);
}

/// What a loader left in the device's memory, tensor by tensor.
fn loaded_bytes(loaded: &pack::Loaded, queue: &Queue, header: &Header, source: &[u8]) {
    assert_eq!(loaded.tensors(), header.tensors);
    for entry in &header.tensors {
        let view = loaded.view::<u8>(&entry.name).unwrap();
        let mut found = vec![0xa5u8; view.len()];
        queue.copy(view, found[..].as_mut().into()).unwrap();
        let expected = &source[(header.len + entry.bytes[0]) as usize..(header.len + entry.bytes[1]) as usize];
        assert!(found == expected, "{}", entry.name);
    }
}

fn models_are_loaded_packed_or_not(device: &Device) {
    let source = all_sorts();
    let header = Header::read(&source).unwrap();
    let small = options().with_tile_size(256);
    let files = [
        source.clone(),
        packed(&source, &small),
        packed(&source, &options().with_gpu_index(pack::SEGMENT)),
        packed(&source, &small.with_gpu_index(2048).with_threads(3)),
    ];
    let budget = Budget::unlimited();
    let queue = device.queue(&budget).unwrap();
    let mut loader = pack::Loader::new(device, &budget).unwrap();
    for file in &files {
        loaded_bytes(&loader.load(file).unwrap(), &queue, &header, &source);
    }
    let mut damaged = files[1].clone();
    let at = Header::read(&damaged).unwrap();
    let at = (at.len + at.get("matrix").unwrap().bytes[0]) as usize + 20_000;
    damaged[at] ^= 4;
    let error = loader.load(&damaged).err().unwrap();
    assert!(error.to_string().starts_with("matrix, tile 0"), "{error}");
    let delta = packed(&source, &options().with_base(&source));
    assert_eq!(loader.load(&delta).err().unwrap().kind(), melisma::ErrorKind::Unsupported);
}

#[test]
fn models_are_loaded_packed_or_not_on_the_cpu() {
    models_are_loaded_packed_or_not(&Device::cpu().unwrap());
}

#[test]
fn models_are_loaded_packed_or_not_on_cuda() {
    gpu::find().iter().for_each(models_are_loaded_packed_or_not);
}

/// Whole files, tensors, tiles and deltas, in one group of runs and, under a limit, in many.
fn files_are_unpacked(device: &Device) {
    let source = all_sorts();
    let header = Header::read(&source).unwrap();
    let small = options().with_tile_size(256);
    let plain = packed(&source, &small);
    let indexed = packed(&source, &small.with_gpu_index(2048));
    let mut base = source.clone();
    let at = header.len as usize;
    base[at..].iter_mut().step_by(1000).for_each(|byte| *byte ^= 1);
    let delta = packed(&source, &small.with_base(&base));
    for (file, limit) in [(&plain, None), (&indexed, None), (&delta, None), (&plain, Some(8 << 20))] {
        let budget = limit.map_or_else(Budget::unlimited, |limit| Budget::new(limit, limit));
        let archive = Archive::open(file, &budget).unwrap().on(device);
        let archive = if archive.is_delta() { archive.with_base(&base).unwrap() } else { archive };
        archive.check(2, &|_| {}).unwrap();
        let (mut out, told) = (Vec::new(), std::cell::Cell::new(0));
        archive.unpack(&mut out, 2, &|bytes| told.set(told.get() + bytes)).unwrap();
        assert!(out == source, "{device}");
        assert_eq!(told.get(), source.len() as u64 - header.len);
        let entry = header.get("matrix").unwrap();
        let mut tensor = Vec::new();
        archive.unpack_tensor("matrix", &mut tensor, 2).unwrap();
        assert_reads_into_slices(&archive, &source);
        assert!(tensor == source[(header.len + entry.bytes[0]) as usize..(header.len + entry.bytes[1]) as usize]);
        let on_cpu = Archive::open(file, &UNLIMITED).unwrap();
        let on_cpu = if on_cpu.is_delta() { on_cpu.with_base(&base).unwrap() } else { on_cpu };
        assert_eq!(archive.tile("matrix", [1, 2]).unwrap(), on_cpu.tile("matrix", [1, 2]).unwrap());
        for space in [Space::Host, Space::Pinned, Space::Device] {
            assert!(budget.usage(space).peak <= limit.unwrap_or(u64::MAX), "{device}: {space:?}");
            assert_eq!(budget.usage(space).now, 0);
        }
    }
    let mut damaged = plain.clone();
    let at = Header::read(&damaged).unwrap();
    let at = (at.len + at.get("matrix").unwrap().bytes[0]) as usize + 20_000;
    damaged[at] ^= 4;
    let archive = Archive::open(&damaged, &UNLIMITED).unwrap().on(device);
    let error = archive.unpack_tensor("matrix", &mut Vec::new(), 2).unwrap_err();
    assert!(error.to_string().starts_with("matrix, tile 0"), "{error}");
    let tiny = Budget::new(1 << 20, 1 << 20);
    let error = Archive::open(&plain, &tiny).unwrap().on(device).check(2, &|_| {}).unwrap_err();
    assert_eq!(error.kind(), melisma::ErrorKind::Memory);
    assert!(matches!(Remedy::of(&error)[..], [Remedy::RaiseMemoryLimit { least: Some(_) }]), "{error}");
}

#[test]
fn files_are_unpacked_on_the_cpu() {
    files_are_unpacked(&Device::cpu().unwrap());
}

#[test]
fn files_are_unpacked_on_cuda() {
    gpu::find().iter().for_each(files_are_unpacked);
}

#[test]
fn a_budget_bounds_what_is_in_flight_and_changes_no_byte() {
    let source = all_sorts();
    for gpu_index in [None, Some(2048)] {
        let free = options().with_threads(16).with_gpu_index(gpu_index);
        let expected = packed(&source, &free);
        let tight = |limit: u64| {
            let budget = Budget::new(limit, 0);
            let mut out = Vec::new();
            let mut options = free;
            options.budget = &budget;
            let outcome = pack::pack(&source, &mut out, &options, &|_| {});
            assert!(budget.usage(Space::Host).peak <= limit);
            outcome.map(|_| out)
        };
        let error = tight(1 << 16).unwrap_err();
        assert_eq!(error.kind(), melisma::ErrorKind::Memory);
        let [Remedy::RaiseMemoryLimit { least: Some(least) }] = Remedy::of(&error)[..] else { panic!("{error:?}") };
        assert!(tight(least).unwrap() == expected);
        assert!(tight(2 * least).unwrap() == expected);
        assert_eq!(tight(least - (1 << 20)).unwrap_err().kind(), melisma::ErrorKind::Memory);
    }
}

#[test]
fn layers_come_back_as_they_were() {
    let mut random = Random::new(11);
    let layer: Vec<half::f16> = (0..300 * 500).map(|_| half::f16::from_f32(random.weight())).collect();
    let compressed = pack::compress(&Array::new(&layer, &[300, 500]).unwrap(), &UNLIMITED).unwrap();
    assert!(compressed.len() < 2 * layer.len() * 9 / 10, "{} of {}", compressed.len(), 2 * layer.len());
    let restored = pack::decompress(&compressed, &UNLIMITED).unwrap();
    assert_eq!((restored.dtype(), restored.shape()), ("F16", &[300, 500][..]));
    assert!(restored.to_vec::<half::f16>().unwrap() == layer);
    assert!(restored.to_vec::<f32>().is_err());
    let bytes = random.bytes(77);
    let odd = Array::from_bytes("F8_E5M2", &[7, 11], &bytes);
    assert_eq!(pack::decompress(&pack::compress(&odd, &UNLIMITED).unwrap(), &UNLIMITED).unwrap(), odd);
    for (elements, shape) in [(0, &[0, 5][..]), (1, &[])] {
        let array = Array::new(&[1.5f32, 2.5][..elements], shape).unwrap();
        assert_eq!(pack::decompress(&pack::compress(&array, &UNLIMITED).unwrap(), &UNLIMITED).unwrap(), array);
    }
    assert!(Array::new(&layer, &[300, 501]).is_err());
    assert!(pack::compress(&Array::from_bytes("F16", &[3], &bytes), &UNLIMITED).is_err());
    for at in [0, 100, compressed.len() / 2, compressed.len() - 1] {
        let mut damaged = compressed.clone();
        damaged[at] ^= 0x10;
        assert!(pack::decompress(&damaged, &UNLIMITED).is_err(), "byte {at}");
        assert!(pack::decompress(&compressed[..at], &UNLIMITED).is_err());
    }
    let many = pack::decompress(&packed(&all_sorts(), &options()), &UNLIMITED).unwrap_err().to_string();
    assert!(many.contains("one packed tensor, found 25"), "{many}");
}

#[test]
fn an_index_is_one_more_tensor_and_changes_nothing_else() {
    let source = all_sorts();
    let plain = packed(&source, &options());
    let with = options().with_gpu_index(4096);
    let indexed = packed(&source, &with);
    assert!(indexed == packed(&source, &with.with_threads(5)));
    assert!(unpacked(&indexed, 2) == source);
    assert!(
        Archive::open(&indexed, &UNLIMITED).unwrap().has_gpu_index()
            && !Archive::open(&plain, &UNLIMITED).unwrap().has_gpu_index()
    );
    let [one, two] = [&plain, &indexed].map(|file| Header::read(file).unwrap());
    assert_eq!(two.tensors.len(), one.tensors.len() + 1);
    for entry in &one.tensors[..one.tensors.len() - 1] {
        let other = two.get(&entry.name).unwrap();
        let bytes = |file: &[u8], header: &Header, at: [u64; 2]| {
            file[(header.len + at[0]) as usize..(header.len + at[1]) as usize].to_vec()
        };
        assert!(bytes(&plain, &one, entry.bytes) == bytes(&indexed, &two, other.bytes), "{}", entry.name);
    }
    assert!(pack::pack(&source, &mut Vec::new(), &with.with_gpu_index(1000), &|_| {}).is_err());
}

#[test]
fn deltas_need_their_base_and_shrink() {
    let mut random = Random::new(3);
    let weights = random.bf16(400_000);
    let mut tuned = weights.clone();
    for _ in 0..8_000 {
        let at = random.bits() as usize % tuned.len();
        tuned[at] ^= 1;
    }
    let base = file(&[("w", "BF16", &[400, 1000], weights)]);
    let source = file(&[("w", "BF16", &[400, 1000], tuned), ("new", "BF16", &[64], random.bf16(64))]);
    let delta = packed(&source, &options().with_base(&base));
    assert!(delta.len() < source.len() / 10, "{} of {}", delta.len(), source.len());
    let archive = Archive::open(&delta, &UNLIMITED).unwrap();
    assert!(archive.unpack(&mut Vec::new(), 1, &|_| {}).unwrap_err().to_string().contains("delta"));
    let archive = archive.with_base(&base).unwrap();
    let mut out = Vec::new();
    archive.unpack(&mut out, 2, &|_| {}).unwrap();
    assert!(out == source);
    assert!(Archive::open(&delta, &UNLIMITED).unwrap().with_base(&source).is_err());
    let of_whole = packed(&base, &options());
    let foreign = file(&[("v", "BF16", &[64], random.bf16(64))]);
    for (base, expected) in [(&of_whole, "the base is packed"), (&foreign, "the base has no tensor")] {
        let options = options().with_base(base);
        let error = pack::pack(&source, &mut Vec::new(), &options, &|_| {}).unwrap_err();
        assert!(error.to_string().starts_with(expected), "{error}");
    }
}

#[test]
fn sixteen_threads_share_nothing() {
    let weights = Random::new(4).bf16(70_000);
    let encode = |encoder: &mut Encoder| {
        let mut record = Vec::new();
        let tile = encoder.encode(Split::BrainFloat16, 5, &weights, &mut record).unwrap();
        (tile, record)
    };
    let expected = encode(&mut Encoder::new(Isa::best()));
    std::thread::scope(|scope| {
        for _ in 0..16 {
            // Made here, used there: both are `Send`.
            let (mut encoder, mut decoder) = (Encoder::new(Isa::best()), Decoder::new(Isa::best()));
            let (expected, weights) = (&expected, &weights);
            scope.spawn(move || {
                for _ in 0..4 {
                    assert!(encode(&mut encoder) == *expected);
                    let mut out = vec![0; weights.len()];
                    decoder.decode(Split::BrainFloat16, 5, &expected.0, &expected.1, &mut out).unwrap();
                    assert!(out == *weights);
                }
            });
        }
    });
}

#[test]
fn noise_costs_a_thousandth_at_most() {
    let source = file(&[("noise", "F16", &[1024, 512], Random::new(5).bytes(1 << 20))]);
    let packed = packed(&source, &options());
    assert!(packed.len() as f64 <= 1.001 * source.len() as f64, "{} of {}", packed.len(), source.len());
}

/// Written by the first build of the format; `UPDATE_GOLDEN=1` makes it where it is missing.
#[test]
fn version_1_stays_readable_and_is_still_what_is_written() {
    let path = repository::path("golden/pack/v1_0_modes.packed.safetensors");
    let (source, options) = (pack_source::golden(), options().with_tile_size(256));
    if std::env::var_os("UPDATE_GOLDEN").is_some() && !path.exists() {
        std::fs::write(&path, packed(&source, &options)).unwrap();
    }
    let golden = std::fs::read(path).unwrap();
    assert!(unpacked(&golden, 1) == source);
    assert!(packed(&source, &options) == golden, "the same input now gives another file");
    let tensors = Archive::open(&golden, &UNLIMITED).unwrap().list().unwrap();
    let mut modes: Vec<_> = tensors.into_iter().flat_map(|info| info.modes).flatten().map(|(mode, _)| mode).collect();
    modes.sort_unstable();
    modes.dedup();
    assert_eq!(modes, ["bytes", "constant", "pairs", "raw"]);
}
