//! Text to the prompt of a model that speaks in tokens.
//!
//! Orpheus was trained on `{voice}: {text}` between the tokens that begin and end a human's turn, its
//! emotive tags (`<laugh>`, `<chuckle>`, `<sigh>`, `<cough>`, `<sniffle>`, `<groan>`, `<yawn>`,
//! `<gasp>`) within the text.

use melisma::config::ORPHEUS;
use melisma::{Error, Result};

use super::Api;

const COMPLETION: &str = "<custom_token_3><|begin_of_text|>{voice}: {text}<|eot_id|>\
                       <custom_token_4><custom_token_5><custom_token_1>";
/// Where the server adds the tokens around a turn.
const CHAT: &str = "{voice}: {text}";
/// The first characters of tokens that users may not write.
const CUSTOM: &str = "<custom_token_";

/// A prompt with places for what is spoken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Template {
    text: String,
}

/// What is spoken, and how.
#[derive(Debug, Clone, Copy)]
pub struct Words<'a> {
    /// The text.
    pub text: &'a str,
    /// One of the model's voices.
    pub voice: &'a str,
    /// How to speak; empty if nothing was said about it.
    pub instructions: &'a str,
}

impl Template {
    /// The template `orpheus`, or one with `{text}` in it, and perhaps `{voice}` and `{instructions}`.
    ///
    /// # Errors
    /// There is no `{text}`.
    pub fn new(text: &str, api: Api) -> Result<Self> {
        let text = match (text, api) {
            (ORPHEUS, Api::Completions) => COMPLETION,
            (ORPHEUS, Api::Chat) => CHAT,
            _ if text.contains("{text}") => text,
            _ => {
                return Err(Error::invalid("the template has no place for the text")
                    .with_hint("write `orpheus`, or a text with {text}, {voice} and {instructions}"));
            }
        };
        Ok(Self { text: text.to_owned() })
    }

    /// The prompt. Words that look like places are not replaced.
    pub(super) fn prompt(&self, words: Words<'_>) -> String {
        let places = [("{text}", words.text), ("{voice}", words.voice), ("{instructions}", words.instructions)];
        let (mut prompt, mut rest) = (String::new(), &*self.text);
        while let Some(start) = rest.find('{') {
            let (before, from) = rest.split_at(start);
            prompt.push_str(before);
            let (shown, len) = places
                .iter()
                .find(|(place, _)| from.starts_with(place))
                .map_or(("{", 1), |(place, value)| (*value, place.len()));
            prompt.push_str(shown);
            rest = &from[len..];
        }
        prompt + rest
    }
}

/// Removes `<custom_token_...>` and `<|...|>`, which steer the model, also where removing one would
/// join two halves of another. Control characters become spaces, all but line feeds.
pub fn clean(text: &str) -> String {
    let mut cleaned = String::with_capacity(text.len());
    for letter in text.chars() {
        cleaned.push(if letter.is_control() && letter != '\n' { ' ' } else { letter });
        // The text before this letter has no whole token, so a token can only end here.
        if letter == '>'
            && let Some(start) = last_token(&cleaned)
        {
            cleaned.truncate(start);
        }
    }
    cleaned
}

/// Where the token begins that `text` ends with.
fn last_token(text: &str) -> Option<usize> {
    let custom = text.rfind(CUSTOM);
    let inner = text.strip_suffix("|>").and_then(|inner| inner.rfind("<|"));
    custom.max(inner)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const WORDS: Words<'_> = Words { text: "Hi {voice} <laugh>", voice: "tara", instructions: "softly" };

    #[test]
    fn the_prompt_of_orpheus_is_that_of_its_authors() {
        let prompt = Template::new("orpheus", Api::Completions).unwrap().prompt(WORDS);
        let expected = "<custom_token_3><|begin_of_text|>tara: Hi {voice} <laugh><|eot_id|>\
                        <custom_token_4><custom_token_5><custom_token_1>";
        assert_eq!(prompt, expected);
        assert_eq!(Template::new("orpheus", Api::Chat).unwrap().prompt(WORDS), "tara: Hi {voice} <laugh>");
    }

    #[test]
    fn a_template_has_places() {
        let template = Template::new("{a} [{instructions}] {{text}} {voice", Api::Completions).unwrap();
        assert_eq!(template.prompt(WORDS), "{a} [softly] {Hi {voice} <laugh>} {voice");
        assert!(Template::new("{voice}", Api::Completions).is_err());
    }

    #[test]
    fn tokens_in_a_text_are_removed() {
        for (text, expected) in [
            ("Hi <laugh> there <3", "Hi <laugh> there <3"),
            ("a<custom_token_3>b<|eot_id|>c", "abc"),
            ("a<cust<|x|>om_token_3>b", "ab"),
            ("a<|e<|b|>ot_id|>b", "ab"),
            ("<custom_token_<custom_token_1>2>b", "b"),
            ("<|custom_token_3>|>b", "b"),
            ("a <| b |> c <|> d |>", "a  c "),
            ("one\ntwo\r\u{0}", "one\ntwo  "),
        ] {
            assert_eq!(clean(text), expected, "{text}");
        }
    }

    proptest! {
        #[test]
        fn no_token_survives(parts in prop::collection::vec(prop::sample::select(vec!["<", "|", ">", "<|", "|>", "<custom_token_", "<cus", "tom_token_", "7", "é", " "]), 0..40)) {
            let cleaned = clean(&parts.concat());
            let opened = cleaned.find(CUSTOM).is_some_and(|start| cleaned[start..].contains('>'));
            prop_assert!(!opened, "{}", cleaned);
            let opened = cleaned.find("<|").is_some_and(|start| cleaned[start + 2..].contains("|>"));
            prop_assert!(!opened, "{}", cleaned);
        }
    }
}
