//! One batch in flight: input samples, output values, and the rows they belong to.

use std::ops::Range;

use half::f16;
use melisma_kernels::signal::mel::{Batch, Sample, Value};
use melisma_kernels::{Buffer, Space};
use tracing::Span;

use super::clock::{Clock, LaunchEvents};
use crate::Result;
use crate::audio::{SampleType, Source};
use crate::dataset::plan::Options;
use crate::dataset::row::Status;
use crate::dataset::technique::{Conversion, Streams, Techniques};
use crate::mel::{OutputPrecision, Plan};
use crate::runtime::device::{Device, Queue};
use crate::runtime::memory::Budget;

/// The sizes of a slot.
#[derive(Debug, Clone, Copy)]
pub(super) struct Shape {
    /// The most rows of 16-bit samples; floats fit half as many.
    pub(super) n_rows: usize,
    /// Samples of a row.
    pub(super) n_samples: usize,
    /// Frames of a row.
    pub(super) n_frames: usize,
    /// Values of a row.
    pub(super) n_values: usize,
    pub(super) dtype: OutputPrecision,
}

impl Shape {
    /// Returns the bytes of samples and of values. Every slot has room for at least one row of floats.
    pub(super) fn bytes(&self) -> [usize; 2] {
        let samples = (self.n_rows * self.n_samples * size_of::<i16>()).max(self.n_samples * size_of::<f32>());
        [samples, self.n_rows * self.n_values * self.dtype.bytes()].map(|bytes| bytes.next_multiple_of(8))
    }
}

/// A row of a slot.
#[derive(Debug, Clone, Copy)]
pub(super) struct Entry {
    pub(super) row: u32,
    pub(super) status: Status,
}

/// The queues for copies in, kernels and copies out: the same one three times, or three.
#[derive(Debug, Clone)]
pub(super) struct Queues {
    pub(super) input: Queue,
    pub(super) compute: Queue,
    pub(super) output: Queue,
}

/// Reusable buffers. On a GPU the host buffers are pinned, so copies run in parallel with the host.
#[derive(Debug)]
pub(super) struct Slot {
    pub(super) shape: Shape,
    conversion: Conversion,
    samples: Buffer,
    values: Buffer,
    on_device: Option<[Buffer; 2]>,
    pub(super) entries: Vec<Entry>,
    /// The type of the samples, once there is a row.
    element: Option<SampleType>,
    events: Option<LaunchEvents>,
    /// Whether the device may still be working on it.
    is_launched: bool,
}

impl Slot {
    pub(super) fn new(device: &Device, budget: &Budget, shape: Shape, techniques: &Techniques) -> Result<Self> {
        let [input, output] = shape.bytes();
        let (samples, values, on_device) = match device {
            Device::Cpu(_) => (Buffer::host(budget, input)?, Buffer::host(budget, output)?, None),
            Device::Cuda(cuda) => {
                let on_device = [Buffer::device(cuda, budget, input)?, Buffer::device(cuda, budget, output)?];
                let outer = |len| match techniques.pinned {
                    true => Buffer::pinned(cuda, budget, len),
                    false => Buffer::host(budget, len),
                };
                (outer(input)?, outer(output)?, Some(on_device))
            }
        };
        let entries = Vec::with_capacity(shape.n_rows);
        let conversion = techniques.conversion;
        Ok(Self {
            shape,
            conversion,
            samples,
            values,
            on_device,
            entries,
            element: None,
            events: None,
            is_launched: false,
        })
    }

    pub(super) fn is_full(&self) -> bool {
        let room = self.samples.len() / (self.shape.n_samples * self.sample_size());
        self.entries.len() >= room.min(self.shape.n_rows)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    fn sample_size(&self) -> usize {
        if self.element == Some(SampleType::F32) { size_of::<f32>() } else { size_of::<i16>() }
    }

    /// Returns the type that samples of `element` have in a slot.
    fn wanted(&self, element: SampleType) -> SampleType {
        if self.conversion == Conversion::PerFile { SampleType::F32 } else { element }
    }

    /// Returns whether samples of `element` can join those already in the slot. Floats hold
    /// integers exactly, but not vice versa.
    pub(super) fn takes(&self, element: SampleType) -> bool {
        self.element != Some(SampleType::I16) || self.wanted(element) == SampleType::I16
    }

    /// Adds a row: `n` samples from `first` on, then silence. A row that cannot be read becomes
    /// silence, and keeps its entry.
    pub(super) fn add(&mut self, row: u32, source: &mut Source, first: u64, n: usize) -> Result<()> {
        let element = self.wanted(source.facts().element);
        let read = match self.push(row, Status::Ok, element) {
            SampleType::I16 => {
                let to = self.last::<i16>()?;
                to[n..].fill(0);
                let read = source.read_i16(first, &mut to[..n]);
                read.inspect_err(|_| to.fill(0))
            }
            SampleType::F32 => {
                let to = self.last::<f32>()?;
                to[n..].fill(0.0);
                let read = source.read_f32(first, &mut to[..n]);
                read.inspect_err(|_| to.fill(0.0))
            }
        };
        Span::current().record("bytes", (n * self.sample_size()) as u64);
        read.inspect_err(|error| self.fail_last(Status::of(error)))
    }

    /// Adds a row of samples from memory.
    #[cfg(feature = "bench")]
    pub(super) fn add_samples(&mut self, row: u32, samples: &[i16]) -> Result<()> {
        self.push(row, Status::Ok, SampleType::I16);
        self.last::<i16>()?.copy_from_slice(samples);
        Ok(())
    }

    /// Adds a row that will be zero.
    pub(super) fn add_failed(&mut self, row: u32, status: Status) -> Result<()> {
        match self.push(row, status, SampleType::F32) {
            SampleType::I16 => self.last::<i16>()?.fill(0),
            SampleType::F32 => self.last::<f32>()?.fill(0.0),
        }
        Ok(())
    }

    /// Fills the slot with silence.
    pub(super) fn fill(&mut self) -> Result<()> {
        while !self.is_full() {
            match self.push(0, Status::Pending, self.wanted(SampleType::I16)) {
                SampleType::I16 => self.last::<i16>()?.fill(0),
                SampleType::F32 => self.last::<f32>()?.fill(0.0),
            }
        }
        Ok(())
    }

    /// Adds the rows `range` of another slot, from its host copy, until this slot is full. Returns
    /// how many it added.
    pub(super) fn add_rows(&mut self, from: &Self, range: Range<usize>) -> Result<usize> {
        let len = self.shape.n_samples * from.sample_size();
        let mut n = 0;
        for index in range {
            let Entry { row, status } = from.entries[index];
            self.element = from.element;
            if self.is_full() {
                break;
            }
            let at = self.entries.len() * len;
            self.entries.push(Entry { row, status });
            let samples = &from.samples.view::<u8>()?.host()?[index * len..][..len];
            self.samples.view_mut::<u8>()?.host()?[at..at + len].copy_from_slice(samples);
            n += 1;
        }
        Ok(n)
    }

    fn push(&mut self, row: u32, status: Status, element: SampleType) -> SampleType {
        self.entries.push(Entry { row, status });
        *self.element.get_or_insert(element)
    }

    /// Returns the samples of the last row.
    fn last<S: Sample>(&mut self) -> Result<&mut [S]> {
        let len = self.shape.n_samples;
        let at = (self.entries.len() - 1) * len;
        Ok(&mut self.samples.view_mut::<S>()?.host()?[at..at + len])
    }

    fn fail_last(&mut self, status: Status) {
        if let Some(last) = self.entries.last_mut() {
            last.status = status;
        }
    }

    /// Returns the bytes of the samples in the slot.
    pub(super) fn sample_bytes(&self) -> usize {
        self.entries.len() * self.shape.n_samples * self.sample_size()
    }

    /// Starts the transform. On the CPU it has finished when this returns.
    pub(super) fn launch(&mut self, plan: &Plan, queues: &Queues) -> Result<()> {
        match (self.element, self.shape.dtype) {
            (Some(SampleType::I16), OutputPrecision::F16) => self.launch_as::<i16, f16>(plan, queues),
            (Some(SampleType::I16), OutputPrecision::F32) => self.launch_as::<i16, f32>(plan, queues),
            (_, OutputPrecision::F16) => self.launch_as::<f32, f16>(plan, queues),
            (_, OutputPrecision::F32) => self.launch_as::<f32, f32>(plan, queues),
        }
    }

    fn launch_as<S: Sample, D: Value>(&mut self, plan: &Plan, queues: &Queues) -> Result<()> {
        let Shape { n_samples, n_frames, n_values, .. } = self.shape;
        let Queues { input, compute, output } = queues;
        let batch = Batch { n_items: self.entries.len(), n_samples, n_frames };
        let (n_in, n_out) = (batch.n_items * n_samples, batch.n_items * n_values);
        let bytes = [n_in * size_of::<S>(), n_out * size_of::<D>()];
        let Some([samples, values]) = &mut self.on_device else {
            let (from, to) = (self.samples.view::<S>()?.first(n_in)?, self.values.view_mut::<D>()?.first(n_out)?);
            return plan.run(compute, batch, from, to);
        };
        if self.events.is_none() {
            self.events = Some(LaunchEvents::new(input)?);
        }
        let Some(events) = &mut self.events else { return Ok(()) };
        events.begin(0, input)?;
        copy(input, &self.samples, samples, bytes[0])?;
        compute.wait(events.end(0, input)?)?;
        events.begin(1, compute)?;
        let (from, to) = (samples.view::<S>()?.first(n_in)?, values.view_mut::<D>()?.first(n_out)?);
        plan.run(compute, batch, from, to)?;
        output.wait(events.end(1, compute)?)?;
        events.begin(2, output)?;
        copy(output, values, &mut self.values, bytes[1])?;
        events.end(2, output)?;
        self.is_launched = true;
        Ok(())
    }

    /// Waits for the transform.
    pub(super) fn wait(&mut self, clock: Option<&Clock>) -> Result<()> {
        match &self.events {
            Some(events) if std::mem::take(&mut self.is_launched) => {
                events.synchronize()?;
                clock.map_or(Ok(()), |clock| clock.add(events))
            }
            _ => Ok(()),
        }
    }

    /// Zeroes the rows that failed, and those with a value that is not finite.
    pub(super) fn settle(&mut self, overflowed: &mut Vec<u32>) -> Result<()> {
        let n = self.entries.len() * self.shape.n_values;
        match self.shape.dtype {
            OutputPrecision::F16 => {
                let values = &mut self.values.view_mut::<f16>()?.host()?[..n];
                let is_finite = |row: &[f16]| row.iter().fold(true, |all, x| all & (x.to_bits() & 0x7c00 != 0x7c00));
                settle(values.chunks_mut(self.shape.n_values), &mut self.entries, overflowed, is_finite);
            }
            OutputPrecision::F32 => {
                let values = &mut self.values.view_mut::<f32>()?.host()?[..n];
                let is_finite = |row: &[f32]| row.iter().fold(true, |all, x| all & x.is_finite());
                settle(values.chunks_mut(self.shape.n_values), &mut self.entries, overflowed, is_finite);
            }
        }
        Ok(())
    }

    /// Returns the bytes of the values of some rows.
    pub(super) fn rows(&self, range: Range<usize>) -> Result<&[u8]> {
        let len = self.shape.n_values * self.shape.dtype.bytes();
        Ok(&self.values.view::<u8>()?.host()?[range.start * len..range.end * len])
    }

    pub(super) fn clear(&mut self) {
        self.entries.clear();
        self.element = None;
    }
}

/// Copies the first `len` bytes. If either side is pageable memory, the copy has finished when this
/// returns.
fn copy(queue: &Queue, from: &Buffer, to: &mut Buffer, len: usize) -> Result<()> {
    if from.space() == Space::Host || to.space() == Space::Host {
        return queue.copy(from.view::<u8>()?.first(len)?, to.view_mut::<u8>()?.first(len)?);
    }
    queue.start_copy(from, to, len)
}

fn settle<'a, T: Value>(
    rows: impl Iterator<Item = &'a mut [T]>,
    entries: &mut [Entry],
    overflowed: &mut Vec<u32>,
    is_finite: impl Fn(&[T]) -> bool,
) {
    for (values, entry) in rows.zip(entries) {
        if entry.status == Status::Ok && !is_finite(values) {
            entry.status = Status::Overflow;
            overflowed.push(entry.row);
        }
        if entry.status != Status::Ok {
            values.fill(T::zeroed());
        }
    }
}

/// Returns the shape of slots of `n_rows` rows.
pub(super) fn shape(options: &Options, n_rows: usize) -> Shape {
    let n_frames = options.n_frames();
    Shape {
        n_rows,
        n_samples: options.segment_samples,
        n_frames,
        n_values: options.mel.n_mels * n_frames,
        dtype: options.mel.dtype,
    }
}

/// Returns one queue for copies and kernels.
pub(super) fn one_queue(device: &Device, budget: &Budget) -> Result<Queues> {
    let queue = device.queue(budget)?;
    Ok(Queues { input: queue.clone(), compute: queue.clone(), output: queue })
}

/// Returns the queues of one thread.
pub(super) fn queues(device: &Device, budget: &Budget, streams: Streams) -> Result<Queues> {
    match (device, streams) {
        (Device::Cuda(_), Streams::Split) => {
            let queue = || device.queue(budget);
            Ok(Queues { input: queue()?, compute: queue()?, output: queue()? })
        }
        _ => one_queue(device, budget),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn host_buffers_are_pinned_on_cuda_unless_that_is_off() {
        let Some(device) = crate::golden::cuda() else { return };
        let shape = Shape { n_rows: 2, n_samples: 16, n_frames: 1, n_values: 8, dtype: OutputPrecision::F32 };
        for (pinned, space) in [(true, Space::Pinned), (false, Space::Host)] {
            let techniques = Techniques { pinned, ..Techniques::default() };
            let slot = Slot::new(&device, &Budget::unlimited(), shape, &techniques).unwrap();
            assert_eq!([slot.samples.space(), slot.values.space()], [space; 2]);
        }
    }
}
