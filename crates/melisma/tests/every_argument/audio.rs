use std::io::Cursor;

use melisma::audio::stretch::Stretch;
use melisma::audio::wav::{self, SampleFormat};
use melisma::audio::{
    Channel, Clip, Format, Layout, Reads, Source, Target, Writer, flac, resample, resample_with, resampled_len,
};
use melisma::config::DeviceRequest;
use melisma::mel::{self, MelScale, Spectrogram, Transform, Values, Window, filterbank, picture};
use melisma::{Budget, Context, Error, fidelity};

use super::{COUNTS, Calls, FLOATS, PLACES, RATES, SHORT, each, float, limit};

#[test]
fn files_and_channels() {
    limit();
    let mut calls = Calls::default();
    let channels = || COUNTS.into_iter().chain([9, 33, 256, 65_536]);
    for samples in SHORT {
        each!(calls, "wav::encode", sample_rate in RATES, n_channels in channels(), format in [SampleFormat::U8, SampleFormat::S24, SampleFormat::F64] => {
            let clip = Clip { sample_rate, n_channels, samples: samples.to_vec() };
            let _ = (clip.n_frames(), clip.seconds(), clip.downmix(), wav::encode(&clip, format));
            let mut writer = wav::Writer::new(Cursor::new(Vec::new()), sample_rate, n_channels, format)?;
            writer.write(samples)
        });
        each!(calls, "flac::encode", sample_rate in RATES, n_channels in channels() => {
            let clip = Clip { sample_rate, n_channels, samples: samples.to_vec() };
            let _ = flac::encode(&clip, flac::Depth::S16);
            let layout = Layout::new(sample_rate, n_channels);
            let mut writer = flac::Writer::piped(Vec::new(), layout, flac::Depth::S24, Some(u64::MAX))?;
            writer.write(samples)
        });
    }
    calls.end(1000);
}

#[test]
fn writers_and_rates() {
    // At 1 Hz these are seconds.
    const FEW: [&[f32]; 3] = [&[], &[0.5], &[f32::NAN]];
    limit();
    let mut calls = Calls::default();
    let channels = || COUNTS.into_iter().chain([9, 33, 256, 65_536]);
    for few in FEW {
        each!(calls, "resample", from in RATES, to in RATES => {
            let _ = resample_with(few, from, to, |_| Ok(()));
            resample(few, from, to).map(drop)
        });
        each!(calls, "Writer::new", sample_rate in RATES, n_channels in channels(), format in [Format::Wav(SampleFormat::S16), Format::Mp3, Format::Opus] => {
            let layout = Layout::new(sample_rate, n_channels);
            for n_samples in [Some(0), Some(1), Some(u64::MAX), None] {
                let _ = Writer::sized(Vec::new(), format, layout, n_samples).map(|mut writer| writer.write(few));
            }
            let _ = Writer::piped(Vec::new(), format, layout).map(|mut writer| writer.write(few));
            let mut writer = Writer::new(Cursor::new(Vec::new()), format, layout)?;
            writer.write(few)?;
            writer.seal().map(drop)
        });
    }
    calls.end(900);
}

#[test]
fn stretches() {
    limit();
    let mut calls = Calls::default();
    let channels = || COUNTS.into_iter().chain([9, 33, 256, 65_536]);
    for samples in SHORT {
        each!(calls, "Stretch::new", sample_rate in RATES, n_channels in channels(), speed in FLOATS => {
            let mut stretch = Stretch::new(Layout::new(sample_rate, n_channels), speed)?;
            let n = stretch.push(samples).len();
            Ok::<_, Error>(n + stretch.finish().len())
        });
    }
    calls.end(1000);
}

#[test]
fn places_in_files() {
    limit();
    let mut calls = Calls::default();
    each!(calls, "resampled_len", n in COUNTS, from in RATES, to in RATES => resampled_len(n, from, to));
    each!(calls, "Channel", index in COUNTS, n in COUNTS => {
        let channel = Channel::One(index);
        (channel.check(n).is_err(), channel.note(n), Channel::Mix.note(n))
    });
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.wav");
    let clip = Clip { sample_rate: 8000, n_channels: 2, samples: vec![0.1; 160] };
    std::fs::write(&path, wav::encode(&clip, SampleFormat::S16).unwrap()).unwrap();
    each!(calls, "Source::reopen", sample_rate in RATES, n_original in PLACES, channel in COUNTS => {
        let target = Target::new(sample_rate).with_channel(Channel::One(channel));
        let _ = Source::open(&path, target).map(drop);
        let mut source = Source::reopen(&path, target, n_original, Reads::Direct)?;
        for first in PLACES {
            let _ = (source.read_f32(first, &mut [0.0; 9]), source.read_i16(first, &mut [0; 9]));
        }
        Ok::<_, Error>(())
    });
    each!(calls, "wav::File", first in PLACES, channel in COUNTS => {
        let mut file = wav::File::open(&path)?;
        let _ = file.read_i16(first, &mut [0; 9]);
        file.read_mono(Channel::One(channel), first, &mut [0.0; 9])
    });
    calls.end(500);
}

#[test]
fn spectrograms() {
    limit();
    let mut calls = Calls::default();
    let context = Context::builder().with_device(DeviceRequest::Cpu).with_memory_limit(1 << 28).build().unwrap();
    let base = || mel::Config::preset("whisper-80").unwrap();
    let mut check = |name: &str, n: usize, value: f64, change: &dyn Fn(&mut mel::Config)| {
        let mut config = base();
        change(&mut config);
        calls.call(
            || format!("{name} {n} {value}"),
            || {
                let _ = (config.pad(), config.top_hz(), filterbank(&config).map(|weights| weights.len()));
                COUNTS.into_iter().for_each(|n| drop(config.n_frames(n)));
                let _ = config.reference(&[0.1; 500]);
                let transform = Transform::new_in(&context, config)?;
                for n in COUNTS {
                    let _ = transform.scratch_bytes(n);
                }
                transform.run(&[0.1f32; 500]).map(drop)
            },
        );
    };
    for n in COUNTS {
        check("n_fft", n, 0.0, &|config| config.n_fft = n);
        check("win_length", n, 0.0, &|config| config.win_length = n);
        check("hop_length", n, 0.0, &|config| config.hop_length = n);
        check("n_mels", n, 0.0, &|config| config.n_mels = n);
        check("power", n, 0.0, &|config| config.power = n as u8);
        check("all", n, 0.0, &|config| {
            (config.n_fft, config.win_length) = (n, n);
            (config.hop_length, config.n_mels) = (n, n);
        });
    }
    for rate in RATES {
        check("sample_rate", rate as usize, 0.0, &|config| config.sample_rate = rate);
    }
    for value in FLOATS {
        check("preemphasis", 0, value, &|config| config.preemphasis = value);
        check("input_scale", 0, value, &|config| config.input_scale = value);
        check("epsilon", 0, value, &|config| config.epsilon = value);
        check("f_min", 0, value, &|config| config.f_min = value);
        check("f_max", 0, value, &|config| config.f_max = Some(value));
        check("floor", 0, value, &|config| config.floor = value);
        check("multiplier", 0, value, &|config| config.multiplier = value);
        check("offset", 0, value, &|config| config.offset = value);
        check("range", 0, value, &|config| config.range = Some(value));
    }
    for window in [Window::Hann, Window::Hamming, Window::Povey, Window::Rectangular] {
        each!(calls, "Window::at", n in COUNTS, len in COUNTS => window.at(n, len));
    }
    for scale in [MelScale::Htk, MelScale::Kaldi, MelScale::Slaney] {
        each!(calls, "MelScale", value in FLOATS => (scale.mel(value), scale.hz(value)));
    }
    each!(calls, "picture::encode", f in COUNTS, t in COUNTS, value in FLOATS => {
        let mel = Spectrogram::new([f, t], Values::F32(vec![float(value); 2]));
        (picture::encode(&mel, &base()).len(), picture::encode_plain(&mel, &base()).len())
    });
    each!(calls, "fidelity::Meter::new", rate in RATES => {
        let _ = fidelity::Meter::needed(context.device(), &Budget::limited(1 << 28), rate);
        let mut meter = fidelity::Meter::new_in(&context, rate)?;
        for samples in SHORT {
            meter.original(samples)?;
            meter.decoded(samples)?;
        }
        Ok::<_, Error>(())
    });
    calls.end(400);
}
