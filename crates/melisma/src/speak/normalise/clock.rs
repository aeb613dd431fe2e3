//! Times of day.

use super::Found;
use super::number::{digits, n_digits, small};
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

/// Reads `1h 30m`, `2 h 30 m` and `2h05m`: two parts or more, each smaller than the one before.
pub(super) fn span(chars: &[char], at: usize) -> Found {
    let mut parts = [("d", "day"), ("h", "hour"), ("m", "minute"), ("s", "second")].into_iter();
    let (mut words, mut end) = (Vec::new(), at);
    loop {
        let place = if words.is_empty() { at } else { skip_space(chars, end) };
        let len = n_digits(chars, place);
        let sign = skip_space(chars, place + len);
        let Some((_, unit)) = parts.find(|(letter, _)| starts_with(chars, sign, letter)) else { break };
        if !(1..=4).contains(&len) || letter(chars, sign + 1).is_ascii_alphabetic() {
            break;
        }
        let n: u32 = chars[place..place + len].iter().collect::<String>().parse().ok()?;
        words.push(format!("{} {unit}{}", small(n), if n == 1 { "" } else { "s" }));
        end = sign + 1;
    }
    (words.len() > 1 && is_boundary(chars, end)).then(|| (words.join(" "), end))
}

/// Reads `10:05`, with seconds, their parts and half of the day if they follow.
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
    let mut end = minute_at + 2;
    let mut second = None;
    if letter(chars, end) == ':' && n_digits(chars, end + 1) == 2 {
        second = Some(value(end + 1, 2));
        end += 3;
    }
    if hour > 24 || minute > 59 || second.is_some_and(|second| second > 60) {
        return None;
    }
    let mut part = String::new();
    if letter(chars, end) == '.' && is_digit(chars, end + 1) {
        let start = end + 1;
        end = start + n_digits(chars, start);
        part = format!(" point {}", digits(&chars[start..end].iter().collect::<String>()));
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
        0 if !part.is_empty() => words.push_str(" oh zero"),
        0 if (1..=12).contains(&hour) => words.push_str(" o'clock"),
        0 => words.push_str(" hundred"),
        1..=9 => words = format!("{words} oh {}", small(minute)),
        _ => words = format!("{words} {}", small(minute)),
    }
    match second {
        None => words.push_str(&part),
        Some(0) if part.is_empty() => {}
        Some(1) if part.is_empty() => words.push_str(" and one second"),
        Some(second) => words = format!("{words} and {}{part} seconds", small(second)),
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
