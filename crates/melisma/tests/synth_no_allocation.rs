//! Rendering allocates nothing: this binary counts every allocation of its process.

#[path = "../../melisma-kernels/tests/counting/mod.rs"]
mod counting;

use counting::allocations;
use melisma::synth::{Action, Engine, EngineConfig, Event, Instrument, Parameter};

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

/// One test, so that no other thread allocates meanwhile.
#[test]
fn rendering_allocates_nothing() {
    let mut engine = Engine::new(EngineConfig { max_voices: 48, ..EngineConfig::default() }).unwrap();
    let (mut left, mut right) = ([0.0; 480], [0.0; 480]);
    let before = allocations();
    play(&mut engine, 0..3000, &mut left, &mut right);
    // The table of the saw's step may be made by the first note.
    assert!(allocations() - before <= 4, "{}", allocations() - before);
    let before = allocations();
    play(&mut engine, 3000..9000, &mut left, &mut right);
    assert_eq!(allocations() - before, 0);
    assert!(engine.active() > 0);
}
