use super::reference::conv;
use super::{Conv, Curve};
use crate::random::SplitMix64;
use crate::suite::{Bench, cpu_suite};
use crate::{Cpu, Device};

cpu_suite!(
    matches_reference,
    strides_and_dilations,
    signals,
    model_values,
    few_positions_have_the_same_bits,
    one_element,
    special_values,
    empty,
    threads_give_the_same_bits,
    worked_example,
    refusals,
);

/// Channels, outputs, taps, strides, dilations, padding before and after.
#[derive(Clone, Copy)]
struct Case {
    channels: [usize; 2],
    kernel: [usize; 2],
    strides: [usize; 2],
    dilations: [usize; 2],
    before: [usize; 2],
    after: [usize; 2],
    curve: Curve,
}

const PLAIN: Case = Case {
    channels: [1, 1],
    kernel: [1, 1],
    strides: [1, 1],
    dilations: [1, 1],
    before: [0, 0],
    after: [0, 0],
    curve: Curve::Identity,
};

impl Case {
    fn layer<'a>(&self, weight: &'a [f32], bias: &'a [f32]) -> Conv<'a> {
        let Case { channels: [n_in, n_out], kernel, strides, dilations, before, after, curve } = *self;
        Conv { n_in, n_out, kernel, strides, dilations, before, after, weight, bias, curve }
    }

    fn weight_len(&self) -> usize {
        self.channels[0] * self.channels[1] * self.kernel[0] * self.kernel[1]
    }
}

fn run(bench: &Bench, layer: &Conv<'_>, size: [usize; 2], x: &[f32]) -> Vec<f32> {
    let plan = layer.plan(&bench.device, &bench.budget).unwrap();
    let output = plan.output_size(size).unwrap();
    let n_images = x.len() / (layer.n_in * size[0] * size[1]).max(1);
    let mut y = vec![f32::NAN; n_images * layer.n_out * output[0] * output[1]];
    plan.run(&bench.queue, size, x.into(), y.as_mut_slice().into()).unwrap();
    y
}

fn check(bench: &Bench, case: Case, size: [usize; 2], n_images: usize) {
    let mut random = SplitMix64::new(size[1] as u64 + 1);
    let (weight, bias) = (random.floats(case.weight_len()), random.floats(case.channels[1]));
    let layer = case.layer(&weight, &bias);
    let image_len = case.channels[0] * size[0] * size[1];
    let x = random.floats(n_images * image_len);
    let found = run(bench, &layer, size, &x);
    let output = layer.plan(&bench.device, &bench.budget).unwrap().output_size(size).unwrap();
    let expected: Vec<f64> = x.chunks(image_len).flat_map(|x| conv(&layer, size, output, x)).collect();
    assert_eq!(found.len(), expected.len(), "{layer:?} {size:?}");
    let scale = expected.iter().fold(1e-30f64, |most, value| most.max(value.abs()));
    for (at, (found, expected)) in found.iter().zip(&expected).enumerate() {
        let error = (f64::from(*found) - expected).abs();
        assert!(
            error <= 1e-5 * scale,
            "{:?} {:?} {size:?} at {at}: {found}, not {expected}",
            case.channels,
            case.kernel
        );
    }
}

fn matches_reference(bench: &Bench) {
    for n_out in 1..=19 {
        let case = Case { channels: [3, n_out], kernel: [3, 3], before: [1, 1], after: [1, 1], ..PLAIN };
        check(bench, case, [5, 37], 2);
    }
    let uneven = Case { channels: [2, 9], kernel: [2, 4], before: [0, 3], after: [2, 1], curve: Curve::Relu, ..PLAIN };
    check(bench, uneven, [9, 33], 3);
    check(bench, Case { channels: [40, 11], ..PLAIN }, [7, 31], 1);
}

fn strides_and_dilations(bench: &Bench) {
    for strides in [[1, 2], [2, 1], [3, 3], [2, 5]] {
        for dilations in [[1, 1], [2, 3], [1, 2]] {
            let case =
                Case { channels: [2, 5], kernel: [3, 4], strides, dilations, before: [2, 1], after: [1, 4], ..PLAIN };
            check(bench, case, [12, 29], 1);
        }
    }
}

fn signals(bench: &Bench) {
    let signal = |channels, taps, stride| Case { channels, kernel: [1, taps], strides: [1, stride], ..PLAIN };
    check(bench, signal([1, 1], 256, 2), [1, 4000], 1);
    check(bench, signal([1, 36], 256, 128), [1, 2000], 2);
    check(bench, signal([1, 3], 1, 7), [1, 100], 1);
    check(bench, Case { before: [0, 9], after: [0, 9], ..signal([4, 6], 3, 1) }, [1, 2], 1);
}

/// Parts of DNSMOS, Basic Pitch and Silero's voice activity detector.
fn model_values(bench: &Bench) {
    let same = |channels, kernel: [usize; 2]| Case {
        channels,
        kernel,
        before: kernel.map(|n| n / 2),
        after: kernel.map(|n| n / 2),
        ..PLAIN
    };
    check(bench, Case { curve: Curve::Relu, ..same([16, 24], [3, 3]) }, [40, 161], 1);
    check(bench, same([8, 8], [3, 39]), [6, 264], 1);
    check(bench, same([8, 1], [5, 5]), [17, 88], 1);
    check(bench, Case { strides: [1, 3], before: [3, 2], after: [3, 2], ..same([1, 32], [7, 7]) }, [11, 264], 1);
    check(bench, Case { kernel: [1, 256], strides: [1, 128], channels: [1, 258], ..PLAIN }, [1, 640], 1);
    check(
        bench,
        Case { before: [0, 1], after: [0, 1], strides: [1, 2], kernel: [1, 3], channels: [128, 64], ..PLAIN },
        [1, 4],
        1,
    );
}

/// Few positions, many outputs, against the same positions among many.
fn few_positions_have_the_same_bits(bench: &Bench) {
    for (channels, kernel, columns) in
        [([3, 70], [1, 3], 4), ([2, 129], [2, 2], 3), ([5, 17], [1, 1], 1), ([1, 64], [1, 2], 8)]
    {
        let case = Case { channels, kernel, curve: Curve::Relu, ..PLAIN };
        let narrow = [kernel[0], columns + kernel[1] - 1];
        check(bench, case, narrow, 2);
        let mut random = SplitMix64::new(9);
        let (weight, bias) = (random.floats(case.weight_len()), random.floats(channels[1]));
        let (layer, wide) = (case.layer(&weight, &bias), [narrow[0], narrow[1] + 50]);
        let x = random.floats(channels[0] * wide[0] * wide[1]);
        let cut: Vec<f32> = x.chunks(wide[1]).flat_map(|row| &row[..narrow[1]]).copied().collect();
        let (found, whole) = (run(bench, &layer, narrow, &cut), run(bench, &layer, wide, &x));
        for (found, whole) in found.chunks(columns).zip(whole.chunks(columns + 50)) {
            assert_eq!(found, &whole[..columns], "{channels:?}");
        }
    }
}

fn one_element(bench: &Bench) {
    check(bench, PLAIN, [1, 1], 1);
    check(bench, Case { kernel: [3, 3], before: [1, 1], after: [1, 1], ..PLAIN }, [1, 1], 1);
}

fn special_values(bench: &Bench) {
    let layer = Case { curve: Curve::Relu, ..PLAIN }.layer(&[1.0], &[0.0]);
    let x = [f32::NAN, f32::INFINITY, f32::NEG_INFINITY, -0.5, 2.0];
    let y = run(bench, &layer, [1, 5], &x);
    assert!(y[0].is_nan());
    assert_eq!(y[1..], [f32::INFINITY, 0.0, 0.0, 2.0]);
    // Padding is 0, even beside values that are not finite.
    let padded = Case { kernel: [1, 3], before: [0, 1], after: [0, 1], ..PLAIN };
    assert_eq!(run(bench, &padded.layer(&[1.0; 3], &[0.0]), [1, 1], &[f32::INFINITY]), [f32::INFINITY]);
}

fn empty(bench: &Bench) {
    let case = Case { channels: [2, 3], ..PLAIN };
    let (weight, bias) = (vec![1.0; case.weight_len()], [0.0; 3]);
    assert!(run(bench, &case.layer(&weight, &bias), [4, 4], &[]).is_empty());
    let padded = Case { kernel: [1, 2], before: [0, 1], after: [0, 1], ..PLAIN }.layer(&[1.0; 2], &[3.0]);
    let plan = padded.plan(&bench.device, &bench.budget).unwrap();
    let mut y = [0.0; 2];
    plan.run(&bench.queue, [2, 0], [][..].into(), y[..].as_mut().into()).unwrap();
    assert_eq!(y, [3.0; 2], "an image of nothing is all padding");
}

fn threads_give_the_same_bits(bench: &Bench) {
    let Device::Cpu(cpu) = bench.device else { return };
    let case = Case { channels: [24, 20], kernel: [3, 3], before: [1, 1], after: [1, 1], ..PLAIN };
    let mut random = SplitMix64::new(3);
    let (weight, bias) = (random.floats(case.weight_len()), random.floats(20));
    let (layer, x) = (case.layer(&weight, &bias), random.floats(24 * 90 * 50));
    let all = [1, 2, 5].map(|threads| {
        let device = Device::Cpu(Cpu { threads, ..cpu });
        let queue = device.queue(&bench.budget).unwrap();
        run(&Bench { device, queue, budget: bench.budget.clone() }, &layer, [90, 50], &x)
    });
    assert!(all.iter().all(|y| y.iter().zip(&all[0]).all(|(a, b)| a.to_bits() == b.to_bits())));
}

fn worked_example(bench: &Bench) {
    let case = Case { kernel: [1, 2], strides: [1, 2], ..PLAIN };
    assert_eq!(run(bench, &case.layer(&[1.0, 10.0], &[0.0]), [1, 4], &[1.0, 2.0, 3.0, 4.0]), [21.0, 43.0]);
}

fn refusals(bench: &Bench) {
    let plan = |layer: Conv<'_>| layer.plan(&bench.device, &bench.budget);
    let refusal = |layer: Conv<'_>| plan(layer).unwrap_err().to_string();
    assert!(refusal(PLAIN.layer(&[], &[0.0])).contains("weight"));
    assert!(refusal(PLAIN.layer(&[1.0], &[])).contains("bias"));
    assert!(refusal(Case { strides: [0, 1], ..PLAIN }.layer(&[1.0], &[0.0])).contains("strides"));
    assert!(refusal(Case { channels: [0, 1], ..PLAIN }.layer(&[], &[0.0])).contains("have a 0"));
    let far = Case { kernel: [1, 2], dilations: [1, usize::MAX], ..PLAIN };
    assert!(refusal(far.layer(&[1.0; 2], &[0.0])).contains("reach"));
    let layer = plan(Case { kernel: [3, 3], ..PLAIN }.layer(&[1.0; 9], &[0.0])).unwrap();
    assert!(layer.output_size([2, 9]).unwrap_err().to_string().contains("too small"));
    let mut y = [0.0];
    let short = layer.run(&bench.queue, [3, 3], [0.0; 8][..].into(), y[..].as_mut().into());
    assert!(short.unwrap_err().to_string().contains("conv: x"));
}
