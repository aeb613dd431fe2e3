//! Changes to a preset, as people ask for them: key, mode, tempo, intensity, voices and the sound.
//!
//! Every front passes the same names and texts, so the same request is the same piece everywhere.

use super::mode::Mode;
use super::preset::{PITCH_CLASSES, Style, pitch_class};
use crate::synth::parameter::Parameter;
use crate::{Error, Result};

/// Voices that can be left out; chords and bass always play.
const VOICES: [&str; 4] = ["melody", "arpeggio", "drums", "swells"];
/// Beats per minute.
const TEMPO: std::ops::RangeInclusive<f64> = 30.0..=180.0;
/// The share of a voice that a style lacks and a variation wants, in percent.
const LEAST_SHARE: u32 = 25;
/// The most characters of a value that a message repeats.
const SHOWN: usize = 64;

/// Changes to a [`Style`]; what is not set stays as it is.
///
/// ```
/// use melisma::synth::{Style, Variation, compose};
///
/// let mut variation = Variation::default();
/// variation.set("key", "F#")?;
/// variation.set("voices", "melody,swells")?;
/// let style = variation.apply(Style::named("focus")?);
/// assert_eq!((style.tonic, style.kick), (6, 0));
/// assert!(!compose(&style, 7, 30.0)?.notes.is_empty());
/// # Ok::<(), melisma::Error>(())
/// ```
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Variation {
    tonic: Option<u8>,
    mode: Option<Mode>,
    beat_us: Option<u32>,
    intensity: Option<f64>,
    voices: Option<[bool; VOICES.len()]>,
    controls: [Option<f32>; Parameter::ALL.len()],
}

impl Variation {
    /// The names that [`Variation::set`] knows.
    pub const NAMES: [&str; 10] =
        ["key", "mode", "tempo", "intensity", "voices", "gain", "brightness", "motion", "reverb", "delay"];

    /// Sets one change:
    ///
    /// | name | value |
    /// |---|---|
    /// | `key` | `C`, `C#` or `Db` to `B`, also in lower case |
    /// | `mode` | `aeolian` or `minor`, `dorian`, `lydian` or `phrygian` |
    /// | `tempo` | 30 to 180 beats per minute |
    /// | `intensity` | 0 to 1: density and loudness of the notes; 0.5 leaves the style as it is |
    /// | `voices` | some of `melody,arpeggio,drums,swells` beside chords and bass |
    /// | `gain`, `motion`, `reverb`, `delay` | 0 to 1 |
    /// | `brightness` | 0.1 to 10 |
    ///
    /// # Errors
    /// The name is unknown, or the value is not one of those; the message lists what is.
    pub fn set(&mut self, name: &str, value: &str) -> Result<()> {
        let shown: String = value.chars().take(SHOWN).collect();
        let expected = |what: &str| Error::invalid(format!("{name}={shown}: expected {what}"));
        match name {
            "key" => {
                let tonic = pitch_class(value);
                self.tonic = Some(tonic.ok_or_else(|| expected(&PITCH_CLASSES.join(", ")))?);
            }
            "mode" => {
                let mode = Mode::named(value);
                self.mode = Some(mode.ok_or_else(|| expected(&Mode::ALL.map(Mode::name).join(", ")))?);
            }
            "tempo" => {
                let tempo = value.parse().ok().filter(|tempo| TEMPO.contains(tempo));
                let tempo: f64 = tempo.ok_or_else(|| expected("30 to 180 beats per minute"))?;
                self.beat_us = Some((60e6 / tempo).round() as u32);
            }
            "intensity" => {
                let intensity = value.parse().ok().filter(|intensity| (0.0..=1.0).contains(intensity));
                self.intensity = Some(intensity.ok_or_else(|| expected("0 to 1"))?);
            }
            "voices" => {
                let voices = voices(value).ok_or_else(|| expected(&format!("some of {}", VOICES.join(","))))?;
                self.voices = Some(voices);
            }
            _ => {
                let at = Parameter::ALL.iter().position(|parameter| parameter.name() == name);
                let at = at.ok_or_else(|| {
                    Error::invalid(format!("unknown change `{name:.SHOWN$}` of a preset"))
                        .with_hint(format!("use {}", Self::NAMES.join(", ")))
                })?;
                let [least, most] = Parameter::ALL[at].range();
                let value = value.parse().ok().filter(|value| (least..=most).contains(value));
                self.controls[at] = Some(value.ok_or_else(|| expected(&format!("{least} to {most}")))?);
            }
        }
        Ok(())
    }

    /// Returns the name of a change that is set, if any.
    pub fn first(&self) -> Option<&'static str> {
        let Self { tonic, mode, beat_us, intensity, voices, controls } = self;
        let own = [tonic.is_some(), mode.is_some(), beat_us.is_some(), intensity.is_some(), voices.is_some()];
        let is_set = own.into_iter().chain(controls.iter().map(Option::is_some));
        Self::NAMES.into_iter().zip(is_set).find(|(_, is_set)| *is_set).map(|(name, _)| name)
    }

    /// Returns whether a key is set.
    pub fn has_key(&self) -> bool {
        self.tonic.is_some()
    }

    /// Returns `style` with the changes; a text that begins with its key and tempo begins with the new ones.
    pub fn apply(&self, mut style: Style) -> Style {
        let heading = style.heading();
        for (parameter, value) in &mut style.controls {
            let at = Parameter::ALL.iter().position(|other| other == parameter);
            *value = at.and_then(|at| self.controls[at]).unwrap_or(*value);
        }
        style.tonic = self.tonic.unwrap_or(style.tonic);
        style.mode = self.mode.unwrap_or(style.mode);
        style.beat_us = self.beat_us.unwrap_or(style.beat_us);
        if let Some(intensity) = self.intensity {
            intensify(&mut style, intensity);
        }
        if let Some(voices) = self.voices {
            silence(&mut style, voices);
        }
        if let Some(rest) = style.about.strip_prefix(&heading) {
            style.about = format!("{}{rest}", style.heading()).into();
        }
        style
    }
}

impl Style {
    /// Returns the name of its tonic.
    pub fn key(&self) -> &'static str {
        PITCH_CLASSES[usize::from(self.tonic) % PITCH_CLASSES.len()]
    }

    /// Returns the voices that play beside chords and bass, by the names of [`Variation::set`].
    pub fn voices(&self) -> Vec<&'static str> {
        let shares = [self.melody, self.arpeggio, self.kick.max(self.hat), self.swell];
        VOICES.into_iter().zip(shares).filter(|(_, share)| *share > 0).map(|(name, _)| name).collect()
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

/// Changes a style: 0.5 is the preset itself, 0 has no melody and is quiet, 1 has twice the notes and is louder.
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
        *share = if is_wanted { (*share).max(LEAST_SHARE) } else { 0 };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn varied(preset: &str, changes: &[(&str, &str)]) -> Style {
        let mut variation = Variation::default();
        for (name, value) in changes {
            variation.set(name, value).unwrap();
        }
        variation.apply(Style::named(preset).unwrap())
    }

    #[test]
    fn a_style_is_changed_only_where_asked() {
        let focus = Style::named("focus").unwrap();
        assert_eq!(varied("focus", &[]), focus);
        assert_eq!(varied("focus", &[("intensity", "0.5"), ("key", "D"), ("mode", "dorian")]), focus);
        let changed = varied("focus", &[("key", "F#"), ("mode", "lydian"), ("tempo", "120"), ("voices", "melody")]);
        assert_eq!((changed.tonic, changed.mode, changed.beat_us), (6, Mode::Lydian, 500_000));
        assert_eq!((changed.melody, changed.arpeggio, changed.kick, changed.swell), (focus.melody, 0, 0, 0));
        assert_eq!((changed.key(), changed.voices()), ("F#", vec!["melody"]));
        assert_eq!(changed.about, "F# lydian, 120 beats a minute: a calm pulse");
        let own = Style { about: "mine".into(), ..focus.clone() };
        let mut slow = Variation::default();
        slow.set("tempo", "60").unwrap();
        assert_eq!(slow.apply(own).about, "mine");
        assert_eq!(varied("sleep", &[("voices", "drums")]).kick, LEAST_SHARE);
        assert!(varied("focus", &[("intensity", "1")]).velocity > focus.velocity);
        let sound = varied("focus", &[("reverb", "0"), ("brightness", "2.5")]).controls.map(|(_, value)| value);
        assert_eq!(sound, [0.8, 2.5, 0.4, 0.0, 0.2]);
    }

    #[test]
    fn a_key_has_several_names() {
        for (names, tonic) in [(["A#", "Bb", "bb"], 10), (["C", "c", "B#"], 0), (["B", "b", "Cb"], 11)] {
            assert!(names.iter().all(|key| varied("focus", &[("key", key)]).tonic == tonic), "{names:?}");
        }
        assert_eq!(varied("focus", &[("mode", "minor")]).mode, Mode::Aeolian);
        for (name, value) in [("key", ""), ("key", "Bbb"), ("key", "A#m"), ("mode", "major")] {
            assert!(Variation::default().set(name, value).is_err(), "{name}={value}");
        }
    }

    #[test]
    fn the_first_change_has_its_name() {
        assert_eq!(Variation::default().first(), None);
        let values = ["C", "aeolian", "60", "1", "", "1", "1", "1", "1", "1"];
        for (name, value) in Variation::NAMES.into_iter().zip(values) {
            let mut variation = Variation::default();
            variation.set(name, value).unwrap();
            assert_eq!((variation.first(), variation.has_key()), (Some(name), name == "key"));
        }
    }

    #[test]
    fn what_cannot_be_set_is_named_with_what_can() {
        let wrong = [
            ("key", "H", "C, C#, D"),
            ("mode", "ionian", "aeolian, dorian, lydian, phrygian"),
            ("tempo", "29", "30 to 180 beats per minute"),
            ("tempo", "x", "30 to 180 beats per minute"),
            ("intensity", "1.1", "0 to 1"),
            ("voices", "melody,bass", "melody,arpeggio,drums,swells"),
            ("gain", "NaN", "0 to 1"),
            ("brightness", "0", "0.1 to 10"),
            ("reverb", "1.01", "0 to 1"),
        ];
        for (name, value, expected) in wrong {
            let mut variation = Variation::default();
            let message = variation.set(name, value).unwrap_err().to_string();
            assert!(message.starts_with(&format!("{name}={value}: expected ")), "{message}");
            assert!(message.contains(expected), "{message}");
            assert_eq!(variation, Variation::default(), "{name}={value} left something");
        }
        let unknown = Variation::default().set("volume", "1").unwrap_err();
        assert!(unknown.to_string().contains("`volume`") && unknown.hint().unwrap().contains("key, mode, tempo"));
        let long = Variation::default().set("key", &"H".repeat(10_000)).unwrap_err().to_string();
        assert!(long.len() < 200, "{long}");
    }
}
