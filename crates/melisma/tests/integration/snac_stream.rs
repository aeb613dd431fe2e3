//! Streams against whole clips: the same bits for every way to cut the frames.

use std::sync::{Arc, LazyLock};

use melisma::snac::reference::seam::{self, Seam};
use melisma::snac::reference::{self, Flow, Plane, Stream};
use melisma::snac::{Codes, Config, Model, Noise};
use proptest::prelude::*;

use crate::codec::{bits, codes, golden, odd_rates};

/// Small models of every kind: without and with attention, dense instead of depthwise, without noise, odd rates.
static MODELS: LazyLock<Vec<Arc<Model>>> = LazyLock::new(|| {
    let mut odd = odd_rates(16);
    odd.depthwise = false;
    [golden("tiny24"), golden("tiny44"), Model::random(odd, 1).unwrap()].map(Arc::new).into()
});

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_chunking_gives_the_same_bits(
        which in 0_usize..3,
        chunks in prop::collection::vec(0_usize..4, 1..7),
        seed in any::<u32>(),
        noise in prop_oneof![Just(Noise::Off), any::<u64>().prop_map(Noise::Seed)],
    ) {
        let model = &MODELS[which];
        let n_frames = chunks.iter().sum();
        let all = codes(model, n_frames, seed);
        let whole = reference::decode(model, &all, &noise);
        prop_assert_eq!(whole.len(), n_frames * model.config().frame_len());
        let mut stream = Stream::new(Arc::clone(model), noise);
        let mut streamed = Vec::new();
        let mut rest = all.frames();
        for n in chunks {
            let (now, later) = rest.split_at(n);
            streamed.extend(stream.push(now).unwrap());
            prop_assert_eq!(stream.progress().exact, streamed.len() as u64);
            rest = later;
        }
        streamed.extend(stream.finish());
        prop_assert_eq!(bits(&streamed), bits(&whole));
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 16, failure_persistence: None, ..ProptestConfig::default() })]

    /// Below frames: single latents into the decoder, single samples into the encoder.
    #[test]
    fn layers_do_not_see_the_cuts(which in 0_usize..3, cuts in prop::collection::vec(0_usize..11, 1..9)) {
        let model = &MODELS[which];
        let len = cuts.iter().sum();
        let (n_channels, noise) = (model.config().latent_dim(), Noise::Seed(2));
        let values = (0..n_channels * len).map(|i| ((i * i) as f32 * 0.37).sin()).collect();
        let latents = Plane::new(n_channels, values);
        let decoder = reference::decoder(model);
        let whole = decoder.push(&mut decoder.start(), &latents, &noise, Flow::Last);
        prop_assert_eq!(whole.len(), len * model.config().hop_len());
        let (mut state, mut start, mut pieces) = (decoder.start(), 0, Vec::new());
        for cut in &cuts {
            pieces.extend(decoder.push(&mut state, &latents.slice(start, start + cut), &noise, Flow::More));
            start += cut;
        }
        pieces.extend(decoder.push(&mut state, &latents.slice(len, len), &noise, Flow::Last));
        prop_assert_eq!(bits(&pieces), bits(&whole));

        let sound = Plane::new(1, whole);
        let encoder = reference::encoder(model);
        let whole = encoder.push(&mut encoder.start(), &sound, Flow::Last);
        prop_assert_eq!(whole.len(), len);
        let (mut state, mut start, mut pieces) = (encoder.start(), 0, Vec::new());
        for cut in cuts.iter().map(|cut| cut * 301 % (sound.len() + 1)) {
            let end = (start + cut).min(sound.len());
            pieces.push(encoder.push(&mut state, &sound.slice(start, end), Flow::More));
            start = end;
        }
        pieces.push(encoder.push(&mut state, &sound.slice(start, sound.len()), Flow::Last));
        prop_assert_eq!(bits(Plane::join(n_channels, &pieces).data()), bits(whole.data()));
    }
}

#[test]
fn the_lag_is_that_of_the_receptive_field() {
    let model = &MODELS[0];
    let mut stream = Stream::new(Arc::clone(model), Noise::Off);
    for n_frames in 1..=9_u64 {
        stream.push(&codes(model, 1, n_frames as u32)).unwrap();
        let expected = (2048 * n_frames).saturating_sub(4757);
        assert_eq!(stream.progress().exact, expected, "after {n_frames} frames");
    }
}

#[test]
fn the_state_does_not_grow() {
    for model in MODELS.iter() {
        let mut stream = Stream::new(Arc::clone(model), Noise::Seed(3));
        let mut sizes = Vec::new();
        for n in 0..40 {
            stream.push(&codes(model, 1, n)).unwrap();
            sizes.push(stream.state_bytes());
        }
        let (early, late) = sizes.split_at(20);
        assert!(late.iter().max() <= early.iter().max(), "{sizes:?}");
    }
}

#[test]
fn the_published_model_keeps_less_than_half_a_megabyte() {
    let model = Arc::new(Model::random(Config::snac_24khz(), 0).unwrap());
    let mut stream = Stream::new(Arc::clone(&model), Noise::Off);
    for n in 0..4 {
        stream.push(&codes(&model, 1, n)).unwrap();
    }
    // Halos of 6 d steps and skips of 3 d for d = 1, 3, 9 in 960 channels, overlaps, first and last convolution.
    assert_eq!(stream.state_bytes(), 4 * ((78 + 39) * 960 + 1920 + 6 * 768 + 6 * 64));
}

#[test]
fn an_early_peek_changes_nothing_later() {
    for model in MODELS.iter() {
        let all = codes(model, 9, 5);
        let noise = Noise::Seed(9);
        let whole = reference::decode(model, &all, &noise);
        let mut stream = Stream::new(Arc::clone(model), noise.clone());
        assert!(stream.peek().is_empty());
        let (first, rest) = all.frames().split_at(1);
        assert!(stream.push(first).unwrap().len() < model.config().frame_len());
        if stream.progress().emitted > 0 {
            continue;
        }
        let early = stream.peek();
        let alone = Codes::from_frames(model.config(), first.as_slice()).unwrap();
        assert_eq!(early, reference::decode(model, &alone, &noise));
        assert_eq!(stream.progress().gap(), early.len() as u64);
        assert!(stream.peek().is_empty(), "each sample once");
        let mut streamed = early.clone();
        for frame in rest.chunks(1) {
            streamed.extend(stream.push(frame).unwrap());
        }
        assert_eq!((stream.progress().gap(), stream.progress().early), (0, early.len() as u64));
        streamed.extend(stream.finish());
        assert_eq!(streamed.len(), whole.len());
        assert_eq!(bits(&streamed[early.len()..]), bits(&whole[early.len()..]));
    }
}

#[test]
fn only_the_stream_has_no_seams() {
    let model = Arc::new(Model::mini24().unwrap());
    let all = codes(&model, 8, 3);
    let whole = reference::decode(&model, &all, &Noise::Off);
    let mut stream = Stream::new(Arc::clone(&model), Noise::Off);
    let mut streamed = stream.push(&all).unwrap();
    streamed.extend(stream.finish());
    let seam = Seam::measure(&streamed, &whole);
    assert_eq!((seam.n_samples, seam.n_different, seam.max_abs), (8 * 2048, 0, 0.0));
    let windows = seam::windowed(&model, &all, &Noise::Off).unwrap();
    assert_eq!(windows.len(), 5 * 2048);
    let seam = Seam::measure(&windows, seam::windowed_part(&model, &whole));
    println!("windows of 28 tokens: {seam:?}");
    assert!(seam.max_abs > 1e-4, "{seam:?}");
}

#[test]
fn a_dropped_stream_does_not_disturb_another() {
    let model = &MODELS[0];
    let all = codes(model, 4, 8);
    let (first, rest) = all.frames().split_at(2);
    let mut kept = Stream::new(Arc::clone(model), Noise::Seed(1));
    let mut samples = kept.push(first).unwrap();
    let mut other = kept.clone();
    other.push(&codes(model, 3, 77)).unwrap();
    drop(other);
    samples.extend(kept.push(rest).unwrap());
    samples.extend(kept.finish());
    assert_eq!(bits(&samples), bits(&reference::decode(model, &all, &Noise::Seed(1))));
}
