//! The size of an engine and its buses.

/// The size of an engine and its buses.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub struct EngineConfig {
    /// Samples per second, 8,000 to 192,000.
    pub sample_rate: u32,
    /// Notes that sound at once, 1 to 65,536. A note more fades the oldest out within 2 ms.
    pub max_voices: usize,
    /// Events that can wait, 1 to 2^24.
    pub max_events: usize,
    /// How voices are summed.
    pub buses: Buses,
}

/// How an engine sums its voices.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Buses {
    /// All together: the fastest.
    Mix,
    /// Each instrument on a bus of its own, for [`Engine::render_stems`](super::Engine::render_stems). The mix has the same bits.
    Stems,
}

impl Default for EngineConfig {
    fn default() -> Self {
        Self { sample_rate: 48_000, max_voices: 256, max_events: 1 << 14, buses: Buses::Mix }
    }
}

impl EngineConfig {
    setters! {
        /// Sets the samples per second, 8,000 to 192,000.
        pub fn with_sample_rate(sample_rate: u32);
        /// Sets how many notes can sound at once, 1 to 65,536.
        pub fn with_max_voices(max_voices: usize);
        /// Sets how many events can wait, 1 to 2^24.
        pub fn with_max_events(max_events: usize);
        /// Sets how voices are summed.
        pub fn with_buses(buses: Buses);
    }
}
