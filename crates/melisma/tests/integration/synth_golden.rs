//! What the CPU renders, sample by sample: a change of the sound is a change of these hashes, and is made on purpose.
//!
//! Sines and powers of the system's library are part of the sound, so the hashes are those of one platform.
#![cfg(all(target_os = "linux", target_arch = "x86_64"))]

use melisma::runtime::Isa;
use melisma::synth::{
    Bend, BusConfig, Chord, EngineConfig, Instrument, Kick, Melody, Note, Performance, Phrase, PhraseRenderer, Score,
    Setup, Style, Swell, compose,
};

use crate::process;

const FOCUS: &str = "ea86472aed7d816f";
const VOICES: &str = "3d84151ec968fd42";
const PHRASE: &str = "99f107d9e5fee801";
const MIDI: &str = "a801dd4bda117bec";

fn hash(left: &[f32], right: &[f32]) -> String {
    let mut hasher = blake3::Hasher::new();
    for sample in left.iter().chain(right) {
        hasher.update(&sample.to_bits().to_le_bytes());
    }
    hasher.finalize().to_hex()[..16].to_owned()
}

fn perform(score: &Score) -> String {
    let setup = Setup::new(BusConfig::new(48_000)).with_max_voices(64);
    let mut performance = Performance::new(score, setup).unwrap();
    let (mut left, mut right) = (Vec::new(), Vec::new());
    while let Some(block) = performance.next_block(None).unwrap() {
        left.extend_from_slice(block.left);
        right.extend_from_slice(block.right);
    }
    assert!(left.iter().any(|&sample| sample.abs() > 0.01));
    hash(&left, &right)
}

/// Every instrument, low and high, bent on its way.
fn voices() -> Score {
    let note = |(index, instrument): (usize, Instrument)| {
        let start = 0.201 * index as f64;
        [48, 84].map(|key| Note {
            instrument,
            start: start + f64::from(key) / 500.0,
            duration: 0.7,
            key,
            velocity: 0.7,
            pan: (index as f32 - 3.0) / 4.0,
            channel: index as u8,
        })
    };
    let notes = Instrument::ALL.into_iter().enumerate().flat_map(note).collect();
    let bends = (0..7).map(|channel| Bend { at: 0.5 + 0.2 * f64::from(channel), channel, semitones: 1.5 }).collect();
    let mut score = Score { tempo: 120.0, notes, bends, controls: Vec::new() };
    score.sort();
    score
}

fn phrase() -> String {
    let phrase = Phrase {
        seconds: 2.0,
        chords: vec![Chord { onset: 0.0, duration: 1.5, keys: vec![45, 57, 60, 64], velocity: 0.6 }],
        melody: (0..6)
            .map(|i| Melody { onset: 0.3 * f64::from(i), duration: 0.2, key: 69 + i as u8, velocity: 0.5 })
            .collect(),
        kicks: (0..4).map(|i| Kick { onset: 0.5 * f64::from(i), velocity: 0.9 }).collect(),
        swells: vec![Swell { onset: 0.5, duration: 1.0, velocity: 0.5 }],
    };
    let mut renderer = PhraseRenderer::new(EngineConfig::default(), 2.0).unwrap();
    let sound = renderer.render_phrase(&phrase).unwrap();
    hash(sound.left, sound.right)
}

/// A piano under its pedal, a bass that is bent, and drums.
const FILE: &[u8] = b"MThd\0\0\0\x06\0\0\0\x01\0\x60MTrk\0\0\0\x42\
\0\xff\x51\x03\x07\xa1\x20\0\xc1\x20\0\xb0\x40\x7f\0\x90\x3c\x50\0\x40\x50\0\x91\x24\x60\0\x99\x24\x70\
\x30\x90\x3c\0\0\x40\0\0\xe1\0\x60\0\x99\x2a\x40\x30\x24\x70\0\x90\x43\x50\
\x60\x43\0\0\x81\x24\0\0\xb0\x40\0\0\xff\x2f\0";

#[test]
fn the_sound_is_as_it_was() {
    let focus = compose(&Style::named("focus").unwrap(), 7, 4.0).unwrap();
    let midi = Score::from_midi(FILE).unwrap();
    assert_eq!((midi.notes.len(), midi.bends.len()), (7, 1));
    let found = [perform(&focus), perform(&voices()), phrase(), perform(&midi)];
    assert_eq!(found, [FOCUS, VOICES, PHRASE, MIDI]);
}

/// The engine takes its instruction set from the environment, so each has a process.
#[test]
fn every_instruction_set_makes_the_same_sound() {
    for isa in Isa::available() {
        process::run("synth_golden::the_sound_is_as_it_was", ("MELISMA_ISA", isa.level().name()));
    }
}
