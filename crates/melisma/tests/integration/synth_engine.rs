//! The engine as a whole: the same bits however it is asked, no clicks, sensible refusals.

use melisma::random::Lcg64;
use melisma::runtime::device::Device;
use melisma::runtime::memory::Budget;
use melisma::runtime::{Cpu, Isa};
use melisma::synth::{Action, Buses, Engine, EngineConfig, Event, Instrument, Parameter, Stem};
use proptest::prelude::*;

const LEN: usize = 24_000;

fn start(note: u64, instrument: Instrument, key: u8) -> Action {
    Action::Start {
        note,
        instrument,
        channel: (note % 3) as u8,
        key,
        velocity: 0.7,
        pan: (note % 5) as f32 / 2.0 - 1.0,
    }
}

/// Notes of all instruments, bends and parameters at odd samples.
fn events(seed: u64, n_notes: u64) -> Vec<Event> {
    let mut generator = Lcg64::new(seed);
    let mut random = move |below: u64| generator.bits() % below;
    let mut events = Vec::new();
    for note in 0..n_notes {
        let at = random(LEN as u64);
        let instrument = Instrument::ALL[random(7) as usize];
        events.push(Event { at, action: start(note, instrument, 30 + random(70) as u8) });
        events.push(Event { at: at + random(9000), action: Action::Release { note } });
    }
    for _ in 0..4 {
        let bend = Action::Bend { channel: random(3) as u8, semitones: random(9) as f32 - 4.0 };
        events.push(Event { at: random(LEN as u64), action: bend });
        let value = 0.2 + random(30) as f32 / 10.0;
        let set = Action::Set { parameter: Parameter::Brightness, value };
        events.push(Event { at: random(LEN as u64), action: set });
        let set = Action::Set { parameter: Parameter::Motion, value: random(11) as f32 / 10.0 };
        events.push(Event { at: random(LEN as u64), action: set });
    }
    events
}

fn engine(config: EngineConfig, events: &[Event]) -> Engine {
    let mut engine = Engine::new(config).expect("an engine that takes all events");
    events.iter().for_each(|&event| engine.push(event).expect("an engine that takes all events"));
    engine
}

fn render(engine: &mut Engine, lengths: &[usize], len: usize) -> [Vec<f32>; 2] {
    render_by(engine, Engine::render, lengths, len)
}

type Render = fn(&mut Engine, &mut [f32], &mut [f32]);

fn render_by(engine: &mut Engine, render: Render, lengths: &[usize], len: usize) -> [Vec<f32>; 2] {
    let mut out = [vec![0.0; len], vec![0.0; len]];
    let [left, right] = &mut out;
    let (mut done, mut lengths) = (0, lengths.iter().cycle());
    while done < len {
        let n = (*lengths.next().expect("a length")).min(len - done);
        render(engine, &mut left[done..done + n], &mut right[done..done + n]);
        done += n;
    }
    out
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 12, ..ProptestConfig::default() })]

    #[test]
    fn the_bits_do_not_depend_on_how_it_is_asked(
        seed in any::<u64>(), n_notes in 1u64..60, lengths in proptest::collection::vec(1usize..2000, 1..6), threads in 1usize..4,
    ) {
        let events = events(seed, n_notes);
        let config = EngineConfig::default().with_max_voices(24);
        let whole = render(&mut engine(config, &events), &[LEN], LEN);
        prop_assert!(whole[0].iter().all(|sample| sample.is_finite()));
        prop_assert_eq!(&render(&mut engine(config, &events), &lengths, LEN), &whole);
        prop_assert_eq!(&render_by(&mut engine(config, &events), Engine::render_singly, &[480], LEN), &whole);
        let stems = config.with_buses(Buses::Stems);
        prop_assert_eq!(&render(&mut engine(stems, &events), &[777], LEN), &whole);
        let queue = Device::Cpu(Cpu { isa: Isa::best(), threads }).queue(&Budget::unlimited()).unwrap();
        let mut parallel = [vec![0.0; LEN], vec![0.0; LEN]];
        let [left, right] = &mut parallel;
        let mut engine = engine(config, &events);
        for (left, right) in left.chunks_mut(960).zip(right.chunks_mut(960)) {
            engine.render_on(&queue, left, right);
        }
        prop_assert_eq!(&parallel, &whole);
    }
}

/// Events that come while the music plays give the bits that they give when known before.
#[test]
fn live_events_are_the_same_as_planned_ones() {
    let mut events = events(7, 40);
    events.sort_by_key(|event| event.at);
    let config = EngineConfig::default();
    let planned = render(&mut engine(config, &events), &[LEN], LEN);
    let mut live = Engine::new(config).unwrap();
    let mut out = [vec![0.0; LEN], vec![0.0; LEN]];
    let [left, right] = &mut out;
    let mut events = events.into_iter().peekable();
    for at in 0..LEN {
        while let Some(event) = events.next_if(|event| event.at == at as u64) {
            live.push(event).unwrap();
        }
        live.render(&mut left[at..=at], &mut right[at..=at]);
    }
    assert!(out == planned);
}

#[test]
fn stems_add_up_to_the_mix() {
    let events = events(11, 40);
    let config = EngineConfig::default().with_buses(Buses::Stems);
    let mix = render(&mut engine(config, &events), &[LEN], LEN);
    let mut sides = vec![[vec![0.0f32; LEN], vec![0.0f32; LEN]]; 7];
    let mut stems: Vec<Stem<'_>> = sides.iter_mut().map(|[left, right]| Stem { left, right }).collect();
    let mut stems: [Stem<'_>; 7] = std::mem::take(&mut stems).try_into().unwrap();
    engine(config, &events).render_stems(&mut stems).unwrap();
    for (index, &mixed) in mix[0].iter().enumerate() {
        let sum: f32 = sides.iter().map(|side| side[0][index]).sum();
        assert!((sum - mixed).abs() < 1e-6, "sample {index}: {sum} and {mixed}");
    }
    assert!(Engine::new(EngineConfig::default()).unwrap().render_stems(&mut array_of_empty()).is_err());
}

fn array_of_empty<'a>() -> [Stem<'a>; 7] {
    std::array::from_fn(|_| Stem { left: &mut [], right: &mut [] })
}

/// The largest second difference: a click is a corner.
fn corner(samples: &[f32]) -> f32 {
    samples.windows(3).map(|w| (w[0] - 2.0 * w[1] + w[2]).abs()).fold(0.0, f32::max)
}

#[test]
fn notes_begin_end_and_give_way_without_clicks() {
    let low = |note| Event { at: 1000 + 1500 * note, action: start(note, Instrument::Pad, 33) };
    // Retriggers, releases inside of the attack, and more notes than voices.
    let mut events: Vec<Event> = (0..12).map(low).collect();
    events.extend((0..6).map(|note| Event { at: 1100 + 1500 * note, action: Action::Release { note } }));
    events.extend((0..6).map(|note| Event { at: 1000 + 2100 * note, action: start(3, Instrument::Pad, 35) }));
    let config = EngineConfig::default().with_max_voices(3);
    let out = render(&mut engine(config, &events), &[480], LEN);
    assert!(corner(&out[0]) < 1e-3, "{}", corner(&out[0]));
    assert!(out[0].iter().any(|sample| sample.abs() > 1e-3));
}

#[test]
fn a_released_note_ends_and_the_engine_falls_silent() {
    for instrument in Instrument::ALL {
        let mut engine = engine(
            EngineConfig::default(),
            &[
                Event { at: 10, action: start(1, instrument, 50) },
                Event { at: 48_000, action: Action::Release { note: 1 } },
            ],
        );
        let out = render(&mut engine, &[4800], 480_000);
        assert_eq!(engine.active(), 0, "{instrument:?}");
        assert!(out[0][..4800].iter().any(|sample| *sample != 0.0), "{instrument:?}");
        assert!(out[0][470_000..].iter().all(|sample| *sample == 0.0), "{instrument:?}");
        let peak = out[0].iter().fold(0f32, |peak, sample| peak.max(sample.abs()));
        assert!((0.005..0.7).contains(&peak), "{instrument:?}: {peak}");
    }
}

#[test]
fn a_reset_engine_is_like_a_new_one() {
    let config = EngineConfig::default().with_max_voices(4);
    let planned = events(3, 20);
    let expected = render(&mut engine(config, &planned), &[480], LEN);
    let mut used = engine(config, &events(4, 40));
    for channel in 0..3 {
        used.push(Event { at: 0, action: Action::Bend { channel, semitones: 7.0 } }).unwrap();
    }
    render(&mut used, &[480], LEN / 2);
    used.reset();
    assert_eq!((used.position(), used.active(), used.waiting(), used.dropped()), (0, 0, 0, 0));
    planned.iter().for_each(|&event| used.push(event).unwrap());
    assert_eq!(render(&mut used, &[480], LEN), expected);
}

#[test]
fn too_many_notes_are_counted_and_nothing_breaks() {
    let events: Vec<Event> = (0..600)
        .map(|note| Event { at: note / 40, action: start(note, Instrument::ALL[note as usize % 7], 60) })
        .collect();
    let mut engine = engine(EngineConfig::default().with_max_voices(16), &events);
    let out = render(&mut engine, &[480], 9600);
    assert!(out[0].iter().all(|sample| sample.is_finite()));
    assert!(engine.dropped() > 0 && engine.active() <= 16 + 7 * 16);
}

#[test]
fn figures_outside_of_their_ranges_are_refused() {
    let mut engine = Engine::new(EngineConfig::default()).unwrap();
    let wrong = [
        Action::Start { note: 0, instrument: Instrument::Pad, channel: 16, key: 0, velocity: 0.0, pan: 0.0 },
        Action::Start { note: 0, instrument: Instrument::Pad, channel: 0, key: 128, velocity: 0.0, pan: 0.0 },
        Action::Start { note: 0, instrument: Instrument::Pad, channel: 0, key: 0, velocity: f32::NAN, pan: 0.0 },
        Action::Start { note: 0, instrument: Instrument::Pad, channel: 0, key: 0, velocity: 0.0, pan: -1.5 },
        Action::Bend { channel: 0, semitones: f32::INFINITY },
        Action::Set { parameter: Parameter::Brightness, value: 0.0 },
        Action::Set { parameter: Parameter::Gain, value: f32::NAN },
    ];
    for action in wrong {
        assert!(engine.push(Event { at: 0, action }).is_err(), "{action:?}");
    }
    for sample_rate in [0, 7_999, 192_001] {
        assert!(Engine::new(EngineConfig::default().with_sample_rate(sample_rate)).is_err());
    }
    render(&mut engine, &[100], 100);
    assert!(engine.push(Event { at: 99, action: Action::Release { note: 1 } }).is_err());
}

#[test]
fn every_rate_and_key_stays_finite() {
    for sample_rate in [8_000, 11_025, 44_100, 192_000] {
        for key in [0, 1, 64, 126, 127] {
            let notes = Instrument::ALL.iter().enumerate();
            let mut events: Vec<Event> =
                notes.map(|(note, &instrument)| Event { at: 3, action: start(note as u64, instrument, key) }).collect();
            events.push(Event { at: 500, action: Action::Bend { channel: 0, semitones: 48.0 } });
            events.push(Event { at: 700, action: Action::Bend { channel: 1, semitones: -48.0 } });
            let config = EngineConfig::default().with_sample_rate(sample_rate);
            let mut engine = engine(config, &events);
            let out = render(&mut engine, &[1000], 4000);
            assert_eq!(engine.dropped(), 0);
            assert!(out.iter().flatten().all(|sample| sample.abs() < 4.0), "{sample_rate} Hz, key {key}");
        }
    }
}
