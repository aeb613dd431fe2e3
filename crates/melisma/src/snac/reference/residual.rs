//! ResidualUnit: x + Conv₁(Snake(Conv₇(Snake(x)))), where Conv₇ has a dilation.

use super::conv::{Conv1d, Halo, Shape};
use super::layer::{Flow, Snake};
use super::plane::Plane;
use crate::Result;
use crate::snac::weights::Weights;

/// A residual unit.
#[derive(Debug)]
pub struct ResidualUnit {
    pub(in crate::snac) entry: Snake,
    pub(in crate::snac) wide: Conv1d,
    pub(in crate::snac) middle: Snake,
    pub(in crate::snac) mix: Conv1d,
}

/// State of a [`ResidualUnit`]: the wide convolution's halo, and the inputs whose outputs are still to come.
#[derive(Debug, Clone)]
pub struct Pending {
    halo: Halo,
    skip: Plane,
}

impl Pending {
    /// Returns the number of values held.
    pub fn n_values(&self) -> usize {
        self.halo.n_values() + self.skip.data().len()
    }
}

/// The three units of a block differ by their dilation only.
pub(in crate::snac) const DILATIONS: [usize; 3] = [1, 3, 9];

impl ResidualUnit {
    /// Loads the three units `name.{first}` to `name.{first + 2}`.
    pub(in crate::snac) fn load_three(
        weights: &mut Weights<'_>,
        name: &str,
        first: usize,
        [n_channels, groups]: [usize; 2],
    ) -> Result<Vec<Self>> {
        let load = |(index, dilation): (usize, usize)| {
            let name = format!("{name}.{}.block", first + index);
            let wide = Shape { dilation, padding: 3 * dilation, groups, ..Shape::same(n_channels, n_channels, 7) };
            Ok(Self {
                entry: Snake::load(weights, &format!("{name}.0"), n_channels)?,
                wide: Conv1d::load(weights, &format!("{name}.1"), wide)?,
                middle: Snake::load(weights, &format!("{name}.2"), n_channels)?,
                mix: Conv1d::load(weights, &format!("{name}.3"), Shape::same(n_channels, n_channels, 1))?,
            })
        };
        DILATIONS.into_iter().enumerate().map(load).collect()
    }

    /// Returns the state before the first input.
    pub fn start(&self) -> Pending {
        Pending { halo: self.wide.start(), skip: Plane::zeros(self.wide.shape().n_in, 0) }
    }

    /// Takes `[C, T]`, gives the outputs that became final.
    pub fn push(&self, pending: &mut Pending, x: Plane, flow: Flow) -> Plane {
        let skip = pending.skip.then(&x);
        let mut x = x;
        self.entry.apply(&mut x);
        let mut y = self.wide.push(&mut pending.halo, &x, flow);
        self.middle.apply(&mut y);
        let mut y = self.mix.valid(&y);
        for channel in 0..y.n_channels() {
            for (y, x) in y.row_mut(channel).iter_mut().zip(skip.row(channel)) {
                *y += x;
            }
        }
        pending.skip = skip.slice(y.len(), skip.len());
        y
    }
}
