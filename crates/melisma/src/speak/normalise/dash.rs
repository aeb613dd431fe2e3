//! Hyphens and dashes: of words, of ranges, of pauses, and the minus of a number.

use super::abbreviation::is_day;
use super::date;
use super::number::leads_to_equals;
use super::peek::{after_dash, after_stop, is_digit, letter, skip_space, word};
use super::reader::Reader;
use super::unit;

/// Words that end a range of years.
const OPEN_ENDS: &[&str] = &["present", "now", "today", "date"];

impl Reader<'_> {
    /// Reads `n` hyphens.
    pub(super) fn hyphen(&mut self, n: usize) {
        let (behind, next) = (self.behind(), self.ahead(n));
        if n == 1
            && let Some((words, end)) =
                self.between_numbers().or_else(|| self.between_names()).or_else(|| self.hyphened_unit())
        {
            return self.take(words, end);
        }
        self.at += n;
        let is_sign =
            n == 1 && !behind.is_ascii_alphanumeric() && !next.is_ascii_whitespace() && self.is_amount(self.at);
        match next {
            '>' => {
                self.at += 1;
                self.phrase.say("to");
            }
            _ if is_sign => self.phrase.say("minus"),
            _ if n > 1 => self.phrase.mark(','),
            ' ' | '\n' if behind.is_ascii_whitespace() => self.phrase.mark(','),
            next if behind.is_ascii_alphabetic() && next.is_ascii_alphabetic() => self.phrase.hyphen(),
            next if behind.is_ascii_digit() && next.is_ascii_lowercase() => self.phrase.hyphen(),
            _ => {}
        }
    }

    /// Returns the unit after a hyphen, as in `5-lb bag`. Single letters are none: `3-D`.
    fn hyphened_unit(&self) -> Option<(&'static str, usize)> {
        let is_counted = self.counted == Some(self.at) && self.ahead(1).is_ascii_alphabetic();
        let (unit, end) = unit::read(self.chars, self.at + 1).filter(|_| is_counted)?;
        let is_alone = end > self.at + 2 && letter(self.chars, end) != '-';
        is_alone.then(|| (unit.one, after_stop(self.chars, end)))
    }

    /// Returns the word for a hyphen here that stands between two numbers, times or days.
    fn between_numbers(&self) -> Option<(&'static str, usize)> {
        let (behind, next) = (self.behind(), self.ahead(1));
        let is_spaced = behind == ' ' && next == ' ';
        let place = skip_space(self.chars, self.at + 1);
        if (is_spaced || behind.is_ascii_digit()) && leads_to_equals(self.chars, place) {
            return Some(("minus", self.at + 1));
        }
        let is_after_number = self.counted.is_some_and(|end| end + usize::from(is_spaced) == self.at);
        let is_day = self.ends_range(place);
        // "1-2-3" is no range.
        let is_number = self.is_amount(place) && (is_spaced || !behind.is_ascii_digit());
        let is_range = is_after_number && (is_spaced || place == self.at + 1) && (is_number || is_day);
        is_range.then_some(("to", self.at + 1))
    }

    /// Returns the word for a hyphen here that stands between two days of the week or two months.
    fn between_names(&self) -> Option<(&'static str, usize)> {
        let next = after_dash(self.chars, self.at.saturating_sub(usize::from(self.behind() == ' ')))?;
        let (first, last) = (self.phrase.near_word(), word(self.chars, next));
        let is_range =
            (is_day(&last) && is_day(first)) || (date::month(&last).is_some() && date::month(first).is_some());
        is_range.then_some(("to", next))
    }

    /// Returns whether a word at `at` ends a range: a month with a day, "noon", and "present" after a year.
    fn ends_range(&self, at: usize) -> bool {
        let name = word(self.chars, at);
        let end = at + name.len();
        let is_dated =
            || is_digit(self.chars, skip_space(self.chars, end + usize::from(letter(self.chars, end) == '.')));
        let year = self.counted.and_then(|end| self.chars.get(end.checked_sub(4)?..end));
        let is_after_year = || year.is_some_and(|year| year.iter().all(char::is_ascii_digit));
        (date::month(&name).is_some() && is_dated())
            || ["noon", "midnight"].contains(&&*name)
            || (OPEN_ENDS.contains(&&*name) && is_after_year())
    }
}
