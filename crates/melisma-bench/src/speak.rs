//! The room `speak`: text to audio with a random voice model of 15 M parameters and the built-in
//! codec, beside `transformers` with the same files; how larger models open and step; the built-in voice. On a GPU, a
//! model of 3 G parameters beside PyTorch.

mod builtin;
mod gpu;
mod listener;
mod read;
mod size;
mod voice;

use melisma::speak::synthetic::Shape;
use melisma::{Budget, Context, Result};
use melisma_kernels::{Cpu, Device};

use super::measure::{Plan, measure};
use super::{BenchContext, Room, Row};

/// The figures are those of two cores.
const THREADS: usize = 2;
/// 15 M parameters, half of them in the table of tokens.
const SMALL: Shape = Shape {
    n_layers: 9,
    n_channels: 256,
    n_inner: 768,
    n_heads: 4,
    n_key_heads: 4,
    n_words: 0,
    context: 8192,
    is_tied: true,
    // Every text is spoken up to its limit.
    end: -20.0,
    mix: 1.0,
};

/// Parts that can be measured alone.
pub(super) const PARTS: [(&str, Room); 1] = [("speak/builtin", builtin::rows)];

pub(super) fn rows(context: BenchContext<'_>) -> Result<Vec<Row>> {
    let Device::Cpu(cpu) = context.device else {
        return gpu::rows(&Context::on(context.device.clone(), Budget::unlimited())?);
    };
    let two_cores = Context::on(Device::Cpu(Cpu { threads: THREADS, ..*cpu }), Budget::unlimited())?;
    let mut rows = voice::rows(&two_cores)?;
    rows.extend(size::rows(&two_cores)?);
    rows.extend(builtin::rows(context)?);
    Ok(rows)
}
