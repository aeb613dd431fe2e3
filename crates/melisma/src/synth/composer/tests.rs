use super::*;
use crate::synth::Parameter;

/// Returns the chi-square statistic of counts against weights, and its degrees of freedom.
fn chi_square(counts: &[u32], weights: &[u32]) -> (f64, usize) {
    let (n, total) = (counts.iter().sum::<u32>() as f64, weights.iter().sum::<u32>() as f64);
    let mut sum = 0.0;
    for (&count, &weight) in counts.iter().zip(weights) {
        if weight == 0 {
            assert_eq!(count, 0, "something that never happens did");
            continue;
        }
        let expected = n * f64::from(weight) / total;
        sum += (f64::from(count) - expected).powi(2) / expected;
    }
    (sum, weights.iter().filter(|&&weight| weight > 0).count() - 1)
}

/// Returns the value that one in a thousand exceeds, by Wilson and Hilferty.
fn critical(freedom: usize) -> f64 {
    let k = freedom as f64;
    k * (1.0 - 2.0 / (9.0 * k) + 3.09 * (2.0 / (9.0 * k)).sqrt()).powi(3)
}

#[test]
fn degrees_follow_the_matrix() {
    for style in STYLES {
        let mut random = Random::new(11, 0, 0);
        let mut harmony = Harmony::new(style.mode, style.tonic, style.colours);
        let mut counts = [[0u32; 7]; 7];
        let mut last = harmony.next(&mut random).degree;
        assert_eq!(last, 0);
        for _ in 0..40_000 {
            let next = harmony.next(&mut random).degree;
            counts[last][next] += 1;
            last = next;
        }
        for (from, (counts, weights)) in counts.iter().zip(style.mode.transitions()).enumerate() {
            assert_eq!(weights.iter().sum::<u32>(), 100);
            if counts.iter().sum::<u32>() > 0 {
                let (found, freedom) = chi_square(counts, &weights);
                assert!(found < critical(freedom), "{:?} from {from}: {found}", style.mode);
            }
        }
    }
}

#[test]
fn melodies_have_their_classes() {
    for style in STYLES {
        let mut random = Random::new(5, 0, 1);
        let mut harmony = Harmony::new(style.mode, style.tonic, style.colours);
        let mut melody = Melody::new(style.mode, style.tonic);
        let mut counts = [0; 3];
        let (mut steps, mut last) = (0, 0u8);
        for index in 0..20_000 {
            let chord = harmony.next(&mut random);
            let key = melody.next(&mut random, &chord, index % 1000);
            counts[melody.class(&chord, key)] += 1;
            steps += u32::from((1..=2).contains(&key.abs_diff(last)));
            last = key;
        }
        let (found, freedom) = chi_square(&counts, &melody::CLASSES);
        assert!(found < critical(freedom), "{}: {counts:?}", style.name);
        assert!(steps > 20_000 / 3, "{}: {steps} steps", style.name);
    }
}

#[test]
fn the_bass_carries_the_chord_and_voices_move_little() {
    for style in STYLES {
        let mut random = Random::new(3, 0, 0);
        let mut harmony = Harmony::new(style.mode, style.tonic, style.colours);
        let mut last = harmony.next(&mut random);
        let (mut moved, mut roots) = (0, 0);
        for _ in 0..5000 {
            let chord = harmony.next(&mut random);
            assert!(chord.classes[..2].contains(&(chord.bass % 12)), "{chord:?}");
            roots += u32::from(chord.bass % 12 == chord.classes[0]);
            assert!((31..43).contains(&chord.bass));
            assert!(chord.voices.windows(2).all(|pair| pair[0] < pair[1]), "{chord:?}");
            assert!(chord.voices.iter().all(|key| (52..=77).contains(key) && chord.classes.contains(&(key % 12))));
            let scale = style.mode.scale();
            assert!(chord.classes.iter().all(|class| scale.contains(&((class + 12 - style.tonic) % 12))));
            moved += chord.voices.iter().zip(last.voices).map(|(a, b)| u32::from(a.abs_diff(b))).sum::<u32>();
            last = chord;
        }
        assert!(roots > 4200, "{roots}");
        assert!(f64::from(moved) / 20_000.0 < 3.0, "{} semitones a voice", f64::from(moved) / 20_000.0);
    }
}

#[test]
fn a_piece_depends_on_its_seed_alone() {
    for style in STYLES {
        let long = compose(&style, 1, 200.0).unwrap();
        assert_eq!(long, compose(&style, 1, 200.0).unwrap());
        assert_ne!(long.notes, compose(&style, 2, 200.0).unwrap().notes);
        let short = compose(&style, 1, 50.0).unwrap();
        let begins = |score: &Score| {
            score.notes.iter().filter(|note| note.start < 50.0).map(|note| (note.start, note.key)).collect::<Vec<_>>()
        };
        assert_eq!(begins(&short), begins(&long));
        assert!(short.seconds() <= 50.0);
        long.check().unwrap();
        assert!(long.controls.iter().any(|control| control.parameter == Parameter::Reverb));
    }
}

/// These must never change: a seed is a name for a piece.
#[test]
fn pieces_are_the_same_everywhere() {
    let hash = |name: &str, seed: u64| {
        let score = compose(&Style::named(name).unwrap(), seed, 120.0).unwrap();
        blake3::hash(score.to_json().as_bytes()).to_hex()[..16].to_owned()
    };
    let found = ["focus", "meditation", "sleep", "bright"].map(|name| hash(name, 0));
    assert_eq!(found, ["917016bd67079c0b", "414bb64637e8b4ff", "16a5bbd8b0ee887f", "6e4121f772bffd4d"]);
    assert_eq!(hash("focus", u64::MAX), "a7e0eb38e7eb18a5");
}

#[test]
fn midi_holds_a_piece_exactly() {
    for style in STYLES {
        let score = compose(&style, 9, 90.0).unwrap();
        let back = Score::from_midi(&score.to_midi().unwrap()).unwrap();
        let key = |note: &Note| (note.start.to_bits(), note.channel, note.instrument.name(), note.key);
        let sorted = |mut notes: Vec<Note>| {
            notes.sort_by_key(key);
            notes
        };
        let (ours, theirs) = (sorted(score.notes.clone()), sorted(back.notes));
        assert_eq!(ours.len(), theirs.len());
        for (ours, theirs) in ours.iter().zip(&theirs) {
            // The last notes are cut at the end of the piece, which need not be on a tick.
            let is_cut = ours.start + ours.duration >= 89.999;
            let theirs = if is_cut { Note { duration: ours.duration, ..*theirs } } else { *theirs };
            assert_eq!(*ours, theirs);
        }
        assert_eq!(score.controls, back.controls);
    }
}

#[test]
fn any_seed_and_length() {
    let style = Style::named("bright").unwrap();
    for text in ["0", "18446744073709551615", "18446744073709551616", "-1", "", "Ä", &"9".repeat(100_000)] {
        compose(&style, seed(text), 20.0).unwrap().check().unwrap();
    }
    assert_eq!(seed("42"), 42);
    assert_ne!(seed("18446744073709551616"), seed("-1"));
    assert!(compose(&style, 0, 0.0).unwrap().notes.is_empty());
    for wrong in [-1.0, f64::NAN, f64::INFINITY, 1e9] {
        assert!(compose(&style, 0, wrong).is_err());
    }
    assert!(Style::named("loud").unwrap_err().hint().unwrap().contains("focus, meditation, sleep, bright"));
}

#[test]
fn a_varied_style_says_what_it_is() {
    for style in STYLES {
        // The presets' own texts begin as those that are made of values.
        let own = style.described();
        let (key, _) = own.split_once(':').unwrap();
        assert_eq!(style.about.split_once(':').unwrap().0, key);
        let varied = style.varied(4);
        let beats = 60e6 / f64::from(varied.beat_us);
        assert!(varied.about.contains(&format!(" {}, {beats:.0} beats", varied.mode.name())), "{}", varied.about);
        assert_eq!(serde_json::to_value(&varied).unwrap()["about"], varied.about.as_ref());
        assert_ne!(varied.about, style.about);
    }
}
