//! Marks and signs.

use super::currency::{self, Count};
use super::number::leads_to_equals;
use super::peek::{is_boundary, is_digit, is_lettered, letter, next_word, skip_space, starts_with, word};
use super::reader::Reader;
use super::unit;

/// Words that begin with an apostrophe.
const ELIDED: &[&str] = &["tis", "twas", "em", "til", "cause", "bout", "twill", "twere"];
/// Pairs that mean one or the other.
const EITHER: &[(&str, &str)] = &[
    ("he", "she"),
    ("she", "he"),
    ("his", "her"),
    ("him", "her"),
    ("yes", "no"),
    ("true", "false"),
    ("either", "or"),
    ("on", "off"),
    ("his", "hers"),
    ("male", "female"),
    ("pass", "fail"),
];
/// Words that a slash makes a rate of.
const RATED: &[&str] =
    &["km", "mi", "miles", "kilometers", "meters", "dollars", "requests", "tokens", "frames", "kg", "mg", "bytes"];
/// Tags that only say how text looks.
const TAGS: &[&str] = &[
    "a",
    "b",
    "i",
    "u",
    "s",
    "p",
    "br",
    "em",
    "strong",
    "span",
    "div",
    "ul",
    "ol",
    "li",
    "code",
    "pre",
    "sub",
    "sup",
    "img",
    "table",
    "tr",
    "td",
    "th",
    "hr",
    "h",
    "blockquote",
    "small",
    "mark",
    "body",
    "html",
    "head",
    "title",
    "font",
    "center",
    "section",
];
const MAX_TAG: usize = 200;

impl Reader<'_> {
    /// Reads the sign that stands here.
    pub(super) fn symbol(&mut self) {
        let here = self.here();
        if here == '\'' {
            return self.apostrophe();
        }
        let n = self.chars[self.at..].iter().take_while(|letter| **letter == here).count();
        let (behind, next) = (self.behind(), self.ahead(n));
        let is_between = behind.is_ascii_alphanumeric() && next.is_ascii_alphanumeric();
        let words = match here {
            '.' | '!' | '?' | ',' | ';' | ':' => return self.mark(here, n),
            '-' => return self.hyphen(n),
            '<' | '>' => return self.angle(n),
            '(' | '[' | '{' | ')' | ']' | '}' | '|' => return self.bracket(here, n),
            '/' => return self.slash(n),
            '#' | '@' => return self.tagged(here, n),
            '"' | '`' | '_' => "",
            '&' if n < 3 => "and",
            '=' if next == '>' => {
                self.at += 1;
                "to"
            }
            '=' if n < 4 => "equals",
            '+' if n == 1 => "plus",
            '*' if n == 1 && is_between && behind.is_ascii_digit() => "times",
            '*' if n == 1 && behind == ' ' && next == ' ' && is_digit(self.chars, self.at + 2) => "times",
            '^' if n == 1 => return self.power(),
            '~' if n == 1 && self.is_amount(self.at + 1) => "about",
            '%' if n == 1 => "percent",
            '°' => "degrees",
            '¢' => "cents",
            'µ' => "micro",
            'Ω' => "ohms",
            '*' | '=' => "",
            '~' if n > 1 => "",
            _ => match currency::read(self.chars, self.at).filter(|_| n == 1) {
                Some((currency, _)) => currency.of(Count::One),
                None => return self.leave_out(n),
            },
        };
        self.at += n;
        if !words.is_empty() {
            self.phrase.say(words);
        }
        if here == '`' || here == '*' {
            return;
        }
        self.written.clear();
    }

    /// Leaves out `n` signs.
    fn leave_out(&mut self, n: usize) {
        self.left_out.add(self.chars[self.at..self.at + n].iter().copied());
        self.at += n;
        self.written.clear();
    }

    /// Returns whether a number stands at `at`, with or without a sign of money.
    pub(super) fn is_amount(&self, at: usize) -> bool {
        let place = skip_space(self.chars, at);
        let sign = usize::from("$£€¥-+.".contains(letter(self.chars, place)));
        is_digit(self.chars, place + sign)
    }

    fn mark(&mut self, mark: char, n: usize) {
        let (behind, next) = (self.behind(), self.ahead(n));
        let start = self.at;
        self.at += n;
        if mark == '.' && n > 1 {
            let ends = next_word(self.chars, self.at)
                .is_none_or(|next| next.starts_with(|letter: char| letter.is_ascii_uppercase()));
            return self.phrase.mark(if ends { '.' } else { ',' });
        }
        if mark == '.' && next.is_ascii_alphabetic() && (!behind.is_ascii_alphabetic() || next.is_ascii_lowercase()) {
            return self.phrase.say("dot");
        }
        if mark == '.' && [',', ';', ':'].contains(&next) {
            return;
        }
        if mark == '!' && next == '=' {
            self.at += 1;
            return self.phrase.say("is not equal to");
        }
        if mark == ':' && behind.is_ascii_digit() && next.is_ascii_digit() {
            return self.phrase.say("to");
        }
        if [':', ';'].contains(&mark) && behind.is_ascii_whitespace() && n == 1 {
            // An emoticon.
            let len = self.chars[self.at..].iter().take(3).take_while(|letter| "-')(DPp/|*".contains(**letter)).count();
            let is_alone = !letter(self.chars, self.at + len).is_ascii_alphanumeric();
            if len > 0 && is_alone {
                self.left_out.add(self.chars[start..self.at + len].iter().copied());
                self.at += len;
                return;
            }
        }
        // "?!" is a question.
        self.phrase.mark(mark);
    }

    fn apostrophe(&mut self) {
        let after = word(self.chars, self.at + 1);
        let end = self.at + 1 + after.len();
        let is_attached = !self.behind().is_ascii_whitespace() && !self.phrase.is_paused();
        self.at += 1;
        if after == "s" && is_attached && is_boundary(self.chars, end) && self.phrase.own() {
            self.at = end;
            return;
        }
        if after == "n" && letter(self.chars, end) == '\'' {
            return self.take("and", end + 1);
        }
        let is_free = !self.behind_apostrophe().is_ascii_alphanumeric();
        if is_free && ELIDED.contains(&&*after.to_ascii_lowercase()) && letter(self.chars, end) != '\'' {
            self.phrase.word(&format!("'{}", after.to_ascii_lowercase()));
            self.at = end;
            self.written.clear();
        }
    }

    fn behind_apostrophe(&self) -> char {
        if self.at < 2 { ' ' } else { self.chars[self.at - 2] }
    }

    /// Reads comparisons and leaves tags out.
    fn angle(&mut self, n: usize) {
        let here = self.here();
        let is_tag =
            here == '<' && n == 1 && (self.ahead(1).is_ascii_alphabetic() || ['/', '!'].contains(&self.ahead(1)));
        if is_tag {
            let rest = self.chars[self.at + 1..].iter().take(MAX_TAG);
            let len = rest.take_while(|letter| !['<', '>', '\n'].contains(letter)).count();
            if letter(self.chars, self.at + 1 + len) == '>' && !starts_with(self.chars, self.at + 1, "http") {
                let slash = usize::from(self.ahead(1) == '/');
                let name = word(self.chars, self.at + 1 + slash).to_ascii_lowercase();
                if !TAGS.contains(&&*name) {
                    self.left_out.add(self.chars[self.at..self.at + len + 2].iter().copied());
                }
                if ["br", "p", "li", "div", "tr", "h"].contains(&&*name) {
                    self.phrase.mark(',');
                }
                self.at += len + 2;
                return;
            }
        }
        if self.written == "I" && starts_with(self.chars, self.at, "<3") && is_boundary(self.chars, self.at + 2) {
            return self.take("love", self.at + 2);
        }
        let is_equal = self.ahead(1) == '=';
        let start = self.at;
        let behind = self.behind();
        self.at += n + usize::from(n == 1 && is_equal);
        let after = skip_space(self.chars, self.at);
        let compares = self.is_amount(self.at)
            || (behind == ' '
                && letter(self.chars, self.at) == ' '
                && letter(self.chars, after).is_ascii_alphanumeric());
        let words = match (here, is_equal) {
            _ if n > 1 || !(compares || is_equal) => {
                self.at = start;
                return self.leave_out(n);
            }
            ('<', false) => "less than",
            ('<', true) => "at most",
            (_, false) => "greater than",
            (_, true) => "at least",
        };
        self.phrase.say(words);
    }

    /// Reads brackets as pauses, and of links only their text.
    fn bracket(&mut self, here: char, n: usize) {
        if here == '[' && n == 1 {
            let text = self.chars[self.at + 1..].iter().take_while(|letter| !['[', ']'].contains(letter)).count();
            let end = self.at + 1 + text;
            if starts_with(self.chars, end, "](") {
                let address =
                    self.chars[end + 2..].iter().take_while(|letter| !['(', ')', '\n'].contains(letter)).count();
                if letter(self.chars, end + 2 + address) == ')' {
                    self.link = Some((end, end + 3 + address));
                    self.at += 1;
                    return;
                }
            }
        }
        let open = if here == '(' { self.at } else { self.at.saturating_sub(2) };
        self.at += n;
        if n > 1 || !is_lettered(self.chars, open) {
            self.phrase.mark(',');
        }
    }

    fn slash(&mut self, n: usize) {
        let is_between = self.behind().is_ascii_alphanumeric() && self.ahead(n).is_ascii_alphanumeric();
        let after = word(self.chars, self.at + n);
        let before = self.written.to_ascii_lowercase();
        let is_either = EITHER.contains(&(&*before, &*after.to_ascii_lowercase()));
        let is_pair = before == "and" && after == "or";
        self.at += n;
        let is_letters = before.len() == 1 && after.len() == 1;
        if let Some((name, end)) = unit::per(self.chars, self.at).filter(|_| n == 1 && RATED.contains(&&*before)) {
            return self.take(&format!("per {name}"), end);
        }
        let is_spaced = self.counted == Some(self.at.saturating_sub(n + 1)) && self.here() == ' ';
        match (n, is_between) {
            (1, false) if is_spaced && leads_to_equals(self.chars, self.at + 1) => self.phrase.say("divided by"),
            (1, true) if is_either => self.phrase.say("or"),
            (1, true) if is_pair || is_letters => {}
            (1, true) => self.phrase.say("slash"),
            (1, false) if letter(self.chars, self.at).is_ascii_alphanumeric() => self.phrase.say("slash"),
            _ => self.phrase.mark(','),
        }
    }

    /// Reads `#1`, hashtags and handles.
    fn tagged(&mut self, here: char, n: usize) {
        let is_free = !self.behind().is_ascii_alphanumeric();
        if n > 2 {
            return self.leave_out(n);
        }
        self.at += n;
        if here == '#' && is_digit(self.chars, self.at) && is_free {
            return self.phrase.say("number");
        }
        let rest = self.chars[self.at..].iter();
        let name: String = rest.take_while(|letter| letter.is_ascii_alphanumeric() || **letter == '_').collect();
        let is_name = name.contains(|letter: char| letter.is_ascii_alphabetic()) && is_free;
        match (here, is_name) {
            ('#', true) => self.phrase.say("hashtag"),
            ('#', false) => {
                self.at -= n;
                return self.leave_out(n);
            }
            _ => self.phrase.say("at"),
        }
        if is_name {
            self.at += name.len();
            self.tag(&name);
            self.written.clear();
        }
    }

    fn power(&mut self) {
        self.at += 1;
        match (self.here(), self.ahead(1).is_ascii_alphanumeric()) {
            ('2', false) => self.take("squared", self.at + 1),
            ('3', false) => self.take("cubed", self.at + 1),
            (here, _) if here.is_ascii_alphanumeric() || here == '-' => {
                self.phrase.say("to the power of");
                if here == '-' {
                    self.at += 1;
                    self.phrase.say("minus");
                }
            }
            _ => {
                self.at -= 1;
                self.leave_out(1);
            }
        }
    }
}
