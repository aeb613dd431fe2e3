//! Text to the prompt of a model that speaks in tokens.
//!
//! Orpheus was trained on `{voice}: {text}` between the tokens that begin and end a human's turn, its
//! emotive tags (`<laugh>`, `<chuckle>`, `<sigh>`, `<cough>`, `<sniffle>`, `<groan>`, `<yawn>`,
//! `<gasp>`) within the text.

use melisma::{Error, Result};

use super::Api;
use super::config::ORPHEUS;

const COMPLETION: &str = "<custom_token_3><|begin_of_text|>{voice}: {text}<|eot_id|>\
                       <custom_token_4><custom_token_5><custom_token_1>";
/// Where the server adds the tokens around a turn.
const CHAT: &str = "{voice}: {text}";
/// The first characters of tokens that users may not write.
const CUSTOM: &str = "<custom_token_";

/// A prompt with variables for the text, the voice and the instructions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Template {
    text: String,
}

/// Values of the template's variables.
#[derive(Debug, Clone, Copy)]
pub struct PromptVars<'a> {
    /// The text.
    pub text: &'a str,
    /// One of the model's voices.
    pub voice: &'a str,
    /// How to speak; may be empty.
    pub instructions: &'a str,
}

impl Template {
    /// Creates the template `orpheus`, or one with `{text}` in it, and perhaps `{voice}` and `{instructions}`.
    ///
    /// # Errors
    /// The template has no `{text}`.
    pub fn new(text: &str, api: Api) -> Result<Self> {
        let text = match (text, api) {
            (ORPHEUS, Api::Completions) => COMPLETION,
            (ORPHEUS, Api::Chat) => CHAT,
            _ if text.contains("{text}") => text,
            _ => {
                return Err(Error::invalid("the template has no `{text}`")
                    .with_hint("write `orpheus`, or a text with {text}, {voice} and {instructions}"));
            }
        };
        Ok(Self { text: text.to_owned() })
    }

    /// Builds the prompt. Values that look like variables are not expanded, and no value can form a token of
    /// the model, neither with another value nor with the template around it.
    pub(super) fn prompt(&self, vars: PromptVars<'_>) -> String {
        let variables = [("{text}", vars.text), ("{voice}", vars.voice), ("{instructions}", vars.instructions)];
        let (mut prompt, mut rest) = (SanitizedText::default(), &*self.text);
        while let Some(start) = rest.find('{') {
            let (before, from) = rest.split_at(start);
            prompt.push(before, TextOrigin::Template);
            let variable = variables.iter().find(|(variable, _)| from.starts_with(variable));
            let len = variable.map_or(1, |(variable, _)| variable.len());
            match variable {
                Some((_, value)) => prompt.push(value, TextOrigin::User),
                None => prompt.push("{", TextOrigin::Template),
            }
            rest = &from[len..];
        }
        prompt.push(rest, TextOrigin::Template);
        prompt.text
    }
}

/// Removes `<custom_token_N>` and `<|...|>`, which steer the model, also where removing one would
/// join two halves of another. Control characters become spaces, all but line feeds.
pub fn clean(text: &str) -> String {
    let mut cleaned = SanitizedText::default();
    cleaned.push(text, TextOrigin::User);
    cleaned.text
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum TextOrigin {
    Template,
    User,
}

/// A text in which only the template has written tokens.
#[derive(Debug, Default)]
struct SanitizedText {
    text: String,
    /// Of each byte.
    origins: Vec<TextOrigin>,
}

impl SanitizedText {
    fn push(&mut self, text: &str, origin: TextOrigin) {
        for letter in text.chars() {
            let is_control = letter.is_control() && letter != '\n' && origin == TextOrigin::User;
            self.text.push(if is_control { ' ' } else { letter });
            self.origins.resize(self.text.len(), origin);
            // The text before this letter has no token of a user's, so one can only end here.
            while let Some(start) =
                last_token(&self.text).filter(|start| self.origins[*start..].contains(&TextOrigin::User))
            {
                self.remove_from(start);
            }
        }
    }

    /// Removes what the user wrote from the byte `start` on.
    fn remove_from(&mut self, start: usize) {
        let tail = self.text.split_off(start);
        let origins = self.origins.split_off(start);
        for (at, letter) in tail.char_indices().filter(|(at, _)| origins[*at] == TextOrigin::Template) {
            self.text.push(letter);
            self.origins.resize(self.text.len(), origins[at]);
        }
    }
}

/// Returns where the token begins that `text` ends with.
fn last_token(text: &str) -> Option<usize> {
    let before = text.strip_suffix('>')?;
    let name = before.trim_end_matches(|letter: char| letter.is_ascii_digit());
    if let Some(custom) = name.strip_suffix(CUSTOM).filter(|_| name.len() < before.len()) {
        return Some(custom.len());
    }
    let inner = before.strip_suffix('|')?;
    let is_open = |start: &usize| !inner[start + 2..].contains("|>");
    inner.rfind("<|").filter(is_open)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const VARS: PromptVars<'_> = PromptVars { text: "Hi {voice} <laugh>", voice: "tara", instructions: "softly" };

    #[test]
    fn the_prompt_of_orpheus_is_that_of_its_authors() {
        let prompt = Template::new("orpheus", Api::Completions).unwrap().prompt(VARS);
        let expected = "<custom_token_3><|begin_of_text|>tara: Hi {voice} <laugh><|eot_id|>\
                        <custom_token_4><custom_token_5><custom_token_1>";
        assert_eq!(prompt, expected);
        assert_eq!(Template::new("orpheus", Api::Chat).unwrap().prompt(VARS), "tara: Hi {voice} <laugh>");
    }

    #[test]
    fn a_template_has_places() {
        let template = Template::new("{a} [{instructions}] {{text}} {voice", Api::Completions).unwrap();
        assert_eq!(template.prompt(VARS), "{a} [softly] {Hi {voice} <laugh>} {voice");
        assert!(Template::new("{voice}", Api::Completions).is_err());
    }

    #[test]
    fn words_make_no_token_together_or_with_the_template() {
        for (template, instructions, text, expected) in [
            ("{instructions}{text}", "a<custom_to", "ken_7>b", "ab"),
            ("{instructions}|{text}", "a<", "eot_id|>b", "a|b"),
            ("<|a|>{text} |>", "", "b", "<|a|>b |>"),
            ("{text}>", "", "a<custom_token_7", "a>"),
            (
                "<custom_token_3>{text}<|eot_id|>",
                "",
                "<|a<custom_token_3",
                "<custom_token_3><|a<custom_token_3<|eot_id|>",
            ),
        ] {
            let template = Template::new(template, Api::Completions).unwrap();
            assert_eq!(template.prompt(PromptVars { text, voice: "", instructions }), expected);
        }
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
            ("<custom_token_ lists and 3 < 4 and more text >", "<custom_token_ lists and 3 < 4 and more text >"),
            ("one\ntwo\r\u{0}", "one\ntwo  "),
        ] {
            assert_eq!(clean(text), expected, "{text}");
        }
    }

    proptest! {
        #[test]
        fn no_token_survives(parts in prop::collection::vec(prop::sample::select(vec!["<", "|", ">", "<|", "|>", "<custom_token_", "<cus", "tom_token_", "7", "é", " "]), 0..40)) {
            let cleaned = clean(&parts.concat());
            let is_token = |rest: &str| rest.trim_start_matches('7').starts_with('>') && rest.starts_with('7');
            prop_assert!(!cleaned.split(CUSTOM).skip(1).any(is_token), "{}", cleaned);
            let opened = cleaned.find("<|").is_some_and(|start| cleaned[start + 2..].contains("|>"));
            prop_assert!(!opened, "{}", cleaned);
        }
    }
}
