use half::f16;
use safetensors::Dtype;

use super::*;
use crate::{DType, ErrorKind};

/// Returns a zip file with stored (uncompressed) entries.
pub(crate) fn zip(files: &[(&str, &[u8])]) -> Vec<u8> {
    let mut out = Vec::new();
    let mut directory = Vec::new();
    for (name, data) in files {
        let at = out.len() as u32;
        let sizes = [data.len() as u32, data.len() as u32].map(u32::to_le_bytes).concat();
        let name_len = (name.len() as u16).to_le_bytes();
        out.extend_from_slice(b"PK\x03\x04\0\0\0\0\0\0\0\0\0\0\0\0\0\0");
        out.extend_from_slice(&sizes);
        out.extend_from_slice(&name_len);
        out.extend_from_slice(&[0; 2]);
        out.extend_from_slice(name.as_bytes());
        out.extend_from_slice(data);
        directory.extend_from_slice(b"PK\x01\x02\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0");
        directory.extend_from_slice(&sizes);
        directory.extend_from_slice(&name_len);
        directory.extend_from_slice(&[0; 12]);
        directory.extend_from_slice(&at.to_le_bytes());
        directory.extend_from_slice(name.as_bytes());
    }
    let at = out.len() as u32;
    let n = files.len() as u16;
    out.extend_from_slice(&directory);
    out.extend_from_slice(b"PK\x05\x06\0\0\0\0");
    out.extend_from_slice(&[n, n].map(u16::to_le_bytes).concat());
    out.extend_from_slice(&[directory.len() as u32, at].map(u32::to_le_bytes).concat());
    out.extend_from_slice(&[0; 2]);
    out
}

/// Returns the program of a state dict `{"w": tensor}` whose shape and strides are one-byte
/// integers.
fn program(class: &str, offset: u8, shape: [u8; 2], strides: [u8; 2]) -> Vec<u8> {
    let mut out = b"\x80\x02ccollections\nOrderedDict\n)RX\x01\0\0\0wctorch._utils\n_rebuild_tensor_v2\n(".to_vec();
    out.extend_from_slice(b"(X\x07\0\0\0storagectorch\n");
    out.extend_from_slice(class.as_bytes());
    out.extend_from_slice(b"\nX\x01\0\0\x000X\x03\0\0\0cpuK\x06tQ");
    out.extend_from_slice(&[b'K', offset, b'K', shape[0], b'K', shape[1], 0x86]);
    out.extend_from_slice(&[b'K', strides[0], b'K', strides[1], 0x86]);
    out.extend_from_slice(b"\x89ccollections\nOrderedDict\n)RtRs.");
    out
}

fn checkpoint(program: &[u8]) -> Vec<u8> {
    let storage: Vec<u8> = (0..6).flat_map(|i| (i as f32).to_le_bytes()).collect();
    zip(&[("m/data.pkl", program), ("m/byteorder", b"little"), ("m/data/0", &storage)])
}

#[test]
fn reads_a_tensor_and_its_transpose() {
    let bytes = checkpoint(&program("FloatStorage", 0, [2, 3], [3, 1]));
    let file = Checkpoint::read(&bytes).unwrap();
    assert_eq!(file.names().collect::<Vec<_>>(), ["w"]);
    let tensor = file.get("w").unwrap();
    assert_eq!((tensor.dtype, tensor.shape.as_slice()), (StoredType::Array(DType::F32), [2, 3].as_slice()));
    assert_eq!(tensor.to_f32().unwrap(), [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]);
    let bytes = checkpoint(&program("FloatStorage", 0, [3, 2], [1, 3]));
    assert_eq!(Checkpoint::read(&bytes).unwrap().get("w").unwrap().to_f32().unwrap(), [0.0, 3.0, 1.0, 4.0, 2.0, 5.0]);
    let bytes = checkpoint(&program("FloatStorage", 4, [1, 2], [2, 1]));
    assert_eq!(Checkpoint::read(&bytes).unwrap().get("w").unwrap().to_f32().unwrap(), [4.0, 5.0]);
}

#[test]
fn a_parameter_is_its_tensor() {
    let tensor = program("FloatStorage", 0, [2, 3], [3, 1]);
    let text = b"wctorch._utils\n_rebuild_tensor_v2\n";
    let at = tensor.windows(text.len()).position(|window| window == text).unwrap() + 1;
    let mut program = tensor[..at].to_vec();
    program.extend_from_slice(b"ctorch._utils\n_rebuild_parameter\n");
    program.extend_from_slice(&tensor[at..tensor.len() - 2]);
    program.extend_from_slice(b"\x89ccollections\nOrderedDict\n)R\x87Rs.");
    let bytes = checkpoint(&program);
    assert_eq!(Checkpoint::read(&bytes).unwrap().get("w").unwrap().shape, [2, 3]);
}

#[test]
fn tensors_outside_their_storage_are_refused() {
    for (offset, shape, strides) in [(0, [2, 3], [4, 1]), (1, [2, 3], [3, 1]), (0, [255, 255], [255, 255])] {
        let bytes = checkpoint(&program("FloatStorage", offset, shape, strides));
        let error = Checkpoint::read(&bytes).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Truncated, "{error}");
        assert!(error.to_string().starts_with("w: "), "{error}");
    }
}

#[test]
fn a_small_storage_cannot_stand_for_many_weights() {
    let error = Checkpoint::read(&checkpoint(&program("FloatStorage", 0, [255, 255], [0, 0]))).map(drop).unwrap_err();
    assert!(error.to_string().contains("w: overlaps"), "{error}");
}

/// Returns the program of `{"a": w, "b": w}`: one storage, two names.
fn tied() -> Vec<u8> {
    let one = program("FloatStorage", 0, [2, 3], [3, 1]);
    let mut out = one[..one.len() - 1].to_vec();
    out.extend_from_slice(b"X\x01\0\0\0v");
    let at = one.windows(2).position(|window| window == b"wc").unwrap() + 1;
    out.extend_from_slice(&one[at..]);
    out
}

#[test]
fn tied_weights_are_read_under_each_name() {
    let bytes = checkpoint(&tied());
    let file = Checkpoint::read(&bytes).unwrap();
    assert_eq!(file.names().collect::<Vec<_>>(), ["v", "w"]);
    assert_eq!(file.get("v").unwrap().to_f32().unwrap(), file.get("w").unwrap().to_f32().unwrap());
}

/// Returns `{"epoch": 3, KEY: {"w": tensor}, "optimizer": {0: {}}}`.
fn nested(key: &str) -> Vec<u8> {
    let mut out = b"\x80\x02}(X\x05\0\0\0epochK\x03X".to_vec();
    out.extend_from_slice(&(key.len() as u32).to_le_bytes());
    out.extend_from_slice(key.as_bytes());
    let tensors = program("FloatStorage", 0, [2, 3], [3, 1]);
    out.extend_from_slice(&tensors[2..tensors.len() - 1]);
    out.extend_from_slice(b"X\x09\0\0\0optimizer}K\0}su.");
    out
}

#[test]
fn a_nested_state_dict_is_found_and_the_rest_is_told() {
    for key in ["state_dict", "model", "weights of mine"] {
        let bytes = checkpoint(&nested(key));
        let file = Checkpoint::read(&bytes).unwrap();
        assert_eq!(file.names().collect::<Vec<_>>(), ["w"], "{key}");
        assert_eq!(file.get("w").unwrap().to_f32().unwrap()[5], 5.0);
        assert_eq!(file.left_out(), ["epoch", "optimizer"], "{key}");
    }
    let mut two = nested("first");
    two.truncate(two.len() - 2);
    let other = nested("second");
    let at = other.windows(6).position(|window| window == b"second").unwrap() - 5;
    let end = other.windows(9).position(|window| window == b"optimizer").unwrap() - 5;
    two.extend_from_slice(&other[at..end]);
    two.extend_from_slice(b"u.");
    let error = Checkpoint::read(&checkpoint(&two)).unwrap_err();
    assert!(error.to_string().contains("several state dicts: first, second"), "{error}");
}

/// Calls `_rebuild_tensor_v3` as PyTorch does for types without a storage class.
fn typed(dtype: &str, metadata: &[u8]) -> Vec<u8> {
    let mut out = b"\x80\x02}X\x01\0\0\0wctorch._utils\n_rebuild_tensor_v3\n(".to_vec();
    out.extend_from_slice(b"(X\x07\0\0\0storagectorch.storage\nUntypedStorage\nX\x01\0\0\x000X\x03\0\0\0cpuK\x18tQ");
    out.extend_from_slice(b"K\x02K\x02K\x03\x86K\x03K\x01\x86\x89ccollections\nOrderedDict\n)Rctorch\n");
    out.extend_from_slice(dtype.as_bytes());
    out.push(b'\n');
    out.extend_from_slice(metadata);
    out.extend_from_slice(b"tRs.");
    out
}

#[test]
fn eight_bit_floats_are_read() {
    let names = [
        ("float8_e4m3fn", "F8_E4M3"),
        ("float8_e5m2", "F8_E5M2"),
        ("float8_e4m3fnuz", "F8_E4M3FNUZ"),
        ("float8_e5m2fnuz", "F8_E5M2FNUZ"),
        ("float8_e8m0fnu", "F8_E8M0"),
    ];
    for (dtype, expected) in names {
        let bytes = checkpoint(&typed(dtype, b""));
        let file = Checkpoint::read(&bytes).unwrap();
        let view = file.get("w").unwrap();
        assert_eq!((view.dtype.safetensors_name(), &view.shape[..]), (Some(expected), &[2, 3][..]));
        let mut found = [0xa5; 6];
        view.read_at(0, &mut found).unwrap();
        // Bytes 2 to 7 of the floats 0, 1, 2 ...
        assert_eq!(found, [0, 0, 0, 0, 0x80, 0x3f]);
    }
    let wide = checkpoint(&typed("uint16", b"}"));
    assert_eq!(Checkpoint::read(&wide).unwrap().get("w").unwrap().n_bytes().unwrap(), 12);
    let error = Checkpoint::read(&checkpoint(&typed("float8_e5m2", b"}X\x03\0\0\0neg\x88s"))).unwrap_err();
    assert!(error.to_string().contains("negated"), "{error}");
    let error = Checkpoint::read(&checkpoint(&typed("float3_e1m1", b""))).unwrap_err();
    assert!(error.to_string().contains("torch.float3_e1m1"), "{error}");
}

#[test]
fn parts_of_transposed_tensors_are_read_from_any_byte() {
    let storage: Vec<u8> = (0..70_000u32 * 3).flat_map(u32::to_le_bytes).collect();
    let strides = vec![1, 70_000];
    let view = View { dtype: StoredType::Array(DType::U32), shape: vec![70_000, 3], strides, file: &storage, at: 0 };
    let element = |n: usize| ((n / 3 + n % 3 * 70_000) as u32).to_le_bytes();
    let expected: Vec<u8> = (0..210_000).flat_map(element).collect();
    for (at, len) in [(0, 840_000), (1, 5), (399_999, 300_001), (839_999, 1), (12, 0)] {
        let mut found = vec![0xa5; len];
        view.read_at(at as u64, &mut found).unwrap();
        assert!(found == expected[at..at + len], "{len} bytes at {at}");
    }
}

#[test]
fn directories_with_wide_numbers_are_read() {
    let bytes = checkpoint(&program("FloatStorage", 0, [2, 3], [3, 1]));
    let end = bytes.len() - 22;
    let field = |at: usize| u64::from(u32::from_le_bytes(bytes[end + at..end + at + 4].try_into().unwrap()));
    let (n, len, at) = (3u64, field(12), field(16));
    let mut wide = bytes[..end].to_vec();
    let record = wide.len() as u64;
    wide.extend_from_slice(b"PK\x06\x06");
    wide.extend_from_slice(&[44u64.to_le_bytes().as_slice(), &[0; 12], &n.to_le_bytes(), &n.to_le_bytes()].concat());
    wide.extend_from_slice(&[len.to_le_bytes(), at.to_le_bytes()].concat());
    wide.extend_from_slice(&[b"PK\x06\x07\0\0\0\0".as_slice(), &record.to_le_bytes(), &[1, 0, 0, 0]].concat());
    wide.extend_from_slice(&[b"PK\x05\x06\0\0\0\0".as_slice(), &[0xff; 12], &[0; 2]].concat());
    assert_eq!(Checkpoint::read(&wide).unwrap().get("w").unwrap().to_f32().unwrap()[5], 5.0);
    for cut in [record as usize, record as usize + 30, wide.len() - 23] {
        assert!(Checkpoint::read(&&wide[..cut]).is_err(), "cut at {cut}");
    }
}

#[test]
fn integers_are_listed_but_not_converted() {
    let bytes = checkpoint(&program("LongStorage", 0, [1, 1], [1, 1]));
    let error = Checkpoint::read(&bytes).unwrap().get("w").unwrap().to_f32().unwrap_err();
    assert!(error.to_string().contains("i64"), "{error}");
}

#[test]
fn hostile_programs_are_refused_by_name() {
    let cases: [(&[u8], &str); 12] = [
        (b"\x80\x02cos\nsystem\nX\x02\0\0\0ls\x85R.", "os.system"),
        (b"\x80\x04\x8c\x08builtins\x8c\x04eval\x93.", "builtins.eval"),
        (b"(S'ls'\nios\nsystem\n.", "opcode 0x53"),
        (b"\x80\x02ctorch\nload\n.", "torch.load"),
        (b"\x80\x02ccollections\nOrderedDict\n]\x85R.", "OrderedDict"),
        (b"\x80\x09.", "protocol 9"),
        (b"\x80\x02X\xff\xff\xff\xffabc.", "4294967295 bytes"),
        (b"\x80\x02j\xff\xff\xff\xff.", "memo 4294967295"),
        (b"\x80\x02\x8a\xff\0.", "255 bytes"),
        (b"\x80\x02.", "operands"),
        (b"\x80\x02}X\x01\0\0\0aNs.", "a: not a tensor"),
        (b"\x80\x02}\x81.", "opcode 0x81"),
    ];
    for (program, expected) in cases {
        let error = Checkpoint::read(&checkpoint(program)).unwrap_err();
        assert!(error.to_string().contains(expected), "{error}, expected {expected}");
    }
}

#[test]
fn deep_and_cyclic_programs_end() {
    let mut deep = b"\x80\x02N".to_vec();
    deep.resize(deep.len() + 1_000_000, 0x85);
    deep.push(b'.');
    assert!(Checkpoint::read(&checkpoint(&deep)).is_err());
    let cyclic = b"\x80\x02}q\0X\x01\0\0\0ah\0s.";
    assert!(Checkpoint::read(&checkpoint(cyclic)).is_err());
}

#[test]
fn truncations_never_panic() {
    let bytes = checkpoint(&program("FloatStorage", 0, [2, 3], [3, 1]));
    for len in 0..bytes.len() {
        assert!(Checkpoint::read(&&bytes[..len]).is_err(), "cut at {len}");
    }
    let whole = program("FloatStorage", 0, [2, 3], [3, 1]);
    for len in 0..whole.len() {
        assert!(Checkpoint::read(&checkpoint(&whole[..len])).is_err(), "program cut at {len}");
    }
}

#[test]
fn changed_bytes_never_panic() {
    let bytes = checkpoint(&program("FloatStorage", 0, [2, 3], [3, 1]));
    for at in 0..bytes.len() {
        for flip in [1, 0x20, 0x80, 0xFF] {
            let mut changed = bytes.clone();
            changed[at] ^= flip;
            let Ok(file) = Checkpoint::read(&changed) else { continue };
            for name in file.names() {
                let tensor = file.get(name).unwrap();
                if tensor.shape.iter().product::<usize>() < 1_000 {
                    let _ = tensor.to_f32();
                }
            }
        }
    }
}

#[test]
fn safetensors_truncations_never_panic() {
    let data: Vec<u8> = (0..6).flat_map(|i| f16::from_f32(i as f32).to_le_bytes()).collect();
    let view = safetensors::tensor::TensorView::new(Dtype::F16, vec![2, 3], &data).unwrap();
    let bytes = safetensors::serialize([("w", view)], None).unwrap();
    assert_eq!(Checkpoint::read(&bytes).unwrap().get("w").unwrap().to_f32().unwrap(), [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]);
    for len in 0..bytes.len() {
        assert!(Checkpoint::read(&&bytes[..len]).is_err(), "cut at {len}");
    }
    assert_eq!(Checkpoint::read(&&b"\x80\x02\x8a\x0al\xfc"[..]).unwrap_err().kind(), ErrorKind::Unsupported);
}
