//! On the CPU.

use std::hint::black_box;

use melisma::{Error, ErrorKind, Result};
use melisma_kernels::device::ceiling;
use melisma_kernels::matmul::{Chunk, Matmul};
use melisma_kernels::{Budget, Cpu, Device, Space, convert};

use super::noise;
use crate::record::quantile;
use crate::{BenchContext, Measured, Peer, Plan, Row, measure};

/// Elements per conversion: outputs are larger than any cache.
const CONVERTED: usize = 64 << 20;

pub(super) fn rows(context: BenchContext<'_>) -> Result<Vec<Row>> {
    let Device::Cpu(cpu) = context.device else { return Ok(Vec::new()) };
    let mut rows = Vec::new();
    for threads in [1, 2] {
        let cpu = Cpu { threads, ..*cpu };
        for (m, k, n) in [(1024, 1024, 1024), (1024, 1024, 32), (1024, 32, 1024)] {
            rows.push(matmul(cpu, Matmul::new(m, k, n))?);
        }
        let _counted = context.memory.reserve(Space::Host, 8 * CONVERTED as u64)?;
        rows.extend(conversions(cpu)?);
    }
    rows.push(chunked(*cpu)?);
    Ok(rows)
}

fn matmul(cpu: Cpu, shape: Matmul) -> Result<Row> {
    let device = Device::Cpu(cpu);
    let queue = device.queue(&Budget::unlimited())?;
    let plan = shape.plan::<f32>(&device)?;
    let (a, b) = (noise(shape.m * shape.k), noise(shape.k * shape.n));
    let mut c = vec![0f32; shape.m * shape.n];
    // The ceiling follows the clock frequency, so it is measured in the same run.
    let mut outcome = Ok(());
    let measured = measure(Plan::default(), || {
        outcome = plan.run(&queue, a[..].into(), b[..].into(), c[..].as_mut().into());
    });
    outcome?;
    let peaks: Vec<f64> = (0..5).map(|_| ceiling::flops(cpu.isa)).collect();
    let Matmul { m, k, n, .. } = shape;
    let name = format!("runtime/matmul {m}x{k}x{n} {}t", cpu.threads);
    let row = measured.rate(&name, "GFLOP/s", shape.flops() / 1e9);
    Ok(Row { ceiling: Some(quantile(&peaks, 0.5) * cpu.threads as f64 / 1e9), ..row })
}

fn conversions(cpu: Cpu) -> Result<Vec<Row>> {
    let device = Device::Cpu(cpu);
    let queue = device.queue(&Budget::unlimited())?;
    let floats = noise(CONVERTED);
    let mut copy = vec![0f32; CONVERTED];
    let bytes = size_of_val(&floats[..]) as f64;
    let copied = measure(Plan::default(), || copy.copy_from_slice(black_box(&floats)));
    let memcpy = 2.0 * bytes / 1e9 / copied.median;
    let row = |measured: Measured, name: &str| {
        let row = measured.rate(&format!("runtime/convert {name} {}t", cpu.threads), "GB/s", 1.5 * bytes / 1e9);
        // The standard memcpy on one thread.
        Row { peers: vec![Peer { name: "memcpy".to_owned(), median: memcpy }], ..row }
    };
    let mut outcome = Ok(());
    let mut halves = vec![half::f16::ZERO; CONVERTED];
    let narrow = convert::plan::<f32, half::f16>(&device, CONVERTED)?;
    let to_half = measure(Plan::default(), || {
        outcome = narrow.run(&queue, floats[..].into(), halves[..].as_mut().into());
    });
    drop(halves);
    let integers: Vec<i16> = floats.iter().map(|&x| (x * 65_000.0) as i16).collect();
    let widen = convert::plan::<i16, f32>(&device, CONVERTED)?;
    let to_float = measure(Plan::default(), || {
        outcome = widen.run(&queue, integers[..].into(), copy[..].as_mut().into());
    });
    outcome?;
    Ok(vec![row(to_half, "f32 to f16"), row(to_float, "i16 to f32")])
}

/// Measures a product whose working set must fit in a quarter of its matrices, beside the same
/// product without a limit.
fn chunked(cpu: Cpu) -> Result<Row> {
    let device = Device::Cpu(cpu);
    let shape = Matmul::new(65_536, 512, 512);
    let (a, b) = (noise(shape.m * shape.k), noise(shape.k * shape.n));
    let plan = shape.plan::<f32>(&device)?;
    let mut whole = vec![0f32; shape.m * shape.n];
    let mut chunks = whole.clone();
    let limit = (size_of_val(&a[..]) + size_of_val(&b[..]) + size_of_val(&whole[..])) as u64 / 4;
    let (unlimited, limited) = (Budget::unlimited(), Budget::new(limit, limit));
    let (queue, limited_queue) = (device.queue(&unlimited)?, device.queue(&limited)?);
    let mut outcome = Ok(());
    let once = Plan { warm_up: 1, least: 5, most: 5, ..Plan::default() };
    let time_whole = measure(once, || {
        outcome = plan.run(&queue, a[..].into(), b[..].into(), whole[..].as_mut().into());
    });
    let time_chunks = measure(once, || {
        outcome = plan.run_chunked(&limited_queue, Chunk::fitting(&limited), [&a, &b], &mut chunks).map(drop);
    });
    outcome?;
    if whole != chunks || limited.usage(Space::Host).peak > limit {
        let peak = limited.usage(Space::Host).peak;
        let message = format!("chunked matmul: bits equal {}, peak {peak} of {limit} bytes", whole == chunks);
        return Err(Error::new(ErrorKind::Check, message));
    }
    let row = time_chunks.seconds("runtime/matmul 65536x512x512 in a quarter of its memory");
    Ok(Row { peers: vec![Peer { name: "unlimited".to_owned(), median: time_whole.median }], ..row })
}
