//! Rendering allocates nothing. A program of its own, because it counts every allocation of its process.

#![allow(clippy::unwrap_used, reason = "a failed expectation is the test's own message")]

#[path = "../../melisma-kernels/tests/counting/mod.rs"]
mod counting;

use counting::{allocations, allocations_here};
use melisma::runtime::device::Device;
use melisma::runtime::memory::Budget;
use melisma::runtime::{Cpu, Isa};
use melisma::synth::{
    Action, Bus, BusConfig, Buses, Chord, Engine, EngineConfig, Event, Instrument, Kick, Melody, Parameter, Phrase,
    PhraseRenderer, Stream, Swell,
};

fn play(engine: &mut Engine, blocks: std::ops::Range<u64>, left: &mut [f32], right: &mut [f32]) {
    for block in blocks {
        let at = engine.position() + block % 480;
        let instrument = Instrument::ALL[block as usize % 7];
        let key = 36 + (block * 7 % 60) as u8;
        let note = Action::Start { note: block, instrument, channel: 0, key, velocity: 0.5, pan: 0.0 };
        engine.push(Event { at, action: note }).expect("a place for the event");
        if block > 20 {
            engine
                .push(Event { at: at + 5, action: Action::Release { note: block - 20 } })
                .expect("a place for the event");
        }
        let value = 0.5 + (block % 10) as f32 / 10.0;
        engine
            .push(Event { at, action: Action::Set { parameter: Parameter::Brightness, value } })
            .expect("a place for the event");
        engine
            .push(Event { at, action: Action::Bend { channel: 0, semitones: value } })
            .expect("a place for the event");
        engine.render(left, right);
    }
}

fn phrase() -> Phrase {
    Phrase {
        seconds: 1.0,
        chords: vec![Chord { onset: 0.0, duration: 0.9, keys: (40..72).collect(), velocity: 0.4 }],
        melody: (0..4).map(|i| Melody { onset: 0.2 * f64::from(i), duration: 0.1, key: 72, velocity: 0.5 }).collect(),
        kicks: vec![Kick { onset: 0.5, velocity: 0.9 }],
        swells: vec![Swell { onset: 0.0, duration: 0.8, velocity: 0.5 }],
    }
}

fn engine(buses: Buses) -> Engine {
    Engine::new(EngineConfig::default().with_max_voices(48).with_buses(buses)).unwrap()
}

fn alone() {
    for buses in [Buses::Mix, Buses::Stems] {
        let mut engine = engine(buses);
        let (mut left, mut right) = ([0.0; 480], [0.0; 480]);
        let before = allocations();
        play(&mut engine, 0..6000, &mut left, &mut right);
        assert_eq!(allocations() - before, 0, "{buses:?}");
        assert!(engine.active() > 0);
    }
}

fn with_threads() {
    let queue = Device::Cpu(Cpu { isa: Isa::best(), threads: 3 }).queue(&Budget::unlimited()).unwrap();
    for buses in [Buses::Mix, Buses::Stems] {
        let mut engine = engine(buses);
        engine.prepare(&queue);
        let (mut left, mut right) = (vec![0.0; 8000], vec![0.0; 8000]);
        // The threads are there, and have run.
        engine.render_on(&queue, &mut left, &mut right);
        queue.each(&mut [0u8; 64], |item| *item += 1);
        let before = allocations();
        for note in 0..40 {
            let (instrument, key) = (Instrument::ALL[note as usize % 7], 40 + note as u8);
            let action = Action::Start { note, instrument, channel: 0, key, velocity: 0.5, pan: 0.0 };
            engine.push(Event { at: engine.position(), action }).unwrap();
            engine.render_on(&queue, &mut left, &mut right);
        }
        assert_eq!(allocations() - before, 0, "{buses:?}");
    }
}

fn phrases() {
    let phrase = phrase();
    let mut renderer = PhraseRenderer::new(EngineConfig::default(), 1.0).unwrap();
    let mut bus = Bus::new(BusConfig::new(48_000)).unwrap();
    let before = allocations();
    for round in 0..20 {
        let parameter = Parameter::ALL[round % 5];
        bus.set(parameter, 0.5);
        let sound = renderer.render_phrase(&phrase).unwrap();
        bus.process(sound.left, sound.right);
    }
    assert_eq!(allocations() - before, 0);
}

fn live() {
    let folder = tempfile::tempdir().unwrap();
    let (mut stream, remote) = Stream::new(EngineConfig::default().with_max_voices(48)).unwrap();
    stream.capture_to(folder.path()).unwrap();
    // The thread that writes the capture may allocate; this one may not.
    let before = allocations_here();
    for note in 0..3000 {
        let (instrument, key) = (Instrument::ALL[note as usize % 7], 36 + (note * 7 % 60) as u8);
        remote.send(Action::Start { note, instrument, channel: 0, key, velocity: 0.5, pan: 0.0 }).unwrap();
        let parameter = Parameter::ALL[note as usize % 5];
        remote.send(Action::Set { parameter, value: 0.2 + (note % 7) as f32 / 10.0 }).unwrap();
        if note >= 20 {
            remote.send(Action::Release { note: note - 20 }).unwrap();
        }
        stream.next_block();
    }
    assert_eq!(allocations_here() - before, 0);
    assert_eq!(stream.lost(), 0);
    stream.finish_capture().unwrap();
}

/// One test, so that no other thread allocates meanwhile.
#[test]
fn rendering_allocates_nothing() {
    alone();
    with_threads();
    phrases();
    live();
}
