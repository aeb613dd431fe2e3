use super::*;

fn meter() -> Meter {
    Meter::new(24_000).unwrap()
}

fn noise(n: usize) -> Vec<f32> {
    (0..n as u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 8) as f32 / 2e7 - 0.4).collect()
}

fn measure(original: &[f32], decoded: &[f32], piece: usize) -> Fidelity {
    let mut meter = meter();
    // The decoder lags.
    let lag = 3000.min(original.len());
    meter.original(&original[..lag]).unwrap();
    let mut rest = original[lag..].chunks(piece);
    for decoded in decoded.chunks(piece) {
        meter.decoded(decoded).unwrap();
        rest.next().map_or(Ok(()), |original| meter.original(original)).unwrap();
    }
    rest.for_each(|original| meter.original(original).unwrap());
    meter.finish().unwrap()
}

#[test]
fn the_definitions_hold() {
    for n in [64, 255, 1024, 1025, 20_000, 50_000] {
        let x = noise(n);
        let y: Vec<f32> = x.iter().map(|x| x * 0.9).chain([0.7; 99]).collect();
        let found = measure(&x, &y, 777);
        assert_eq!(found.n_samples, n as u64);
        assert!((found.snr_db.unwrap() - 20.0).abs() < 1e-4, "{found:?}");
        // Every power is 0.81 of the original.
        let expected = -(0.81f64.log10());
        assert!((found.log_mel_distance.unwrap() - expected).abs() < 1e-3, "{n}: {found:?}, not {expected}");
    }
    // A window begins with the weight zero, so a spectrum does not see a sole sample.
    let sole = measure(&[0.5], &[0.45], 1);
    assert!((sole.snr_db.unwrap() - 20.0).abs() < 1e-4 && sole.log_mel_distance == Some(0.0), "{sole:?}");
}

#[test]
fn the_frames_are_those_of_the_whole() {
    // Of 64 frames, a block, nothing is left but what the last one had already.
    for n_frames in [301, 64] {
        let n = 1024 + (n_frames - 1) * 256;
        let (x, y) = (noise(n), noise(2 * n)[n..].to_vec());
        let found = measure(&x, &y, 1000);
        let meter = meter();
        let values = |samples: &[f32]| meter.transform.run(samples).unwrap().values.to_f32();
        let (a, b) = (values(&x), values(&y));
        assert_eq!(a.len(), n_frames * 80);
        let sum: f64 = a.iter().zip(&b).map(|(a, b)| f64::from((a - b).abs())).sum();
        let expected = sum / a.len() as f64;
        assert!((found.log_mel_distance.unwrap() - expected).abs() < 1e-9 * expected, "{found:?}, not {expected}");
    }
}

#[test]
fn pieces_do_not_matter() {
    let (x, y) = (noise(40_321), noise(90_000)[40_000..].to_vec());
    let whole = measure(&x, &y, 1 << 20);
    for piece in [1000, 1024, 17_408] {
        assert_eq!(measure(&x, &y, piece), whole);
    }
}

#[test]
fn silence_and_equal_samples() {
    let x = noise(5000);
    let equal = measure(&x, &x, 500);
    assert_eq!((equal.snr_db, equal.log_mel_distance), (Some(f64::INFINITY), Some(0.0)));
    let silent = measure(&[0.0; 5000], &x, 500);
    assert!(silent.snr_db.is_none() && silent.log_mel_distance.unwrap() > 1.0);
    let empty = measure(&[], &[], 1);
    assert_eq!(empty, Fidelity { snr_db: None, log_mel_distance: None, n_samples: 0 });
    let mut meter = meter();
    for _ in 0..2 {
        meter.original(&x).unwrap();
        meter.decoded(&x).unwrap();
        assert_eq!(meter.finish().unwrap(), equal);
    }
}

#[test]
fn a_meter_begins_anew_after_each_clip() {
    let (x, y) = (noise(5000), noise(11_000)[6000..].to_vec());
    let mut meter = meter();
    let mut measured = || {
        meter.original(&x).unwrap();
        meter.decoded(&[&y[..], &[0.7; 99]].concat()).unwrap();
        meter.finish().unwrap()
    };
    let first = measured();
    assert_eq!(measured(), first);
}
