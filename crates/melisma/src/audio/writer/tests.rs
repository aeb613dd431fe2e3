use std::cell::RefCell;
use std::io::{self, Cursor};
use std::rc::Rc;

use opus_pure::{OggOpusReader, Trim};

use super::*;
use crate::audio::{Channel, Clip, Source, Stream, Target};

const FORMATS: [Format; 4] = [Format::Wav(SampleFormat::S16), Format::Flac(Depth::S16), Format::Mp3, Format::Opus];

/// Returns a chord that fades in, `n` samples per channel.
fn chord(layout: Layout, n: usize) -> Vec<f32> {
    let rate = f64::from(layout.sample_rate);
    let voice = |t: f64, hz: f64| (std::f64::consts::TAU * hz * t).sin();
    let frames = (0..n).map(|i| i as f64 / rate);
    frames
        .flat_map(|t| {
            let gain = 0.2 * (t * 20.0).min(1.0);
            [220.0, 277.0].map(|low| (gain * (voice(t, low) + voice(t, 660.0) + voice(t, 1320.0))) as f32)
        })
        .collect::<Vec<_>>()
        .chunks(2)
        .flat_map(|both| both[..layout.n_channels].to_vec())
        .collect()
}

fn file(format: Format, layout: Layout, samples: &[f32], piece: usize) -> Vec<u8> {
    let mut writer = Writer::new(Cursor::new(Vec::new()), format, layout).unwrap();
    samples.chunks(piece * layout.n_channels).for_each(|piece| writer.write(piece).unwrap());
    writer.seal().unwrap().into_inner()
}

fn pipe(format: Format, layout: Layout, samples: &[f32]) -> Vec<u8> {
    let mut writer = Writer::piped(Vec::new(), format, layout).unwrap();
    writer.write(samples).unwrap();
    writer.finish().unwrap()
}

#[test]
fn a_stream_of_known_length_is_the_file_of_its_samples() {
    for (n_channels, n_samples) in [(1, 0), (1, 1), (2, 4095), (2, 4096), (1, 10_001)] {
        let layout = Layout { sample_rate: 24_000, n_channels };
        let samples = chord(layout, n_samples);
        let clip = Clip { sample_rate: 24_000, n_channels, samples: samples.clone() };
        let sized = |format, n| {
            let mut writer = Writer::sized(Vec::new(), format, layout, Some(n)).unwrap();
            writer.write(&samples).unwrap();
            writer.finish().unwrap()
        };
        for depth in [SampleFormat::U8, SampleFormat::S16, SampleFormat::F32] {
            let file = wav::encode(&clip, depth).unwrap();
            assert!(sized(Format::Wav(depth), n_samples as u64) == file, "{depth:?}, {n_samples}");
        }
        let (mut file, streamed) =
            (flac::encode(&clip, Depth::S16).unwrap(), sized(Format::Flac(Depth::S16), n_samples as u64));
        // The sizes of the frames and the hash of the samples are known at the end only.
        file[12..18].fill(0);
        file[26..42].fill(0);
        assert!(streamed == file, "FLAC, {n_samples}");
        for format in FORMATS {
            assert!(sized(format, u64::MAX) == pipe(format, layout, &samples), "{format:?}: too long for its header");
        }
    }
}

#[test]
fn mp3_of_a_known_length_begins_with_it() {
    for (sample_rate, n_channels) in [(24_000, 1), (48_000, 2), (44_100, 2), (22_050, 1), (32_000, 1)] {
        let layout = Layout { sample_rate, n_channels };
        for n in [0, 1, 47, 1151, 40_001] {
            let samples = chord(layout, n);
            let mut writer = Writer::sized(Vec::new(), Format::Mp3, layout, Some(n as u64)).unwrap();
            samples.chunks(999 * n_channels).for_each(|piece| writer.write(piece).unwrap());
            let streamed = writer.finish().unwrap();
            let plain = pipe(Format::Mp3, layout, &samples);
            assert!(streamed.len() > plain.len() && streamed.ends_with(&plain), "{layout:?} {n}: its frames follow");
            let file = file(Format::Mp3, layout, &samples, 999);
            if n > 0 {
                let [streamed, file] = [streamed, file].map(|bytes| decode(Format::Mp3, &bytes));
                assert!(streamed == file, "{layout:?} {n}: {} samples", streamed.samples.len());
            }
        }
    }
}

#[test]
fn mp3_of_a_known_length_that_is_cut_is_refused() {
    let layout = Layout { sample_rate: 24_000, n_channels: 1 };
    let mut writer = Writer::sized(Vec::new(), Format::Mp3, layout, Some(40_000)).unwrap();
    writer.write(&chord(layout, 20_000)).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("clip");
    std::fs::write(&path, writer.finish().unwrap()).unwrap();
    let error = Stream::open(&path, Target::new(48_000)).err().unwrap();
    assert!(error.to_string().contains("71 MP3 frames are declared, 36 are there"), "{error}");
}

/// Decodes with another project's decoder, at the rate of the file.
fn decode(format: Format, bytes: &[u8]) -> Clip {
    if format == Format::Opus {
        return decode_opus(bytes);
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("clip");
    std::fs::write(&path, bytes).unwrap();
    let facts = Source::open(&path, Target::new(48_000)).unwrap().facts().clone();
    let channels: Vec<Vec<f32>> = (0..facts.n_channels)
        .map(|index| {
            let channel = Channel::One(index);
            let mut stream = Stream::open(&path, Target::new(facts.sample_rate).with_channel(channel)).unwrap();
            let mut samples = Vec::new();
            while let more = stream.read().unwrap()
                && !more.is_empty()
            {
                samples.extend_from_slice(more);
            }
            samples
        })
        .collect();
    let samples = (0..channels[0].len()).flat_map(|i| channels.iter().map(move |channel| channel[i])).collect();
    Clip { sample_rate: facts.sample_rate, n_channels: facts.n_channels, samples }
}

fn decode_opus(bytes: &[u8]) -> Clip {
    let mut reader = OggOpusReader::new(bytes).unwrap();
    let head = reader.head().clone();
    let n_channels = usize::from(head.channel_count);
    let mut decoder = head.decoder(48_000).unwrap();
    let mut trim = Trim::new(&head, 48_000, n_channels).unwrap();
    let mut samples = Vec::new();
    let mut decoded = vec![0f32; 5760 * n_channels];
    while let Some(packet) = reader.read_packet().unwrap() {
        let n = decoder.decode(&packet.data, 5760, &mut decoded).unwrap();
        samples.extend_from_slice(trim.keep(&packet, &decoded[..n * n_channels]));
    }
    Clip { sample_rate: 48_000, n_channels, samples }
}

/// Returns the signal-to-noise ratio in dB of `clip` against the chord it was made from, at the clip's rate.
fn fidelity(clip: &Clip, layout: Layout, n: usize) -> f64 {
    let of_clip = Layout { sample_rate: clip.sample_rate, ..layout };
    let n = (n as u64 * u64::from(clip.sample_rate) / u64::from(layout.sample_rate)) as usize;
    let expected = chord(of_clip, n);
    let power = |x: f64| x * x;
    let pairs = || expected.iter().zip(&clip.samples).map(|(&x, &y)| (f64::from(x), f64::from(y)));
    let (signal, noise): (f64, f64) = (pairs().map(|(x, _)| power(x)).sum(), pairs().map(|(x, y)| power(x - y)).sum());
    10.0 * (signal / noise).log10()
}

#[test]
fn audio_comes_back_whole_and_in_place() {
    for format in FORMATS {
        for (sample_rate, n_channels) in [(24_000, 1), (48_000, 2), (44_100, 2), (22_050, 1), (16_000, 1), (32_000, 2)]
        {
            let layout = Layout { sample_rate, n_channels };
            let n = 40_001;
            let clip = decode(format, &file(format, layout, &chord(layout, n), 999));
            assert_eq!(clip.n_channels, n_channels, "{format:?} {layout:?}");
            let len = (n as u64 * u64::from(clip.sample_rate)).div_ceil(u64::from(sample_rate));
            assert_eq!((clip.samples.len() / n_channels) as u64, len, "{format:?} {layout:?}");
            let snr_db = fidelity(&clip, layout, n);
            assert!(snr_db > 20.0, "{format:?} {layout:?}: {snr_db} dB");
        }
    }
}

#[test]
fn pieces_do_not_matter() {
    for format in FORMATS {
        for layout in [Layout { sample_rate: 24_000, n_channels: 1 }, Layout { sample_rate: 48_000, n_channels: 2 }] {
            let samples = chord(layout, 9000);
            let whole = file(format, layout, &samples, 9000);
            for piece in [1, 480, 1201] {
                assert!(file(format, layout, &samples, piece) == whole, "{format:?} {layout:?}: pieces of {piece}");
            }
        }
    }
}

#[test]
fn short_and_empty_clips_are_files_too() {
    let layout = Layout { sample_rate: 24_000, n_channels: 1 };
    for format in FORMATS {
        for n in [0, 1, 47, 1151] {
            let bytes = file(format, layout, &chord(layout, n), 100);
            if n > 0 {
                let clip = decode(format, &bytes);
                assert_eq!(
                    clip.samples.len() as u64 * 24_000 / u64::from(clip.sample_rate),
                    n as u64,
                    "{format:?} {n}"
                );
            }
            assert!(!pipe(format, layout, &chord(layout, n)).is_empty(), "{format:?} {n}");
        }
    }
}

/// Bytes that can be looked at while a writer has them.
#[derive(Clone, Default)]
struct Shared {
    bytes: Rc<RefCell<Vec<u8>>>,
}

impl Write for Shared {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.bytes.borrow_mut().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn a_live_stream_is_at_most_60_ms_behind() {
    for format in [Format::Mp3, Format::Opus] {
        for sample_rate in [24_000, 48_000, 44_100] {
            let layout = Layout { sample_rate, n_channels: 1 };
            let sink = Shared::default();
            let mut writer = Writer::piped(sink.clone(), format, layout).unwrap();
            let piece = sample_rate as usize / 100;
            let samples = chord(layout, 100 * piece);
            samples.chunks(piece).for_each(|piece| writer.write(piece).unwrap());
            let so_far = sink.bytes.borrow().len();
            let whole = pipe(format, layout, &samples);
            let behind = decode(format, &whole).samples.len() - decode(format, &whole[..so_far]).samples.len();
            let ms = behind as f64 / f64::from(decode(format, &whole).sample_rate) * 1000.0;
            assert!(ms <= 60.0, "{format:?} at {sample_rate} Hz: {ms} ms");
        }
    }
}

#[test]
fn names_choose_formats() {
    let of = |name: &str, samples| Format::of(Path::new(name), samples);
    assert_eq!(of("a.WAV", SampleFormat::F32).unwrap(), Format::Wav(SampleFormat::F32));
    assert_eq!(of("a.flac", SampleFormat::S24).unwrap(), Format::Flac(Depth::S24));
    assert_eq!(of("a.b.mp3", SampleFormat::S16).unwrap(), Format::Mp3);
    assert_eq!(of("a.opus", SampleFormat::S16).unwrap(), Format::Opus);
    for (name, samples) in [("a.flac", SampleFormat::F32), ("a.mp3", SampleFormat::S24), ("a.opus", SampleFormat::F32)]
    {
        assert!(of(name, samples).unwrap_err().hint().unwrap().contains(".wav"), "{name}");
    }
    for name in ["a.aac", "a", ".mp3"] {
        assert!(of(name, SampleFormat::S16).unwrap_err().hint().unwrap().contains(Format::SUFFIXES), "{name}");
    }
}

#[test]
fn surround_is_refused() {
    for format in [Format::Mp3, Format::Opus] {
        let layout = Layout { sample_rate: 48_000, n_channels: 6 };
        let error = Writer::piped(Vec::new(), format, layout).unwrap_err();
        assert!(error.hint().unwrap().contains("WAV"), "{error}");
    }
}
