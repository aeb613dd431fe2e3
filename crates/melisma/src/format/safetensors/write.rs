//! Writes safetensors files and their headers.

use std::collections::HashSet;

use crate::{DType, Error, Result};

/// Alignment of tensors, which aligns every element.
const ALIGN: usize = 8;

/// A tensor to write.
#[derive(Debug, Clone)]
pub struct Tensor<'a> {
    /// Its name.
    pub name: String,
    /// The element type.
    pub dtype: DType,
    /// Extent of each dimension.
    pub shape: Vec<usize>,
    /// The elements, little-endian.
    pub bytes: &'a [u8],
}

/// Encodes `tensors` as a file, widest elements first and then by name, like the reference library.
///
/// # Errors
/// A tensor's shape does not hold its bytes, its element type is not one of the format's, or two tensors have one name.
pub fn encode(mut tensors: Vec<Tensor<'_>>, metadata: &[(&str, &str)]) -> Result<Vec<u8>> {
    let mut names = HashSet::new();
    for Tensor { name, dtype, shape, bytes } in &tensors {
        let len = shape.iter().try_fold(dtype.size() as u128, |len, &axis| len.checked_mul(axis as u128));
        if len != Some(bytes.len() as u128) {
            let dtype = dtype.name();
            return Err(Error::invalid(format!(
                "{name}: {} bytes do not fill shape {shape:?} of {dtype}",
                bytes.len()
            )));
        }
        if *dtype == DType::I24 {
            return Err(Error::unsupported(format!("{name}: safetensors has no 24-bit integers; store them as i32")));
        }
        if !names.insert(name) {
            return Err(Error::invalid(format!("{name}: two tensors have this name")));
        }
    }
    tensors.sort_by(|a, b| rank(a.dtype).cmp(&rank(b.dtype)).then_with(|| a.name.cmp(&b.name)));
    let mut json = HeaderJson::new(metadata);
    for Tensor { name, dtype, shape, bytes } in &tensors {
        let axes: Vec<String> = shape.iter().map(ToString::to_string).collect();
        json.push(name, dtype.safetensors_name(), &format!("[{}]", axes.join(",")), bytes.len() as u64);
    }
    let mut file = json.header();
    tensors.iter().for_each(|tensor| file.extend_from_slice(tensor.bytes));
    Ok(file)
}

/// Returns the reference library's order of element types.
fn rank(dtype: DType) -> usize {
    const ORDER: [DType; 13] = [
        DType::U64,
        DType::I64,
        DType::F64,
        DType::F32,
        DType::U32,
        DType::I32,
        DType::BF16,
        DType::F16,
        DType::U16,
        DType::I16,
        DType::I8,
        DType::U8,
        DType::Bool,
    ];
    ORDER.iter().position(|&known| known == dtype).unwrap_or(ORDER.len())
}

/// The JSON of a header, written tensor by tensor in the order of their bytes. The maps of JSON
/// libraries would impose their own order.
#[derive(Debug, Clone)]
pub(crate) struct HeaderJson {
    text: String,
    /// Bytes of the tensors so far.
    end: u64,
}

impl HeaderJson {
    pub(crate) fn new(metadata: &[(&str, &str)]) -> Self {
        let pairs: Vec<String> =
            metadata.iter().map(|(key, value)| format!("{}:{}", quoted(key), quoted(value))).collect();
        let text = if pairs.is_empty() { String::new() } else { format!(r#""__metadata__":{{{}}}"#, pairs.join(",")) };
        Self { text, end: 0 }
    }

    /// Adds a tensor of `len` bytes, which start where the previous tensor ends; `shape` is JSON.
    pub(crate) fn push(&mut self, name: &str, dtype: &str, shape: &str, len: u64) {
        let (begin, end) = (self.end, self.end + len);
        let comma = if self.text.is_empty() { "" } else { "," };
        let (name, dtype) = (quoted(name), quoted(dtype));
        self.text += &format!(r#"{comma}{name}:{{"dtype":{dtype},"shape":{shape},"data_offsets":[{begin},{end}]}}"#);
        self.end = end;
    }

    /// Returns the bytes of the tensors so far.
    pub(crate) fn data_len(&self) -> u64 {
        self.end
    }

    /// Returns the JSON without length field and padding.
    pub(crate) fn finish(self) -> String {
        format!("{{{}}}", self.text)
    }

    /// Returns the header: the length field, the JSON and its padding.
    pub(crate) fn header(self) -> Vec<u8> {
        header(self.finish(), ALIGN)
    }
}

/// Returns a header from `json`: preceded by the length field, and padded with spaces to a multiple
/// of `align`.
pub fn header(mut json: String, align: usize) -> Vec<u8> {
    const LEN_FIELD: usize = size_of::<u64>();
    let padding = (LEN_FIELD + json.len()).next_multiple_of(align.max(1)) - LEN_FIELD - json.len();
    json.extend(std::iter::repeat_n(' ', padding));
    let mut bytes = (json.len() as u64).to_le_bytes().to_vec();
    bytes.extend_from_slice(json.as_bytes());
    bytes
}

fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

#[cfg(test)]
mod tests {
    use safetensors::tensor::TensorView;

    use super::*;
    use crate::format::safetensors::Header;

    #[test]
    fn files_are_those_of_the_reference_library() {
        let types = [
            (DType::F32, safetensors::Dtype::F32),
            (DType::F64, safetensors::Dtype::F64),
            (DType::F16, safetensors::Dtype::F16),
            (DType::BF16, safetensors::Dtype::BF16),
            (DType::I8, safetensors::Dtype::I8),
            (DType::I16, safetensors::Dtype::I16),
            (DType::I32, safetensors::Dtype::I32),
            (DType::I64, safetensors::Dtype::I64),
            (DType::U8, safetensors::Dtype::U8),
            (DType::U16, safetensors::Dtype::U16),
            (DType::U32, safetensors::Dtype::U32),
            (DType::U64, safetensors::Dtype::U64),
            (DType::Bool, safetensors::Dtype::BOOL),
        ];
        let data: Vec<u8> = (0..48).collect();
        let (mut ours, mut theirs) = (Vec::new(), Vec::new());
        for (index, (dtype, reference)) in types.into_iter().enumerate() {
            for name in [format!("z{index}"), format!("a \"{index}\" \u{e9}\n")] {
                let bytes = &data[..6 * dtype.size()];
                ours.push(Tensor { name: name.clone(), dtype, shape: vec![2, 3], bytes });
                theirs.push((name, TensorView::new(reference, vec![2, 3], bytes).unwrap()));
            }
        }
        let metadata = std::collections::HashMap::from([("model".to_owned(), "a\\b".to_owned())]);
        let file = encode(ours, &[("model", "a\\b")]).unwrap();
        assert_eq!(file, safetensors::serialize(theirs, Some(metadata)).unwrap());
        assert_eq!(Header::read(&file).unwrap().tensors.len(), 26);
        let none: Vec<(String, TensorView<'_>)> = Vec::new();
        let empty = encode(Vec::new(), &[]).unwrap();
        assert_eq!(empty, safetensors::serialize(none, None).unwrap());
        assert_eq!(Header::read(&empty).unwrap().tensors, []);
    }

    #[test]
    fn tensors_that_no_reader_takes_are_refused() {
        let tensor = |dtype, shape: &[usize]| Tensor { name: "w".into(), dtype, shape: shape.into(), bytes: &[0; 12] };
        for (tensors, expected) in [
            (vec![tensor(DType::F32, &[2, 2])], "w: 12 bytes do not fill shape [2, 2] of f32"),
            (vec![tensor(DType::F32, &[usize::MAX, usize::MAX, usize::MAX])], "do not fill"),
            (vec![tensor(DType::I24, &[4])], "no 24-bit integers"),
            (vec![tensor(DType::F32, &[3]), tensor(DType::U8, &[12])], "two tensors have this name"),
        ] {
            let refused = encode(tensors, &[]).unwrap_err().to_string();
            assert!(refused.contains(expected), "{refused}");
        }
    }
}
