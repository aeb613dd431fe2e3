//! `convert`: element types to and from f32, `dst[i] = round(src[i])`, for n elements.
//!
//! | from f32 to | value |
//! |---|---|
//! | f16, bf16 | nearest, ties to even; infinities stay, overflow becomes infinite, NaN stays NaN (quiet, with its sign and top payload bits) |
//! | i16, i24 | nearest to x · 2^15, x · 2^23, ties to even, clipped; NaN is 0 |
//! | u8 | nearest to x · 2^7, ties to even, plus 128, clipped; NaN is 128 |
//!
//! The reverse conversion divides by the same power of two and is exact. Every device gives the
//! same bits.

mod cpu;
pub(crate) mod cuda;
#[cfg(test)]
mod reference;
#[cfg(test)]
mod tests;

use std::marker::PhantomData;

use half::{bf16, f16};

use crate::device::cuda::Function;
use crate::memory::dtype::I24;
use crate::memory::view::check_len;
use crate::queue::{OnDevice, Pair, kernel_span};
use crate::{Device, Element, Isa, Queue, Result, View, ViewMut};

/// A pair of element types that can be converted.
pub trait Convert<D: Element>: Element + sealed::Pair<D> {}

mod sealed {
    use super::{Element, Isa};

    pub trait Pair<D: Element>: Element {
        /// The kernel's symbol in `convert.cu`.
        const SYMBOL: &'static str;
        /// Returns the obvious conversion of one element.
        #[cfg(test)]
        fn reference(self) -> D;
        /// Converts slices of equal length.
        fn slice(isa: Isa, src: &[Self], dst: &mut [D]);
    }
}

macro_rules! pairs {
    ($($src:ty => $dst:ty, $symbol:literal, $element:path, $slice:path;)+) => { $(
        impl sealed::Pair<$dst> for $src {
            const SYMBOL: &'static str = $symbol;
            #[cfg(test)]
            fn reference(self) -> $dst { $element(self) }
            fn slice(isa: Isa, src: &[Self], dst: &mut [$dst]) { $slice(isa, src, dst) }
        }
        impl Convert<$dst> for $src {}
    )+ };
}
pairs! {
    f32 => f16, "convert_f32_f16", reference::f32_f16, cpu::f32_f16;
    f32 => bf16, "convert_f32_bf16", reference::f32_bf16, cpu::f32_bf16;
    f32 => i16, "convert_f32_i16", reference::f32_i16, cpu::f32_i16;
    f32 => I24, "convert_f32_i24", reference::f32_i24, cpu::f32_i24;
    f32 => u8, "convert_f32_u8", reference::f32_u8, cpu::f32_u8;
    f16 => f32, "convert_f16_f32", reference::f16_f32, cpu::f16_f32;
    bf16 => f32, "convert_bf16_f32", reference::bf16_f32, cpu::bf16_f32;
    i16 => f32, "convert_i16_f32", reference::i16_f32, cpu::i16_f32;
    I24 => f32, "convert_i24_f32", reference::i24_f32, cpu::i24_f32;
    u8 => f32, "convert_u8_f32", reference::u8_f32, cpu::u8_f32;
}

/// A conversion of `len` elements on one device.
#[derive(Debug)]
pub struct Plan<S, D> {
    len: usize,
    on: OnDevice<(), Function>,
    pair: PhantomData<fn(S) -> D>,
}

/// Plans a conversion of `len` elements.
///
/// # Errors
/// The device cannot compile the kernel.
pub fn plan<S: Convert<D>, D: Element>(device: &Device, len: usize) -> Result<Plan<S, D>> {
    let on = OnDevice::new(device, |_| Ok(()), |cuda| cuda.function(cuda::SOURCE, S::SYMBOL))?;
    Ok(Plan { len, on, pair: PhantomData })
}

/// Converts host slices on this thread alone, for callers without a queue.
///
/// # Panics
/// `src.len() != dst.len()`
pub fn slice<S: Convert<D>, D: Element>(isa: Isa, src: &[S], dst: &mut [D]) {
    assert_eq!(src.len(), dst.len(), "convert: lengths differ");
    S::slice(isa, src, dst);
}

impl<S: Convert<D>, D: Element> Plan<S, D> {
    /// Converts `src` (len) into `dst` (len).
    ///
    /// # Errors
    /// A view's length or place differs from the plan, or the device fails.
    pub fn run(&self, queue: &Queue, src: View<'_, S>, dst: ViewMut<'_, D>) -> Result<()> {
        check_len("convert: source", src.len(), self.len)?;
        check_len("convert: destination", dst.len(), self.len)?;
        let _span = kernel_span!(queue, "convert", [self.len], self.len * (size_of::<S>() + size_of::<D>()));
        match self.on.with(queue, "convert")? {
            Pair::Cpu((), queue) => cpu::run(queue, src.host()?, dst.host()?),
            Pair::Cuda(function, queue) => cuda::run(queue, function, src.cuda()?, dst.cuda()?)?,
        }
        Ok(())
    }
}
