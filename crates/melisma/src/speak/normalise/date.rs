//! Dates in digits, and with names of months.

use super::Found;
use super::clock;
use super::number::{Number, n_digits, ordinal, year};
use super::peek::{after_dash, is_boundary, is_capital, is_digit, letter, next_word, skip_space, word};

const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];

/// Returns the month with a name or its abbreviation, which has a capital or only capitals.
pub(super) fn month(word: &str) -> Option<&'static str> {
    let is_shouted = is_shouted(word);
    let is = |name: &str| word == name || (is_shouted && word.eq_ignore_ascii_case(name));
    MONTHS.iter().find(|name| is(name) || is(&name[..3]) || (**name == "September" && is("Sept"))).copied()
}

fn is_shouted(word: &str) -> bool {
    word.bytes().all(|byte| byte.is_ascii_uppercase())
}

fn month_at(number: u32) -> Option<&'static str> {
    MONTHS.get((number as usize).checked_sub(1)?).copied()
}

fn value(chars: &[char], at: usize, len: usize) -> u32 {
    chars[at..at + len].iter().collect::<String>().parse().unwrap_or(0)
}

fn said(month: &str, day: u32, of_year: Option<u32>) -> Option<String> {
    let day = (1..=31).contains(&day).then(|| ordinal(&day.to_string()))?;
    Some(match of_year {
        Some(value) => format!("{month} {day}, {}", year(value)),
        None => format!("{month} {day}"),
    })
}

/// Reads `12/25/2024`, `25.12.2024` or `2024-12-25`.
pub(super) fn numeric(chars: &[char], at: usize) -> Found {
    let first = n_digits(chars, at);
    let mark = letter(chars, at + first);
    if !matches!((first, mark), (1 | 2, '/' | '.' | '-') | (4, '/' | '.' | '-')) {
        return None;
    }
    let second_at = at + first + 1;
    let second = n_digits(chars, second_at);
    if !(1..=2).contains(&second) || letter(chars, second_at + second) != mark {
        return None;
    }
    let third_at = second_at + second + 1;
    let third = n_digits(chars, third_at);
    let end = third_at + third;
    let is_timed = letter(chars, end) == 'T' && is_digit(chars, end + 1);
    if !(is_boundary(chars, end) || is_timed) || (letter(chars, end) == mark && is_digit(chars, end + 1)) {
        return None;
    }
    let [a, b] = [value(chars, at, first), value(chars, second_at, second)];
    let (month, day, of_year) = match (first, third) {
        (4, 1 | 2) => (b, value(chars, third_at, third), a),
        (1 | 2, 4) | (1 | 2, 2) if third == 4 || mark == '/' => {
            let c = value(chars, third_at, third);
            let of_year = if third == 4 { c } else { c + if c < 50 { 2000 } else { 1900 } };
            let is_american = (mark == '/' && a <= 12) || b > 12;
            if is_american { (a, b, of_year) } else { (b, a, of_year) }
        }
        _ => return None,
    };
    let words = said(month_at(month)?, day, Some(of_year))?;
    match is_timed.then(|| clock::read(chars, end + 1)).flatten() {
        Some((time, end)) => Some((format!("{words}, {time}"), end)),
        None => Some((words, end)),
    }
}

/// Words before a date that may also stand before an amount.
const BOUNDS: &[&str] = &["by", "until", "till", "before", "after", "since", "from", "through", "due"];

/// Reads `3/4` where the word before it says that it is a date.
pub(super) fn short(chars: &[char], at: usize, before: &str) -> Found {
    let first = n_digits(chars, at);
    let second = n_digits(chars, at + first + 1);
    let end = at + first + 1 + second;
    let is_date = (1..=2).contains(&first) && (1..=2).contains(&second) && letter(chars, at + first) == '/';
    if !is_date || !is_boundary(chars, end) || letter(chars, end) == '/' {
        return None;
    }
    let (month, day) = (value(chars, at, first), value(chars, at + first + 1, second));
    let before = before.to_ascii_lowercase();
    // "on 3/4", but "by 3/4" and "by 3/16" are fractions.
    let is_fraction = month <= day && (day <= 12 || ([16, 20].contains(&day) && month % 2 == 1));
    let is_expected = before == "on" || (BOUNDS.contains(&&*before) && !is_fraction);
    is_expected.then(|| said(month_at(month)?, day, None).map(|words| (words, end)))?
}

/// Reads the year after a day and a month, with or without a comma.
fn year_at(chars: &[char], at: usize) -> Option<(u32, usize)> {
    let comma = usize::from(letter(chars, at) == ',');
    let place = skip_space(chars, at + comma);
    let end = place + 4;
    let is_year = place > at && n_digits(chars, place) == 4 && is_boundary(chars, end);
    is_year.then(|| (value(chars, place, 4), end))
}

/// Reads the day at `at`, and returns where it ends.
fn day_at(chars: &[char], at: usize) -> Option<(u32, usize)> {
    let len = n_digits(chars, at);
    let day = if (1..=2).contains(&len) { value(chars, at, len) } else { 0 };
    let mut end = at + len;
    let suffix = word(chars, end);
    if ["st", "nd", "rd", "th"].contains(&&*suffix) {
        end += 2;
    }
    let is_more =
        letter(chars, end) == '%' || ([',', '.', ':', '/'].contains(&letter(chars, end)) && is_digit(chars, end + 1));
    ((1..=31).contains(&day) && is_boundary(chars, end) && !is_more).then_some((day, end))
}

/// Reads the day and year after a month whose name ends at `at`.
pub(super) fn after_month(chars: &[char], at: usize, month: &str) -> Found {
    let dot = usize::from(letter(chars, at) == '.');
    let place = skip_space(chars, at + dot);
    let (day, mut end) = day_at(chars, place).filter(|_| place > at)?;
    let mut words = said(month, day, None)?;
    if let Some(next) = after_dash(chars, end)
        && let Some((last, later)) = day_at(chars, next)
        && last > day
        && !clock::is_halved(chars, later)
    {
        words = format!("{words} to {}", ordinal(&last.to_string()));
        end = later;
    }
    if let Some((of_year, later)) = year_at(chars, end) {
        words = format!("{words}, {}", year(of_year));
        end = later;
    }
    Some((words, end))
}

/// Reads the abbreviation of a month without a day: `Feb.` and `Feb 2020`. "Jan", "Mar" and "Jun" may be names, and
/// "APR" a rate.
pub(super) fn bare(chars: &[char], at: usize, (name, month): (&str, &'static str)) -> Found {
    let has_stop = letter(chars, at) == '.';
    let end = at + usize::from(has_stop);
    let is_before_year = n_digits(chars, skip_space(chars, end)) == 4;
    let is_name = ["Jan", "Mar", "Jun"].contains(&name) || is_shouted(name);
    let is_month = name.len() < month.len() && is_boundary(chars, at) && (is_before_year || (has_stop && !is_name));
    // A full stop at the end of a sentence stays.
    let is_inner = is_before_year || next_word(chars, end).is_some_and(|next| !is_capital(&next));
    is_month.then(|| (month.to_owned(), if is_inner { end } else { at }))
}

/// Reads `5 June 2024`; `before` is the word in front.
pub(super) fn before_month(chars: &[char], at: usize, before: &str) -> Found {
    let (day, end) = day_at(chars, at)?;
    let place = skip_space(chars, end);
    let name = word(chars, place);
    let month = month(&name).filter(|_| place > end)?;
    let mut end = place + name.len();
    if !is_boundary(chars, end) {
        return None;
    }
    if letter(chars, end) == '.' && name.len() < month.len() {
        end += 1;
    }
    let article = if before.eq_ignore_ascii_case("the") { "" } else { "the " };
    let mut words = format!("{article}{} of {month}", ordinal(&day.to_string()));
    if let Some((of_year, later)) = year_at(chars, end) {
        words = format!("{words} {}", year(of_year));
        end = later;
    }
    Some((words, end))
}

/// Words after which a number is a year.
const YEAR: &[&str] = &[
    "in",
    "since",
    "by",
    "from",
    "until",
    "till",
    "before",
    "after",
    "during",
    "circa",
    "year",
    "early",
    "late",
    "mid",
    "around",
    "spring",
    "summer",
    "autumn",
    "fall",
    "winter",
    "copyright",
];
/// Words before which a number is a year.
const ERAS: &[&str] = &["BC", "BCE", "AD", "CE"];
/// Words after which it is an amount.
const AMOUNT: &[&str] =
    &["about", "over", "than", "nearly", "approximately", "least", "most", "under", "almost", "number"];
/// Plural nouns without an s, and words with an s that are none.
const PEOPLE: &[&str] = &["people", "men", "women", "children", "feet", "sheep"];
const SINGULAR: &[&str] = &["does", "always", "perhaps", "olympics", "elections"];

/// Returns whether a word is a plural, of which a number may say how many there are.
pub(super) fn is_plural(word: &str) -> bool {
    let has_s = word.len() > 3 && word.ends_with('s') && !["us", "is", "ss"].iter().any(|end| word.ends_with(end));
    PEOPLE.contains(&word) || (has_s && !is_capital(word) && !SINGULAR.contains(&word))
}

/// Returns a number of four digits as a year, if it is one.
pub(super) fn bare_year(number: &Number, before: &str, after: &str) -> Option<String> {
    let value = number.value().filter(|_| number.whole.len() == 4 && !number.is_grouped)?;
    let before = before.to_lowercase();
    let is_expected = YEAR.contains(&&*before) || MONTHS.iter().any(|month| month.eq_ignore_ascii_case(&before));
    // "In 2023 sales fell", "the 2016 games", but "in 2000 cases".
    let is_dated = value % 50 != 0 && (is_expected || (before == "the" && value >= 1800)) && !PEOPLE.contains(&after);
    let is_year = match value {
        1000..2100 if ERAS.contains(&after) => true,
        1000..1100 => is_expected,
        1100..2100 => is_dated || !(is_plural(after) || AMOUNT.contains(&&*before)),
        _ => false,
    };
    is_year.then(|| year(value))
}
