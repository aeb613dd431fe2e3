//! Phrases and live streams.

use melisma::runtime::device::Device;
use melisma::runtime::memory::Budget;
use melisma::runtime::{Cpu, Isa};
use melisma::synth::{
    Action, BulkConfig, BulkRenderer, Chord, Engine, EngineConfig, Event, Instrument, Kick, Melody, Parameter, Phrase,
    PhraseRenderer, Stream, Swell, render_all,
};

fn phrase() -> Phrase {
    Phrase {
        seconds: 2.0,
        chords: vec![
            Chord { onset: 0.0, duration: 0.9, keys: vec![45, 57, 60, 64], velocity: 0.6 },
            Chord { onset: 1.0, duration: 0.9, keys: vec![41, 57, 60, 65], velocity: 0.6 },
        ],
        melody: (0..8)
            .map(|i| Melody { onset: 0.25 * f64::from(i), duration: 0.2, key: 69 + i as u8, velocity: 0.5 })
            .collect(),
        kicks: (0..4).map(|i| Kick { onset: 0.5 * f64::from(i), velocity: 0.9 }).collect(),
        swells: vec![Swell { onset: 0.5, duration: 1.0, velocity: 0.5 }],
    }
}

#[test]
fn a_phrase_is_its_events() {
    let config = EngineConfig::default();
    let mut renderer = PhraseRenderer::new(config, 30.0).unwrap();
    let mut engine = Engine::new(config).unwrap();
    let mut n_notes = 0;
    // The second phrase goes on where the first one rings.
    for round in 0..2 {
        phrase()
            .place(engine.position(), config.sample_rate, |note| {
                n_notes += 1;
                note.events(n_notes).into_iter().try_for_each(|event| engine.push(event))
            })
            .unwrap();
        let (mut left, mut right) = (vec![0.0; 96_000], vec![0.0; 96_000]);
        engine.render(&mut left, &mut right);
        let sound = renderer.render_phrase(&phrase()).unwrap();
        assert!(sound.left == left && sound.right == right, "phrase {round}");
        assert!(left.iter().any(|&sample| sample.abs() > 0.05));
    }
    let queue = Device::Cpu(Cpu { isa: Isa::best(), threads: 2 }).queue(&Budget::unlimited()).unwrap();
    let mut threads = PhraseRenderer::new(config, 2.0).unwrap();
    let mut one = PhraseRenderer::new(config, 2.0).unwrap();
    assert!(threads.render_phrase_on(&queue, &phrase()).unwrap().left == one.render_phrase(&phrase()).unwrap().left);
    let refused = one.render_phrase(&Phrase { seconds: 2.1, ..phrase() }).unwrap_err();
    assert!(refused.to_string().contains("96000"), "{refused}");
}

#[test]
fn a_refused_phrase_leaves_no_trace() {
    let config = EngineConfig::default().with_max_events(60);
    let mut renderer = PhraseRenderer::new(config, 2.0).unwrap();
    let mut untouched = PhraseRenderer::new(config, 2.0).unwrap();
    let good = phrase();
    let with = |change: &dyn Fn(&mut Phrase)| {
        let mut phrase = good.clone();
        change(&mut phrase);
        phrase
    };
    // The last note of each is wrong, after all others are right.
    let wrong = [
        (with(&|phrase| phrase.swells[0].velocity = 1.5), "swell 0: the velocity is 1.5"),
        (with(&|phrase| phrase.swells[0].duration = f64::NAN), "swell 0: the duration is NaN"),
        (with(&|phrase| phrase.kicks[3].onset = -0.5), "kick 3: the onset is -0.5"),
        (with(&|phrase| phrase.melody[7].onset = f64::INFINITY), "melody 7: the onset is inf"),
        (with(&|phrase| phrase.melody[7].key = 128), "melody 7: the key is 128"),
        (with(&|phrase| phrase.chords[1].keys[3] = 255), "chord 1: the key is 255"),
        (with(&|phrase| phrase.seconds = f64::NAN), "seconds is NaN"),
        (with(&|phrase| phrase.kicks = vec![Kick { onset: 0.0, velocity: 0.1 }; 14]), "62 events"),
    ];
    let device = Device::Cpu(Cpu { isa: Isa::best(), threads: 1 });
    let bulk = BulkConfig::new(1, 2.0, 48_000);
    let mut bulk = BulkRenderer::new(&device, &Budget::unlimited(), bulk).unwrap();
    for (phrase, message) in &wrong {
        let error = renderer.render_phrase(phrase).unwrap_err();
        assert!(error.to_string().contains(message), "{error}");
        assert_eq!((renderer.engine().waiting(), renderer.engine().position()), (0, 0), "{message}");
        assert_eq!(bulk.start(std::slice::from_ref(phrase)).is_err(), phrase.check().is_err(), "{message}");
    }
    assert_eq!(good.n_notes(), 21);
    let (found, expected) = (renderer.render_phrase(&good).unwrap(), untouched.render_phrase(&good).unwrap());
    assert!(found.left == expected.left && found.right == expected.right);
}

fn start(note: u64, key: u8) -> Action {
    Action::Start { note, instrument: Instrument::Lead, channel: 0, key, velocity: 0.8, pan: 0.0 }
}

#[test]
fn actions_sound_in_the_next_block_with_the_bits_of_a_plan() {
    let (mut stream, remote) = Stream::dry(EngineConfig::default()).unwrap();
    let mut planned = Engine::new(EngineConfig::default()).unwrap();
    let len = stream.block_len();
    assert_eq!(len, 480);
    let actions = |block: u64| match block {
        3 => vec![start(1, 60), start(2, 67)],
        9 => vec![Action::Set { parameter: Parameter::Brightness, value: 4.0 }],
        12 => vec![Action::Release { note: 1 }, Action::Bend { channel: 0, semitones: 2.0 }],
        _ => vec![],
    };
    for block in 0..40 {
        for action in actions(block) {
            remote.send(action).unwrap();
            planned.push(Event { at: block * len as u64, action }).unwrap();
        }
        let (mut left, mut right) = (vec![0.0; len], vec![0.0; len]);
        planned.render(&mut left, &mut right);
        let played = stream.next_block();
        assert_eq!((played.number, played.position), (block, block * len as u64));
        assert!(played.left == left && played.right == right, "block {block}");
        assert_eq!(left.iter().any(|&sample| sample != 0.0), block >= 3, "block {block}");
    }
    assert!(remote.send(Action::Bend { channel: 0, semitones: f32::NAN }).is_err());
    assert_eq!(stream.lost(), 0);
    drop(stream);
    assert!(remote.send(start(9, 60)).is_err());
}

#[test]
fn streams_do_not_hear_each_other() {
    let make = |index: u8| {
        let (mut stream, remote) = Stream::new(EngineConfig::default().with_max_voices(8)).unwrap();
        for voice in 0..8 {
            remote.send(start(voice, 40 + index + 3 * voice as u8)).unwrap();
        }
        stream.engine().push(Event { at: 2000, action: Action::Release { note: 2 } }).unwrap();
        stream
    };
    let mut together: Vec<Stream> = (0..10).map(make).collect();
    let mut alone: Vec<Stream> = (0..10).map(make).collect();
    let queue = Device::Cpu(Cpu { isa: Isa::best(), threads: 2 }).queue(&Budget::unlimited()).unwrap();
    for _ in 0..20 {
        render_all(&queue, &mut together);
        for (together, alone) in together.iter_mut().zip(&mut alone) {
            let expected = alone.next_block();
            let found = together.last_block();
            assert!(found.left == expected.left && found.right == expected.right && found.number == expected.number);
        }
    }
}

#[test]
fn a_live_stream_leaves_a_capture() {
    let folder = tempfile::tempdir().unwrap();
    let (mut stream, remote) = Stream::new(EngineConfig::default()).unwrap();
    let (mut other, echo) = Stream::new(EngineConfig::default()).unwrap();
    stream.capture_to(folder.path()).unwrap();
    for remote in [&remote, &echo] {
        let instrument = Instrument::Lead;
        remote.send(Action::Start { note: 1, instrument, channel: 0, key: 60, velocity: 0.5, pan: 0.0 }).unwrap();
    }
    let mut expected = Vec::new();
    for block in 0..137 {
        let played = other.next_block();
        if block >= 37 {
            expected.extend(played.left.iter().zip(played.right.iter()).flat_map(|(left, right)| [*left, *right]));
        }
        stream.next_block();
    }
    stream.finish_capture().unwrap();
    let bytes = std::fs::read(folder.path().join("capture.wav")).unwrap();
    assert!(melisma::audio::wav::decode(&bytes).unwrap().to_clip().samples == expected);
}
