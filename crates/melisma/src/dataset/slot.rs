//! One batch in flight: samples in, values out, and which rows they are.

use half::f16;
use melisma_kernels::mel::{Batch, Sample, Value};
use melisma_kernels::{Buffer, Event};

use super::row::Status;
use crate::Result;
use crate::audio::{Element, Source};
use crate::mel::{DType, Transform};
use crate::runtime::device::{Device, Queue};
use crate::runtime::memory::Budget;

/// The sizes of a slot.
#[derive(Debug, Clone, Copy)]
pub(super) struct Shape {
    /// The most rows.
    pub(super) n_rows: usize,
    /// Samples of a row.
    pub(super) n_samples: usize,
    /// Frames of a row.
    pub(super) n_frames: usize,
    /// Values of a row.
    pub(super) n_values: usize,
    pub(super) dtype: DType,
}

/// A row of a slot.
#[derive(Debug, Clone, Copy)]
pub(super) struct Entry {
    pub(super) row: u32,
    pub(super) status: Status,
}

/// Buffers that are used again and again. On a GPU the outer ones are pinned and copies run beside the host.
#[derive(Debug)]
pub(super) struct Slot {
    shape: Shape,
    samples: Buffer,
    values: Buffer,
    on_device: Option<[Buffer; 2]>,
    pub(super) entries: Vec<Entry>,
    /// The samples' type, once there is a row.
    element: Option<Element>,
    done: Option<Event>,
}

impl Slot {
    pub(super) fn new(device: &Device, budget: &Budget, shape: Shape) -> Result<Self> {
        let (input, output) = (shape.n_rows * shape.n_samples * 4, shape.n_rows * shape.n_values * shape.dtype.bytes());
        let (samples, values, on_device) = match device {
            Device::Cpu(_) => (Buffer::host(budget, input)?, Buffer::host(budget, output)?, None),
            Device::Cuda(cuda) => {
                let on_device = [Buffer::device(cuda, budget, input)?, Buffer::device(cuda, budget, output)?];
                (Buffer::pinned(cuda, budget, input)?, Buffer::pinned(cuda, budget, output)?, Some(on_device))
            }
        };
        let entries = Vec::with_capacity(shape.n_rows);
        Ok(Self { shape, samples, values, on_device, entries, element: None, done: None })
    }

    pub(super) fn is_full(&self) -> bool {
        self.entries.len() == self.shape.n_rows
    }

    pub(super) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Whether samples of `element` can join those that are there: floats hold integers exactly, not the other way.
    pub(super) fn takes(&self, element: Element) -> bool {
        self.element != Some(Element::I16) || element == Element::I16
    }

    /// Adds a row: `n` samples from `first` on, then silence. A row that cannot be read is silence, and stays an entry.
    pub(super) fn add(&mut self, row: u32, source: &mut Source, first: u64, n: usize) -> Result<()> {
        let (at, len) = (self.entries.len() * self.shape.n_samples, self.shape.n_samples);
        self.entries.push(Entry { row, status: Status::Ok });
        let element = *self.element.get_or_insert(source.facts().element);
        let read = match element {
            Element::I16 => {
                let to = &mut self.samples.view_mut::<i16>()?.host()?[at..at + len];
                to[n..].fill(0);
                let read = source.read_i16(first, &mut to[..n]);
                read.inspect_err(|_| to.fill(0))
            }
            Element::F32 => {
                let to = &mut self.samples.view_mut::<f32>()?.host()?[at..at + len];
                to[n..].fill(0.0);
                let read = source.read_f32(first, &mut to[..n]);
                read.inspect_err(|_| to.fill(0.0))
            }
        };
        read.inspect_err(|error| self.fail_last(Status::of(error)))
    }

    /// Adds a row that will be zero.
    pub(super) fn add_failed(&mut self, row: u32, status: Status) -> Result<()> {
        let (at, len) = (self.entries.len() * self.shape.n_samples, self.shape.n_samples);
        self.entries.push(Entry { row, status });
        match *self.element.get_or_insert(Element::F32) {
            Element::I16 => self.samples.view_mut::<i16>()?.host()?[at..at + len].fill(0),
            Element::F32 => self.samples.view_mut::<f32>()?.host()?[at..at + len].fill(0.0),
        }
        Ok(())
    }

    fn fail_last(&mut self, status: Status) {
        if let Some(last) = self.entries.last_mut() {
            last.status = status;
        }
    }

    /// Bytes of the samples that are there.
    pub(super) fn sample_bytes(&self) -> usize {
        let size = if self.element == Some(Element::I16) { 2 } else { 4 };
        self.entries.len() * self.shape.n_samples * size
    }

    /// Starts the transform; on the CPU it is done when this returns.
    pub(super) fn launch(&mut self, transform: &Transform, queue: &Queue) -> Result<()> {
        match (self.element, self.shape.dtype) {
            (Some(Element::I16), DType::F16) => self.launch_as::<i16, f16>(transform, queue),
            (Some(Element::I16), DType::F32) => self.launch_as::<i16, f32>(transform, queue),
            (_, DType::F16) => self.launch_as::<f32, f16>(transform, queue),
            (_, DType::F32) => self.launch_as::<f32, f32>(transform, queue),
        }
    }

    fn launch_as<S: Sample, D: Value>(&mut self, transform: &Transform, queue: &Queue) -> Result<()> {
        let Shape { n_samples, n_frames, n_values, .. } = self.shape;
        let batch = Batch { n_items: self.entries.len(), n_samples, n_frames };
        let (n_in, n_out) = (batch.n_items * n_samples, batch.n_items * n_values);
        let Some([samples, values]) = &mut self.on_device else {
            let (samples, values) =
                (self.samples.view::<S>()?.first(n_in)?, self.values.view_mut::<D>()?.first(n_out)?);
            return transform.plan().run(queue, batch, samples, values);
        };
        queue.start_copy(&self.samples, samples, n_in * size_of::<S>())?;
        let (from, to) = (samples.view::<S>()?.first(n_in)?, values.view_mut::<D>()?.first(n_out)?);
        transform.plan().run(queue, batch, from, to)?;
        queue.start_copy(values, &mut self.values, n_out * size_of::<D>())?;
        self.done = Some(queue.record()?);
        Ok(())
    }

    /// Waits for the transform. Rows that failed are zero, and so become those with a value that is not finite.
    pub(super) fn finish(&mut self, overflowed: &mut Vec<u32>) -> Result<()> {
        if let Some(done) = self.done.take() {
            done.synchronize()?;
        }
        let n_values = self.shape.n_values;
        match self.shape.dtype {
            DType::F16 => {
                let values = self.values.view_mut::<f16>()?.host()?;
                settle(values.chunks_mut(n_values), &mut self.entries, overflowed, |value| !value.is_finite());
            }
            DType::F32 => {
                let values = self.values.view_mut::<f32>()?.host()?;
                settle(values.chunks_mut(n_values), &mut self.entries, overflowed, |value| !value.is_finite());
            }
        }
        Ok(())
    }

    /// The bytes of row `index`'s values.
    pub(super) fn row(&self, index: usize) -> Result<&[u8]> {
        let len = self.shape.n_values * self.shape.dtype.bytes();
        Ok(&self.values.view::<u8>()?.host()?[index * len..(index + 1) * len])
    }

    pub(super) fn clear(&mut self) {
        self.entries.clear();
        self.element = None;
    }
}

fn settle<'a, T: Value>(
    rows: impl Iterator<Item = &'a mut [T]>,
    entries: &mut [Entry],
    overflowed: &mut Vec<u32>,
    is_wrong: impl Fn(&T) -> bool,
) {
    for (values, entry) in rows.zip(entries) {
        if entry.status == Status::Ok && values.iter().any(&is_wrong) {
            entry.status = Status::Overflow;
            overflowed.push(entry.row);
        }
        if entry.status != Status::Ok {
            values.fill(T::zeroed());
        }
    }
}
