//! How the work on spectrograms is divided.

use super::slot::shape;
use crate::dataset::plan::Options;
use crate::dataset::technique::Techniques;
use crate::runtime::device::Device;

/// Bytes of samples in a slot, unless a row is larger. On the CPU, a slot's samples and values stay
/// in the cache.
const SLOT_BYTES: usize = 512 << 10;
/// Upper limit for the bytes of samples in a slot on the CPU, whatever the requested number of
/// rows.
const MOST_BYTES: usize = 64 << 20;
const SLOT_BYTES_CUDA: usize = 4 << 20;
/// Bytes of all slots on a GPU, unless more is requested. With the driver's own memory, the total
/// stays below 2 GB.
const DEVICE_BYTES: usize = 1 << 30;

/// How the work is divided; the values do not depend on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Tuning {
    pub(super) threads: usize,
    /// Slots per thread.
    pub(super) n_slots: usize,
    /// Rows per slot.
    pub(super) n_rows: usize,
}

/// Sizes slots by bytes. On a GPU, their size, then their number, then the number of
/// threads is reduced until they fit the free memory.
pub(super) fn tuning(device: &Device, options: &Options, techniques: &Techniques, threads: usize) -> Tuning {
    let [samples, values] = shape(options, 1).bytes();
    let samples = samples / 2;
    let by_bytes = |bytes: usize| (bytes / samples).clamp(1, 1 << 16);
    let Device::Cuda(cuda) = device else {
        let n_rows = techniques.segments_per_buffer.unwrap_or_else(|| by_bytes(SLOT_BYTES)).min(by_bytes(MOST_BYTES));
        return Tuning { threads, n_slots: 1, n_rows };
    };
    let n_rows = techniques.segments_per_buffer.unwrap_or_else(|| by_bytes(SLOT_BYTES_CUDA));
    let n_slots = techniques.buffers_in_flight.max(1);
    if !techniques.autosize_gpu_batch {
        return Tuning { threads, n_slots, n_rows };
    }
    let free = cuda.memory().map_or(usize::MAX, |(free, _)| free as usize);
    // The most rows that all slots may hold together.
    let most = (DEVICE_BYTES.min(free / 2) / (samples + values)).max(1);
    let n_rows = match techniques.segments_per_buffer {
        Some(n_rows) => n_rows.min(most),
        None => n_rows.min((most / (threads * n_slots)).max(1)),
    };
    let n_slots = n_slots.min((most / (threads * n_rows)).max(1));
    Tuning { threads: threads.min((most / (n_slots * n_rows)).max(1)), n_slots, n_rows }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::mel::Config;

    #[test]
    fn a_slot_has_a_row_however_many_threads_share_the_memory_on_cuda() {
        let Some(device) = crate::golden::cuda() else { return };
        let second = Duration::from_secs(1);
        let options = Options::new(Config::preset("whisper-80").unwrap(), second).unwrap();
        let Tuning { threads, n_slots, n_rows } = tuning(&device, &options, &Techniques::default(), DEVICE_BYTES);
        assert_eq!((n_slots, n_rows), (1, 1));
        assert!((1..DEVICE_BYTES).contains(&threads), "{threads}");
    }
}
