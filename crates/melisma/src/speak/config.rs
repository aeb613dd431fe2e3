//! The section `speak` of `melisma.yaml`: keys of [`Format`] that win over those of the model's own file.

use std::path::Path;
use std::str::FromStr;

use serde_json::{Map, Value, json};

use super::format::{FILE_NAME, Format};
use super::tokenizer::Tokenizer;
use crate::config::{Field, Origin, Raw, Section};
use crate::llama::Source;
use crate::{Error, Result};

/// A finite number.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Number(f32);

impl Eq for Number {}

crate::section! {
    /// Keys of a [`Format`] as users set them. Those that are set win over those of the model.
    Config {}
    "speak.voices" voices: Option<Vec<String>> = None, "Names of the voices, the default one first.";
    "speak.prompt" prompt: Option<String> = None, "What the tokenizer gets, with `{text}` and `{voice}`.";
    "speak.before" before: Option<Vec<u32>> = None, "Tokens before those of the prompt.";
    "speak.after" after: Option<Vec<u32>> = None, "Tokens after those of the prompt.";
    "speak.speech" speech: Option<u32> = None, "The token of code 0 in slot 0.";
    "speak.end" end: Option<u32> = None, "The token that ends the speech.";
    "speak.codec" codec: Option<String> = None, "The hash of the codec that the model was trained with.";
    "speak.temperature" temperature: Option<Number> = None, "Above 1 evens the probabilities out; 0 is greedy.";
    "speak.top_k" top_k: Option<u32> = None, "So many of the most likely tokens can be drawn; 0 is off.";
    "speak.top_p" top_p: Option<Number> = None, "The share of the probability that can be drawn.";
    "speak.min_p" min_p: Option<Number> = None, "The least share of the most likely token's probability.";
    "speak.repetition_penalty" repetition_penalty: Option<Number> = None, "How unlikely tokens of the past become.";
    "speak.penalty_window" penalty_window: Option<u32> = None, "The recent past in tokens.";
    "speak.normalise" normalise: Option<bool> = None, "Whether numbers, dates and the like are read out in words.";
}

impl Config {
    /// Returns the keys that are set, as one object.
    pub(super) fn given(&self) -> Map<String, Value> {
        let given = self.entries().into_iter().filter(|entry| *entry.origin != Origin::Default);
        given.map(|entry| (entry.key.to_owned(), entry.json)).collect()
    }

    /// Returns the format of the model in `folder`: its own with the keys that are set. The prompts and tokens of the
    /// built-in voice stay its own.
    ///
    /// # Errors
    /// Its file cannot be read, or there is none, nor such keys, and the model is not Orpheus.
    pub(super) fn format_of(&self, folder: &Path, tokenizer: &Tokenizer) -> Result<Format> {
        let source = Source::find(folder)?;
        let own = Format::find(folder, &source, tokenizer)?;
        if let (Source::Builtin(_), Some(own)) = (&source, &own) {
            return Ok(self.drawn(own.clone()));
        }
        self.over(own)?.ok_or_else(|| {
            let message = format!("{}: the tokenizer is not Orpheus', and there is no {FILE_NAME}", folder.display());
            let hint = format!("describe the model's prompts and tokens in a {FILE_NAME}");
            Error::invalid(message)
                .with_hint(format!("{hint}, or in the settings `speak`: at least `speech` and `end`"))
        })
    }

    /// Returns `format` with the keys that are set, which suffice without one if they say where the speech is.
    ///
    /// # Errors
    /// The voices and the prompt do not fit each other.
    fn over(&self, format: Option<Format>) -> Result<Option<Format>> {
        let (speech, end) = (self.speech.value, self.end.value);
        let Some(format) = format.or_else(|| Some(Format::new(speech?, end?))) else { return Ok(None) };
        let mut format = self.drawn(format);
        if speech.is_some() {
            // Other tokens than Orpheus' need not be those of its codec.
            format.slot_codes = None;
        }
        format.speech = speech.unwrap_or(format.speech);
        format.end = end.unwrap_or(format.end);
        format.codec = self.codec.value.clone().or(format.codec);
        format.prompt = self.prompt.value.clone().unwrap_or(format.prompt);
        format.voices = self.voices.value.clone().unwrap_or(format.voices);
        format.before = self.before.value.clone().unwrap_or(format.before);
        format.after = self.after.value.clone().unwrap_or(format.after);
        format.check_prompt().map_err(|error| error.at("the settings `speak`"))?;
        Ok(Some(format))
    }

    /// Returns `format` with the keys that are set of those that fit every model: how tokens are drawn and texts are read.
    fn drawn(&self, mut format: Format) -> Format {
        let set = |to: &mut Option<f32>, from: Option<Number>| *to = from.map(|Number(number)| number).or(*to);
        set(&mut format.temperature, self.temperature.value);
        set(&mut format.top_p, self.top_p.value);
        set(&mut format.min_p, self.min_p.value);
        set(&mut format.repetition_penalty, self.repetition_penalty.value);
        let count = |to: &mut Option<usize>, from: Option<u32>| *to = from.map(|count| count as usize).or(*to);
        count(&mut format.top_k, self.top_k.value);
        count(&mut format.penalty_window, self.penalty_window.value);
        format.normalise = self.normalise.value.or(format.normalise);
        format
    }
}

/// Reads a list of YAML, or words with commas.
fn list<T>(raw: &Raw, expected: &str, item: impl Fn(&Raw) -> Option<T>) -> Result<Vec<T>> {
    let wrong = || raw.wrong(expected);
    match raw {
        Raw::List(items) => items.iter().map(|raw| item(raw).ok_or_else(wrong)).collect(),
        Raw::Text(text) | Raw::Word(text) if text.trim().is_empty() => Ok(Vec::new()),
        Raw::Text(text) | Raw::Word(text) => {
            text.split(',').map(|word| item(&Raw::Word(word.trim().to_owned())).ok_or_else(wrong)).collect()
        }
        one => Ok(vec![item(one).ok_or_else(wrong)?]),
    }
}

fn joined<T: ToString>(items: Option<&Vec<T>>) -> String {
    items.map_or_else(|| "none".to_owned(), |items| items.iter().map(T::to_string).collect::<Vec<_>>().join(", "))
}

impl Field for Option<Vec<String>> {
    fn parse(raw: &Raw) -> Result<Self> {
        let item = |raw: &Raw| raw.word("a name").ok().map(str::to_owned);
        list(raw, "a list of names", item).map(Some)
    }

    fn show(&self) -> String {
        joined(self.as_ref())
    }

    fn json(&self) -> Value {
        json!(self)
    }
}

impl Field for Option<Vec<u32>> {
    fn parse(raw: &Raw) -> Result<Self> {
        list(raw, "a list of token ids", whole).map(Some)
    }

    fn show(&self) -> String {
        joined(self.as_ref())
    }

    fn json(&self) -> Value {
        json!(self)
    }
}

fn whole(raw: &Raw) -> Option<u32> {
    u64::parse(raw).ok().and_then(|number| u32::try_from(number).ok())
}

impl Field for Option<u32> {
    fn parse(raw: &Raw) -> Result<Self> {
        whole(raw).map(Some).ok_or_else(|| raw.wrong("a whole number below 2^32"))
    }

    fn show(&self) -> String {
        self.map_or_else(|| "none".to_owned(), |number| number.to_string())
    }

    fn json(&self) -> Value {
        json!(self)
    }
}

impl Field for Option<bool> {
    fn parse(raw: &Raw) -> Result<Self> {
        bool::parse(raw).map(Some)
    }

    fn show(&self) -> String {
        self.map_or_else(|| "none".to_owned(), |value| value.to_string())
    }

    fn json(&self) -> Value {
        json!(self)
    }
}

impl Field for Option<Number> {
    fn parse(raw: &Raw) -> Result<Self> {
        let number = match raw {
            Raw::Number(number) => Some(*number as f32),
            Raw::Integer(number) => Some(*number as f32),
            Raw::Text(text) | Raw::Word(text) => f32::from_str(text).ok(),
            _ => None,
        };
        let found = number.filter(|number| number.is_finite());
        found.map(|number| Some(Number(number))).ok_or_else(|| match raw {
            Raw::Number(number) => Error::invalid(format!("expected a number, found {number:e}")),
            _ => raw.wrong("a number"),
        })
    }

    fn show(&self) -> String {
        self.map_or_else(|| "none".to_owned(), |Number(number)| number.to_string())
    }

    fn json(&self) -> Value {
        // The shortest number that stands for the value.
        self.and_then(|Number(number)| number.to_string().parse::<f64>().ok()).map_or(Value::Null, Value::from)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Layers, Sources};

    fn read(text: &str) -> Result<Config> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("melisma.yaml");
        std::fs::write(&path, text).unwrap();
        Layers::read(&Sources::default().with_file(path))?.section()
    }

    #[test]
    fn what_a_speak_yaml_says_can_be_said_here() {
        let text = "voices: [ann, bob]\nprompt: \"<{voice}> {text}\"\nbefore: [3, 4]\nafter: [5]\nspeech: 264\nend: 258\n\
                    codec: 00ff\ntemperature: 0.5\ntop_k: 7\ntop_p: 1\nmin_p: 0.125\nrepetition_penalty: 1.5\n\
                    penalty_window: 64\nnormalise: true\n";
        let indented: String = text.lines().map(|line| format!("  {line}\n")).collect();
        let config = read(&format!("speak:\n{indented}")).unwrap();
        let format = Format::from_yaml(text).unwrap();
        assert_eq!(config.over(None).unwrap(), Some(format.clone()));
        assert_eq!(config.over(Some(Format::orpheus())).unwrap(), Some(format));
        assert_eq!(config.given().len(), Config::KEYS.len());
        // As variables and flags write them.
        let words = [("speak.voices", "ann, bob"), ("speak.before", "3,4"), ("speak.after", "5"), ("speak.top_p", "1")];
        let mut flags = Config::default();
        for (key, word) in words {
            flags.set(key, &Raw::Word(word.to_owned()), Origin::Flag("--flag")).unwrap();
        }
        assert_eq!(
            (flags.voices.value, flags.before.value, flags.after.value, flags.top_p.value),
            (config.voices.value, config.before.value, config.after.value, config.top_p.value)
        );
    }

    #[test]
    fn keys_that_are_set_win_over_those_of_the_model() {
        let config = read("speak:\n  temperature: 0\n  voices: [eve]\n").unwrap();
        let orpheus = Format::orpheus();
        let format = config.over(Some(Format::orpheus())).unwrap().unwrap();
        let sample = format.settings().sample;
        assert_eq!((sample.temperature, sample.top_p, &format.voices[..]), (0.0, 0.9, &["eve".to_owned()][..]));
        assert_eq!((format.before, format.speech), (orpheus.before, orpheus.speech));
        assert_eq!(config.over(None).unwrap(), None);
        assert_eq!(Config::default().over(Some(Format::orpheus())).unwrap(), Some(Format::orpheus()));
        assert!(Config::default().given().is_empty());
        assert_eq!(Value::Object(config.given()), json!({"speak.temperature": 0.0, "speak.voices": ["eve"]}));
        let none = read("speak:\n  voices: []\n").unwrap().over(Some(Format::orpheus())).unwrap_err();
        assert!(none.to_string().contains("the settings `speak`: prompt: it has {voice} if"), "{none}");
    }

    #[test]
    fn wrong_values_are_refused_with_their_line() {
        for (line, expected) in [
            ("before: [1, -2]", "2: `speak.before`: expected a list of token ids, found a list"),
            ("before: 1.5", "expected a list of token ids, found a number that is not whole"),
            ("voices: [[a]]", "expected a list of names, found a list"),
            ("voices: {a: b}", "expected a list of names, found a section"),
            ("speech: 4294967296", "expected a whole number below 2^32, found the number 4294967296"),
            ("temperature: hot", "expected a number, found the text `hot`"),
            ("top_p: 1e300", "`speak.top_p`: expected a number, found 1e300"),
            ("vices: [a]", "speak.vices"),
        ] {
            let error = read(&format!("speak:\n  {line}\n")).unwrap_err();
            assert!(error.to_string().contains(expected), "{line}: {error}");
        }
    }
}
