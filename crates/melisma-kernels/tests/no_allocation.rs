//! After warm-up the hot paths allocate nothing. A program of its own, because it counts every allocation of its process.

mod counting;

use counting::allocations;
use half::f16;
use melisma_kernels::layer::residual::Residual;
use melisma_kernels::layer::step::{Activations, Arena, Rounding, Row, Rows, Step, Timeline};
use melisma_kernels::matmul::Matmul;
use melisma_kernels::rans::{Decoder, Encoder, Split};
use melisma_kernels::{Budget, Cpu, DType, Device, Isa, Tensor, convert};

/// One test, so that no other thread allocates meanwhile.
#[test]
fn hot_paths_allocate_nothing_after_warm_up() {
    let budget = Budget::unlimited();
    for isa in Isa::available() {
        for threads in [1, 2] {
            let device = Device::Cpu(Cpu { isa, threads });
            let queue = device.queue(&budget).unwrap();
            let pool = queue.pool(&budget);
            let shape = Matmul::new(100, 300, 70);
            let product = shape.plan::<f16>(&device).unwrap();
            let widen = convert::plan::<f16, f32>(&device, shape.m * shape.n).unwrap();
            let tensor = |dtype, rows, columns| Tensor::new(&device, &budget, dtype, &[rows, columns]).unwrap();
            let a = tensor(DType::F16, shape.m, shape.k);
            let b = tensor(DType::F16, shape.k, shape.n);
            let mut c = tensor(DType::F16, shape.m, shape.n);
            let (rate, n, mix) = (8, 64, vec![0.01; 64 * 64]);
            let unit = Residual {
                n_channels: n,
                dilation: 3,
                alpha: &[1.0; 64],
                wide: &mix[..n * 7],
                wide_bias: &[0.0; 64],
                mix_alpha: &[1.0; 64],
                mix: &mix,
                mix_bias: &[0.0; 64],
                timeline: Timeline { rate, lag: 9 },
                rounding: Rounding::Off,
            };
            let unit = unit.plan(&device, &budget).unwrap();
            let mut rows = Rows::new(&device, &budget, 2, 2).unwrap();
            let mut state = tensor(DType::F32, 2, unit.state_len());
            let (x, mut y) = (tensor(DType::F32, 2 * 4 * rate, n), tensor(DType::F32, 2 * 4 * rate, n));
            let mut n_steps = 0;
            let mut work = || {
                let row = |slot| Row { slot, n_steps, start: 4 * n_steps, ..Row::default() };
                rows.set(&queue, &[row(1), row(0)]).unwrap();
                n_steps += 1;
                let step = Step { rows: &rows, n_latents: 4 };
                let arena = Arena { floats: state.view_mut().unwrap(), slot_len: unit.state_len(), offset: 0 };
                let activations = Activations { x: x.view().unwrap(), y: y.view_mut().unwrap() };
                unit.run(&queue, step, arena, activations).unwrap();
                product.run(&queue, a.view().unwrap(), b.view().unwrap(), c.view_mut().unwrap()).unwrap();
                let mut floats = pool.take(shape.m * shape.n * 4).unwrap();
                widen.run(&queue, c.view().unwrap(), floats.view_mut().unwrap()).unwrap();
                let _second = pool.take(1000).unwrap();
            };
            work();
            let before = allocations();
            (0..100).for_each(|_| work());
            assert_eq!(allocations() - before, 0, "{isa:?}, {threads} threads");
        }
    }
    tiles_allocate_nothing();
    let before = allocations();
    drop(std::hint::black_box(vec![1u8; 100]));
    assert_eq!(allocations() - before, 1, "the counter counts");
}

/// Encoders and decoders, after the first tile.
fn tiles_allocate_nothing() {
    let weights: Vec<u8> = (0..300_000u32)
        .flat_map(|i| f16::from_f32((i.wrapping_mul(2_654_435_761) >> 8) as f32).to_le_bytes())
        .collect();
    for isa in Isa::available() {
        let (mut encoder, mut decoder) = (Encoder::new(isa), Decoder::new(isa));
        let (mut record, mut out) = (Vec::new(), vec![0; weights.len()]);
        for split in [Split::BrainFloat16, Split::Bytes2, Split::Float32, Split::Bytes1] {
            let mut work = || {
                record.clear();
                let tile = encoder.encode(split, 1, &weights, &mut record).expect("a record");
                decoder.decode(split, 1, &tile, &record, &mut out).expect("a tile");
            };
            work();
            let before = allocations();
            (0..3).for_each(|_| work());
            assert_eq!(allocations() - before, 0, "{isa:?}, {split:?}");
        }
    }
}
