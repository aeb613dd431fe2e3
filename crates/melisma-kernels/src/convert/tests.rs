use half::{bf16, f16};

use super::sealed::Pair;
use super::{Convert, plan};
use crate::memory::dtype::I24;
use crate::random::SplitMix64;
use crate::suite::{Bench, suite};
use crate::{DType, Element, Tensor};

suite!(
    matches_reference,
    special_floats,
    every_half_round_trips,
    every_integer_round_trips,
    lengths,
    large_outputs_stream,
    wrong_lengths_are_refused,
    graph_replay,
);

/// Converts on the device into an output full of garbage and compares every bit with the reference.
fn check<S: Convert<D>, D: Element>(bench: &Bench, values: &[S]) {
    let expected: Vec<D> = values.iter().map(|&value| value.reference()).collect();
    let src = Tensor::from_slice(&bench.budget, values, &[values.len()]).unwrap();
    let src = src.to(&bench.queue, &bench.budget).unwrap();
    let garbage: Vec<D> = vec![bytemuck::pod_read_unaligned(&[0xa5; 8][..size_of::<D>()]); values.len()];
    let dst = Tensor::from_slice(&bench.budget, &garbage, &[values.len()]).unwrap();
    let mut dst = dst.to(&bench.queue, &bench.budget).unwrap();
    let plan = plan::<S, D>(&bench.device, values.len()).unwrap();
    plan.run(&bench.queue, src.view().unwrap(), dst.view_mut().unwrap()).unwrap();
    let found = dst.to_vec::<D>(&bench.queue).unwrap();
    let bytes = |value: &D| bytemuck::bytes_of(value).to_vec();
    for (index, (found, expected)) in found.iter().zip(&expected).enumerate() {
        assert!(
            bytes(found) == bytes(expected),
            "{}, len {}, index {index}: {:02x?} became {:02x?}, not {:02x?}",
            S::SYMBOL,
            values.len(),
            bytemuck::bytes_of(&values[index]),
            bytes(found),
            bytes(expected),
        );
    }
}

fn check_from_f32(bench: &Bench, values: &[f32]) {
    check::<f32, f16>(bench, values);
    check::<f32, bf16>(bench, values);
    check::<f32, i16>(bench, values);
    check::<f32, I24>(bench, values);
    check::<f32, u8>(bench, values);
}

fn matches_reference(bench: &Bench) {
    let mut random = SplitMix64::new(1);
    let audio: Vec<f32> = (0..4099).map(|_| random.signed() * 1.2).collect();
    check_from_f32(bench, &audio);
    let any_bits: Vec<f32> = (0..4099).map(|_| f32::from_bits(random.bits() as u32)).collect();
    check_from_f32(bench, &any_bits);
}

fn special_floats(bench: &Bench) {
    let mut values = vec![0.0, -0.0, 1.0, -1.0, f32::INFINITY, f32::NEG_INFINITY, f32::MAX, f32::MIN];
    values.extend([f32::NAN, -f32::NAN, f32::from_bits(0x7f80_0001), f32::from_bits(0xffbf_ffff)]);
    values.extend([f32::MIN_POSITIVE, f32::from_bits(1), 65_504.0, 65_519.99, 65_520.0, 5.96e-8, 2.98e-8, 2.99e-8]);
    // Ties: halfway between two neighbours, above an even and above an odd one, for every target.
    for bits in [7, 15, 23] {
        let step = 2f32.powi(-bits);
        values.extend([0.5, 1.5, 2.5, -0.5, -1.5, -2.5].map(|k| k * step));
        values.extend([1.0 - step, 1.0 - step / 2.0, -1.0 - step]);
    }
    for mantissa in [0x1000, 0x3000, 0x8000, 0x1_8000] {
        values.push(f32::from_bits(0x3f80_0000 | mantissa));
    }
    check_from_f32(bench, &values);
}

fn every_half_round_trips(bench: &Bench) {
    let all: Vec<u16> = (0..=u16::MAX).collect();
    check::<f16, f32>(bench, bytemuck::cast_slice(&all));
    check::<bf16, f32>(bench, bytemuck::cast_slice(&all));
}

fn every_integer_round_trips(bench: &Bench) {
    check::<i16, f32>(bench, &(i16::MIN..=i16::MAX).collect::<Vec<_>>());
    check::<u8, f32>(bench, &(0..=u8::MAX).collect::<Vec<_>>());
    let samples: Vec<I24> = (-(1 << 23)..1 << 23).step_by(997).map(I24::from_i32).collect();
    check::<I24, f32>(bench, &samples);
    let exact: Vec<f32> = samples.iter().map(|&sample| sample.reference()).collect();
    check::<f32, I24>(bench, &exact);
}

fn lengths(bench: &Bench) {
    let values = SplitMix64::new(2).floats(300);
    for len in [0, 1, 2, 3, 4, 5, 7, 8, 15, 16, 17, 31, 33, 63, 64, 65, 127, 255, 257, 300] {
        check_from_f32(bench, &values[..len]);
        let integers: Vec<i16> = values[..len].iter().map(|&value| value.reference()).collect();
        check::<i16, f32>(bench, &integers);
        let packed: Vec<I24> = values[..len].iter().map(|&value| value.reference()).collect();
        check::<I24, f32>(bench, &packed);
    }
}

fn large_outputs_stream(bench: &Bench) {
    // The host shim steps through every thread, so it gets a small size; real devices get one
    // beyond the streaming threshold.
    let len = if std::env::var_os("MELISMA_SHIM").is_some() { 70_001 } else { (8 << 20) + 77 };
    let values: Vec<i16> = (0..len).map(|index| (index as u32).wrapping_mul(7919) as i16).collect();
    check::<i16, f32>(bench, &values);
}

/// Arrays of other libraries lie at any address.
#[test]
fn large_outputs_lie_anywhere() {
    let bench = Bench::new(crate::Device::cpu().unwrap());
    let values: Vec<i16> = (0..(8 << 20) + 77).map(|index: u32| index.wrapping_mul(7919) as i16).collect();
    let mut out = vec![f32::NAN; values.len() + 3];
    let plan = plan::<i16, f32>(&bench.device, values.len()).unwrap();
    plan.run(&bench.queue, values[..].into(), out[3..].as_mut().into()).unwrap();
    assert!(out[3..].iter().zip(&values).all(|(found, value)| *found == f32::from(*value) / 32_768.0));
}

fn wrong_lengths_are_refused(bench: &Bench) {
    let plan = plan::<f32, f16>(&bench.device, 8).unwrap();
    let src = Tensor::new(&bench.device, &bench.budget, DType::F32, &[7]).unwrap();
    let mut dst = Tensor::new(&bench.device, &bench.budget, DType::F16, &[8]).unwrap();
    let refused = plan.run(&bench.queue, src.view().unwrap(), dst.view_mut().unwrap()).unwrap_err();
    assert!(refused.to_string().contains("8 elements, the view has 7"), "{refused}");
}

struct Chain {
    first: super::Plan<f32, f16>,
    second: super::Plan<f16, f32>,
    input: Tensor,
    middle: Tensor,
    output: Tensor,
}

fn run_chain(queue: &crate::Queue, chain: &mut Chain) -> crate::Result<()> {
    chain.first.run(queue, chain.input.view()?, chain.middle.view_mut()?)?;
    chain.second.run(queue, chain.middle.view()?, chain.output.view_mut()?)
}

fn graph_replay(bench: &Bench) {
    let len = 1000;
    let tensor = |dtype| Tensor::new(&bench.device, &bench.budget, dtype, &[len]).unwrap();
    let chain = Chain {
        first: plan(&bench.device, len).unwrap(),
        second: plan(&bench.device, len).unwrap(),
        input: tensor(DType::F32),
        middle: tensor(DType::F16),
        output: tensor(DType::F32),
    };
    let mut graph = crate::Graph::capture(&bench.queue, chain, run_chain).unwrap();
    for seed in 0..3 {
        let values = SplitMix64::new(seed).floats(len);
        bench.queue.copy(values.as_slice().into(), graph.state_mut().input.view_mut().unwrap()).unwrap();
        graph.launch(&bench.queue).unwrap();
        let replayed = graph.state().output.to_vec::<f32>(&bench.queue).unwrap();
        run_chain(&bench.queue, graph.state_mut()).unwrap();
        let plain = graph.state().output.to_vec::<f32>(&bench.queue).unwrap();
        assert_eq!(replayed, plain);
        let expected: Vec<f32> = values.iter().map(|&x| f16::from_f32(x).to_f32()).collect();
        assert_eq!(plain, expected);
    }
}
