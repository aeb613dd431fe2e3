use super::*;

/// A stereo sine of `db` and `seconds`, appended; the phase goes on.
fn tone(meter: &mut Meter, rate: u32, db: f64, seconds: f64) {
    let n = (seconds * f64::from(rate)).round() as usize;
    let size = 10f64.powf(db / 20.0);
    let sample = |i: usize| (size * (2.0 * PI * 1000.0 * (i as f64) / f64::from(rate)).sin()) as f32;
    let samples: Vec<f32> = (0..n).map(sample).collect();
    for part in samples.chunks(777) {
        meter.push(part, part);
    }
}

#[test]
fn the_momentary_loudness_is_that_of_the_last_400_ms() {
    let mut meter = Meter::new(48_000);
    assert_eq!(meter.momentary(), None);
    tone(&mut meter, 48_000, -23.0, 1.0);
    assert!((meter.momentary().unwrap() + 23.0).abs() < 0.1);
    meter.forget();
    assert_eq!(meter.peak_dbtp().map(|peak| peak < -20.0), Some(true), "the filter's tail");
    tone(&mut meter, 48_000, -33.0, 0.5);
    assert!((meter.momentary().unwrap() + 33.0).abs() < 0.1);
    meter.forget();
    tone(&mut meter, 48_000, -33.0, 0.5);
    assert!((meter.peak_dbtp().unwrap() + 33.0).abs() < 0.1, "the louder tone is forgotten");
    meter.push(&[0.0; 48_000], &[0.0; 48_000]);
    assert_eq!(meter.momentary(), None);
}

/// EBU Tech 3341, cases 1 to 5: stereo tones of 1 kHz, ±0.1 LU.
#[test]
fn the_tones_of_ebu_3341() {
    let cases: [(&[(f64, f64)], f64); 5] = [
        (&[(-23.0, 20.0)], -23.0),
        (&[(-33.0, 20.0)], -33.0),
        (&[(-36.0, 10.0), (-23.0, 60.0), (-36.0, 10.0)], -23.0),
        (&[(-72.0, 10.0), (-36.0, 10.0), (-23.0, 60.0), (-36.0, 10.0), (-72.0, 10.0)], -23.0),
        (&[(-26.0, 20.0), (-20.0, 20.1), (-26.0, 20.0)], -23.0),
    ];
    for rate in [44_100, 48_000, 96_000] {
        for (parts, expected) in cases {
            let mut meter = Meter::new(rate);
            // Peaks between samples take most of the time; none is above this one, so none is looked for.
            meter.peaks.iter_mut().for_each(|peak| peak.peak = 1e6);
            parts.iter().for_each(|&(db, seconds)| tone(&mut meter, rate, db, seconds));
            let found = meter.integrated().unwrap();
            assert!((found - expected).abs() < 0.1, "{rate} Hz, {parts:?}: {found}");
        }
    }
}

/// BS.1770-4: a sine of 997 Hz and full scale on one side is -3.01 LUFS.
#[test]
fn full_scale_on_one_side() {
    let mut meter = Meter::new(48_000);
    let samples: Vec<f32> = (0..480_000).map(|i| (2.0 * PI * 997.0 * f64::from(i) / 48_000.0).sin() as f32).collect();
    meter.push(&samples, &vec![0.0; samples.len()]);
    let found = meter.integrated().unwrap();
    assert!((found + 3.01).abs() < 0.01, "{found}");
}

/// The coefficients that the recommendation prints for 48 kHz.
#[test]
fn the_filters_of_the_recommendation() {
    let shelf = Biquad::shelf(48_000.0);
    let printed = [1.53512485958697, -2.69169618940638, 1.19839281085285, -1.69065929318241, 0.73248077421585];
    for (found, printed) in shelf.b.into_iter().chain(shelf.a).zip(printed) {
        assert!((found - printed).abs() < 1e-9, "{found} {printed}");
    }
    let high_pass = Biquad::high_pass(48_000.0);
    for (found, printed) in high_pass.a.into_iter().zip([-1.99004745483398, 0.99007225036621]) {
        assert!((found - printed).abs() < 1e-9, "{found} {printed}");
    }
}

/// EBU Tech 3341, cases 15 to 19: +0.2 and -0.4 dB.
#[test]
fn true_peaks_of_ebu_3341() {
    let cases = [
        (4.0, 0.0, 0.5, -6.0),
        (4.0, 45.0, 0.5, -6.0),
        (6.0, 60.0, 0.5, -6.0),
        (8.0, 67.5, 0.5, -6.0),
        (4.0, 45.0, 1.41, 3.0),
    ];
    for (period, degrees, size, expected) in cases {
        let mut meter = Meter::new(48_000);
        let sample = |i: usize| {
            // Faded in and out, as the files of the EBU are.
            let fade = (i.min(47_999 - i) as f64 / 2000.0).min(1.0);
            (fade * size * (2.0 * PI * i as f64 / period + f64::to_radians(degrees)).sin()) as f32
        };
        let samples: Vec<f32> = (0..48_000).map(sample).collect();
        samples.chunks(100).for_each(|part| meter.push(part, part));
        let found = meter.peak_dbtp().unwrap();
        assert!((expected - 0.4..=expected + 0.2).contains(&found), "{period} {degrees}: {found}");
    }
}

#[test]
fn silence_has_no_loudness() {
    let mut meter = Meter::new(48_000);
    assert_eq!((meter.integrated(), meter.peak_dbtp()), (None, None));
    meter.push(&[0.0; 48_000], &[0.0; 48_000]);
    assert_eq!((meter.integrated(), meter.peak_dbtp()), (None, None));
    meter.push(&[0.5; 1], &[0.0; 1]);
    assert!(meter.peak() >= 0.5);
}

#[test]
fn blocks_of_any_size_give_the_same() {
    let samples: Vec<f32> =
        (0..30_000u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 8) as f32 / (1 << 24) as f32 - 0.5).collect();
    let measure = |len: usize| {
        let mut meter = Meter::new(8000);
        samples.chunks(len).for_each(|part| meter.push(part, part));
        (meter.integrated(), meter.peak())
    };
    for len in [1, 7, 480, 5000] {
        assert_eq!(measure(len), measure(30_000), "{len}");
    }
}

/// Skipping never changes the peak: smooth, rough, quiet and stepped sounds, and some with NaN.
#[test]
fn skipped_points_are_below_the_peak() {
    let noise = |i: usize| (i as u32).wrapping_mul(2_654_435_761) as f32 / (1u32 << 31) as f32 - 1.0;
    let sounds: [&dyn Fn(usize) -> f32; 7] = [
        &|i| (i as f32 * 0.01).sin(),
        &|i| (i as f32 * 0.7).sin() * (i as f32 * 0.003).sin(),
        &|i| (i as f32 * 3.1).sin(),
        &noise,
        &|i| 1e-6 * noise(i) + (i as f32 * 0.02).sin(),
        &|i| if i % 97 < 40 { 0.5 } else { -0.25 },
        &|i| if i == 300 { f32::NAN } else { noise(i) },
    ];
    for (index, sound) in sounds.into_iter().enumerate() {
        let samples: Vec<f32> = (0..2000).map(sound).collect();
        let peak = Peak::new();
        let n_windows = samples.len() + 1 - 2 * HALF;
        let between = (0..n_windows).map(|at| peak.interpolator.peak(&samples[at..at + 2 * HALF]));
        let expected = between.fold(size(&samples), f32::max);
        assert_eq!(peak.look(&samples, 0.0).to_bits(), expected.to_bits(), "sound {index}");
        let n_skipped = (0..n_windows - PART)
            .step_by(PART)
            .filter(|&at| peak.bound(&samples[at..at + PART - 1 + 2 * HALF]) <= expected * (1.0 - ROUNDING));
        assert!(index > 0 || n_skipped.count() > 100, "a slow sine is mostly skipped");
    }
}
