use std::f64::consts::TAU;

use super::*;

const MONO: Layout = Layout { sample_rate: 24_000, n_channels: 1 };
const STEREO: Layout = Layout { sample_rate: 48_000, n_channels: 2 };

fn in_chunks(layout: Layout, speed: f64, samples: &[f32], chunk: usize) -> Vec<f32> {
    let mut stretch = Stretch::new(layout, speed).unwrap();
    let mut output = Vec::new();
    samples.chunks(chunk).for_each(|samples| output.extend_from_slice(stretch.push(samples)));
    output.extend(stretch.finish());
    output
}

fn stretch_all(layout: Layout, speed: f64, samples: &[f32]) -> Vec<f32> {
    in_chunks(layout, speed, samples, samples.len().max(1))
}

fn bits(samples: &[f32]) -> Vec<u32> {
    samples.iter().map(|sample| sample.to_bits()).collect()
}

fn noise(i: usize) -> f64 {
    f64::from((i as u32).wrapping_mul(2_654_435_761) ^ (i as u32) >> 3) / f64::from(u32::MAX) - 0.5
}

/// Returns a gliding voice with a hiss, and near-silent pauses: exact silence has equal likenesses.
fn voice(n: usize) -> Vec<f32> {
    let mut phase = 0.0;
    let sample = |i: usize| {
        phase += TAU * (140.0 + 60.0 * (i as f64 / 5000.0).sin()) / 24_000.0;
        let tone: f64 = (1..12).map(|k| (f64::from(k) * phase).sin() / f64::from(k)).sum();
        let loudness = if i / 4000 % 3 == 2 { 1e-4 } else { 0.2 };
        (loudness * (tone + 0.3 * noise(i))) as f32
    };
    (0..n).map(sample).collect()
}

fn tone(hz: f64, n: usize) -> Vec<f32> {
    (0..n).map(|i| (0.5 * (TAU * hz * i as f64 / 24_000.0).sin()) as f32).collect()
}

/// Returns the share of a signal's power that lies at `hz`.
fn share(samples: &[f32], hz: f64) -> f64 {
    let (mut re, mut im, mut power) = (0.0, 0.0, 0.0);
    for (i, &sample) in samples.iter().enumerate() {
        let (sin, cos) = (TAU * hz * i as f64 / 24_000.0).sin_cos();
        re += f64::from(sample) * cos;
        im += f64::from(sample) * sin;
        power += f64::from(sample) * f64::from(sample);
    }
    2.0 * (re * re + im * im) / (samples.len() as f64 * power)
}

#[test]
fn chunks_change_no_bit() {
    let samples = voice(9000);
    for (layout, speed) in [(MONO, 0.25), (MONO, 0.8), (MONO, 1.25), (MONO, 4.0), (STEREO, 0.7), (STEREO, 3.0)] {
        let expected = bits(&stretch_all(layout, speed, &samples));
        for chunk in [1, 7, 333, 2048] {
            assert!(bits(&in_chunks(layout, speed, &samples, chunk)) == expected, "{speed} in chunks of {chunk}");
        }
    }
}

#[test]
fn the_reference_agrees() {
    let samples = voice(12_000);
    for (layout, speed) in [(MONO, 0.5), (MONO, 0.8), (MONO, 1.25), (MONO, 2.5), (STEREO, 0.8), (STEREO, 1.6)] {
        let n_channels = layout.n_channels;
        let channel = |c| samples.iter().skip(c).step_by(n_channels).map(|&sample| f64::from(sample)).collect();
        let channels: Vec<Vec<f64>> = (0..n_channels).map(channel).collect();
        let expected = reference::stretch(&channels, layout.sample_rate, speed);
        let found = stretch_all(layout, speed, &samples);
        assert_eq!(found.len(), expected[0].len() * n_channels);
        for (i, frame) in found.chunks(n_channels).enumerate() {
            for (found, channel) in frame.iter().zip(&expected) {
                assert!((f64::from(*found) - channel[i]).abs() < 1e-5, "{speed}: {found} at {i}, not {}", channel[i]);
            }
        }
    }
}

#[test]
fn speed_one_is_the_identity() {
    let mut samples = voice(3001);
    samples[5] = f32::NAN;
    samples[6] = f32::INFINITY;
    for layout in [MONO, STEREO] {
        assert_eq!(bits(&in_chunks(layout, 1.0, &samples, 100)), bits(&samples));
    }
    let mut stretch = Stretch::new(MONO, 1.0).unwrap();
    assert_eq!(stretch.push(&[0.5]), [0.5], "at once");
}

#[test]
fn tones_keep_their_pitch() {
    for hz in [60.0, 220.0, 1000.0, 7000.0] {
        for speed in [0.25, 0.8, 1.25, 4.0] {
            let output = stretch_all(MONO, speed, &tone(hz, 24_000));
            let at = |cents: f64| share(&output, hz * (cents / 1200.0).exp2());
            let found = (-12..=12).map(f64::from).max_by(|a, b| at(*a).total_cmp(&at(*b))).unwrap();
            assert!(found.abs() <= 5.0, "{hz} Hz at speed {speed} is {found} cents off");
            assert!(at(found) > 0.99, "{hz} Hz at speed {speed}: {} of the power is the tone", at(found));
        }
    }
}

#[test]
fn lengths_are_the_input_over_the_speed() {
    for n in [0, 1, 2, 15, 16, 239, 240, 359, 360, 600, 601, 1000, 5003] {
        for speed in [0.25, 0.3, 0.8, 0.999, 1.0, 1.001, 1.25, 2.0, 4.0] {
            let output = stretch_all(MONO, speed, &voice(n));
            assert_eq!(output.len(), (n as f64 / speed).round() as usize, "{n} at {speed}");
            assert!(output.iter().all(|sample| sample.abs() < 1.5), "{n} at {speed}");
        }
    }
    let half_a_frame = stretch_all(STEREO, 0.5, &voice(2001));
    assert_eq!(half_a_frame.len(), 4000);
}

#[test]
fn memory_and_delay_are_bounded() {
    let samples = voice(48_000);
    for speed in [0.25, 0.8, 1.25, 4.0] {
        let mut stretch = Stretch::new(MONO, speed).unwrap();
        let mut n_out = 0;
        for (i, chunk) in samples.chunks(240).enumerate() {
            n_out += stretch.push(chunk).len();
            let missing = (i + 1) as f64 * 0.010 - n_out as f64 / 24_000.0 * speed;
            assert!(missing < 0.036 + 0.015 * speed, "{speed}: {missing} s of the input wait");
            assert!(stretch.input.len() < 24_000 / 5, "{speed}: {} samples are kept", stretch.input.len());
        }
    }
}

#[test]
fn silence_stays_silence_and_noise_its_level() {
    assert!(stretch_all(MONO, 0.7, &[0.0; 5000]).iter().all(|sample| sample.to_bits() == 0));
    let hiss: Vec<f32> = (0..24_000).map(|i| noise(i) as f32).collect();
    let level = |samples: &[f32]| 10.0 * (samples.iter().map(|x| x * x).sum::<f32>() / samples.len() as f32).log10();
    for speed in [0.5, 0.8, 1.25, 2.0] {
        let change = level(&stretch_all(MONO, speed, &hiss)) - level(&hiss);
        assert!(change.abs() < 0.3, "{speed}: {change} dB");
    }
}

#[test]
fn nan_stays_where_it_is() {
    for bad in [f32::NAN, f32::INFINITY, f32::MAX] {
        for speed in [0.25, 0.8, 1.25, 4.0] {
            let mut samples = voice(24_000);
            samples[12_000] = bad;
            let output = stretch_all(MONO, speed, &samples);
            let spoilt = |sample: &f32| !sample.is_finite() || sample.abs() > 2.0;
            let at: Vec<f64> = (0..output.len()).filter(|&i| spoilt(&output[i])).map(|i| i as f64 * speed).collect();
            let near = 11_000.0..13_000.0;
            assert!(at.iter().all(|at| near.contains(at)), "{bad} at speed {speed} is heard at {at:?}");
        }
    }
}

#[test]
fn impossible_settings_are_refused() {
    for speed in [0.249, 4.001, 0.0, -1.0, f64::NAN, f64::INFINITY] {
        assert!(Stretch::new(MONO, speed).is_err(), "{speed}");
    }
    for layout in
        [Layout { sample_rate: 0, ..MONO }, Layout { sample_rate: 999, ..MONO }, Layout { n_channels: 0, ..MONO }]
    {
        assert!(Stretch::new(layout, 1.0).is_err(), "{layout:?}");
    }
    let error = Stretch::new(MONO, 5.0).unwrap_err();
    assert_eq!(error.to_string(), "speed 5: it must be from 0.25 to 4");
}
