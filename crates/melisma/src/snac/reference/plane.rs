/// Channels over time, `[C, T]`, time contiguous.
///
/// # Panics
/// As with slices, where a channel or a time is outside of it, or the number of values does not fit.
#[derive(Debug, Clone, PartialEq)]
pub struct Plane {
    n_channels: usize,
    len: usize,
    data: Vec<f32>,
}

impl Plane {
    /// Creates zeros, `[n_channels, len]`.
    pub fn zeros(n_channels: usize, len: usize) -> Self {
        Self { n_channels, len, data: vec![0.0; n_channels * len] }
    }

    /// Returns the rows in `data`, one after the other; `data.len()` must be a multiple of
    /// `n_channels`.
    pub fn new(n_channels: usize, data: Vec<f32>) -> Self {
        assert!(data.len().is_multiple_of(n_channels), "{} values for {n_channels} rows", data.len());
        Self { n_channels, len: data.len() / n_channels, data }
    }

    /// Returns C.
    pub fn n_channels(&self) -> usize {
        self.n_channels
    }

    /// Returns T.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Returns whether T is 0.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns all values, row after row.
    pub fn data(&self) -> &[f32] {
        &self.data
    }

    /// Returns all values, row after row.
    pub fn into_data(self) -> Vec<f32> {
        self.data
    }

    /// Returns all values, row after row.
    pub fn data_mut(&mut self) -> &mut [f32] {
        &mut self.data
    }

    /// Returns one channel, `[T]`.
    pub fn row(&self, channel: usize) -> &[f32] {
        &self.data[channel * self.len..(channel + 1) * self.len]
    }

    /// Returns one channel, `[T]`.
    pub fn row_mut(&mut self, channel: usize) -> &mut [f32] {
        &mut self.data[channel * self.len..(channel + 1) * self.len]
    }

    /// Returns a copy of the time steps `start..end`.
    pub fn slice(&self, start: usize, end: usize) -> Self {
        let mut data = Vec::with_capacity(self.n_channels * (end - start));
        for channel in 0..self.n_channels {
            data.extend_from_slice(&self.row(channel)[start..end]);
        }
        Self::new(self.n_channels, data)
    }

    /// Returns this, then `next`, in time.
    pub fn then(&self, next: &Self) -> Self {
        Self::join(self.n_channels, &[self, next])
    }

    /// Returns pieces one after the other in time.
    pub fn join(n_channels: usize, pieces: &[impl std::borrow::Borrow<Self>]) -> Self {
        let mut data = Vec::with_capacity(pieces.iter().map(|piece| piece.borrow().data.len()).sum());
        for channel in 0..n_channels {
            for piece in pieces {
                data.extend_from_slice(piece.borrow().row(channel));
            }
        }
        Self::new(n_channels, data)
    }
}
