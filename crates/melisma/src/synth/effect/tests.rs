use super::*;
use crate::audio::Meter;
use crate::random::Lcg32;
use std::f64::consts::TAU;

const RATE: u32 = 48_000;

fn noise(n: usize, seed: u32) -> Vec<f32> {
    let mut random = Lcg32::new(seed);
    std::iter::repeat_with(|| random.signed()).take(n).collect()
}

/// Runs `process` over the same sound in blocks of several sizes: the same bits.
fn check_blocks(mut make: impl FnMut() -> Box<dyn FnMut(&mut [f32], &mut [f32])>) {
    let (mut left, right) = (noise(20_000, 1), noise(20_000, 2));
    left[9000..].fill(0.0);
    let mut render = |len: usize| {
        let mut process = make();
        let (mut left, mut right) = (left.clone(), right.clone());
        left.chunks_mut(len).zip(right.chunks_mut(len)).for_each(|(left, right)| process(left, right));
        (left, right)
    };
    let whole = render(20_000);
    for len in [1, 64, 480, 4410] {
        assert!(render(len) == whole, "blocks of {len}");
    }
    assert!(whole.0.iter().chain(&whole.1).all(|sample| sample.is_finite()));
}

#[test]
fn any_block_size_gives_the_same_bits() {
    check_blocks(|| {
        let mut reverb = Reverb::new(ReverbSettings::default(), RATE).unwrap();
        Box::new(move |left, right| reverb.process(left, right))
    });
    check_blocks(|| {
        let mut delay = Delay::new(DelaySettings { time_s: 0.05, ..DelaySettings::default() }, RATE).unwrap();
        Box::new(move |left, right| delay.process(left, right))
    });
    check_blocks(|| {
        let mut limiter = Limiter::new(-1.0, RATE).unwrap();
        Box::new(move |left, right| {
            left.iter_mut().for_each(|sample| *sample *= 3.0);
            limiter.process(left, right);
        })
    });
}

/// Returns the impulse response's decay in an octave around `hz`, from -5 to -35 dB (T30 of ISO 3382), times two.
fn rt60(reverb: &mut Reverb, hz: f64, rate: u32, seconds: f64) -> f64 {
    let n = (seconds * f64::from(rate)) as usize;
    let (mut left, mut right) = (vec![0.0; n], vec![0.0; n]);
    (left[0], right[0]) = (1.0, 1.0);
    reverb.process(&mut left, &mut right);
    let w = TAU * hz / f64::from(rate);
    let alpha = w.sin() / (2.0 * std::f64::consts::SQRT_2);
    let mut filtered: Vec<f64> = left.iter().map(|&sample| f64::from(sample)).collect();
    for _ in 0..2 {
        let (mut x1, mut x2, mut y1, mut y2) = (0.0, 0.0, 0.0, 0.0);
        for sample in &mut filtered {
            let y = (alpha * (*sample - x2) + 2.0 * w.cos() * y1 - (1.0 - alpha) * y2) / (1.0 + alpha);
            (x2, x1, y2, y1) = (x1, *sample, y1, y);
            *sample = y;
        }
    }
    let mut energy: Vec<f64> = filtered.iter().map(|sample| sample * sample).collect();
    for i in (0..n - 1).rev() {
        energy[i] += energy[i + 1];
    }
    let at = |db: f64| energy.iter().position(|&e| e < energy[0] * 10f64.powf(db / 10.0)).unwrap() as f64;
    2.0 * (at(-35.0) - at(-5.0)) / f64::from(rate)
}

#[test]
fn the_room_decays_as_it_should() {
    for rate in [44_100, 48_000, 96_000] {
        for rt60_s in [0.6, 1.5, 2.8, 5.0] {
            let settings = ReverbSettings { rt60_s, ..ReverbSettings::default() };
            let found = rt60(&mut Reverb::new(settings, rate).unwrap(), 1000.0, rate, 1.5 * rt60_s);
            println!("{rate} Hz: {rt60_s} s, found {found:.3} s");
            assert!((found / rt60_s - 1.0).abs() < 0.05, "{rate} Hz: {rt60_s} s became {found} s");
        }
    }
    let settings = ReverbSettings::default();
    let high = rt60(&mut Reverb::new(settings, RATE).unwrap(), 12_000.0, RATE, 4.0);
    assert!(high < 0.7 * settings.rt60_s, "{high}");
}

#[test]
fn energy_falls_and_there_is_no_dc() {
    let mut reverb = Reverb::new(ReverbSettings::default(), RATE).unwrap();
    let (mut left, mut right) = (vec![0.0; 3 * 48_000], vec![0.0; 3 * 48_000]);
    left[..4800].copy_from_slice(&noise(4800, 7));
    right[..4800].copy_from_slice(&noise(4800, 8));
    reverb.process(&mut left, &mut right);
    let energies: Vec<f32> = left[9600..].chunks(9600).map(|part| part.iter().map(|x| x * x).sum()).collect();
    assert!(energies.windows(2).all(|pair| pair[1] < pair[0]), "{energies:?}");
    let dc = left[9600..].iter().sum::<f32>() / (left.len() - 9600) as f32;
    assert!(dc.abs() < 1e-3, "{dc}");
}

#[test]
fn noise_comes_out_about_as_loud() {
    for rt60_s in [0.8, 2.8, 6.0] {
        let mut reverb = Reverb::new(ReverbSettings { rt60_s, high: 1.0, ..ReverbSettings::default() }, RATE).unwrap();
        let n = 10 * 48_000;
        let (mut left, mut right) = (noise(n, 1), noise(n, 2));
        reverb.process(&mut left, &mut right);
        let power = left[n / 2..].iter().map(|x| f64::from(*x).powi(2)).sum::<f64>() / (n / 2) as f64;
        let db = 10.0 * (3.0 * power).log10();
        assert!(db.abs() < 2.0, "{rt60_s} s: {db} dB");
    }
}

#[test]
fn tails_end_in_exact_silence() {
    let mut reverb = Reverb::new(ReverbSettings { rt60_s: 1.0, ..ReverbSettings::default() }, RATE).unwrap();
    let mut delay = Delay::new(DelaySettings { time_s: 0.05, ..DelaySettings::default() }, RATE).unwrap();
    let check = |process: &mut dyn FnMut(&mut [f32], &mut [f32]), tail: u64| {
        let (mut left, mut right) = (noise(1000, 3), noise(1000, 4));
        process(&mut left, &mut right);
        let n = tail as usize;
        let (mut left, mut right) = (vec![0.0; n], vec![0.0; n]);
        process(&mut left, &mut right);
        let last = left.iter().chain(&right).map(|x| x.abs()).filter(|x| *x > 0.0).fold(f32::INFINITY, f32::min);
        assert!(last > f32::MIN_POSITIVE, "{last}");
        let (mut left, mut right) = (vec![0.0; 9600], vec![0.0; 9600]);
        process(&mut left, &mut right);
        assert!(left.iter().chain(&right).all(|sample| sample.to_bits() == 0));
    };
    let tail = reverb.tail_samples();
    check(&mut |left, right| reverb.process(left, right), tail);
    let tail = delay.tail_samples();
    check(&mut |left, right| delay.process(left, right), tail);
}

#[test]
fn echoes_come_when_they_should_and_change_sides() {
    let settings = DelaySettings { time_s: 0.25, feedback: 0.5, cutoff_hz: 20_000.0 };
    let mut delay = Delay::new(settings, RATE).unwrap();
    let (mut left, mut right) = (vec![0.0; 48_000], vec![0.0; 48_000]);
    left[0] = 1.0;
    delay.process(&mut left, &mut right);
    let first = |side: &[f32]| side.iter().position(|x| x.abs() > 0.1);
    assert_eq!((first(&left), left[12_000]), (Some(12_000), 1.0));
    assert_eq!(first(&right), Some(24_000));
    assert!(right[24_000] > 0.4 && left[36_000] > 0.15);
}

#[test]
fn peaks_stay_below_the_ceiling() {
    let n = 96_000;
    let tone = |hz: f64, size: f64| -> Vec<f32> {
        (0..n).map(|i| (size * (TAU * hz * f64::from(i) / f64::from(RATE) + 0.7).sin()) as f32).collect()
    };
    let mut bursts = vec![0.0; n as usize];
    for (i, sample) in bursts.iter_mut().enumerate().filter(|(i, _)| i % 5000 < 40) {
        *sample = if i % 3 == 0 { 4.0 } else { -3.0 };
    }
    let loud_noise: Vec<f32> = noise(n as usize, 5).iter().map(|x| 5.0 * x).collect();
    for (name, sound) in [
        ("noise", loud_noise),
        ("bursts", bursts),
        ("11 kHz", tone(11_025.3, 2.0)),
        ("15 kHz", tone(15_011.0, 4.0)),
        ("50 Hz", tone(50.0, 8.0)),
        ("1 kHz", tone(997.0, 0.95)),
    ] {
        let mut limiter = Limiter::new(-1.0, RATE).unwrap();
        let (mut left, mut right) = (sound.clone(), sound.iter().map(|x| 0.5 * x).collect::<Vec<_>>());
        limiter.process(&mut left, &mut right);
        let mut meter = Meter::new(RATE);
        meter.push(&left, &right);
        let peak = meter.peak_dbtp().unwrap();
        println!("{name}: {peak:.2} dBTP");
        assert!(peak <= -1.0, "{name}: {peak} dBTP");
        assert!(peak > -3.5, "{name}: {peak} dBTP");
    }
}

/// After a loud sound the gain comes back as 1 - e^(-t / 80 ms).
#[test]
fn the_gain_comes_back_in_eighty_milliseconds() {
    for rate in [22_050, 48_000] {
        let mut limiter = Limiter::new(-1.0, rate).unwrap();
        let mut left = vec![0.25f32; rate as usize / 4];
        left[..100].fill(4.0);
        let mut right = left.clone();
        limiter.process(&mut left, &mut right);
        let missing = |seconds: f64| 1.0 - f64::from(left[(seconds * f64::from(rate)) as usize]) / 0.25;
        let (early, late) = (missing(0.05), missing(0.2));
        assert!(early < 0.6 && late > 0.05, "{early}, {late}");
        let release = 0.15 / (early / late).ln();
        assert!((release / 0.08 - 1.0).abs() < 1e-3, "{rate} Hz: {release} s");
    }
}

#[test]
fn what_is_quiet_passes_unchanged_but_later() {
    let mut limiter = Limiter::new(-1.0, RATE).unwrap();
    let latency = limiter.latency();
    let sound: Vec<f32> = noise(5000, 1).iter().map(|x| 0.2 * x).collect();
    let (mut left, mut right) = (sound.clone(), sound.clone());
    limiter.process(&mut left, &mut right);
    assert_eq!(left[latency..], sound[..5000 - latency]);
    assert!(left[..latency].iter().all(|x| *x == 0.0));
    let (mut left, mut right) = ([f32::NAN, f32::INFINITY, 1e30, -1e30], [0.0; 4]);
    limiter.process(&mut left, &mut right);
    let (mut left, mut right) = (vec![0.0; 1000], vec![0.0; 1000]);
    limiter.process(&mut left, &mut right);
    assert!(left.iter().all(|x| x.abs() <= 0.9), "{left:?}");
}

#[test]
fn controls_take_ten_milliseconds() {
    let mut ramp = Ramp::new(0.0, RATE);
    ramp.set(1.0);
    let values: Vec<f32> = (0..481).map(|_| ramp.next()).collect();
    assert!(values.windows(2).all(|pair| pair[1] - pair[0] < 0.0022 && pair[1] >= pair[0]));
    assert!(values[478] < 1.0);
    assert_eq!(values[479..], [1.0, 1.0]);
    ramp.set(f32::NAN);
    assert_eq!(ramp.next(), 1.0);
}

#[test]
fn wrong_settings_are_refused() {
    assert!(Reverb::new(ReverbSettings { rt60_s: f64::NAN, ..ReverbSettings::default() }, RATE).is_err());
    assert!(Reverb::new(ReverbSettings { rt60_s: 1e9, ..ReverbSettings::default() }, RATE).is_err());
    assert!(Delay::new(DelaySettings { feedback: 1.0, ..DelaySettings::default() }, RATE).is_err());
    assert!(Delay::new(DelaySettings { time_s: 1e9, ..DelaySettings::default() }, RATE).is_err());
    assert!(Limiter::new(3.0, RATE).is_err());
}
