/// Channels over time, `[C, T]`, time contiguous.
#[derive(Debug, Clone, PartialEq)]
pub struct Plane {
    n_channels: usize,
    len: usize,
    data: Vec<f32>,
}

impl Plane {
    /// Zeros, `[n_channels, len]`.
    pub fn zeros(n_channels: usize, len: usize) -> Self {
        Self { n_channels, len, data: vec![0.0; n_channels * len] }
    }

    /// The rows in `data`, one after the other; `data.len()` must be a multiple of `n_channels`.
    pub fn new(n_channels: usize, data: Vec<f32>) -> Self {
        assert!(data.len().is_multiple_of(n_channels), "{} values for {n_channels} rows", data.len());
        Self { n_channels, len: data.len() / n_channels, data }
    }

    /// C.
    pub fn n_channels(&self) -> usize {
        self.n_channels
    }

    /// T.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there is no time in it.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// All values, row after row.
    pub fn data(&self) -> &[f32] {
        &self.data
    }

    /// All values, row after row.
    pub fn into_data(self) -> Vec<f32> {
        self.data
    }

    /// All values, row after row.
    pub fn data_mut(&mut self) -> &mut [f32] {
        &mut self.data
    }

    /// One channel, `[T]`.
    pub fn row(&self, channel: usize) -> &[f32] {
        &self.data[channel * self.len..(channel + 1) * self.len]
    }

    /// One channel, `[T]`.
    pub fn row_mut(&mut self, channel: usize) -> &mut [f32] {
        &mut self.data[channel * self.len..(channel + 1) * self.len]
    }

    /// A copy of the time steps `start..end`.
    pub fn slice(&self, start: usize, end: usize) -> Self {
        let data = (0..self.n_channels).flat_map(|channel| &self.row(channel)[start..end]).copied().collect();
        Self { n_channels: self.n_channels, len: end - start, data }
    }

    /// This, then `next`, in time.
    pub fn then(&self, next: &Self) -> Self {
        assert_eq!(self.n_channels, next.n_channels, "channels of planes to join");
        let rows = (0..self.n_channels).flat_map(|channel| self.row(channel).iter().chain(next.row(channel)));
        Self { n_channels: self.n_channels, len: self.len + next.len, data: rows.copied().collect() }
    }
}
