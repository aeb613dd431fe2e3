//! A tensor inside a file, read on demand.

use std::fmt;

use crate::format::{ReadAt, StoredType};
use crate::{Error, Result};

/// Elements that are gathered or converted at once.
const BLOCK: usize = 1 << 16;
/// The largest gap between two wanted bytes that is read rather than skipped.
const MAX_GAP: u64 = 4096;
/// The most bytes in one read of a gather.
const MAX_SPAN: u64 = 1 << 20;

/// A tensor inside a file: a type, a shape, and strides from an offset. The file is checked to hold
/// all of its elements.
#[derive(Clone)]
pub struct View<'a> {
    /// The element type.
    pub dtype: StoredType,
    /// Extent of each dimension.
    pub shape: Vec<usize>,
    /// Stride of each dimension, in elements.
    pub(super) strides: Vec<usize>,
    pub(super) file: &'a dyn ReadAt,
    /// The file offset of the first element.
    pub(super) at: u64,
}

impl fmt::Debug for View<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { dtype, shape, strides, at, .. } = self;
        f.debug_struct("View")
            .field("dtype", dtype)
            .field("shape", shape)
            .field("strides", strides)
            .field("at", at)
            .finish_non_exhaustive()
    }
}

/// Returns the strides of a row-major tensor.
pub(super) fn row_major(shape: &[usize]) -> Vec<usize> {
    let mut strides = vec![1; shape.len()];
    for axis in (1..shape.len()).rev() {
        strides[axis - 1] = strides[axis] * shape[axis];
    }
    strides
}

impl View<'_> {
    fn n_elements(&self) -> usize {
        self.shape.iter().product()
    }

    fn element_len(&self) -> Result<usize> {
        self.dtype.size().ok_or_else(|| Error::unsupported(format!("unsupported element type {}", self.dtype.name())))
    }

    /// Returns the total size of the elements, in bytes.
    ///
    /// # Errors
    /// `Unsupported` if the size of an element is unknown.
    pub fn n_bytes(&self) -> Result<u64> {
        Ok((self.n_elements() * self.element_len()?) as u64)
    }

    /// Returns the elements in row-major order. Allocates 4 bytes per element, so check the shape
    /// first.
    ///
    /// # Errors
    /// `Unsupported` if the elements are not floats; otherwise as [`View::read_at`].
    pub fn to_f32(&self) -> Result<Vec<f32>> {
        let element_len = self.element_len()?;
        let n = self.n_elements();
        let mut out = Vec::with_capacity(n);
        let mut bytes = vec![0; n.min(BLOCK) * element_len];
        for first in (0..n).step_by(BLOCK) {
            let block = &mut bytes[..(n - first).min(BLOCK) * element_len];
            self.read_at((first * element_len) as u64, block)?;
            self.dtype.append_floats(block, &mut out)?;
        }
        // An empty tensor of integers is rejected like any other.
        self.dtype.append_floats(&[], &mut out)?;
        Ok(out)
    }

    /// Fills `out` with the bytes of the elements in row-major order, from byte `at` on.
    ///
    /// # Errors
    /// `Unsupported` if the size of an element is unknown; `Truncated` or `Io` if the file cannot
    /// be read.
    pub fn read_at(&self, at: u64, out: &mut [u8]) -> Result<()> {
        if self.is_contiguous() {
            return self.file.read_at(self.at + at, out);
        }
        let element_len = self.element_len()?;
        let (mut gathered, mut done) = (Vec::new(), 0);
        while done < out.len() {
            let from = at as usize + done;
            let (first, skipped) = (from / element_len, from % element_len);
            let n = (out.len() - done + skipped).div_ceil(element_len).min(BLOCK);
            gathered.resize(n * element_len, 0);
            self.gather(first, element_len, &mut gathered)?;
            let len = (n * element_len - skipped).min(out.len() - done);
            out[done..done + len].copy_from_slice(&gathered[skipped..skipped + len]);
            done += len;
        }
        Ok(())
    }

    fn is_contiguous(&self) -> bool {
        let steps = row_major(&self.shape);
        self.n_elements() == 0
            || self.shape.iter().zip(&self.strides).zip(steps).all(|((&n, &stride), step)| n == 1 || stride == step)
    }

    /// Gathers elements from number `first` on, in row-major order. Reads them in file order, so
    /// that a transposed tensor takes few reads.
    fn gather(&self, first: usize, element_len: usize, out: &mut [u8]) -> Result<()> {
        let mut places = self.places(first, out.len() / element_len);
        places.sort_unstable();
        let mut span = Vec::new();
        let mut rest = &places[..];
        while let [(start, _), ..] = *rest {
            let begin = start * element_len as u64;
            let mut end = begin;
            let is_near = |&&(place, _): &&(u64, usize)| {
                let at = place * element_len as u64;
                let with_it = at + element_len as u64;
                let is_near = at <= end + MAX_GAP && with_it - begin <= MAX_SPAN;
                end = if is_near { with_it } else { end };
                is_near
            };
            let n = rest.iter().take_while(is_near).count();
            let (near, far) = rest.split_at(n);
            rest = far;
            span.resize((end - begin) as usize, 0);
            self.file.read_at(self.at + begin, &mut span)?;
            for &(place, to) in near {
                let from = (place * element_len as u64 - begin) as usize;
                out[to * element_len..][..element_len].copy_from_slice(&span[from..from + element_len]);
            }
        }
        Ok(())
    }

    /// Returns, for each of `n` elements, its offset in the storage and its index among them.
    fn places(&self, first: usize, n: usize) -> Vec<(u64, usize)> {
        let mut index = vec![0; self.shape.len()];
        let mut rest = first;
        for (index, &extent) in index.iter_mut().zip(&self.shape).rev() {
            (*index, rest) = (rest % extent, rest / extent);
        }
        let mut places = Vec::with_capacity(n);
        for number in 0..n {
            let place: usize = index.iter().zip(&self.strides).map(|(i, stride)| i * stride).sum();
            places.push((place as u64, number));
            for (index, &extent) in index.iter_mut().zip(&self.shape).rev() {
                *index += 1;
                if *index < extent {
                    break;
                }
                *index = 0;
            }
        }
        places
    }
}
