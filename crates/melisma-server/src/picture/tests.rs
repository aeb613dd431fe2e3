use melisma::mel::{Order, PRESETS, Transform};
use melisma::random::Lcg32;

use super::*;

fn noise(n: usize) -> Vec<f32> {
    let mut random = Lcg32::new(3);
    (0..n).map(|_| 0.4 * random.signed()).collect()
}

/// All messages of samples that come in pieces.
fn messages(preset: &Config, pieces: &[&[f32]]) -> Vec<Value> {
    let mut picture = Picture::new(preset.clone()).unwrap();
    let mut messages: Vec<Value> = pieces.iter().flat_map(|piece| picture.push(piece).unwrap()).collect();
    messages.extend(picture.finish().unwrap());
    messages
}

fn of_type<'a>(messages: &'a [Value], kind: &'a str) -> impl Iterator<Item = &'a Value> {
    messages.iter().filter(move |message| message["type"] == kind)
}

/// The bytes of all frames; every message continues the one before it.
fn bytes(messages: &[Value], n_mels: usize) -> Vec<u8> {
    let mut all: Vec<u8> = Vec::new();
    for message in of_type(messages, "mel") {
        assert_eq!(message["first_frame"], all.len() / n_mels);
        assert_eq!(message["n_mels"], n_mels);
        all.extend(unbase64(message["data"].as_str().unwrap()));
    }
    all
}

fn unbase64(text: &str) -> Vec<u8> {
    const ALPHABET: &str = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let digits: Vec<u32> = text.chars().filter_map(|digit| ALPHABET.find(digit)).map(|digit| digit as u32).collect();
    let group = |group: &[u32]| {
        let bits = group.iter().fold(0, |bits, digit| bits << 6 | digit) << (6 * (4 - group.len()));
        bits.to_be_bytes()[1..group.len()].to_vec()
    };
    digits.chunks(4).flat_map(group).collect()
}

/// What the transform alone makes of the whole clip, frame by frame.
fn levels(preset: &Config, samples: &[f32]) -> Vec<u8> {
    let spectrogram = Transform::new(mel::decibels(preset.clone())).unwrap().run(samples).unwrap();
    let values = spectrogram.values.to_f32();
    let n_frames = values.len() / preset.n_mels;
    let at = |frame: usize, filter: usize| match preset.order() {
        Order::FilterTime => values[filter * n_frames + frame],
        Order::TimeFilter => values[frame * preset.n_mels + filter],
    };
    (0..n_frames).flat_map(|frame| (0..preset.n_mels).map(move |filter| mel::level(at(frame, filter)))).collect()
}

#[test]
fn frames_are_those_of_the_whole_clip_however_it_is_cut() {
    let samples = noise(20_011);
    for (name, _) in PRESETS {
        let preset = Config::preset(name).unwrap();
        let expected = levels(&preset, &samples);
        assert!(expected.iter().any(|level| *level > 100), "{name}");
        for len in [1_000, 4_096, 20_011] {
            let pieces: Vec<&[f32]> = samples.chunks(len).collect();
            assert!(bytes(&messages(&preset, &pieces), preset.n_mels) == expected, "{name} in pieces of {len}");
        }
    }
}

#[test]
fn a_sine_of_full_scale_is_0_db_and_silence_is_the_lowest_byte() {
    for (name, _) in PRESETS.iter().filter(|(name, _)| *name != "kaldi-fbank") {
        let preset = Config::preset(name).unwrap();
        let turn = std::f32::consts::TAU * 1_000.0 / preset.sample_rate as f32;
        let sine: Vec<f32> = (0..20_000).map(|n| (turn * n as f32).sin()).collect();
        let high = bytes(&messages(&preset, &[&sine]), preset.n_mels).into_iter().max().unwrap();
        let decibels = 0.4 * f32::from(high) - 100.0;
        // Half way between two triangles the sine has half its power in each.
        assert!((-3.0..=2.0).contains(&decibels), "{name}: {decibels} dB");
        let silence = bytes(&messages(&preset, &[&[0.0; 9_000]]), preset.n_mels);
        assert!(silence.len() > 10 * preset.n_mels && silence.iter().all(|level| *level == 0), "{name}");
    }
}

#[test]
fn the_outline_has_the_extremes_of_each_step() {
    let samples = noise(1_000);
    let preset = Config::preset("builder").unwrap();
    let messages = messages(&preset, &[&samples[..700], &samples[700..]]);
    let waves: Vec<&Value> = of_type(&messages, "wave").collect();
    assert_eq!(waves.iter().map(|wave| wave["first_sample"].as_u64().unwrap()).collect::<Vec<_>>(), [0, 512, 768]);
    let all = |name: &str| -> Vec<f64> {
        waves.iter().flat_map(|wave| wave[name].as_array().unwrap()).map(|value| value.as_f64().unwrap()).collect()
    };
    let (min, max) = (all("min"), all("max"));
    for (step, samples) in samples.chunks(256).enumerate() {
        let low = samples.iter().copied().fold(1.0, f32::min);
        let high = samples.iter().copied().fold(-1.0, f32::max);
        assert!((min[step] - f64::from(low)).abs() <= 5e-5 && (max[step] - f64::from(high)).abs() <= 5e-5);
    }
    assert_eq!((min.len(), max.len(), &waves[0]["step"]), (4, 4, &256.into()));
}

#[test]
fn a_clip_that_is_too_short_is_an_error() {
    let mut picture = Picture::at_rate(24_000).unwrap();
    picture.push(&[0.5; 512]).unwrap();
    assert!(picture.finish().unwrap_err().to_string().contains("at least 513"));
    assert!(Picture::at_rate(24_000).unwrap().finish().is_err());
}
