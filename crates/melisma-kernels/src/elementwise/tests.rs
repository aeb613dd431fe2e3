use super::{Operand, Operation, plan, reference};
use crate::Tensor;
use crate::random::SplitMix64;
use crate::suite::{Bench, suite};

suite!(matches_reference, special_numbers, lengths, wrong_lengths_are_refused);

/// Compares every bit; all NaNs are equal.
fn check(bench: &Bench, y: &[f32], x: &[f32]) {
    for operation in Operation::ALL {
        let plan = plan(&bench.device, operation).unwrap();
        let same = |found: Vec<f32>, other: &dyn Fn(usize) -> f32| {
            for (index, found) in found.into_iter().enumerate() {
                let expected = reference::apply(operation, y[index], other(index));
                let equal = found.to_bits() == expected.to_bits() || (found.is_nan() && expected.is_nan());
                assert!(equal, "{operation:?}, n {}, index {index}: {found}, not {expected}", y.len());
            }
        };
        let mut out = bench.tensor::<f32>(y);
        plan.run(&bench.queue, out.view_mut().unwrap(), Operand::Each(bench.tensor::<f32>(x).view().unwrap())).unwrap();
        same(out.to_vec(&bench.queue).unwrap(), &|index| x[index]);
        for scalar in [x.first().copied().unwrap_or(0.5), 0.0, -2.5] {
            let mut out = bench.tensor::<f32>(y);
            plan.run(&bench.queue, out.view_mut().unwrap(), Operand::All(scalar)).unwrap();
            same(out.to_vec(&bench.queue).unwrap(), &|_| scalar);
        }
    }
}

fn matches_reference(bench: &Bench) {
    let mut random = SplitMix64::new(7);
    let (y, x) = (random.floats(70_003), random.floats(70_003));
    check(bench, &y, &x);
}

fn special_numbers(bench: &Bench) {
    let odd = [0.0, -0.0, 1.0, f32::INFINITY, f32::NEG_INFINITY, f32::NAN, f32::MAX, f32::MIN_POSITIVE, 1e-45];
    let y: Vec<f32> = odd.iter().flat_map(|&y| [y; 9]).collect();
    let x: Vec<f32> = odd.iter().cycle().take(81).copied().collect();
    check(bench, &y, &x);
}

fn lengths(bench: &Bench) {
    let values = SplitMix64::new(3).floats(64);
    for len in [0, 1, 3, 15, 16, 17, 31, 33, 64] {
        check(bench, &values[..len], &values[64 - len..]);
    }
}

fn wrong_lengths_are_refused(bench: &Bench) {
    let tensor = |len: usize| Tensor::new(&bench.device, &bench.budget, crate::DType::F32, &[len]).unwrap();
    let plan = plan(&bench.device, Operation::Add).unwrap();
    let refused = plan.run(&bench.queue, tensor(8).view_mut().unwrap(), Operand::Each(tensor(7).view().unwrap()));
    assert!(refused.unwrap_err().to_string().contains("8 elements, the view has 7"));
}
