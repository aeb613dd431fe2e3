//! Numbers of which there are several: `100s of people`, `F-16s`, `1s and 0s`, `80s music`.

use super::Found;
use super::date::is_plural;
use super::number::{Number, decade, hundreds};
use super::peek::{is_boundary, is_capital, is_digit, letter, skip_space, starts_with, word};

/// What is said before "of".
const AMOUNTS: &[(u32, &str)] = &[
    (10, "tens"),
    (100, "hundreds"),
    (1000, "thousands"),
    (10_000, "tens of thousands"),
    (100_000, "hundreds of thousands"),
    (1_000_000, "millions"),
];
/// What has a decade: words behind one.
const OF_DECADE: &[&str] = &[
    "music",
    "hits",
    "style",
    "styles",
    "fashion",
    "movie",
    "movies",
    "film",
    "films",
    "rock",
    "pop",
    "disco",
    "synth",
    "song",
    "songs",
    "band",
    "bands",
    "show",
    "shows",
    "sitcom",
    "sitcoms",
    "kid",
    "kids",
    "nostalgia",
    "icon",
    "classic",
    "classics",
    "party",
    "era",
    "baby",
    "babies",
    "cars",
];
/// Words that say how many there are.
const COUNTS: &[&str] = &[
    "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "several", "many", "few", "some", "these",
    "those", "more",
];

/// Reads a number with an `s`; `before` is the word before it.
pub(super) fn read(chars: &[char], at: usize, before: &str) -> Found {
    let (number, end) = Number::read(chars, at)?;
    let end = end + usize::from(letter(chars, end) == '\'');
    let value = number.value().filter(|_| letter(chars, end) == 's' && is_boundary(chars, end + 1))?;
    let end = end + 1;
    let after = word(chars, skip_space(chars, end));
    if after == "of"
        && let Some((_, words)) = AMOUNTS.iter().find(|(amount, _)| *amount == value)
    {
        return Some(((*words).to_owned(), end));
    }
    if (20..100).contains(&value) && value % 10 == 0 && OF_DECADE.contains(&&*after) {
        return Some((decade(value), end));
    }
    let is_model = value > 100 && value < 1000 && value % 10 != 0 && is_capital(before);
    let is_counted =
        COUNTS.contains(&&*before.to_ascii_lowercase()) && (value > 100 || !(after.len() > 1 && is_plural(&after)));
    let is_lettered = at > 1 && chars[at - 1] == '-' && chars[at - 2].is_ascii_alphabetic();
    let is_pair = value < 10 && is_paired(chars, at, end);
    (is_model || is_counted || is_lettered || is_pair).then(|| (several(value), end))
}

/// Returns whether "and" or "or" and another number with an `s` stand in front or behind.
fn is_paired(chars: &[char], at: usize, end: usize) -> bool {
    [" and ", " or "].iter().any(|between| {
        let next = end + between.len();
        let is_before = at.checked_sub(between.len() + 2).is_some_and(|start| {
            is_digit(chars, start) && letter(chars, start + 1) == 's' && starts_with(chars, start + 2, between)
        });
        let is_behind = starts_with(chars, end, between) && is_digit(chars, next) && starts_with(chars, next + 1, "s");
        is_before || is_behind
    })
}

/// Returns the words for several of a number: `seven forty-sevens`.
pub(super) fn several(value: u32) -> String {
    let words = hundreds(value);
    match words.strip_suffix('y') {
        Some(stem) => format!("{stem}ies"),
        None if words.ends_with('x') => words + "es",
        None => words + "s",
    }
}
