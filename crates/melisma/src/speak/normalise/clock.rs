//! Times of day.

use super::Found;
use super::number::{n_digits, small};
use super::peek::{is_boundary, is_digit, letter, skip_space, starts_with};

const HALVES: [(&str, &str); 4] = [("am", "a m"), ("pm", "p m"), ("AM", "a m"), ("PM", "p m")];
const DOTTED: [&str; 4] = ["a.m", "p.m", "A.M", "P.M"];

/// Reads `am` or `pm` after a number that ends at `at`.
pub(super) fn half(chars: &[char], at: usize) -> Option<(&'static str, usize)> {
    let place = skip_space(chars, at);
    let (_, words) =
        HALVES.iter().find(|(half, _)| starts_with(chars, place, half) && is_boundary(chars, place + 2))?;
    Some((words, place + 2))
}

/// Returns whether a half of the day follows a number that ends at `at`.
pub(super) fn is_halved(chars: &[char], at: usize) -> bool {
    let place = skip_space(chars, at);
    half(chars, at).is_some() || DOTTED.iter().any(|dotted| starts_with(chars, place, dotted))
}

/// Reads `10:05`, with seconds and half of the day if they follow.
pub(super) fn read(chars: &[char], at: usize) -> Found {
    let n_hour = n_digits(chars, at);
    let minute_at = at + n_hour + 1;
    // "10.30am"
    let is_dotted = letter(chars, at + n_hour) == '.' && is_halved(chars, minute_at + 2);
    let is_marked = letter(chars, at + n_hour) == ':' || is_dotted;
    if !(1..=2).contains(&n_hour) || !is_marked || n_digits(chars, minute_at) != 2 {
        return None;
    }
    let value = |at: usize, len: usize| chars[at..at + len].iter().collect::<String>().parse().unwrap_or(99);
    let (hour, minute): (u32, u32) = (value(at, n_hour), value(minute_at, 2));
    if hour > 24 || minute > 59 {
        return None;
    }
    let mut end = minute_at + 2;
    let mut second = None;
    if letter(chars, end) == ':' && n_digits(chars, end + 1) == 2 {
        second = Some(value(end + 1, 2)).filter(|second| *second < 61);
        end += 3;
    }
    let is_more = letter(chars, end) == ':' && is_digit(chars, end + 1);
    let half = half(chars, end);
    if is_more || (!is_boundary(chars, end) && half.is_none() && letter(chars, end) != 'Z') {
        return None;
    }
    let is_halved = is_halved(chars, end);
    let mut words = small(hour);
    match minute {
        0 if is_halved || second.is_some() => {}
        0 if (1..=12).contains(&hour) => words.push_str(" o'clock"),
        0 => words.push_str(" hundred"),
        1..=9 => words = format!("{words} oh {}", small(minute)),
        _ => words = format!("{words} {}", small(minute)),
    }
    match second {
        None | Some(0) => {}
        Some(1) => words.push_str(" and one second"),
        Some(second) => words = format!("{words} and {} seconds", small(second)),
    }
    if let Some((half, later)) = half {
        words = format!("{words} {half}");
        end = later;
    } else if letter(chars, end) == 'Z' && is_boundary(chars, end + 1) {
        words.push_str(" u t c");
        end += 1;
    }
    if letter(chars, end) == '-' && is_digit(chars, end + 1) {
        words.push_str(" to");
        end += 1;
    }
    Some((words, end))
}
