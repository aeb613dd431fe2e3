//! Letters with full stops: `U.S.A.`, `e.g.`, and the initials of names.

use super::acronym::spell;
use super::number::n_digits;
use super::peek::{is_boundary, is_capital, letter, next_word, word};
use super::reader::Reader;
use super::{abbreviation, date};

/// Letters that are read at once; those behind them come next.
const MAX_DOTTED: usize = 24;
/// What stands before the number of a street: `W. 42nd St.`.
const COMPASS: &[(&str, &str)] = &[("N", "North"), ("E", "East"), ("S", "South"), ("W", "West")];
const DOTTED: &[(&str, &str)] =
    &[("eg", "for example"), ("ie", "that is"), ("aka", "also known as"), ("ps", "p s"), ("phd", "p h d")];
/// Words after a time of day that name its zone.
const ZONES: &[&str] = &["Eastern", "Central", "Mountain", "Pacific", "Atlantic", "Greenwich"];
/// Words before a letter that is a name of its own, not an initial.
const LETTERED: &[&str] = &[
    "plan",
    "vitamin",
    "type",
    "class",
    "grade",
    "group",
    "section",
    "part",
    "appendix",
    "option",
    "hepatitis",
    "team",
    "level",
    "point",
    "row",
    "exhibit",
    "answer",
    "letter",
];

impl Reader<'_> {
    /// Reads `U.S.A.`, `e.g.`, `p.m.`, `Ph.D.` and `B.Sc.`.
    pub(super) fn dotted(&mut self) -> bool {
        let mut letters = String::new();
        let mut end = self.at;
        while letters.len() < MAX_DOTTED {
            let len = match [letter(self.chars, end), letter(self.chars, end + 1)] {
                ['P', 'h'] if end == self.at => 2,
                ['S', 'c'] if end > self.at => 2,
                _ => 1,
            };
            if !letter(self.chars, end).is_ascii_alphabetic() || letter(self.chars, end + len) != '.' {
                break;
            }
            letters.extend(&self.chars[end..end + len]);
            end += len + 1;
        }
        let n = letters.len();
        // The last letter may be without its full stop.
        let has_last = letter(self.chars, end).is_ascii_alphabetic()
            && is_boundary(self.chars, end + 1)
            && letter(self.chars, end + 1) != '\'';
        if n == 0 || (n == 1 && !has_last) || self.behind().is_ascii_alphanumeric() && !self.behind().is_ascii_digit() {
            return false;
        }
        if !is_boundary(self.chars, end) && !has_last && n < MAX_DOTTED {
            return false;
        }
        let mut has_stop = true;
        if has_last {
            letters.push(self.chars[end]);
            (end, has_stop) = (end + 1, false);
        }
        let lower = letters.to_ascii_lowercase();
        let fixed = DOTTED.iter().find(|(name, _)| *name == lower).map(|(_, words)| *words);
        let is_inner = ["eg", "ie"].contains(&&*lower);
        let is_half = ["am", "pm"].contains(&&*lower);
        let is_possessive = letter(self.chars, end) == '\'' && letter(self.chars, end + 1) == 's';
        let mut words = fixed.map_or_else(|| spell(&letters), str::to_owned);
        if is_possessive {
            words.push_str("'s");
            end += 2;
        }
        self.take(&words, end);
        if is_half {
            self.counted = Some(end);
        }
        let next = next_word(self.chars, end).unwrap_or_default();
        let is_dated = is_half
            && (date::month(&next).is_some() || next.ends_with("day") || next == "I" || ZONES.contains(&&*next));
        let ends = match is_half {
            _ if lower == "ps" => true,
            true => abbreviation::ends_before_capital(self.chars, end),
            false => abbreviation::ends_before_starter(self.chars, end),
        };
        if has_stop && !is_inner && !is_dated && ends {
            self.phrase.mark('.');
        }
        true
    }

    /// Reads the `J.` of a name; `near` is the word before it.
    pub(super) fn initial(&mut self, run: &str, near: &str) -> bool {
        let is_letter = run.len() == 1 && is_capital(run) && self.ahead(1) == '.' && run != "I";
        if !is_letter || ![' ', '\n'].contains(&self.ahead(2)) || self.behind() == '-' {
            return false;
        }
        let next = next_word(self.chars, self.at + 2).unwrap_or_default();
        let suffix = self.at + 3 + n_digits(self.chars, self.at + 3);
        if let Some((_, words)) = COMPASS.iter().find(|(name, _)| *name == run)
            && suffix > self.at + 3
            && ["st", "nd", "rd", "th"].contains(&&*word(self.chars, suffix))
        {
            self.take(words, self.at + 2);
            return true;
        }
        let begins = next.len() > 1 && abbreviation::STARTERS.contains(&&*next);
        let is_initial = is_capital(&next) && !begins && !LETTERED.contains(&&*near.to_ascii_lowercase());
        if is_initial {
            self.take(&spell(run), self.at + 2);
        }
        is_initial
    }
}
