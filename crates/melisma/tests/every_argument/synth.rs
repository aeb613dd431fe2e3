use std::sync::Arc;

use melisma::Existing;
use melisma::audio::Meter;
use melisma::synth::effect::{Delay, DelaySettings, Limiter, Ramp, Reverb, ReverbSettings};
use melisma::synth::{
    Action, BulkConfig, BulkRenderer, Bus, BusConfig, Buses, Capture, Clips, Composer, Cost, Endless, Engine,
    EngineConfig, Event, Instrument, Length, Level, Note, Parameter, Parts, Performance, Phrase, PhraseRenderer,
    STYLES, Score, Sequence, Setup, Solo, SoundFont, Stream, Style, Take, balance, choose_device, compose, record,
    synthetic_soundfont, voice_seconds, voices,
};
use melisma::{Budget, Device, Error};

use super::{COUNTS, Calls, Change, FLOATS, PLACES, RATES, SHORT, each, float, limit};

const NOTE: Note =
    Note { instrument: Instrument::Lead, start: 0.0, duration: 0.01, key: 69, velocity: 0.5, pan: 0.0, channel: 0 };

fn score(note: Note) -> Score {
    Score { notes: vec![note], ..Score::default() }
}

/// Both sides, of lengths that may differ.
fn sides(call: impl Fn(&mut [f32], &mut [f32])) {
    for left in SHORT {
        for right in SHORT {
            call(&mut left.to_vec(), &mut right.to_vec());
        }
    }
}

#[test]
fn effects_and_buses() {
    limit();
    let mut calls = Calls::default();
    each!(calls, "Delay::new", time_s in FLOATS, feedback in FLOATS, rate in RATES => {
        Delay::new(DelaySettings::default().with_time_s(time_s).with_feedback(feedback).with_cutoff_hz(4000.0), rate)
    });
    each!(calls, "Delay::new cutoff", cutoff_hz in FLOATS, rate in RATES => {
        let mut delay = Delay::new(DelaySettings::default().with_cutoff_hz(cutoff_hz), rate)?;
        COUNTS.into_iter().for_each(|n| delay.prefetch(n));
        delay.process(&mut [0.5; 70], &mut [0.5; 3]);
        Ok::<_, Error>(delay.tail_samples())
    });
    each!(calls, "Reverb::new", rt60_s in FLOATS, high in FLOATS, rate in RATES => {
        Reverb::new(ReverbSettings::default().with_rt60_s(rt60_s).with_high(high).with_crossover_hz(4000.0), rate)
    });
    each!(calls, "Reverb::new crossover", crossover_hz in FLOATS, rate in RATES => {
        let mut reverb = Reverb::new(ReverbSettings::default().with_crossover_hz(crossover_hz), rate)?;
        COUNTS.into_iter().for_each(|n| reverb.prefetch(n));
        reverb.process(&mut [0.5; 70], &mut [0.5; 3]);
        Ok::<_, Error>(reverb.tail_samples())
    });
    each!(calls, "Limiter::new", ceiling in FLOATS, rate in RATES => {
        let mut limiter = Limiter::new(ceiling, rate)?;
        limiter.process(&mut [9.0; 70], &mut [0.5; 3]);
        Ok::<_, Error>(limiter.latency())
    });
    each!(calls, "BusConfig::with_ceiling_dbtp", ceiling in FLOATS => {
        Bus::new(BusConfig::new(48_000).with_ceiling_dbtp(Some(ceiling))).map(|bus| bus.latency())
    });
    each!(calls, "Ramp::new", value in FLOATS, rate in RATES, target in FLOATS => {
        let mut ramp = Ramp::new(float(value), rate);
        ramp.set(float(target));
        ramp.next()
    });
    each!(calls, "Bus::new", rate in RATES, level in FLOATS, value in FLOATS => {
        let mut bus = Bus::new(BusConfig::new(rate).with_level(float(level)))?;
        Parameter::ALL.into_iter().for_each(|parameter| bus.set(parameter, float(value)));
        COUNTS.into_iter().for_each(|n| bus.prefetch(n));
        bus.process(&mut [0.5; 70], &mut [0.5; 3]);
        Ok::<_, Error>(bus.tail_samples())
    });
    each!(calls, "Meter::new", rate in RATES => sides(|left, right| {
        let mut meter = Meter::new(rate);
        meter.push(left, right);
        meter.forget();
        let _ = (meter.integrated(), meter.momentary(), meter.peak_dbtp());
    }));
    calls.end(2000);
}

#[test]
fn engines_streams_and_captures() {
    limit();
    let mut calls = Calls::default();
    let folder = tempfile::tempdir().unwrap();
    let queue = Device::cpu().unwrap().queue(&Budget::limited(1 << 28)).unwrap();
    each!(calls, "Engine::new", sample_rate in RATES, max_voices in COUNTS, max_events in COUNTS => {
        let mut engine = Engine::new(EngineConfig::default().with_sample_rate(sample_rate).with_max_voices(max_voices).with_max_events(max_events))?;
        sides(|_, _| ());
        engine.render(&mut [0.0; 70], &mut [0.0; 3]);
        engine.render_on(&queue, &mut [0.0; 3], &mut [0.0; 70]);
        engine.render_singly(&mut [0.0; 3], &mut [0.0; 70]);
        Ok::<_, Error>(())
    });
    each!(calls, "Engine::push", at in PLACES, key in [0, 127, 128, 255], value in FLOATS => {
        let (mut engine, value) = (Engine::new(EngineConfig::default()).unwrap(), float(value));
        let instrument = Instrument::Lead;
        let start = Action::Start { note: at, instrument, channel: key, key, velocity: value, pan: value };
        let bend = Action::Bend { channel: key, semitones: value };
        let set = Action::Set { parameter: Parameter::Gain, value };
        for action in [start, bend, set, Action::Release { note: at }] {
            let _ = engine.push(Event { at, action });
        }
        engine.render(&mut [0.0; 70], &mut [0.0; 70]);
    });
    each!(calls, "Stream::new", sample_rate in RATES, max_voices in COUNTS, level in FLOATS => {
        let config = EngineConfig::default().with_sample_rate(sample_rate).with_max_voices(max_voices);
        let bus = BusConfig::new(sample_rate).with_level(float(level));
        let _ = (Stream::new(config), Stream::dry(config));
        let (mut stream, _remote) = Stream::with_bus(config, bus)?;
        stream.render(&mut [0.0; 70], &mut [0.0; 3]);
        Ok::<_, Error>(stream.next_block().left.len())
    });
    each!(calls, "Capture::start", rate in RATES => {
        let mut capture = Capture::start(folder.path(), rate)?;
        capture.push(&[0.5; 70], &[0.5; 3]);
        capture.finish()
    });
    each!(calls, "Endless::new", sample_rate in RATES, seed in PLACES => {
        let config = EngineConfig::default().with_sample_rate(sample_rate);
        Endless::new(STYLES[0].clone(), seed, config)?.0.next_block().map(|block| block.left.len())
    });
    calls.end(400);
}

#[test]
fn scores_and_performances() {
    limit();
    let mut calls = Calls::default();
    let (device, budget) = (Device::cpu().unwrap(), Budget::limited(1 << 28));
    let setup = |rate, length, max_voices, buses| {
        Setup::new(BusConfig::new(rate)).with_length(length).with_max_voices(max_voices).with_buses(buses)
    };
    let lengths = || [Length::Whole].into_iter().chain(PLACES.map(Length::Samples));
    each!(calls, "Performance::new", rate in RATES, length in lengths(), max_voices in COUNTS => {
        let setup = setup(rate, length, max_voices, Buses::Stems);
        let _ = setup.bytes(&score(NOTE));
        let mut performance = Performance::new(&score(NOTE), setup)?;
        for _ in 0..3 {
            let _ = performance.next_block(None)?.map(|block| block.stem(Instrument::Lead)[0].len());
        }
        let parts = Parts::by_instrument(&score(NOTE));
        let _ = setup.bytes_with(&score(NOTE), &parts);
        let mut apart = Performance::new(&score(NOTE), setup.with_buses(Buses::Mix))?.with_parts(&parts)?;
        let _ = apart.next_block(None)?.map(|block| [0, 1, usize::MAX].map(|index| block.part(index)[0].len()));
        Ok::<_, Error>(())
    });
    each!(calls, "record", rate in RATES, length in lengths(), max_voices in COUNTS => {
        let score = score(NOTE);
        let take = Take::new(&score).with_length(length).with_max_voices(max_voices);
        let _ = voice_seconds(take, rate);
        let recording = record(&device, &budget, rate, &[take])?.pop().map(Arc::new).unwrap();
        let setup = setup(rate, length, max_voices, Buses::Mix);
        Performance::recorded(&score, setup, recording)?.next_block(None).map(|block| block.is_some())
    });
    each!(calls, "Score::events", start in FLOATS, duration in FLOATS, rate in RATES => {
        let score = score(Note { start, duration, ..NOTE });
        let _ = (score.check(), score.to_midi(), score.to_json(), score.bytes());
        score.events(rate).len()
    });
    each!(calls, "Score::check", key in [0, 127, 255], velocity in FLOATS, pan in FLOATS => {
        let score = score(Note { key, velocity: float(velocity), pan: float(pan), channel: key, ..NOTE });
        let _ = score.to_midi();
        Performance::new(&score, setup(8000, Length::Samples(9), 2, Buses::Mix)).map(drop)
    });
    each!(calls, "Score tempo", tempo in FLOATS => {
        let score = Score { tempo, ..score(NOTE) };
        let _ = (score.check(), score.to_midi());
    });
    each!(calls, "balance", target in FLOATS, level in FLOATS => {
        let setup = setup(8000, Length::Samples(100), 2, Buses::Mix);
        balance(setup, target, |_| {
            let mut meter = Meter::new(8000);
            meter.push(&[float(level); 8000], &[float(level); 8000]);
            Ok(meter)
        })
    });
    each!(calls, "Level::gain_db", gain in FLOATS => Level { gain: float(gain), is_limited: false }.gain_db());
    each!(calls, "Cost::of", fixed in FLOATS, per_voice_second in FLOATS, seconds in FLOATS => {
        Cost::new(fixed, per_voice_second).of(seconds)
    });
    each!(calls, "choose_device", seconds in FLOATS => {
        use melisma::config::{DeviceRequest, Threads};
        choose_device(DeviceRequest::Cpu, Threads::Count(1), &budget, Ok(seconds)).map(drop)
    });
    calls.end(1000);
}

#[test]
fn phrases_and_batches() {
    limit();
    let mut calls = Calls::default();
    let (device, budget) = (Device::cpu().unwrap(), Budget::limited(1 << 28));
    each!(calls, "PhraseRenderer::new", sample_rate in RATES, seconds in FLOATS, max_voices in [0, 1, 64, usize::MAX] => {
        PhraseRenderer::new(EngineConfig::default().with_sample_rate(sample_rate).with_max_voices(max_voices), seconds)
    });
    each!(calls, "BulkRenderer::new", n_mixes in COUNTS, seconds in FLOATS, sample_rate in RATES => {
        let mut renderer = BulkRenderer::new(&device, &budget, BulkConfig::new(n_mixes, seconds, sample_rate))?;
        renderer.render(&[Phrase { seconds, ..Phrase::default() }]).map(<[f32]>::len)
    });
    let context = melisma::Context::cpu().unwrap();
    each!(calls, "voices", pitch in FLOATS, duration in FLOATS, rate in RATES => {
        let solo = Solo { instrument: Instrument::Pad, pitch, velocity: float(duration), duration };
        voices(&context, (&[solo; 3], rate), &mut [0.0; 30], &mut || Ok(()))
    });
    each!(calls, "Phrase::place", at in PLACES, rate in RATES, onset in FLOATS => {
        use melisma::synth::{Chord, Kick, Melody, Swell};
        for duration in FLOATS {
            let phrase = Phrase {
                seconds: duration,
                chords: vec![Chord { onset, duration, keys: vec![255], velocity: float(duration) }],
                melody: vec![Melody { onset, duration, key: 255, velocity: float(duration) }],
                kicks: vec![Kick { onset, velocity: float(duration) }],
                swells: vec![Swell { onset, duration, velocity: float(duration) }],
            };
            let _ = phrase.check();
            phrase.place(at, rate, |_| Ok(()))?;
        }
        Ok::<_, Error>(())
    });
    calls.end(1000);
}

#[test]
fn composers_and_clips() {
    limit();
    let mut calls = Calls::default();
    each!(calls, "compose", seed in PLACES, seconds in FLOATS.into_iter().filter(|seconds| !(2.0..1e6).contains(seconds)) => {
        compose(&STYLES[0], seed, seconds).map(drop)
    });
    let changes: [Change<Style, u32>; 9] = [
        ("tonic", |style, n| style.tonic = n as u8),
        ("beat_us", |style, n| style.beat_us = n),
        ("bars_per_chord", |style, n| style.bars_per_chord = n),
        ("colours", |style, n| style.colours = [n; 5]),
        ("melody and arpeggio", |style, n| (style.melody, style.arpeggio) = (n, n)),
        ("drums", |style, n| (style.kick, style.hat) = (n, n)),
        ("swell", |style, n| style.swell = n),
        ("velocity", |style, n| style.velocity = n as u8),
        ("controls", |style, n| style.controls.iter_mut().for_each(|control| control.1 = f32::from_bits(n))),
    ];
    for (name, change) in changes {
        each!(calls, "Style", n in [0, 1, 2, 100, 101, 255, 1 << 30, 0x7fc0_0000, u32::MAX], _ in [name] => {
            let mut style = STYLES[0].clone();
            change(&mut style, n);
            let _ = (style.check(), style.varied(u64::from(n)));
            let mut composer = Composer::new(style.clone(), 1);
            (0..3).for_each(|_| drop(composer.phrase()));
            let _ = Endless::new(style.clone(), 1, EngineConfig::default()).map(|mut music| music.0.plan());
            compose(&style, 1, 2.0).map(drop)
        });
    }
    let font = SoundFont::read(&synthetic_soundfont::bytes()).unwrap();
    let sequence = Sequence::from_score(&compose(&STYLES[0], 1, 0.5).unwrap()).unwrap();
    each!(calls, "Performance::sampled", rate in RATES, len in PLACES => {
        assert!(SoundFont::needed(len) >= len);
        let setup = Setup::new(BusConfig::new(rate)).with_length(Length::Samples(len.min(100)));
        Performance::sampled(&sequence, &font, setup)?.next_block(None).map(|block| block.map(|block| block.left.len()))
    });
    let folder = tempfile::tempdir().unwrap();
    let (device, budget) = (Device::cpu().unwrap(), Budget::limited(1 << 28));
    each!(calls, "Clips", seconds in [-1.0, 0.0, 0.1, 1e300, f64::NAN], sample_rate in RATES, index in [0, 1, u32::MAX] => {
        let clips = Clips::new(STYLES[0].clone(), seconds, folder.path().to_owned()).with_first_seed(u64::MAX).with_sample_rate(sample_rate).with_format(melisma::audio::wav::SampleFormat::S16).with_loudness(seconds).with_existing(Existing::Replace);
        let _ = clips.setup(float(seconds));
        let clip = clips.compose(index)?;
        let _ = clips.bytes(&clip);
        clips.make(index..index, (&device, &budget, 0), &|| Ok(())).map(drop)
    });
    each!(calls, "Clips::shard", count in [0, 1, 7, u32::MAX], index in COUNTS, n in COUNTS => {
        let shard = Clips::shard(count, (index, n));
        assert!(shard.start <= shard.end && shard.end <= count);
    });
    calls.end(300);
}
