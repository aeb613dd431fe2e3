//! Scores through voices and bus: the same bits in any way, the right length and level, and nothing beyond full scale.

use std::sync::Arc;

use melisma::audio::Meter;
use melisma::config::Threads;
use melisma::random::SplitMix64;
use melisma::runtime::device::{self, Device, DeviceRequest};
use melisma::runtime::memory::Budget;
use melisma::synth::{
    Action, Bend, Bus, BusConfig, Buses, Control, Engine, EngineConfig, Event, Instrument, Length, Note, Parameter,
    Performance, Score, Setup, Solo, Style, Take, balance, compose, record, voice_seconds, voices,
};
use melisma::{Context, Error};

use crate::gpu;

const RATE: u32 = 24_000;

fn setup(length: Length) -> Setup {
    Setup::new(BusConfig::new(RATE)).with_length(length).with_max_voices(256)
}

fn play(score: &Score, setup: Setup) -> [Vec<f32>; 2] {
    let mut performance = Performance::new(score, setup).unwrap();
    let mut out = [Vec::new(), Vec::new()];
    while let Some(block) = performance.next_block(None).unwrap() {
        assert_eq!(block.at, out[0].len() as u64);
        out[0].extend_from_slice(block.left);
        out[1].extend_from_slice(block.right);
    }
    out
}

fn piece(seconds: f64) -> Score {
    compose(&Style::named("bright").unwrap(), 3, seconds).unwrap()
}

#[test]
fn threads_and_stems_leave_the_mix_alone() {
    let score = piece(6.0);
    let alone = play(&score, setup(Length::Samples(6 * 24_000)));
    let device = device::select(DeviceRequest::Cpu, Threads::Count(3)).unwrap();
    let queue = device.queue(&Budget::unlimited()).unwrap();
    let mut performance = Performance::new(&score, setup(Length::Samples(6 * 24_000))).unwrap();
    let mut left = Vec::new();
    while let Some(block) = performance.next_block(Some(&queue)).unwrap() {
        left.extend_from_slice(block.left);
    }
    assert!(left == alone[0]);
    let with_stems = setup(Length::Samples(6 * 24_000)).with_buses(Buses::Stems);
    assert!(play(&score, with_stems) == alone);
}

/// Left, right and the stems of the pads, one after the other.
fn sound_of(mut performance: Performance) -> Vec<f32> {
    let mut parts = vec![Vec::new(); 4];
    while let Some(block) = performance.next_block(None).unwrap() {
        let [left, right] = block.stem(Instrument::Pad);
        for (part, samples) in parts.iter_mut().zip([block.left, block.right, left, right]) {
            part.extend_from_slice(samples);
        }
    }
    parts.concat()
}

/// Windows and batches are not heard; what a GPU records is within -100 dBFS of that.
fn recordings_sound_as_what_is_played(device: &Device, seconds: f64) {
    let rate = 8000;
    let mut score = piece(seconds);
    // One note that reaches from the first window into the last.
    let long = Note { instrument: Instrument::Bass, duration: seconds - 3.0, ..score.notes[0] };
    score.notes.insert(0, long);
    score.sort();
    let short = piece(3.0);
    let takes = [(&score, Length::Whole), (&short, Length::Samples(20_000))];
    let bus = BusConfig::new(rate).with_level(0.5);
    let setup = |length| Setup::new(bus).with_length(length).with_max_voices(256).with_buses(Buses::Stems);
    let live = takes.map(|(score, length)| sound_of(Performance::new(score, setup(length)).unwrap()));
    let asked =
        takes.map(|(score, length)| Take::new(score).with_length(length).with_buses(Buses::Stems).with_max_voices(256));
    let made = record(device, &Budget::unlimited(), rate, &asked).unwrap();
    for (((score, length), live), recording) in takes.into_iter().zip(&live).zip(made) {
        assert!(recording.most_voices() > 4);
        let found = sound_of(Performance::recorded(score, setup(length), Arc::new(recording)).unwrap());
        assert_eq!(found.len(), live.len());
        let worst = found.iter().zip(live).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
        let limit = if matches!(device, Device::Cpu(_)) { 0.0 } else { 1e-5 };
        assert!(worst <= limit, "{device}: {worst}");
    }
}

#[test]
fn recordings_sound_as_what_is_played_on_the_cpu() {
    recordings_sound_as_what_is_played(&device::select(DeviceRequest::Cpu, Threads::Count(2)).unwrap(), 64.0);
}

#[test]
fn recordings_sound_as_what_is_played_on_cuda() {
    let Some(device) = gpu::find() else { return };
    recordings_sound_as_what_is_played(&device, gpu::cases(4.5, 64.0));
}

/// Notes of every instrument, on keys and between them.
fn solos() -> Vec<Solo> {
    let solo = |(index, instrument)| Solo {
        instrument,
        pitch: 40.0 + 3.25 * index as f64,
        velocity: 0.3 + 0.1 * index as f32,
        duration: 0.05 * (index + 1) as f64,
    };
    Instrument::ALL.into_iter().enumerate().map(solo).collect()
}

/// Left and right of an engine that plays a single note.
fn alone(solo: Solo, n_samples: usize) -> [Vec<f32>; 2] {
    let Solo { instrument, pitch, velocity, duration } = solo;
    let mut engine = Engine::new(EngineConfig::default().with_sample_rate(RATE)).unwrap();
    let (key, semitones) = (pitch.round(), (pitch - pitch.round()) as f32);
    let start = Action::Start { note: 0, instrument, channel: 0, key: key as u8, velocity, pan: 0.0 };
    let release = ((duration * f64::from(RATE)).round() as u64).max(1);
    let events = [(0, Action::Bend { channel: 0, semitones }), (0, start), (release, Action::Release { note: 0 })];
    events.into_iter().for_each(|(at, action)| engine.push(Event { at, action }).unwrap());
    let mut sides = [vec![0.0; n_samples], vec![0.0; n_samples]];
    let [left, right] = &mut sides;
    engine.render(left, right);
    sides
}

fn rows(context: &Context, solos: &[Solo], n_samples: usize) -> Vec<f32> {
    let mut rows = vec![f32::NAN; solos.len() * n_samples];
    voices(context, (solos, RATE), &mut rows, &mut || Ok(())).unwrap();
    rows
}

#[test]
fn a_row_is_the_note_alone() {
    let n_samples = 12_345;
    let context = Context::builder().with_device(DeviceRequest::Cpu).with_threads(2).build().unwrap();
    let found = rows(&context, &solos(), n_samples);
    for (solo, row) in solos().into_iter().zip(found.chunks(n_samples)) {
        let [left, right] = alone(solo, n_samples);
        assert!(row == left && row == right, "{solo:?}");
        assert!(row.iter().any(|&sample| sample != 0.0), "{solo:?} is silent");
    }
}

#[test]
fn rows_do_not_depend_on_the_others() {
    rows_do_not_depend(&Context::cpu().unwrap(), 700, 0.0);
}

#[test]
fn rows_do_not_depend_on_the_others_on_cuda() {
    let Some(device) = gpu::find() else { return };
    rows_do_not_depend(&Context::on(device, Budget::unlimited()).unwrap(), gpu::cases(9, 700), 1e-5);
}

/// `n` rows are several batches where there are many; `error` is the distance from the CPU.
fn rows_do_not_depend(context: &Context, n: usize, error: f32) {
    let n_samples = if n > 100 { 24_000 } else { 1_000 };
    let many: Vec<Solo> = solos().into_iter().cycle().take(n).collect();
    let found = rows(context, &many, n_samples);
    for index in [0, 3, n - 1] {
        let row = &found[index * n_samples..][..n_samples];
        assert!(rows(context, &many[index..=index], n_samples) == row, "row {index}");
        let [left, _] = alone(many[index], n_samples);
        assert!(row.iter().zip(&left).all(|(row, left)| (row - left).abs() <= error), "row {index}");
    }
}

#[test]
fn voices_that_cannot_be_rendered_are_named() {
    let context = Context::cpu().unwrap();
    let good = solos()[1];
    let render = |solo: Solo, rate: u32, out: &mut [f32]| {
        voices(&context, (&[good, solo], rate), out, &mut || Ok(())).map_err(|error| error.to_string())
    };
    let refused = |what: &str| Err(format!("voice 1: the {what} is allowed"));
    let out = &mut [0.0; 20];
    assert_eq!(render(Solo { pitch: 127.5, ..good }, RATE, out), refused("pitch is 127.5; 0 to 127"));
    assert_eq!(render(Solo { pitch: f64::NAN, ..good }, RATE, out), refused("pitch is NaN; 0 to 127"));
    assert_eq!(render(Solo { velocity: -1.0, ..good }, RATE, out), refused("velocity is -1.0; 0 to 1"));
    assert_eq!(render(Solo { duration: 1e6, ..good }, RATE, out), refused("duration is 1000000.0; 0 to 86400"));
    assert!(render(good, 7_999, out).unwrap_err().contains("sample_rate is 7999"));
    assert!(render(good, RATE, &mut [0.0; 21]).unwrap_err().contains("21 samples are not 2 equal rows"));
    voices(&context, (&[], RATE), &mut [], &mut || Ok(())).unwrap();
    let stopped = voices(&context, (&[good], RATE), out, &mut || Err(Error::invalid("stop")));
    assert_eq!(stopped.unwrap_err().to_string(), "stop");
}

#[test]
fn what_cannot_be_recorded_is_said() {
    let mut score = piece(3.0);
    fn take(score: &Score) -> Take<'_> {
        Take::new(score).with_max_voices(256)
    }
    assert!(voice_seconds(take(&score), RATE).unwrap() > 3.0);
    let few = take(&score).with_max_voices(2);
    assert!(voice_seconds(few, RATE).unwrap_err().to_string().contains("voices at once"));
    score.notes.push(Note { start: 0.0, duration: 3000.0, ..score.notes[0] });
    assert!(voice_seconds(take(&score), RATE).unwrap_err().to_string().contains("ten minutes"));
    score.bends.push(Bend { at: 0.5, channel: 0, semitones: 1.0 });
    assert!(voice_seconds(take(&score), RATE).unwrap_err().to_string().starts_with("bends"));
}

#[test]
fn stems_add_up_to_what_enters_the_limiter() {
    let score = piece(4.0);
    // Quiet enough for the limiter to do nothing but wait.
    let mut quiet = setup(Length::Samples(4 * 24_000));
    quiet.bus.level = 0.1;
    let mut performance = Performance::new(&score, quiet.with_buses(Buses::Stems)).unwrap();
    let mut worst = 0f32;
    let mut heard = 0f32;
    while let Some(block) = performance.next_block(None).unwrap() {
        for (i, &mix) in block.left.iter().enumerate() {
            let sum: f32 = Instrument::ALL.iter().map(|&instrument| block.stem(instrument)[0][i]).sum();
            worst = worst.max((sum - mix).abs());
            heard = heard.max(mix.abs());
        }
    }
    assert!(heard > 0.001 && worst < 1e-6, "{worst} of {heard}");
}

#[test]
fn lengths_are_exact_and_ends_are_silent() {
    let score = piece(5.0);
    for n in [1, 999, 24_000, 120_001] {
        assert_eq!(play(&score, setup(Length::Samples(n)))[0].len() as u64, n);
    }
    let cut = play(&score, setup(Length::Samples(48_000)));
    assert!(cut[0][24_000..30_000].iter().any(|x| x.abs() > 0.01));
    let whole = play(&score, setup(Length::Whole));
    let end = &whole[0][whole[0].len() - 2400..];
    assert!(whole[0].len() > 5 * 24_000 && end.iter().all(|x| x.abs() < 2e-5), "{}", whole[0].len());
    assert!(play(&Score::default(), setup(Length::Whole))[0].is_empty());
}

#[test]
fn a_midi_file_sounds_as_the_piece() {
    let seconds = 8.0;
    let mut score = piece(seconds);
    // What is cut at the end need not lie on a tick.
    score.notes.retain(|note| note.start + note.duration < seconds - 0.01);
    let back = Score::from_midi(&score.to_midi().unwrap()).unwrap();
    let samples = Length::Samples(8 * 24_000);
    assert!(play(&score, setup(samples)) == play(&back, setup(samples)));
}

#[test]
fn every_preset_reaches_its_loudness_below_the_ceiling() {
    for (name, target) in [("focus", -16.0), ("meditation", -23.0), ("sleep", -20.0), ("bright", -12.0)] {
        let score = compose(&Style::named(name).unwrap(), 1, 16.0).unwrap();
        let setup = setup(Length::Samples(16 * 24_000));
        let listen = |mut performance: Performance| {
            let mut meter = Meter::new(RATE);
            while let Some(block) = performance.next_block(None)? {
                meter.push(block.left, block.right);
            }
            Ok(meter)
        };
        let level = balance(setup, target, |setup| listen(Performance::new(&score, setup)?)).unwrap().gain;
        let bus = setup.bus.with_level(level);
        let meter = listen(Performance::new(&score, setup.with_bus(bus)).unwrap()).unwrap();
        let (loudness, peak) = (meter.integrated().unwrap(), meter.peak_dbtp().unwrap());
        println!("{name}: {loudness:.2} LUFS, {peak:.2} dBTP");
        assert!((loudness - target).abs() < 0.2, "{name}: {loudness} LUFS");
        assert!(peak <= -1.0, "{name}: {peak} dBTP");
    }
}

fn between(random: &mut SplitMix64, [low, high]: [f32; 2]) -> f32 {
    low + (high - low) * random.unit()
}

/// Each draw starts a note and moves a control or a bend, all of them random; 64 samples later comes the next.
fn draw(n: u64, rate: u32, seed: u64) {
    let mut random = SplitMix64::new(seed);
    let config = EngineConfig::default().with_sample_rate(rate).with_max_voices(64);
    let mut engine = Engine::new(config).unwrap();
    let mut bus = Bus::new(BusConfig::new(rate).with_level(8.0)).unwrap();
    let (mut left, mut right) = ([0f32; 64], [0f32; 64]);
    for note in 0..n {
        let at = engine.position() + random.bits() % 64;
        let start = Action::Start {
            note,
            instrument: Instrument::ALL[random.bits() as usize % 7],
            channel: (random.bits() % 16) as u8,
            key: (random.bits() % 128) as u8,
            velocity: between(&mut random, [0.0, 1.0]),
            pan: between(&mut random, [-1.0, 1.0]),
        };
        engine.push(Event { at, action: start }).unwrap();
        let parameter = Parameter::ALL[random.bits() as usize % 5];
        let value = between(&mut random, parameter.range());
        let (channel, semitones) = ((random.bits() % 16) as u8, between(&mut random, [-24.0, 24.0]));
        engine.push(Event { at, action: Action::Set { parameter, value } }).unwrap();
        engine.push(Event { at, action: Action::Bend { channel, semitones } }).unwrap();
        if note > 0 {
            engine.push(Event { at, action: Action::Release { note: random.bits() % note } }).unwrap();
        }
        engine.render(&mut left, &mut right);
        bus.set(parameter, value);
        bus.process(&mut left, &mut right);
        let sane = |sample: &f32| sample.is_finite() && sample.abs() <= 1.0;
        assert!(left.iter().chain(&right).all(sane), "draw {note} at {rate} Hz: {start:?} {parameter:?} {value}");
    }
}

#[test]
fn random_parameters_stay_within_full_scale() {
    for rate in [8000, 48_000, 192_000] {
        draw(3000, rate, 1);
    }
}

#[test]
#[ignore = "extended: a million random draws"]
fn a_million_random_parameters_stay_within_full_scale() {
    for (index, rate) in [8000, 22_050, 48_000, 192_000].into_iter().enumerate() {
        draw(250_000, rate, 7 + index as u64);
    }
}

#[test]
fn absurd_scores_are_refused_or_played() {
    let note =
        Note { instrument: Instrument::Lead, start: 0.0, duration: 1.0, key: 60, velocity: 0.5, pan: 0.0, channel: 0 };
    for wrong in [Note { start: -1.0, ..note }, Note { key: 200, ..note }, Note { duration: f64::NAN, ..note }] {
        let score = Score { notes: vec![wrong], ..Score::default() };
        assert!(Performance::new(&score, setup(Length::Whole)).is_err());
    }
    // More notes at once than there are voices and places.
    let crowd = Score { notes: vec![note; 5000], ..Score::default() };
    let sound = play(&crowd, setup(Length::Samples(24_000)));
    assert!(sound.iter().flatten().all(|x| x.abs() <= 0.9));
}

#[test]
fn a_rest_takes_nothing_of_the_tail_after_it() {
    let played = |start: f64| {
        let notes = vec![Note::new(Instrument::Pluck, start, 0.1, 60)];
        let controls = vec![Control { at: 0.0, parameter: Parameter::Reverb, value: 1.0 }];
        let score = Score { tempo: 120.0, notes, controls, ..Score::default() };
        play(&score, setup(Length::Whole))[0].len()
    };
    assert_eq!(played(2.05), played(0.05) + 2 * RATE as usize);
}
