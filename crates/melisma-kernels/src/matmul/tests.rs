use half::{bf16, f16};

use super::reference::{chain, matmul};
use super::{Chunk, Matmul, Scalar};
use crate::random::SplitMix64;
use crate::suite::{Bench, suite};
use crate::{Budget, Cpu, Device, ErrorKind, Isa, Space, Tensor};

suite!(
    matches_reference_f32,
    matches_reference_half,
    empty_and_single,
    special_floats,
    chunks_give_the_bits_of_the_whole,
    chunks_stay_in_the_budget,
    graph_replay,
);

/// Odd sizes around every block and tile edge, skinny and flat ones, and one of two panels.
const SHAPES: [(usize, usize, usize); 13] = [
    (1, 1, 1),
    (1, 7, 33),
    (12, 16, 32),
    (13, 5, 31),
    (3, 300, 65),
    (50, 257, 40),
    (97, 64, 1),
    (1, 512, 100),
    (48, 255, 96),
    (31, 129, 77),
    (64, 24, 8),
    (7, 513, 9),
    (2, 3, 1100),
];

fn storage<T: Scalar>(values: &[f32]) -> Vec<T> {
    let mut stored = vec![T::zeroed(); values.len()];
    T::narrow(Isa::SCALAR, values, &mut stored);
    stored
}

fn floats<T: Scalar>(values: &[T]) -> Vec<f32> {
    let mut floats = vec![0.0; values.len()];
    T::widen(Isa::SCALAR, values, &mut floats);
    floats
}

/// Runs on the device into an output full of garbage.
fn run<T: Scalar>(bench: &Bench, shape: Matmul, a: &[T], b: &[T]) -> Vec<T> {
    let (a, b) = (bench.tensor(a), bench.tensor(b));
    let mut c = bench.tensor(&storage::<T>(&vec![f32::NAN; shape.m * shape.n]));
    let plan = shape.plan::<T>(&bench.device).unwrap();
    plan.run(&bench.queue, a.view().unwrap(), b.view().unwrap(), c.view_mut().unwrap()).unwrap();
    c.to_vec(&bench.queue).unwrap()
}

fn inputs<T: Scalar>(shape: Matmul) -> (Vec<T>, Vec<T>) {
    let mut random = SplitMix64::new((shape.m * 31 + shape.k * 7 + shape.n) as u64);
    (storage(&random.floats(shape.m * shape.k)), storage(&random.floats(shape.k * shape.n)))
}

/// `relative` is the error of one rounding of the result; sums add at most `k` roundings of f32.
fn check<T: Scalar>(bench: &Bench, shape: Matmul, relative: f64) {
    let (a, b) = inputs::<T>(shape);
    let expected = matmul(shape, &floats(&a), &floats(&b));
    let found = floats(&run(bench, shape, &a, &b));
    let rounding = f64::from(f32::EPSILON) * shape.k as f64;
    for (index, (&found, &expected)) in found.iter().zip(&expected).enumerate() {
        let error = (f64::from(found) - expected).abs();
        assert!(error <= rounding + relative * expected.abs(), "{shape:?}, index {index}: {found}, not {expected}");
    }
}

fn matches_reference_f32(bench: &Bench) {
    for (m, k, n) in SHAPES {
        let shape = Matmul::new(m, k, n);
        check::<f32>(bench, shape, f64::from(f32::EPSILON));
        if matches!(bench.device, Device::Cpu(_)) {
            let (a, b) = inputs::<f32>(shape);
            assert_eq!(run(bench, shape, &a, &b), chain(shape, &a, &b), "{shape:?}: not the promised chain");
        }
    }
}

fn matches_reference_half(bench: &Bench) {
    for (m, k, n) in SHAPES {
        check::<f16>(bench, Matmul::new(m, k, n), 2f64.powi(-11));
        check::<bf16>(bench, Matmul::new(m, k, n), 2f64.powi(-8));
    }
}

fn empty_and_single(bench: &Bench) {
    for (m, k, n) in [(0, 3, 4), (3, 0, 4), (3, 4, 0), (0, 0, 0)] {
        let shape = Matmul::new(m, k, n);
        let (a, b) = inputs::<f32>(shape);
        assert_eq!(run(bench, shape, &a, &b), vec![0.0; m * n], "{shape:?}");
        let (a, b) = inputs::<f16>(shape);
        assert_eq!(run(bench, shape, &a, &b), vec![f16::ZERO; m * n], "{shape:?}");
    }
    assert_eq!(run(bench, Matmul::new(1, 1, 1), &[3.0f32], &[-2.0]), [-6.0]);
    assert!(Matmul::new(usize::MAX, 2, 2).plan::<f32>(&bench.device).is_err());
}

fn special_floats(bench: &Bench) {
    let a = [f32::INFINITY, 1.0, f32::NAN, 0.0];
    let c = run(bench, Matmul::new(2, 2, 1), &a, &[1.0, 2.0]);
    assert_eq!(c[0], f32::INFINITY);
    assert!(c[1].is_nan());
    // Zero padding must not be multiplied with an infinity.
    let row: Vec<f16> = (0..5).map(|_| f16::INFINITY).collect();
    assert_eq!(run(bench, Matmul::new(1, 5, 3), &row, &[f16::ONE; 15]), [f16::INFINITY; 3]);
}

fn chunks_give_the_bits_of_the_whole(bench: &Bench) {
    let shape = Matmul::new(1000, 96, 40);
    let (a, b) = inputs::<f32>(shape);
    let whole = run(bench, shape, &a, &b);
    let plan = shape.plan::<f32>(&bench.device).unwrap();
    for rows in [64, 333, 1000] {
        let slots = 2 * rows as u64 * (shape.k + shape.n) as u64 * 4;
        let budget = Budget::new(slots + (1 << 20), slots + size_of_val(&b[..]) as u64 + (1 << 14));
        for most_rows in [usize::MAX, 70] {
            let mut c = vec![f32::NAN; whole.len()];
            let chunk = Chunk { budget: &budget, most_rows };
            let rows = plan.run_chunked(&bench.queue, chunk, [&a, &b], &mut c).unwrap();
            assert!(rows <= most_rows);
            assert_eq!(c, whole, "chunks of {rows} rows");
        }
    }
}

fn chunks_stay_in_the_budget(bench: &Bench) {
    let shape = Matmul::new(2048, 64, 64);
    let (a, b) = inputs::<f32>(shape);
    let quarter = (size_of_val(&a[..]) * 2 + size_of_val(&b[..])) as u64 / 4;
    let budget = Budget::new(quarter, quarter);
    let device = bench.device.clone();
    let queue = device.queue(&budget).unwrap();
    let mut c = vec![0.0; shape.m * shape.n];
    let plan = shape.plan::<f32>(&device).unwrap();
    plan.run_chunked(&queue, Chunk::fitting(&budget), [&a, &b], &mut c).unwrap();
    assert!(Space::ALL.iter().all(|&space| budget.usage(space).peak <= quarter));
    let tight = Budget::new(1000, 1000);
    let refused =
        device.queue(&tight).and_then(|queue| plan.run_chunked(&queue, Chunk::fitting(&tight), [&a, &b], &mut c));
    assert_eq!(refused.unwrap_err().kind(), ErrorKind::Memory);
}

struct Product {
    plan: super::Plan<f16>,
    a: Tensor,
    b: Tensor,
    c: Tensor,
}

fn multiply(queue: &crate::Queue, product: &mut Product) -> crate::Result<()> {
    product.plan.run(queue, product.a.view()?, product.b.view()?, product.c.view_mut()?)
}

fn graph_replay(bench: &Bench) {
    let shape = Matmul::new(33, 20, 12);
    let (a, b) = inputs::<f16>(shape);
    let c = vec![f16::NAN; shape.m * shape.n];
    let mut product = Product {
        plan: shape.plan(&bench.device).unwrap(),
        a: bench.tensor::<f16>(&a),
        b: bench.tensor::<f16>(&b),
        c: bench.tensor::<f16>(&c),
    };
    multiply(&bench.queue, &mut product).unwrap();
    let plain = product.c.to_vec::<f16>(&bench.queue).unwrap();
    let mut graph = crate::Graph::capture(&bench.queue, product, multiply).unwrap();
    bench.queue.copy(c.as_slice().into(), graph.state_mut().c.view_mut().unwrap()).unwrap();
    graph.launch(&bench.queue).unwrap();
    assert_eq!(graph.state().c.to_vec::<f16>(&bench.queue).unwrap(), plain);
}

/// Threads and instruction sets cannot change a bit.
#[test]
fn one_chain_on_every_cpu() {
    let shape = Matmul::new(101, 300, 71);
    let (a, b) = inputs::<f32>(shape);
    let expected = chain(shape, &a, &b);
    for isa in Isa::available() {
        for threads in [1, 2, 3, 8] {
            let device = Device::Cpu(Cpu { isa, threads });
            let budget = Budget::unlimited();
            let queue = device.queue(&budget).unwrap();
            let mut c = vec![0.0; expected.len()];
            let plan = shape.plan::<f32>(&device).unwrap();
            plan.run(&queue, a.as_slice().into(), b.as_slice().into(), c.as_mut_slice().into()).unwrap();
            assert_eq!(c, expected, "{isa:?}, {threads} threads");
        }
    }
}
