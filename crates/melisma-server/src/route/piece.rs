//! Generated music as a client asks for it: a preset, and what differs from it.

use std::collections::BTreeMap;

use melisma::synth::{Mode, STYLES, Style, seed};
use serde_json::{Value, json};

use crate::http::failure::{Failure, with_hint};
use crate::http::query::Query;

const KEYS: [&str; 12] = ["C", "C#", "D", "D#", "E", "F", "F#", "G", "G#", "A", "A#", "B"];
const VOICES: [&str; 4] = ["melody", "arpeggio", "drums", "swells"];
/// Beats per minute.
const TEMPO: std::ops::RangeInclusive<f64> = 30.0..=180.0;

/// The parameters of generated music, with the defaults of `melisma synth`.
#[derive(Debug)]
pub(super) struct Piece {
    pub(super) style: Style,
    pub(super) seed: u64,
    pub(super) sample_rate: u32,
}

impl Piece {
    /// Reads `preset`, `seed` and `rate`, and `key`, `mode`, `tempo`, `intensity` and `voices`, which
    /// change the preset.
    pub(super) fn new(query: &mut Query) -> Result<Self, Failure> {
        let missing = || Failure::parameter("preset", "`preset` is missing");
        let mut style = Style::named(&query.text("preset").ok_or_else(missing)?)
            .map_err(|error| Failure::parameter("preset", with_hint(&error)))?;
        let sample_rate = query.value("rate", "8000 to 192000 Hz", |text| {
            text.parse().ok().filter(|rate| (8_000..=192_000).contains(rate))
        })?;
        let seed = query.text("seed").map_or(0, |text| seed(&text));
        let key = query.value("key", &KEYS.join(", "), |text| KEYS.iter().position(|key| *key == text))?;
        let modes = Mode::ALL.map(Mode::name).join(", ");
        let mode = query.value("mode", &modes, |text| Mode::ALL.into_iter().find(|mode| mode.name() == text))?;
        let tempo = query.value("tempo", "30 to 180 beats per minute", |text| {
            text.parse().ok().filter(|tempo| TEMPO.contains(tempo))
        })?;
        let intensity = query
            .value("intensity", "0 to 1", |text| text.parse().ok().filter(|value: &f64| (0.0..=1.0).contains(value)))?;
        let voices = query.value("voices", &format!("some of {}", VOICES.join(",")), voices)?;
        style.tonic = key.map_or(style.tonic, |key| key as u8);
        style.mode = mode.unwrap_or(style.mode);
        style.beat_us = tempo.map_or(style.beat_us, |tempo: f64| (60e6 / tempo).round() as u32);
        if let Some(intensity) = intensity {
            intensify(&mut style, intensity);
        }
        if let Some(voices) = voices {
            silence(&mut style, voices);
        }
        Ok(Self { style, seed, sample_rate: sample_rate.unwrap_or(48_000) })
    }
}

/// Returns which of [`VOICES`] a list names.
fn voices(text: &str) -> Option<[bool; VOICES.len()]> {
    let mut wanted = [false; VOICES.len()];
    for name in text.split(',').filter(|name| !name.is_empty()) {
        wanted[VOICES.iter().position(|voice| *voice == name)?] = true;
    }
    Some(wanted)
}

/// 0.5 is the preset itself, 0 has no melody and is quiet, 1 has twice the notes and is louder.
fn intensify(style: &mut Style, intensity: f64) {
    for share in [&mut style.melody, &mut style.arpeggio, &mut style.kick, &mut style.hat] {
        *share = (f64::from(*share) * 2.0 * intensity).round().min(100.0) as u32;
    }
    style.velocity = (f64::from(style.velocity) * (0.6 + 0.8 * intensity)).round().min(127.0) as u8;
}

/// Leaves out the voices that are not wanted; one that the preset lacks joins at a quarter.
fn silence(style: &mut Style, [melody, arpeggio, drums, swells]: [bool; VOICES.len()]) {
    let shares = [
        (&mut style.melody, melody),
        (&mut style.arpeggio, arpeggio),
        (&mut style.kick, drums),
        (&mut style.hat, drums),
        (&mut style.swell, swells),
    ];
    for (share, is_wanted) in shares {
        *share = if is_wanted { (*share).max(25) } else { 0 };
    }
}

/// `[{"name", "about", "key", "mode", "tempo", "intensity", "voices", "controls"}]`
pub(super) fn presets() -> Value {
    let one = |style: &Style| {
        let has = [style.melody, style.arpeggio, style.kick.max(style.hat), style.swell].map(|share| share > 0);
        let voices: Vec<&str> = VOICES.into_iter().zip(has).filter(|(_, has)| *has).map(|(name, _)| name).collect();
        let thousandths = |value: f32| (f64::from(value) * 1e3).round() / 1e3;
        let controls = style.controls.iter().map(|(parameter, value)| (parameter.name(), thousandths(*value)));
        let controls: BTreeMap<&str, f64> = controls.collect();
        json!({
            "name": style.name,
            "about": style.about,
            "key": KEYS[usize::from(style.tonic) % KEYS.len()],
            "mode": style.mode.name(),
            "tempo": (60e6 / f64::from(style.beat_us)).round(),
            "intensity": 0.5,
            "voices": voices,
            "controls": controls,
        })
    };
    STYLES.iter().map(one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn piece(query: &str) -> Result<Piece, Failure> {
        let mut query = Query::new(Some(query)).unwrap();
        let piece = Piece::new(&mut query)?;
        query.finish().map(|()| piece)
    }

    #[test]
    fn a_preset_is_changed_only_where_the_query_says_so() {
        let focus = Style::named("focus").unwrap();
        assert_eq!(piece("preset=focus").unwrap().style, focus);
        assert_eq!(piece("preset=focus&intensity=0.5&key=D&mode=dorian").unwrap().style, focus);
        let changed = piece("preset=focus&key=F%23&mode=lydian&tempo=120&voices=melody").unwrap().style;
        assert_eq!((changed.tonic, changed.mode, changed.beat_us), (6, Mode::Lydian, 500_000));
        assert_eq!((changed.melody, changed.arpeggio, changed.kick, changed.swell), (focus.melody, 0, 0, 0));
        assert_eq!(piece("preset=sleep&voices=drums").unwrap().style.kick, 25);
        assert!(piece("preset=focus&intensity=1").unwrap().style.velocity > focus.velocity);
    }

    #[test]
    fn values_out_of_range_are_errors() {
        for query in ["key=H", "mode=ionian", "tempo=29", "tempo=x", "intensity=1.1", "voices=melody,bass"] {
            assert!(piece(&format!("preset=focus&{query}")).is_err(), "{query}");
        }
    }

    #[test]
    fn an_unknown_preset_names_the_presets() {
        let message = piece("preset=techno").unwrap_err().json()["error"]["message"].to_string();
        assert!(STYLES.iter().all(|style| message.contains(style.name)), "{message}");
    }

    #[test]
    fn presets_are_listed_as_a_client_may_ask_for_them() {
        for preset in presets().as_array().unwrap() {
            let text = |name: &str| preset[name].as_str().unwrap().replace('#', "%23");
            let asked = format!("preset={}&key={}&mode={}", text("name"), text("key"), text("mode"));
            assert_eq!(piece(&asked).unwrap().style, Style::named(&text("name")).unwrap());
        }
        assert_eq!(presets()[0]["controls"]["reverb"], json!(0.25));
    }
}
