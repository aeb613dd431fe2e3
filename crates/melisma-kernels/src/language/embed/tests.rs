use half::{bf16, f16};

use super::{plan, reference};
use crate::Device;
use crate::language::numbers::Numbers;
use crate::language::weight::{Weight, stored};
use crate::random::SplitMix64;
use crate::suite::{Bench, suite};

suite!(matches_reference, many_tokens, worked_example, nothing, refusals);

fn sent(bench: &Bench, tokens: &[u32]) -> Numbers {
    let mut numbers = Numbers::new(&bench.device, 8, &bench.budget).unwrap();
    numbers.extend(tokens.iter().copied());
    numbers.send(&bench.queue).unwrap();
    numbers
}

fn run(bench: &Bench, weight: &Weight, tokens: &[u32]) -> Vec<f32> {
    let mut y = bench.tensor(&vec![f32::NAN; tokens.len() * weight.shape()[1]]);
    let plan = plan(&bench.device, weight, &bench.budget).unwrap();
    plan.run(&bench.queue, &sent(bench, tokens), y.view_mut().unwrap()).unwrap();
    y.to_vec(&bench.queue).unwrap()
}

fn matches_reference(bench: &Bench) {
    let tokens = [3, 0, 9, 3, 3];
    let widths: &[usize] = if let Device::Cuda(_) = bench.device { &[8, 64, 2056] } else { &[1, 33, 64] };
    for &n_channels in widths {
        let floats: Vec<bf16> = SplitMix64::new(1).floats(10 * n_channels).iter().map(|&x| bf16::from_f32(x)).collect();
        let exact: Vec<f32> = floats.iter().map(|x| x.to_f32()).collect();
        let halves: Vec<f16> = exact.iter().map(|&x| f16::from_f32(x)).collect();
        let expected = reference::embed(&exact, n_channels, &tokens);
        let shape = [10, n_channels];
        assert_eq!(run(bench, &Weight::of(&floats, shape, &bench.budget).unwrap(), &tokens), expected);
        assert_eq!(run(bench, &Weight::of(&exact, shape, &bench.budget).unwrap().rounded(), &tokens), expected);
        if let Device::Cuda(_) = bench.device {
            continue;
        }
        let rounded: Vec<f32> = halves.iter().map(|x| x.to_f32()).collect();
        let expected = reference::embed(&rounded, n_channels, &tokens);
        assert_eq!(run(bench, &Weight::of(&halves, shape, &bench.budget).unwrap(), &tokens), expected);
    }
}

/// More numbers than the first copy on a GPU holds, and then fewer.
fn many_tokens(bench: &Bench) {
    let (weight, exact) = stored(bench, &SplitMix64::new(2).floats(300 * 8), [300, 8]);
    let plan = plan(&bench.device, &weight, &bench.budget).unwrap();
    let mut numbers = Numbers::new(&bench.device, 8, &bench.budget).unwrap();
    for n in [10, 300, 3] {
        let tokens: Vec<u32> = (0..n).map(|n| n * 7 % 300).collect();
        numbers.clear();
        numbers.extend(tokens.iter().copied());
        numbers.send(&bench.queue).unwrap();
        let mut y = bench.tensor(&vec![f32::NAN; tokens.len() * 8]);
        plan.run(&bench.queue, &numbers, y.view_mut().unwrap()).unwrap();
        assert_eq!(y.to_vec::<f32>(&bench.queue).unwrap(), reference::embed(&exact, 8, &tokens));
    }
}

fn worked_example(bench: &Bench) {
    let (weight, _) = stored(bench, &[[1.0; 4], [2.0; 4], [3.0; 4], [4.0; 4]].concat(), [2, 8]);
    assert_eq!(run(bench, &weight, &[1, 0]), [[3.0; 4], [4.0; 4], [1.0; 4], [2.0; 4]].concat());
}

fn nothing(bench: &Bench) {
    let (weight, _) = stored(bench, &[1.0; 16], [2, 8]);
    assert!(run(bench, &weight, &[]).is_empty());
}

fn refusals(bench: &Bench) {
    let (weight, _) = stored(bench, &[1.0; 16], [2, 8]);
    let on = plan(&bench.device, &weight, &bench.budget).unwrap();
    let mut y = bench.tensor(&[0.0f32; 16]);
    let refused = on.run(&bench.queue, &sent(bench, &[1, 2]), y.view_mut().unwrap()).unwrap_err();
    assert!(refused.to_string().contains("token 2 of a vocabulary of 2"));
    assert!(on.run(&bench.queue, &sent(bench, &[1]), y.view_mut().unwrap()).is_err());
    if let Device::Cuda(_) = bench.device {
        let odd = Weight::of(&[1.0f32; 4], [2, 2], &bench.budget).unwrap().rounded();
        assert!(plan(&bench.device, &odd, &bench.budget).unwrap_err().to_string().contains("2 channels"));
        let mut numbers = sent(bench, &[0, 1]);
        numbers.clear();
        numbers.extend([0, 1]);
        let refused = on.run(&bench.queue, &numbers, y.view_mut().unwrap()).unwrap_err();
        assert!(refused.to_string().contains("not sent"), "{refused}");
    }
}
