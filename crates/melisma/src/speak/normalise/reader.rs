//! The loop over a folded text: what stands at a place decides which rule reads it.

use super::Found;
use super::currency;
use super::date;
use super::number::{self, Number, n_digits};
use super::passage::Passages;
use super::peek::{is_boundary, is_digit, letter, skip_space, starts_with, word};
use super::phrase::Phrase;
use super::{address, amount, clock, fraction, phone, plural};

/// The words of a text.
pub(super) struct Reading {
    pub(super) text: String,
    pub(super) left_out: Passages,
    pub(super) spelled: Passages,
}

/// A text on its way to words.
pub(super) struct Reader<'a> {
    pub(super) chars: &'a [char],
    pub(super) at: usize,
    pub(super) phrase: Phrase,
    /// What was read letter by letter or digit by digit.
    pub(super) spelled: Passages,
    pub(super) left_out: Passages,
    /// The end of a link's text, and where the text goes on after its address.
    pub(super) link: Option<(usize, usize)>,
    /// The last word as it was written.
    pub(super) written: String,
    /// Where the last number, time or date ended.
    pub(super) counted: Option<usize>,
    /// Where the last telephone number ended.
    called: Option<usize>,
}

/// Letters and digits that change this often are a code.
const CODE_CHANGES: usize = 3;
const CODE_LEN: usize = 8;

impl<'a> Reader<'a> {
    pub(super) fn new(chars: &'a [char]) -> Self {
        Self {
            chars,
            at: 0,
            phrase: Phrase::default(),
            spelled: Passages::default(),
            left_out: Passages::default(),
            link: None,
            written: String::new(),
            counted: None,
            called: None,
        }
    }

    /// Reads the whole text.
    pub(super) fn read(mut self) -> Reading {
        while self.at < self.chars.len() {
            self.step();
        }
        Reading { text: self.phrase.finish(), left_out: self.left_out, spelled: self.spelled }
    }

    pub(super) fn here(&self) -> char {
        letter(self.chars, self.at)
    }

    /// Returns the character `n` places ahead.
    pub(super) fn ahead(&self, n: usize) -> char {
        letter(self.chars, self.at + n)
    }

    pub(super) fn behind(&self) -> char {
        if self.at == 0 { ' ' } else { self.chars[self.at - 1] }
    }

    fn step(&mut self) {
        let here = self.here();
        if here.is_ascii_whitespace() {
            return self.space();
        }
        if let Some((_, end)) = self.link.take_if(|(end, _)| *end == self.at) {
            self.at = end;
            return;
        }
        let begins = address::can_begin(self.chars, self.at);
        if begins
            && (here.is_ascii_alphanumeric() || here == '_')
            && let Some((words, end)) = address::read(self.chars, self.at)
        {
            return self.take(&words, end);
        }
        if here.is_ascii_alphanumeric() && !self.behind().is_ascii_alphanumeric() && self.code() {
            return;
        }
        let is_fraction = here == '.' && is_digit(self.chars, self.at + 1) && !self.behind().is_ascii_alphanumeric();
        if here.is_ascii_digit() || is_fraction || self.is_money() {
            return self.number();
        }
        if (here == '+' || here == '(')
            && !self.behind().is_ascii_alphanumeric()
            && let Some((words, end)) = phone::read(self.chars, self.at)
        {
            self.called = Some(end);
            return self.take(&words, end);
        }
        if here.is_ascii_alphabetic() { self.word() } else { self.symbol() }
    }

    /// Takes words that the text up to `end` stands for.
    pub(super) fn take(&mut self, words: &str, end: usize) {
        self.phrase.say(words);
        self.at = end;
        self.written.clear();
    }

    fn space(&mut self) {
        let mut n_lines = 0;
        while self.at < self.chars.len() && self.here().is_ascii_whitespace() {
            n_lines += usize::from(self.here() == '\n');
            self.at += 1;
        }
        if n_lines > 1 {
            self.phrase.mark('.');
        }
    }

    /// Returns whether a currency and its amount stand here.
    fn is_money(&self) -> bool {
        let is_free = !self.behind().is_ascii_alphabetic();
        let Some((_, end)) = currency::read(self.chars, self.at).filter(|_| is_free) else { return false };
        let place = skip_space(self.chars, end);
        let minus = usize::from(letter(self.chars, place) == '-');
        is_digit(self.chars, place + minus) || (letter(self.chars, place) == '.' && is_digit(self.chars, place + 1))
    }

    /// Reads letters and digits without a meaning one by one, and returns whether it did.
    fn code(&mut self) -> bool {
        let run = self.chars[self.at..].iter().take_while(|letter| letter.is_ascii_alphanumeric());
        let (mut len, mut n_changes, mut has_vowel, mut n_letters) = (0, 0, false, 0);
        let mut last = None;
        for letter in run {
            let is_digit = letter.is_ascii_digit();
            n_changes += usize::from(last.is_some_and(|last| last != is_digit));
            n_letters += usize::from(!is_digit);
            has_vowel |= "aeiouyAEIOUY".contains(*letter);
            last = Some(is_digit);
            len += 1;
        }
        let is_code = n_changes >= CODE_CHANGES && len >= CODE_LEN;
        let is_noise = n_letters == len && len > 6 && !has_vowel;
        if !(is_code || is_noise) {
            return false;
        }
        let code = &self.chars[self.at..self.at + len];
        self.spelled.add(code.iter().copied());
        let mut words = String::with_capacity(4 * len);
        for letter in code {
            match letter.is_ascii_digit() {
                true => words.push_str(&number::digits(letter.encode_utf8(&mut [0; 4]))),
                false => words.push(letter.to_ascii_lowercase()),
            }
            words.push(' ');
        }
        self.take(&words, self.at + len);
        true
    }

    /// Reads what begins with a number or an amount of money.
    fn number(&mut self) {
        let mut before = self.phrase.near_word().to_owned();
        // "Call 112 or 911."
        if ["or", "and"].contains(&&*before) && self.called.is_some_and(|end| end + before.len() + 2 == self.at) {
            "call".clone_into(&mut before);
        }
        let (chars, at) = (self.chars, self.at);
        if self.behind().is_ascii_alphabetic() {
            return self.number_in_word();
        }
        let state = &*self.written;
        let rules: [&dyn Fn() -> Found; 14] = [
            &|| amount::continental(chars, at, &before),
            &|| phone::zip(chars, at, state),
            &|| phone::read(chars, at),
            &|| phone::toll_free(chars, at),
            &|| date::numeric(chars, at),
            &|| phone::version(chars, at),
            &|| clock::read(chars, at),
            &|| clock::span(chars, at),
            &|| date::short(chars, at, &before),
            &|| fraction::read(chars, at),
            &|| date::before_month(chars, at, &before),
            &|| ordinal(chars, at),
            &|| decade(chars, at, &before),
            &|| plural::read(chars, at, &before),
        ];
        let found = match is_digit(chars, at) {
            true => rules.iter().find_map(|rule| rule()),
            false => None,
        };
        if found.is_none()
            && let Some((_, end)) = Number::read(chars, at).filter(|(number, _)| number.is_spelled())
        {
            self.spelled.add(chars[at..end].iter().copied());
        }
        let Some((words, end)) = found.or_else(|| amount::read(chars, at, &before)) else {
            self.at += 1;
            return;
        };
        if amount::calls(&before) || phone::read(chars, at).is_some() {
            self.called = Some(end);
        }
        self.take(&words, end);
        self.counted = Some(end);
    }

    /// Reads the digits of `B2B` and `MP3`.
    fn number_in_word(&mut self) {
        let len = n_digits(self.chars, self.at);
        let digits: String = self.chars[self.at..self.at + len].iter().collect();
        if len <= 3 && starts_with(self.chars, self.at + len, "s") && is_boundary(self.chars, self.at + len + 1) {
            return self.take(&plural::several(digits.parse().unwrap_or(0)), self.at + len + 1);
        }
        let words = match digits.parse() {
            Ok(value) if len == 4 && (1900..2100).contains(&value) => number::year(value),
            _ if len <= 3 => number::cardinal(&digits),
            _ => number::digits(&digits),
        };
        self.take(&words, self.at + len);
        if self.here() == '.' && is_digit(self.chars, self.at + 1) {
            let len = n_digits(self.chars, self.at + 1);
            let digits: String = self.chars[self.at + 1..=self.at + len].iter().collect();
            self.take(&format!("point {}", number::digits(&digits)), self.at + 1 + len);
        }
    }
}

/// Reads `2nd` and `1,000th`.
fn ordinal(chars: &[char], at: usize) -> Found {
    let (number, end) = Number::read(chars, at)?;
    let suffix = word(chars, end).to_ascii_lowercase();
    let fits = number.fraction.is_none() && ["st", "nd", "rd", "th"].contains(&&*suffix) && !number.is_spelled();
    fits.then(|| (number::ordinal(&number.whole), end + 2))
}

/// Words before two digits of a decade, or of temperatures and ages.
const BEFORE_DECADE: &[&str] = &[
    "the", "early", "late", "mid", "his", "her", "their", "my", "your", "our", "in", "roaring", "low", "lower", "high",
    "upper",
];

/// Reads `1990s`, and `80s` where the word in front or an apostrophe says that it is one.
fn decade(chars: &[char], at: usize, before: &str) -> Found {
    let len = n_digits(chars, at);
    let mark = usize::from(letter(chars, at + len) == '\'');
    let end = at + len + mark + 1;
    if !starts_with(chars, end - 1, "s") || !is_boundary(chars, end) || letter(chars, at + len.max(1) - 1) != '0' {
        return None;
    }
    let value: u32 = chars[at..at + len].iter().take(6).collect::<String>().parse().ok()?;
    let is_short = BEFORE_DECADE.contains(&&*before.to_ascii_lowercase()) || (at > 0 && chars[at - 1] == '\'');
    let fits = match len {
        4 => (1001..2100).contains(&value),
        2 => value >= 20 && is_short,
        _ => false,
    };
    fits.then(|| (number::decade(value), end))
}
