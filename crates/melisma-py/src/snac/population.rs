//! `populate`: frames of seven codes in a row to the three levels of a 24 kHz model.

use melisma::Error;
use melisma::snac::populate as library;
use numpy::{PyArray1, PyArray2, PyArrayMethods, PyReadonlyArrayDyn};
use pyo3::prelude::*;

use crate::error::raise;

type Level<'py> = Bound<'py, PyArray2<i32>>;

/// Spreads codes in a row, int32 [n * 7] or [n, 7], over the levels [1, n], [1, 2n] and [1, 4n].
#[pyfunction(name = "_populate")]
pub fn populate<'py>(
    py: Python<'py>,
    frames: PyReadonlyArrayDyn<'py, i32>,
    codebook_size: i64,
) -> PyResult<(Level<'py>, Level<'py>, Level<'py>)> {
    let codebook_size = checked(codebook_size)?;
    let frames = frames.as_slice()?;
    // As fast as a call into the interpreter, so it is not released.
    let library::Populated { levels: [coarse, middle, fine], valid, .. } = library::populate(frames, codebook_size);
    if valid != [true; 3] {
        return Err(raise(outside(frames, codebook_size)));
    }
    let level = |codes: Vec<i32>| {
        let n = codes.len();
        PyArray1::from_vec(py, codes).reshape([1, n])
    };
    Ok((level(coarse)?, level(middle)?, level(fine)?))
}

/// Returns whether all codes of each level are in the codebook.
#[pyfunction(name = "_validate")]
pub fn validate(frames: PyReadonlyArrayDyn<'_, i32>, codebook_size: i64) -> PyResult<(bool, bool, bool)> {
    let codebook_size = checked(codebook_size)?;
    let [coarse, middle, fine] = library::populate(frames.as_slice()?, codebook_size).valid;
    Ok((coarse, middle, fine))
}

fn checked(codebook_size: i64) -> PyResult<i32> {
    let size = i32::try_from(codebook_size).ok().filter(|size| *size >= 1);
    size.ok_or_else(|| raise(Error::invalid(format!("codebook_size is {codebook_size}; 1 to {} is allowed", i32::MAX))))
}

fn outside(frames: &[i32], codebook_size: i32) -> Error {
    let at = frames.iter().position(|code| !(0..codebook_size).contains(code)).unwrap_or_default();
    let (frame, slot, last) = (at / library::FRAME_CODES, at % library::FRAME_CODES, codebook_size - 1);
    Error::invalid(format!("frame {frame}, slot {slot}: code {} is not in the codebook; 0 to {last} exist", frames[at]))
}
