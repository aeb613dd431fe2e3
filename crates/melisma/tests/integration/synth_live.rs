//! Streams with their bus, and generated music without end: what a performance of the same score gives.

use melisma::synth::{
    Action, Bend, BusConfig, Control, Endless, EngineConfig, Instrument, Parameter, Performance, Score, Setup, Stream,
    Style, compose,
};

fn config(sample_rate: u32) -> EngineConfig {
    EngineConfig::default().with_sample_rate(sample_rate)
}

/// Left and right of the whole score, or of its first `most` samples.
fn perform(score: &Score, rate: u32, most: usize) -> [Vec<f32>; 2] {
    let max_voices = EngineConfig::default().max_voices;
    let setup = Setup::new(BusConfig::new(rate)).with_max_voices(max_voices);
    let mut performance = Performance::new(score, setup).unwrap();
    let mut out = [Vec::new(), Vec::new()];
    while let Some(block) = performance.next_block(None).unwrap().filter(|_| out[0].len() < most) {
        out[0].extend_from_slice(block.left);
        out[1].extend_from_slice(block.right);
    }
    out.iter_mut().for_each(|side| side.truncate(most));
    out
}

/// A piece whose controls and pitch move, at samples of no block.
fn piece() -> Score {
    let mut score = compose(&Style::named("bright").unwrap(), 5, 5.0).unwrap();
    let moves = [
        (0.31, Parameter::Gain, 0.3),
        (0.911, Parameter::Reverb, 0.9),
        (1.5003, Parameter::Delay, 0.7),
        (1.5003, Parameter::Brightness, 3.0),
        (2.2, Parameter::Gain, 1.0),
        (3.777, Parameter::Motion, 0.1),
        (3.7771, Parameter::Reverb, 0.0),
    ];
    score.controls.extend(moves.map(|(at, parameter, value)| Control { at, parameter, value }));
    score.bends.extend([(0.5, 3.0), (1.234, -2.0), (4.0, 0.0)].map(|(at, semitones)| Bend {
        at,
        channel: 0,
        semitones,
    }));
    score.sort();
    score
}

#[test]
fn a_stream_has_the_bits_of_a_performance() {
    let score = piece();
    for (rate, lengths) in [(24_000, &[][..]), (44_100, &[441, 1, 64, 5000, 333]), (8000, &[80])] {
        let expected = perform(&score, rate, usize::MAX);
        let (mut stream, _remote) = Stream::new(config(rate)).unwrap();
        score.events(rate).into_iter().for_each(|event| stream.engine().push(event).unwrap());
        let len = expected[0].len() + stream.latency();
        let mut found = [Vec::new(), Vec::new()];
        let mut lengths = lengths.iter().cycle();
        while found[0].len() < len {
            match lengths.next() {
                None => {
                    let block = stream.next_block();
                    found[0].extend_from_slice(block.left);
                    found[1].extend_from_slice(block.right);
                }
                Some(&n) => {
                    let mut block = [vec![0.0; n], vec![0.0; n]];
                    let [left, right] = &mut block;
                    stream.render(left, right);
                    found.iter_mut().zip(block).for_each(|(side, block)| side.extend(block));
                }
            }
        }
        assert!(stream.latency() > 0 && stream.lost() == 0);
        for (found, expected) in found.iter().zip(&expected) {
            assert!(found[stream.latency()..len] == expected[..], "{rate} Hz");
        }
    }
}

/// A control of the bus or of the voices is heard in the next block and has arrived in the one after that.
#[test]
fn live_controls_are_heard_within_two_blocks() {
    let steady = |set: Option<(Parameter, f32)>| {
        let (mut stream, remote) = Stream::new(EngineConfig::default()).unwrap();
        let note = Action::Start { note: 1, instrument: Instrument::Pad, channel: 0, key: 57, velocity: 0.8, pan: 0.0 };
        remote.send(note).unwrap();
        for _ in 0..150 {
            stream.next_block();
        }
        if let Some((parameter, value)) = set {
            remote.send(Action::Set { parameter, value }).unwrap();
        }
        let mut blocks = Vec::new();
        for _ in 0..4 {
            blocks.push(stream.next_block().left.to_vec());
        }
        blocks
    };
    let plain = steady(None);
    for parameter in Parameter::ALL {
        let value = if parameter == Parameter::Brightness { 5.0 } else { 0.4 };
        assert!(steady(Some((parameter, value)))[0] != plain[0], "{parameter:?}");
    }
    let silent = steady(Some((Parameter::Gain, 0.0)));
    assert!(plain[2].iter().any(|&sample| sample.abs() > 0.01));
    assert!(silent[2].iter().all(|&sample| sample == 0.0));
    assert!(Stream::with_bus(config(48_000), BusConfig::new(44_100)).is_err());
}

#[test]
fn endless_music_is_the_composed_piece() {
    let (rate, seconds) = (8000, 50.0);
    let style = Style::named("bright").unwrap();
    let (mut music, _remote) = Endless::new(style.clone(), 11, config(rate)).unwrap();
    let latency = music.stream().latency();
    let mut found = [Vec::new(), Vec::new()];
    for _ in 0..(seconds * 100.0) as usize {
        let block = music.next_block().unwrap();
        found[0].extend_from_slice(block.left);
        found[1].extend_from_slice(block.right);
    }
    // Two phrases and a part of the third; the piece is cut later.
    let score = compose(&style, 11, seconds + 10.0).unwrap();
    let expected = perform(&score, rate, found[0].len() - latency);
    for (found, expected) in found.iter().zip(&expected) {
        assert!(found[latency..] == expected[..]);
    }
}

fn hours(n_hours: f64, name: &str) {
    let rate = 8000;
    let style = Style::named(name).unwrap();
    let (mut music, _remote) = Endless::new(style, 3, config(rate)).unwrap();
    let (mut n_quiet, mut longest, mut peak) = (0u64, 0, 0f32);
    for block in 0..(n_hours * 360_000.0) as u64 {
        let played = music.next_block().unwrap();
        assert_eq!((played.number, played.position), (block, 80 * block));
        let loudest = played.left.iter().chain(&*played.right).fold(0f32, |loudest, x| loudest.max(x.abs()));
        assert!(loudest.is_finite(), "block {block}");
        peak = peak.max(loudest);
        n_quiet = if loudest < 1e-4 { n_quiet + 1 } else { 0 };
        longest = longest.max(n_quiet);
    }
    let stream = music.stream();
    println!("{name}: peak {peak}, longest silence {longest} blocks, {} events wait", stream.engine().waiting());
    assert!(peak <= 0.8913 && longest < 50, "{name}: peak {peak}, silence of {longest} blocks");
    assert_eq!((stream.lost(), stream.engine().dropped()), (0, 0));
}

#[test]
fn minutes_of_music_have_no_gap() {
    hours(0.05, "focus");
}

#[test]
#[ignore = "extended: an hour of sound of each preset"]
fn hours_of_music_have_no_gap() {
    for name in ["focus", "meditation", "sleep", "bright"] {
        hours(1.0, name);
    }
}
