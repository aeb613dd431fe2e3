//! Fractions such as `3/4` and `1 1/2`.

use super::Found;
use super::number::{leads_to_equals, n_digits, ordinal, small, year};
use super::peek::{after_stop, is_boundary, letter, skip_space, word};
use super::unit::{self, Unit};

/// What a part is measured in: `half a cup`.
const MEASURES: &[&str] = &[
    "cup",
    "teaspoon",
    "tablespoon",
    "inch",
    "mile",
    "pound",
    "hour",
    "liter",
    "litre",
    "pint",
    "quart",
    "gallon",
    "ounce",
    "dozen",
    "day",
    "year",
    "minute",
    "second",
    "acre",
    "pizza",
    "lemon",
    "apple",
    "onion",
];
const FIXED: &[(u32, u32, &str)] = &[(24, 7, "twenty-four seven"), (9, 11, "nine eleven"), (50, 50, "fifty-fifty")];

/// What is said to be twenty-twenty.
const SEEN: &[&str] = &["vision", "hindsight", "eyesight"];

/// Reads a fraction, with whole parts in front if it has some.
pub(super) fn read(chars: &[char], at: usize) -> Found {
    if let Some(found) = part(chars, at) {
        let (over, under, end) = found;
        if let Some((_, _, words)) = FIXED.iter().find(|fixed| (fixed.0, fixed.1) == (over, under)) {
            return Some(((*words).to_owned(), end));
        }
        let after = word(chars, skip_space(chars, end));
        if (over, under) == (20, 20) && SEEN.contains(&&*after) {
            return Some(("twenty-twenty".to_owned(), end));
        }
        if over < under
            && let Some((words, end)) = measured(chars, (over, under), end)
        {
            return Some((words, end));
        }
        let article = if MEASURES.contains(&&*after) { article(&after) } else { "" };
        let is_quotient = over >= under && leads_to_equals(chars, at + n_digits(chars, at) + 1);
        return Some(match (over, under, article) {
            _ if is_quotient => (format!("{} divided by {}", small(over), small(under)), end),
            (1000..2100, ..) if under == over % 100 + 1 => (format!("{} to {}", year(over), small(under)), end),
            (1, 2, "") => ("one half".to_owned(), end),
            (1, 2, article) => (format!("half{article}"), end),
            (over, under, article) if over < under && !article.is_empty() => {
                (format!("{} of{article}", words(over, under)), end)
            }
            _ => (words(over, under), end),
        });
    }
    let len = n_digits(chars, at);
    let is_dashed = letter(chars, at + len) == '-' && len < 3;
    let place = if is_dashed { at + len + 1 } else { skip_space(chars, at + len) };
    let (over, under, end) = part(chars, place).filter(|_| (1..=6).contains(&len) && place > at + len)?;
    if over >= under {
        return None;
    }
    let whole = small(chars[at..at + len].iter().collect::<String>().parse().ok()?);
    let rest = match (over, under) {
        (1, 2) => "a half".to_owned(),
        (1, 4) => "a quarter".to_owned(),
        _ => words(over, under),
    };
    let words = format!("{whole} and {rest}");
    Some(match measure(chars, end) {
        Some((unit, end)) => (format!("{words} {}", unit.many), end),
        None => (words, end),
    })
}

fn article(noun: &str) -> &'static str {
    if noun.starts_with(['a', 'e', 'i', 'o']) || noun == "hour" { " an" } else { " a" }
}

/// Reads the unit of a fraction, if it has letters.
fn measure(chars: &[char], at: usize) -> Option<(&'static Unit, usize)> {
    let (unit, end) = unit::read(chars, at).filter(|_| letter(chars, skip_space(chars, at)).is_ascii_alphabetic())?;
    Some((unit, after_stop(chars, end)))
}

/// Reads a part of a unit: `1/2 lb.` and `3/8" drill`, unless the mark ends a quotation.
fn measured(chars: &[char], (over, under): (u32, u32), end: usize) -> Found {
    if letter(chars, end) == '"' && letter(chars, end + 1) == ' ' && letter(chars, end + 2).is_ascii_lowercase() {
        return Some((format!("{} inch", words(over, under)), end + 1));
    }
    let (unit, end) = measure(chars, end)?;
    let article = article(unit.one);
    Some(match (over, under) {
        (1, 2) => (format!("half{article} {}", unit.one), end),
        _ => (format!("{} of{article} {}", words(over, under), unit.one), end),
    })
}

/// Reads `3/4` alone.
fn part(chars: &[char], at: usize) -> Option<(u32, u32, usize)> {
    let over = n_digits(chars, at);
    let under = n_digits(chars, at + over + 1);
    let mut end = at + over + 1 + under;
    // "2/3rds"
    let suffix = word(chars, end);
    if ["rd", "rds", "th", "ths"].contains(&&*suffix) {
        end += suffix.len();
    }
    let is_part = (1..=4).contains(&over) && (1..=4).contains(&under) && letter(chars, at + over) == '/';
    let is_closed = is_boundary(chars, end) && letter(chars, end) != '/';
    let is_zero = letter(chars, at + over + 1) == '0';
    let value = |at: usize, len: usize| chars[at..at + len].iter().collect::<String>().parse().ok();
    (is_part && is_closed && !is_zero).then_some(())?;
    Some((value(at, over)?, value(at + over + 1, under)?, end))
}

/// Parts that are counted rather than measured have no name: `37/45` is "thirty-seven over forty-five".
const NAMED: &[u32] = &[16, 20, 25, 32, 50, 64];

fn words(over: u32, under: u32) -> String {
    let part = if under == 100 { "hundredth".to_owned() } else { ordinal(&under.to_string()) };
    let name = match (over, under) {
        (1, 2) => "half".to_owned(),
        (_, 2) => "halves".to_owned(),
        (1, 4) => "quarter".to_owned(),
        (_, 4) => "quarters".to_owned(),
        (1, _) => part,
        _ => part + "s",
    };
    let is_named = over == 1 || under <= 12 || NAMED.contains(&under);
    match over {
        over if over == under || ([10, 100].contains(&under) && over > 1) || under == 1 => {
            format!("{} out of {}", small(over), small(under))
        }
        over if is_named && (over < under || over <= 20) && under <= 100 => format!("{} {name}", small(over)),
        _ => format!("{} over {}", small(over), small(under)),
    }
}
