//! Generated music as a client asks for it: a preset, and what differs from it.

use std::collections::BTreeMap;
use std::time::Duration;

use melisma::synth::{STYLES, Style, Variation, seed};
use serde_json::{Value, json};

use crate::http::failure::{Failure, with_hint};
use crate::http::query::Query;

const DEFAULT_SECONDS: f64 = 60.0;

/// The parameters of generated music, with the defaults of `melisma synth`.
#[derive(Debug)]
pub(super) struct Piece {
    pub(super) style: Style,
    pub(super) seed: u64,
    pub(super) sample_rate: u32,
}

impl Piece {
    /// Reads `preset`, `seed` and `rate`, and the names of [`Variation`], which change the preset.
    pub(super) fn new(query: &mut Query) -> Result<Self, Failure> {
        let missing = || Failure::parameter("preset", "`preset` is missing");
        let style = Style::named(&query.text("preset").ok_or_else(missing)?)
            .map_err(|error| Failure::parameter("preset", with_hint(&error)))?;
        let sample_rate = query.value("rate", "8000 to 192000 Hz", |text| {
            text.parse().ok().filter(|rate| (8_000..=192_000).contains(rate))
        })?;
        let seed = query.text("seed").map_or(0, |text| seed(&text));
        let mut variation = Variation::default();
        for name in Variation::NAMES {
            if let Some(text) = query.text(name) {
                variation.set(name, &text).map_err(|error| Failure::parameter(name, with_hint(&error)))?;
            }
        }
        Ok(Self { style: variation.apply(style), seed, sample_rate: sample_rate.unwrap_or(48_000) })
    }
}

/// Reads the parameters of a whole piece: those of [`Piece::new`], and its length in seconds.
pub(super) fn read(query: Option<&str>, longest: Duration) -> Result<(Piece, f64), Failure> {
    let mut query = Query::new(query)?;
    let piece = Piece::new(&mut query)?;
    let longest = longest.as_secs_f64();
    let length = query.value("seconds", &format!("more than 0 and at most {longest}"), |text| {
        text.parse().ok().filter(|seconds| *seconds > 0.0 && *seconds <= longest)
    })?;
    query.finish()?;
    Ok((piece, length.unwrap_or(DEFAULT_SECONDS)))
}

/// Returns `[{"name", "about", "key", "mode", "tempo", "intensity", "voices", "controls"}]`.
pub(super) fn presets() -> Value {
    let one = |style: &Style| {
        let thousandths = |value: f32| (f64::from(value) * 1e3).round() / 1e3;
        let controls = style.controls.iter().map(|(parameter, value)| (parameter.name(), thousandths(*value)));
        let controls: BTreeMap<&str, f64> = controls.collect();
        json!({
            "name": style.name,
            "about": style.about,
            "key": style.key(),
            "mode": style.mode.name(),
            "tempo": (60e6 / f64::from(style.beat_us)).round(),
            "intensity": 0.5,
            "voices": style.voices(),
            "controls": controls,
        })
    };
    STYLES.iter().map(one).collect()
}

#[cfg(test)]
mod tests {
    use melisma::synth::Mode;

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
        let dry = piece("preset=focus&reverb=0&brightness=2.5").unwrap().style.controls.map(|(_, value)| value);
        assert_eq!(dry, [0.8, 2.5, 0.4, 0.0, 0.2]);
    }

    #[test]
    fn values_out_of_range_are_errors() {
        let wrong = ["key=H", "mode=ionian", "tempo=29", "tempo=x", "intensity=1.1", "voices=melody,bass", "gain=NaN"];
        for query in wrong.into_iter().chain(["brightness=0", "reverb=1.01"]) {
            assert!(piece(&format!("preset=focus&{query}")).is_err(), "{query}");
        }
    }

    #[test]
    fn an_unknown_preset_names_the_presets() {
        let message = piece("preset=techno").unwrap_err().json()["error"]["message"].to_string();
        assert!(STYLES.iter().all(|style| message.contains(style.name.as_ref())), "{message}");
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
