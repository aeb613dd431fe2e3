//! `Decoder` and `Encoder` beside the engines and the reference they stand for.

use std::sync::Arc;

use melisma::config::DeviceRequest;
use melisma::snac::{Codes, Config, Decoder, Encoder, Engine, EngineOptions, Model, Noise, reference};
use melisma::{Context, ErrorKind};

use crate::codec::{bits, codes, golden};

/// A model that no engine has kernels for.
fn dense() -> Arc<Model> {
    let mut config = Config::snac_24khz();
    (config.encoder_dim, config.decoder_dim) = (4, 16);
    config.depthwise = false;
    Arc::new(Model::random(config, 3).unwrap())
}

#[test]
fn a_clip_is_that_of_the_engine_and_a_stream_is_the_clip() {
    let context = Context::builder().with_device(DeviceRequest::Cpu).with_threads(2).build().unwrap();
    let model = Arc::new(golden("tiny24"));
    let all = codes(&model, 9, 5);
    for noise in [Noise::Off, Noise::Seed(4)] {
        let mut decoder = Decoder::new_in(&context, Arc::clone(&model), noise.clone()).unwrap();
        let whole = decoder.decode(&all).unwrap();
        let mut engine = Engine::new(&model, context.queue(), context.budget(), EngineOptions::new(1)).unwrap();
        assert_eq!(bits(&whole), bits(&engine.decode(&all, &noise).unwrap()));
        let mut stream = decoder.stream().unwrap();
        let mut streamed = Vec::new();
        for frame in all.frames().chunks(2) {
            streamed.extend(stream.push(frame).unwrap());
        }
        streamed.extend(stream.finish().unwrap());
        assert_eq!(bits(&streamed), bits(&whole));
        let other = decoder.decode_with(&all, &Noise::Seed(9)).unwrap();
        assert_ne!(bits(&other), bits(&whole));
        let mut stream = decoder.stream_with(Noise::Seed(9)).unwrap();
        let mut streamed = stream.push(&all).unwrap();
        streamed.extend(stream.finish().unwrap());
        assert_eq!(bits(&streamed), bits(&other));
    }
}

#[test]
fn the_reference_serves_where_no_engine_can() {
    let (context, model) = (Context::cpu().unwrap(), dense());
    assert_eq!(
        Engine::new(&model, context.queue(), context.budget(), EngineOptions::new(1)).unwrap_err().kind(),
        ErrorKind::Unsupported
    );
    let all = codes(&model, 5, 1);
    let mut decoder = Decoder::new_in(&context, Arc::clone(&model), Noise::Seed(2)).unwrap();
    let whole = decoder.decode(&all).unwrap();
    assert_eq!(bits(&whole), bits(&reference::decode(&model, &all, &Noise::Seed(2))));
    let mut stream = decoder.stream().unwrap();
    let mut streamed = stream.push(&all).unwrap();
    streamed.extend(stream.finish().unwrap());
    assert_eq!(bits(&streamed), bits(&whole));

    let mut encoder = Encoder::new_in(&context, Arc::clone(&model)).unwrap();
    let found = encoder.encode(&whole).unwrap();
    assert_eq!(found, reference::encode(&model, &whole).unwrap());
    let mut stream = encoder.stream().unwrap();
    let mut streamed = stream.push(&whole).unwrap();
    streamed.append(stream.finish().unwrap().frames()).unwrap();
    assert_eq!(streamed, found);
}

#[test]
fn an_encoder_and_its_stream_give_the_codes_of_the_clip() {
    let mut encoder = Encoder::open("builtin:mini24").unwrap();
    assert_eq!(encoder.sample_rate(), 24_000);
    let sound: Vec<f32> = (0..30_000).map(|n| 0.3 * (n as f32 * 0.05).sin()).collect();
    let whole = encoder.encode(&sound).unwrap();
    let mut stream = encoder.stream().unwrap();
    let mut codes = Codes::empty(encoder.model().config());
    for piece in sound.chunks(1234) {
        codes.append(stream.push(piece).unwrap().frames()).unwrap();
    }
    codes.append(stream.finish().unwrap().frames()).unwrap();
    assert_eq!(codes, whole);
    assert_eq!(encoder.encode(&[f32::NAN]).unwrap_err().kind(), ErrorKind::InvalidArgument);
}

#[test]
fn codes_of_another_model_and_too_little_memory_are_refused() {
    let other = Codes::empty(&Config::snac_32khz());
    for mut decoder in [Decoder::open("builtin:mini24"), Decoder::new_in(&Context::cpu().unwrap(), dense(), Noise::Off)]
        .map(Result::unwrap)
    {
        let error = decoder.decode(&other).unwrap_err();
        assert!(error.to_string().starts_with("codes for a model with strides [8, 4, 2, 1]"), "{error}");
    }
    let small = Context::builder().with_device(DeviceRequest::Cpu).with_memory_limit(1 << 16).build().unwrap();
    assert_eq!(Decoder::open_in(&small, "builtin:mini24").unwrap_err().kind(), ErrorKind::Memory);
    assert_eq!(Encoder::open_in(&small, "builtin:mini24").unwrap_err().kind(), ErrorKind::Memory);
    for threads in [0, 1025] {
        let error = Context::builder().with_device(DeviceRequest::Cpu).with_threads(threads).build().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{threads}: {error}");
    }
}

#[test]
fn files_without_a_whole_frame_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tokens");
    let decoder = Decoder::open("builtin:mini24").unwrap();
    for text in ["", "some prose", "[[-1],[1,2],[3,4,5,6]]"] {
        std::fs::write(&path, text).unwrap();
        let error = decoder.read(&path).unwrap_err();
        assert!(error.to_string().starts_with(&path.display().to_string()), "{text}: {error}");
    }
    assert_eq!(decoder.read(folder.path().join("missing")).unwrap_err().kind(), ErrorKind::Io);
}
