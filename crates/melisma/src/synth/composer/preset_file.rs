//! Presets in YAML files: what people change of a built-in preset, field by field.

use std::borrow::Cow;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use serde::Deserialize;

use super::PHRASE;
use super::mode::Mode;
use super::preset::{PITCH_CLASSES, Style, pitch_class};
use crate::format::{from_yaml, read_text};
use crate::synth::parameter::Parameter;
use crate::{Error, Result};

/// The longest file.
const MAX_BYTES: u64 = 64 << 10;
/// The preset that a file changes unless it names another.
const LIKE: &str = "focus";
/// The suffixes of presets.
const SUFFIXES: [&str; 2] = ["yaml", "yml"];
/// How often chords have each colour, by the names of a file.
const CHORDS: [&str; 5] = ["triad", "seventh", "ninth", "second", "fourth"];

/// A preset as a file has it. Shares are in percent.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct PresetFile {
    like: Option<String>,
    about: Option<String>,
    key: Option<String>,
    mode: Option<Mode>,
    tempo: Option<f64>,
    bars_per_chord: Option<u32>,
    chords: Chords,
    melody: Option<u32>,
    arpeggio: Option<u32>,
    kick: Option<u32>,
    hat: Option<u32>,
    swell: Option<u32>,
    velocity: Option<u8>,
    controls: Controls,
}

/// How often chords are triads, sevenths, ninths, and suspended by the second and the fourth.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Chords {
    triad: Option<u32>,
    seventh: Option<u32>,
    ninth: Option<u32>,
    second: Option<u32>,
    fourth: Option<u32>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Controls {
    gain: Option<f32>,
    brightness: Option<f32>,
    motion: Option<f32>,
    reverb: Option<f32>,
    delay: Option<f32>,
}

impl Style {
    /// Returns the built-in style called `preset`, or opens the file if `preset` ends in `.yaml` or `.yml`.
    ///
    /// # Errors
    /// Those of [`Style::named`] or [`Style::open`].
    pub fn find(preset: &str) -> Result<Self> {
        match Self::is_file(Path::new(preset)) {
            true => Self::open(Path::new(preset)),
            false => Self::named(preset),
        }
    }

    /// Returns whether a path has the suffix of a preset.
    pub fn is_file(path: &Path) -> bool {
        path.extension().is_some_and(|suffix| SUFFIXES.iter().any(|known| suffix.eq_ignore_ascii_case(known)))
    }

    /// Returns the presets in the files of a folder, by path, or that of one file. Those that cannot be read are there as
    /// errors.
    ///
    /// # Errors
    /// The folder cannot be read.
    pub fn list(folder: impl AsRef<Path>) -> Result<Vec<(PathBuf, Result<Self>)>> {
        let folder = folder.as_ref();
        let opened = |path: PathBuf| {
            let style = Self::open(&path);
            (path, style)
        };
        if folder.is_file() {
            return Ok(vec![opened(folder.to_owned())]);
        }
        let failed = |error| {
            Error::io(folder.display(), error).with_hint("name a folder of .yaml files, or a preset as in preset:focus")
        };
        let entries: std::io::Result<Vec<PathBuf>> =
            std::fs::read_dir(folder).map_err(failed)?.map(|entry| Ok(entry?.path())).collect();
        let mut paths = entries.map_err(failed)?;
        paths.retain(|path| Self::is_file(path));
        paths.sort();
        Ok(paths.into_iter().map(opened).collect())
    }

    /// Reads a preset from a file; its name is that of the file without the suffix.
    ///
    /// # Errors
    /// The file cannot be read or has more than 64 KiB, or those of [`Style::from_yaml`].
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref();
        let name = path.file_stem().unwrap_or_default().to_string_lossy();
        Self::from_yaml(&read_text(path, MAX_BYTES)?, &name).map_err(|error| error.at(path.display()))
    }

    /// Reads a preset called `name` from the text that [`Style::to_yaml`] writes. Every field may be left out; it is then
    /// that of the built-in preset `like`, or of `focus`.
    ///
    /// # Errors
    /// `Corrupt` when it is not YAML with these fields; `InvalidArgument` when a value is out of its range.
    pub fn from_yaml(text: &str, name: &str) -> Result<Self> {
        let file: PresetFile = from_yaml(text).map_err(|error| error.with_hint(HINT))?;
        let like = Self::named(file.like.as_deref().unwrap_or(LIKE)).map_err(|error| error.at("like"))?;
        let style = file.apply(like, name)?;
        style.check().map_err(|error| error.or_hint(HINT))?;
        Ok(style)
    }

    /// Returns the text of a file that [`Style::from_yaml`] reads as this style.
    pub fn to_yaml(&self) -> String {
        let mut text = format!(
            "# A preset of Melisma. Shares are in percent; what is left out is as in `like: {LIKE}`.\nabout: {}\n",
            serde_json::Value::from(self.about.as_ref())
        );
        let mut line = |name: &str, value: &dyn std::fmt::Display, meaning: &str| {
            let field = format!("{name}: {value}");
            // Writing to a string cannot fail.
            let _ = writeln!(text, "{field:<32}# {meaning}");
        };
        line("key", &format_args!("\"{}\"", self.key()), "C, C# to B");
        line("mode", &self.mode.name(), "aeolian, dorian, lydian or phrygian");
        line("tempo", &tempo(self.beat_us), "beats per minute, 10 to 1000");
        line("bars_per_chord", &self.bars_per_chord, "1 to 8");
        line("melody", &self.melody, "how much of a bar the melody plays");
        line("arpeggio", &self.arpeggio, "bars with an arpeggio");
        line("kick", &self.kick, "beats with a kick");
        line("hat", &self.hat, "off-beats with a hat");
        line("swell", &self.swell, "phrases that a swell leads into");
        line("velocity", &self.velocity, "loudness of the notes, 0 to 127");
        text += "chords:                         # how often each kind appears, relative to the others\n";
        for (name, weight) in CHORDS.into_iter().zip(self.colours) {
            let _ = writeln!(text, "  {name}: {weight}");
        }
        text += "controls:\n";
        for (parameter, value) in self.controls {
            let [least, most] = parameter.range();
            let field = format!("  {}: {value}", parameter.name());
            let _ = writeln!(text, "{field:<32}# {least} to {most}");
        }
        text
    }
}

const HINT: &str = "docs/synth.md lists the fields of a preset";

impl PresetFile {
    fn apply(self, like: Style, name: &str) -> Result<Style> {
        let tonic = match &self.key {
            None => like.tonic,
            Some(key) => pitch_class(key).ok_or_else(|| {
                Error::invalid(format!("key: `{key:.16}` is not one of {}", PITCH_CLASSES.join(", "))).with_hint(HINT)
            })?,
        };
        let beat_us = match self.tempo {
            None => like.beat_us,
            Some(tempo) if (10.0..=1000.0).contains(&tempo) => (60e6 / tempo).round() as u32,
            Some(tempo) => return Err(Error::invalid(format!("tempo is {tempo}; 10 to 1000")).with_hint(HINT)),
        };
        if self.bars_per_chord.is_some_and(|bars| !(1..=PHRASE).contains(&bars)) {
            let bars = self.bars_per_chord.unwrap_or_default();
            return Err(Error::invalid(format!("bars_per_chord is {bars}; 1 to {PHRASE}")).with_hint(HINT));
        }
        let Chords { triad, seventh, ninth, second, fourth } = self.chords;
        let mut colours = like.colours;
        for (colour, own) in colours.iter_mut().zip([triad, seventh, ninth, second, fourth]) {
            *colour = own.unwrap_or(*colour);
        }
        let Controls { gain, brightness, motion, reverb, delay } = self.controls;
        let own = |parameter| match parameter {
            Parameter::Gain => gain,
            Parameter::Brightness => brightness,
            Parameter::Motion => motion,
            Parameter::Reverb => reverb,
            Parameter::Delay => delay,
        };
        let controls = like.controls.map(|(parameter, value)| (parameter, own(parameter).unwrap_or(value)));
        let mut style = Style {
            name: Cow::Owned(name.to_owned()),
            mode: self.mode.unwrap_or(like.mode),
            tonic,
            beat_us,
            bars_per_chord: self.bars_per_chord.unwrap_or(like.bars_per_chord),
            colours,
            melody: self.melody.unwrap_or(like.melody),
            arpeggio: self.arpeggio.unwrap_or(like.arpeggio),
            kick: self.kick.unwrap_or(like.kick),
            hat: self.hat.unwrap_or(like.hat),
            swell: self.swell.unwrap_or(like.swell),
            velocity: self.velocity.unwrap_or(like.velocity),
            controls,
            about: Cow::Borrowed(""),
        };
        style.about = Cow::Owned(self.about.unwrap_or_else(|| style.described()));
        Ok(style)
    }
}

/// Returns the shortest number of beats per minute that is this length of a beat.
fn tempo(beat_us: u32) -> String {
    let tempo = 60e6 / f64::from(beat_us);
    (0..17)
        .map(|digits| format!("{tempo:.digits$}"))
        .find(|text| text.parse::<f64>().is_ok_and(|tempo| (60e6 / tempo).round() == f64::from(beat_us)))
        .unwrap_or_else(|| tempo.to_string())
}

#[cfg(test)]
mod tests {
    use super::super::{STYLES, Variation};
    use super::*;

    #[test]
    fn a_preset_comes_back_from_its_file() {
        for style in STYLES {
            assert_eq!(Style::from_yaml(&style.to_yaml(), &style.name).unwrap(), style);
            for seed in 0..20 {
                let varied = style.varied(seed);
                assert_eq!(Style::from_yaml(&varied.to_yaml(), &varied.name).unwrap(), varied, "{}", varied.to_yaml());
            }
        }
        let mut variation = Variation::default();
        variation.set("tempo", "97.3").unwrap();
        let odd = Style { about: "a \"word\": # and\n\u{e9}".into(), ..variation.apply(STYLES[0].clone()) };
        assert_eq!(Style::from_yaml(&odd.to_yaml(), "focus").unwrap(), odd);
    }

    #[test]
    fn what_a_file_leaves_out_is_that_of_another_preset() {
        let focus = Style::named("focus").unwrap();
        let own = Style::from_yaml("key: A\ncontrols: {reverb: 0.5}\n", "mine").unwrap();
        assert_eq!((own.name.as_ref(), own.tonic, own.mode, own.melody), ("mine", 9, focus.mode, focus.melody));
        assert_eq!(own.controls[3], (Parameter::Reverb, 0.5));
        assert_eq!(own.about, "A dorian, 72 beats a minute: mine varied");
        let minor = Style::from_yaml("key: bb\nmode: minor\n", "mine").unwrap();
        assert_eq!((minor.key(), minor.mode), ("A#", Mode::Aeolian));
        let own = Style::from_yaml("like: sleep\nchords: {triad: 1}", "mine").unwrap();
        assert_eq!(own.colours, [1, 15, 15, 10, 10]);
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("mine.yaml");
        std::fs::write(&path, "tempo: 60\n").unwrap();
        assert_eq!(Style::find(path.to_str().unwrap()).unwrap().beat_us, 1_000_000);
        assert_eq!(Style::find("focus").unwrap(), focus);
    }

    #[test]
    fn a_folder_is_listed_with_what_cannot_be_read() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        for (name, text) in [("b.yml", "tempo: 60"), ("a.yaml", "volume: 3"), ("c.txt", "tempo: 60")] {
            std::fs::write(at(name), text).unwrap();
        }
        let found = Style::list(folder.path()).unwrap();
        let paths: Vec<PathBuf> = found.iter().map(|(path, _)| path.clone()).collect();
        assert_eq!(paths, [at("a.yaml"), at("b.yml")]);
        assert!(found[0].1.as_ref().unwrap_err().to_string().contains("volume"));
        assert_eq!(found[1].1.as_ref().unwrap().name, "b");
        assert_eq!(Style::list(at("b.yml")).unwrap().len(), 1);
        assert!(Style::list(at("nowhere")).unwrap_err().to_string().contains("nowhere: "));
    }

    #[test]
    fn what_is_wrong_is_named() {
        for (text, named) in [
            ("volume: 3", "volume"),
            ("controls: {volume: 3}", "volume"),
            ("like: loud", "like: unknown preset `loud`"),
            ("key: H", "key: `H` is not one of C, C#"),
            ("mode: ionian", "ionian"),
            ("tempo: 9", "tempo is 9; 10 to 1000"),
            ("tempo: .nan", "tempo is NaN"),
            ("melody: 101", "melody is 101"),
            ("melody: -1", "line 1"),
            ("bars_per_chord: 9", "bars_per_chord is 9; 1 to 8"),
            ("velocity: 128", "velocity is 128"),
            ("chords: {triad: 1000001}", "colour 0 is 1000001"),
            ("controls: {reverb: 2}", "reverb is 2; 0 to 1"),
            ("controls: {gain: .nan}", "gain is NaN"),
            ("[1, 2]", ""),
            ("melody: [", ""),
        ] {
            let error = Style::from_yaml(text, "mine").unwrap_err();
            assert!(error.to_string().contains(named) && error.hint().is_some(), "{text}: {error}");
        }
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("mine.yaml");
        std::fs::write(&path, "#".repeat(70_000)).unwrap();
        assert!(Style::open(&path).unwrap_err().to_string().contains("larger than 65536 bytes"));
        std::fs::write(&path, "volume: 3").unwrap();
        assert!(Style::open(&path).unwrap_err().to_string().starts_with(&path.display().to_string()));
    }
}
