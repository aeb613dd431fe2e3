//! On a GPU. Times are device times between two events, except for rows about the host.

use std::time::Instant;

use half::{bf16, f16};
use melisma::{Error, Result};
use melisma_kernels::matmul::{self, Matmul, Scalar};
use melisma_kernels::{Budget, Buffer, DType, Device, Graph, Queue, Tensor, convert};

use super::noise;
use crate::measure::of_times;
use crate::{BenchContext, Measured, Peer, Row};

const COPIED: usize = 256 << 20;
const CONVERTED: usize = 64 << 20;

pub(super) fn rows(context: BenchContext<'_>) -> Result<Vec<Row>> {
    let bench = Bench {
        device: context.device,
        queue: context.device.queue(context.memory.budget())?,
        budget: context.memory.budget(),
    };
    let mut rows = bench.copies()?;
    rows.push(bench.overlap()?);
    for n in [1024, 4096] {
        rows.push(bench.matmul::<f32>("f32", Matmul::new(n, n, n))?);
        rows.push(bench.matmul::<f32>("tf32", Matmul { tf32: true, ..Matmul::new(n, n, n) })?);
        rows.push(bench.matmul::<f16>("f16", Matmul::new(n, n, n))?);
        rows.push(bench.matmul::<bf16>("bf16", Matmul::new(n, n, n))?);
    }
    rows.extend(bench.conversions()?);
    rows.push(bench.graph()?);
    Ok(rows)
}

struct Bench<'a> {
    device: &'a Device,
    queue: Queue,
    budget: &'a Budget,
}

impl Bench<'_> {
    /// Measures seconds on the device.
    fn time(&self, mut work: impl FnMut(&Queue) -> Result<()>) -> Result<Measured> {
        (0..5).try_for_each(|_| work(&self.queue))?;
        let mut times = Vec::new();
        for _ in 0..20 {
            let start = self.queue.record()?;
            work(&self.queue)?;
            let end = self.queue.record()?;
            end.synchronize()?;
            times.push(end.since(&start)?.as_secs_f64());
        }
        Ok(of_times(times))
    }

    fn tensor(&self, dtype: DType, len: usize) -> Result<Tensor> {
        Tensor::new(self.device, self.budget, dtype, &[len])
    }

    fn copies(&self) -> Result<Vec<Row>> {
        let Device::Cuda(cuda) = self.device else { return Err(Error::unsupported("copies need a GPU")) };
        let mut pinned = Buffer::pinned(cuda, self.budget, COPIED)?;
        let mut on_device = Buffer::device(cuda, self.budget, COPIED)?;
        let mut pageable = vec![1u8; COPIED];
        let row = |measured: Measured, name: &str| {
            measured.rate(&format!("runtime/copy {name}"), "GB/s", COPIED as f64 / 1e9)
        };
        Ok(vec![
            row(self.time(|queue| queue.start_copy(&pinned, &mut on_device, COPIED))?, "pinned to device"),
            row(self.time(|queue| queue.start_copy(&on_device, &mut pinned, COPIED))?, "pinned from device"),
            row(self.time(|queue| queue.copy(pageable[..].into(), on_device.view_mut::<u8>()?))?, "pageable to device"),
            row(
                self.time(|queue| queue.copy(on_device.view::<u8>()?, pageable[..].as_mut().into()))?,
                "pageable from device",
            ),
        ])
    }

    /// Measures the share of a copy's time that overlaps with a product of at least the same
    /// duration, on two queues.
    fn overlap(&self) -> Result<Row> {
        let Device::Cuda(cuda) = self.device else { return Err(Error::unsupported("copies need a GPU")) };
        let shape = Matmul::new(8192, 8192, 8192);
        let plan = shape.plan::<f32>(self.device)?;
        let (a, b) = (self.tensor(DType::F32, 8192 * 8192)?, self.tensor(DType::F32, 8192 * 8192)?);
        let mut c = self.tensor(DType::F32, 8192 * 8192)?;
        let pinned = Buffer::pinned(cuda, self.budget, 4 * COPIED)?;
        let mut on_device = Buffer::device(cuda, self.budget, 4 * COPIED)?;
        let copies = self.device.queue(self.budget)?;
        let copy = self.time(|queue| queue.start_copy(&pinned, &mut on_device, 4 * COPIED))?;
        let compute = self.time(|queue| plan.run(queue, a.view()?, b.view()?, c.view_mut()?))?;
        let both = self.time(|queue| {
            let begun = queue.record()?;
            copies.wait(&begun)?;
            copies.start_copy(&pinned, &mut on_device, 4 * COPIED)?;
            plan.run(queue, a.view()?, b.view()?, c.view_mut()?)?;
            queue.wait(&copies.record()?)
        })?;
        let hidden = (copy.median + compute.median - both.median) / copy.median.min(compute.median);
        Ok(Row {
            median: 100.0 * hidden,
            ceiling: Some(100.0),
            ..both.rate("runtime/copy hidden behind a product", "%", 1.0)
        })
    }

    fn matmul<T: Scalar>(&self, kind: &str, shape: Matmul) -> Result<Row> {
        let plan = shape.plan::<T>(self.device)?;
        let (a, b) = (self.random::<T>(shape.m * shape.k)?, self.random::<T>(shape.k * shape.n)?);
        let mut c = self.tensor(T::DTYPE, shape.m * shape.n)?;
        let measured = self.time(|queue| plan.run(queue, a.view()?, b.view()?, c.view_mut()?))?;
        let Matmul { m, k, n, .. } = shape;
        Ok(measured.rate(&format!("runtime/matmul {kind} {m}x{k}x{n}"), "TFLOP/s", shape.flops() / 1e12))
    }

    fn random<T: Scalar>(&self, len: usize) -> Result<Tensor> {
        let mut values = vec![T::zeroed(); len];
        matmul::store(&noise(len), &mut values);
        Tensor::from_slice(&Budget::unlimited(), &values, &[len])?.to(&self.queue, self.budget)
    }

    fn conversions(&self) -> Result<Vec<Row>> {
        let floats = self.tensor(DType::F32, CONVERTED)?;
        let mut output = self.tensor(DType::F32, CONVERTED)?;
        let mut halves = self.tensor(DType::F16, CONVERTED)?;
        let integers = self.tensor(DType::I16, CONVERTED)?;
        let narrow = convert::plan::<f32, f16>(self.device, CONVERTED)?;
        let widen = convert::plan::<i16, f32>(self.device, CONVERTED)?;
        let copied = self.time(|queue| queue.copy(floats.view::<f32>()?, output.view_mut()?))?;
        let ceiling = Some(8.0 * CONVERTED as f64 / 1e9 / copied.median);
        let row = |measured: Measured, name: &str| Row {
            ceiling,
            ..measured.rate(&format!("runtime/convert {name}"), "GB/s", 6.0 * CONVERTED as f64 / 1e9)
        };
        Ok(vec![
            row(self.time(|queue| narrow.run(queue, floats.view()?, halves.view_mut()?))?, "f32 to f16"),
            row(self.time(|queue| widen.run(queue, integers.view()?, output.view_mut()?))?, "i16 to f32"),
        ])
    }

    /// Measures sixty small kernels in one graph, timed on the host from launch to end.
    fn graph(&self) -> Result<Row> {
        let len = 4096;
        let small = Small {
            narrow: convert::plan(self.device, len)?,
            widen: convert::plan(self.device, len)?,
            floats: self.tensor(DType::F32, len)?,
            halves: self.tensor(DType::F16, len)?,
        };
        let mut graph = Graph::capture(&self.queue, small, sixty_kernels)?;
        let replayed = self.host_time(|queue| graph.launch(queue))?;
        let plain = self.host_time(|queue| sixty_kernels(queue, graph.state_mut()))?;
        let row = replayed.rate("runtime/graph of 60 kernels", "us", 1.0);
        let peers = vec![Peer { name: "60 launches".to_owned(), median: plain.median * 1e6 }];
        Ok(Row { median: replayed.median * 1e6, peers, ..row })
    }

    fn host_time(&self, mut work: impl FnMut(&Queue) -> Result<()>) -> Result<Measured> {
        let mut times = Vec::new();
        for round in 0..205 {
            let start = Instant::now();
            work(&self.queue)?;
            self.queue.synchronize()?;
            if round >= 5 {
                times.push(start.elapsed().as_secs_f64());
            }
        }
        Ok(of_times(times))
    }
}

struct Small {
    narrow: convert::Plan<f32, f16>,
    widen: convert::Plan<f16, f32>,
    floats: Tensor,
    halves: Tensor,
}

fn sixty_kernels(queue: &Queue, small: &mut Small) -> Result<()> {
    for _ in 0..30 {
        small.narrow.run(queue, small.floats.view()?, small.halves.view_mut()?)?;
        small.widen.run(queue, small.halves.view()?, small.floats.view_mut()?)?;
    }
    Ok(())
}
