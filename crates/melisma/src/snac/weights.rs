//! Weights by name, checked, with weight normalisation folded away.
//!
//! A weight-normalised convolution is stored as a gain `g` and a direction `v`; its weight is `g v / |v|` with one norm
//! for each index of dimension 0. Newer files call them `parametrizations.weight.original0` and `original1`, older ones
//! `weight_g` and `weight_v`; a plain `weight` is taken as it is.

use melisma_kernels::Queue;

use super::noise::fill_normal;
use crate::format::StoredType;
use crate::format::checkpoint::Checkpoint;
use crate::pack::{Archive, Loaded, TensorEntry};
use crate::{Error, Result};

const STYLES: [[&str; 2]; 2] =
    [["parametrizations.weight.original0", "parametrizations.weight.original1"], ["weight_g", "weight_v"]];

/// Gives layers their tensors and hashes everything it gave out. A file is read tensor by tensor.
pub struct Weights<'a> {
    source: Source<'a>,
    hasher: blake3::Hasher,
}

enum Source<'a> {
    File(Checkpoint<'a>),
    /// A packed file, decoded by the CPU with this many threads.
    Packed(Archive<'a>, usize),
    /// A packed file that a GPU has decoded.
    Loaded(Loaded, Queue),
    Random {
        seed: u64,
        n_drawn: u32,
    },
}

impl<'a> Weights<'a> {
    /// Returns the tensors of a file.
    pub fn new(file: Checkpoint<'a>) -> Self {
        Self { source: Source::File(file), hasher: blake3::Hasher::new() }
    }

    /// Returns the tensors of a packed file, decoded with `threads` threads.
    pub fn packed(archive: Archive<'a>, threads: usize) -> Self {
        Self { source: Source::Packed(archive, threads), hasher: blake3::Hasher::new() }
    }

    /// Returns the tensors in a device's memory, which `queue` reaches.
    pub fn loaded(loaded: Loaded, queue: Queue) -> Self {
        Self { source: Source::Loaded(loaded, queue), hasher: blake3::Hasher::new() }
    }

    /// Returns random weights of a plausible scale for any shape, the same for the same seed: for benches and tests.
    pub fn random(seed: u64) -> Weights<'static> {
        Weights { source: Source::Random { seed, n_drawn: 0 }, hasher: blake3::Hasher::new() }
    }

    /// Returns whether there are tensors whose names begin with `part`; random weights have all.
    pub fn has_part(&self, part: &str) -> bool {
        let found = |entries: &[TensorEntry]| entries.iter().any(|tensor| tensor.name.starts_with(part));
        match &self.source {
            Source::File(file) => file.names().any(|name| name.starts_with(part)),
            Source::Packed(archive, _) => found(&archive.source().tensors),
            Source::Loaded(loaded, _) => found(loaded.tensors()),
            Source::Random { .. } => true,
        }
    }

    /// Returns the hash of everything handed out so far; it does not depend on the file's format or key style.
    pub fn hash(&self) -> String {
        self.hasher.finalize().to_hex()[..32].to_owned()
    }

    /// Returns the folded weight of the convolution `name`; `shape` is that of `v`.
    ///
    /// # Errors
    /// Those of [`Weights::tensor`].
    pub fn convolution(&mut self, name: &str, shape: [usize; 3]) -> Result<Vec<f32>> {
        let weight = match &self.source {
            Source::Random { .. } => {
                let fan_in = (shape[1] * shape[2]) as f32;
                self.draw(shape.iter().product()).iter().map(|x| x * (0.5 / fan_in).sqrt()).collect()
            }
            file => {
                let style = STYLES.iter().find(|[_, v]| file.has(&format!("{name}.{v}")));
                match style {
                    Some([g, v]) => {
                        let gain = fetch(file, &format!("{name}.{g}"), &[shape[0], 1, 1])?;
                        let direction = fetch(file, &format!("{name}.{v}"), &shape)?;
                        fold(&gain, direction).map_err(|error| error.at(name))?
                    }
                    None if file.has(&format!("{name}.weight")) => fetch(file, &format!("{name}.weight"), &shape)?,
                    None => return Err(missing(&format!("{name}.{}", STYLES[0][1]))),
                }
            }
        };
        self.record(name, &weight);
        Ok(weight)
    }

    /// Returns the tensor `name`.
    ///
    /// # Errors
    /// `Corrupt` when it is missing, has another shape, or holds a NaN or infinity; `Unsupported` when its elements are
    /// not floats. The message names the tensor.
    pub fn tensor(&mut self, name: &str, shape: &[usize]) -> Result<Vec<f32>> {
        let values = match &self.source {
            Source::Random { .. } => {
                let n = shape.iter().product();
                match name.rsplit('.').next() {
                    Some("alpha") => vec![1.0; n],
                    Some("bias") => self.draw(n).iter().map(|x| x * 0.01).collect(),
                    _ if name.ends_with("norm.weight") => vec![1.0; n],
                    _ if name.ends_with("codebook.weight") => self.draw(n),
                    _ => self.draw(n).iter().map(|x| x / (shape[shape.len() - 1] as f32).sqrt()).collect(),
                }
            }
            file => fetch(file, name, shape)?,
        };
        self.record(name, &values);
        Ok(values)
    }

    fn draw(&mut self, n: usize) -> Vec<f32> {
        let mut out = vec![0.0; n];
        if let Source::Random { seed, n_drawn } = &mut self.source {
            *n_drawn += 1;
            fill_normal(*seed, *n_drawn, 0, &mut out);
        }
        out
    }

    fn record(&mut self, name: &str, values: &[f32]) {
        self.hasher.update(name.as_bytes());
        let mut bytes = [0; 4096];
        for block in values.chunks(1024) {
            let filled = &mut bytes[..4 * block.len()];
            for (slot, value) in filled.as_chunks_mut::<4>().0.iter_mut().zip(block) {
                *slot = value.to_le_bytes();
            }
            self.hasher.update(filled);
        }
    }
}

impl Source<'_> {
    fn has(&self, name: &str) -> bool {
        match self {
            Self::File(file) => file.get(name).is_some(),
            _ => self.entry(name).is_some(),
        }
    }

    /// Returns the header entry of a tensor in a packed file.
    fn entry(&self, name: &str) -> Option<&TensorEntry> {
        match self {
            Self::Packed(archive, _) => archive.source().get(name),
            Self::Loaded(loaded, _) => loaded.tensors().iter().find(|tensor| tensor.name == name),
            Self::File(_) | Self::Random { .. } => None,
        }
    }

    /// Returns its shape.
    fn shape(&self, name: &str) -> Option<Vec<usize>> {
        match self {
            Self::File(file) => file.get(name).map(|view| view.shape.clone()),
            _ => self.entry(name)?.shape.iter().map(|&extent| usize::try_from(extent).ok()).collect(),
        }
    }

    /// Returns its elements. The caller has checked its shape.
    fn floats(&self, name: &str) -> Result<Vec<f32>> {
        if let Self::File(file) = self {
            return file.get(name).ok_or_else(|| missing(name))?.to_f32();
        }
        let entry = self.entry(name).ok_or_else(|| missing(name))?;
        let mut bytes = Vec::new();
        match self {
            Self::Packed(archive, threads) => archive.unpack_tensor(name, &mut bytes, *threads)?,
            Self::Loaded(loaded, queue) => {
                let view = loaded.view::<u8>(name)?;
                bytes.resize(view.len(), 0);
                queue.copy(view, bytes[..].as_mut().into())?;
            }
            Self::File(_) | Self::Random { .. } => {}
        }
        let mut floats = Vec::new();
        StoredType::from_safetensors(&entry.dtype).append_floats(&bytes, &mut floats)?;
        Ok(floats)
    }
}

fn fetch(file: &Source<'_>, name: &str, shape: &[usize]) -> Result<Vec<f32>> {
    let found = file.shape(name).ok_or_else(|| missing(name))?;
    if found != shape {
        let message = format!("{name}: expected the shape {shape:?}, the file has {found:?}");
        return Err(Error::corrupt(message));
    }
    let values = file.floats(name).map_err(|error| error.at(name))?;
    check_finite(&values).map_err(|error| error.at(name))?;
    Ok(values)
}

fn missing(name: &str) -> Error {
    Error::corrupt(format!("{name}: this tensor is missing"))
        .with_hint("the weights and config.json must be of the same model")
}

fn check_finite(values: &[f32]) -> Result<()> {
    match values.iter().position(|value| !value.is_finite()) {
        Some(at) => Err(Error::corrupt(format!("element {at} is {}", values[at]))),
        None => Ok(()),
    }
}

/// Returns `g v / |v|`, as PyTorch computes it: norm and ratio in f32, then one product.
fn fold(gain: &[f32], mut direction: Vec<f32>) -> Result<Vec<f32>> {
    let row_len = direction.len() / gain.len();
    for (row, gain) in direction.chunks_exact_mut(row_len).zip(gain) {
        let norm = row.iter().map(|&v| f64::from(v) * f64::from(v)).sum::<f64>().sqrt() as f32;
        let scale = gain / norm;
        row.iter_mut().for_each(|v| *v *= scale);
    }
    check_finite(&direction)?;
    Ok(direction)
}

#[cfg(test)]
mod tests {
    use super::*;
    use safetensors::{Dtype, serialize, tensor::TensorView};

    fn file(tensors: &[(&str, &[usize], &[f32])]) -> Vec<u8> {
        let data: Vec<Vec<u8>> = tensors.iter().map(|t| t.2.iter().flat_map(|x| x.to_le_bytes()).collect()).collect();
        let views = tensors.iter().zip(&data);
        let views = views.map(|(t, data)| (t.0, TensorView::new(Dtype::F32, t.1.to_vec(), data).unwrap()));
        serialize(views, None).unwrap()
    }

    #[test]
    fn both_key_styles_fold_alike() {
        let (g, v) = ([2.0, 1.0], [3.0, 4.0, 0.0, 5.0]);
        let mut hashes = Vec::new();
        for [g_name, v_name] in STYLES {
            let names = [format!("c.{g_name}"), format!("c.{v_name}")];
            let bytes = file(&[(&names[0], &[2, 1, 1], &g), (&names[1], &[2, 1, 2], &v)]);
            let mut weights = Weights::new(Checkpoint::read(&bytes).unwrap());
            assert_eq!(weights.convolution("c", [2, 1, 2]).unwrap(), [1.2, 1.6, 0.0, 1.0]);
            hashes.push(weights.hash());
        }
        assert_eq!(hashes[0], hashes[1]);
    }

    #[test]
    fn faults_name_the_tensor() {
        let bytes = file(&[
            ("a", &[2], &[1.0, f32::NAN]),
            ("c.weight_v", &[1, 1, 1], &[0.0]),
            ("c.weight_g", &[1, 1, 1], &[1.0]),
        ]);
        let mut weights = Weights::new(Checkpoint::read(&bytes).unwrap());
        for (error, expected) in [
            (weights.tensor("b", &[1]).unwrap_err(), "b: this tensor is missing"),
            (weights.tensor("a", &[3]).unwrap_err(), "a: expected the shape [3], the file has [2]"),
            (weights.tensor("a", &[2]).unwrap_err(), "a: element 1 is NaN"),
            (weights.convolution("c", [1, 1, 1]).unwrap_err(), "c: element 0 is NaN"),
            (
                weights.convolution("d", [1, 1, 1]).unwrap_err(),
                "d.parametrizations.weight.original1: this tensor is missing",
            ),
        ] {
            assert_eq!(error.to_string(), expected);
        }
    }
}
