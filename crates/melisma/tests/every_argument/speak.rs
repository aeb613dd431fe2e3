use std::sync::Arc;

use melisma::Context;
use melisma::snac::{Config, Model};
use melisma::speak::synthetic::{self, Shape};
use melisma::speak::{CycleDetector, Delivery, Ensemble, EnsembleOptions, Speaker, cut};

use super::{COUNTS, Calls, Change, FLOATS, PLACES, each, float, limit};

#[test]
fn speech() {
    limit();
    let mut calls = Calls::default();
    each!(calls, "cut", max_chars in COUNTS => cut("One, two. Three four five", max_chars));
    each!(calls, "CycleDetector", limit in COUNTS, code in [i32::MIN, 0, i32::MAX] => {
        let mut cycles = CycleDetector::new(limit);
        cycles.push(&[code]) && cycles.push(&[])
    });
    let mut small = Config::snac_24khz();
    (small.encoder_dim, small.decoder_dim, small.codebook_size) = (8, 64, 16);
    let codec = Arc::new(Model::random(small, 0).unwrap());
    let folder = tempfile::tempdir().unwrap();
    synthetic::write(folder.path(), &codec, Shape::default(), u64::MAX).unwrap();
    let speaker = Arc::new(Speaker::open_in(&Context::cpu().unwrap(), folder.path(), codec).unwrap());
    each!(calls, "script_within", context in COUNTS => speaker.script_within("One. Two three.", None, 0, context).map(drop));
    each!(calls, "free_cache_bytes", n_texts in COUNTS => speaker.free_cache_bytes(n_texts));
    each!(calls, "Ensemble", n_texts in COUNTS, cache_bytes in PLACES, n in COUNTS => {
        Ensemble::new(Arc::clone(&speaker), EnsembleOptions { n_texts, cache_bytes })?.step_time(n)
    });
    let speak = |seed: u64, delivery: &Delivery| {
        let mut speech = speaker.speak(speaker.script("One.", None, seed)?, delivery)?;
        speech.next().transpose()
    };
    let delivery: Delivery = speaker.format().settings().into();
    each!(calls, "seed", seed in PLACES => speak(seed, &delivery).unwrap());
    const CHANGES: [Change<Delivery, f64>; 5] = [
        ("repetition_penalty", |delivery, value| delivery.settings.sample.repetition_penalty = float(value)),
        ("temperature", |delivery, value| delivery.settings.sample.temperature = float(value)),
        ("top_p", |delivery, value| delivery.settings.sample.top_p = float(value)),
        ("min_p", |delivery, value| delivery.settings.sample.min_p = float(value)),
        ("speed", |delivery, value| delivery.speed = value),
    ];
    each!(calls, "Delivery", (_, change) in CHANGES, value in FLOATS => {
        let mut delivery = delivery.clone();
        change(&mut delivery, value);
        speak(0, &delivery).map(drop)
    });
    each!(calls, "Sample", top_k in COUNTS, penalty_window in COUNTS => {
        let mut delivery = delivery.clone();
        delivery.settings.sample.top_k = top_k;
        delivery.settings.penalty_window = penalty_window;
        speak(0, &delivery).map(drop)
    });
    calls.end(100);
}
