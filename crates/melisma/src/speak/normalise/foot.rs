//! Feet and inches with marks: `5'10"`.

use super::Found;
use super::currency::Count;
use super::number::{Number, cardinal, n_digits};
use super::peek::{is_boundary, is_digit, letter, skip_space, starts_with, word};

/// Nouns before which a mark is one of feet or inches rather than a quotation mark.
const MEASURED: &[&str] = &["tall", "wide", "long", "high", "deep", "thick", "by", "x"];
const SIZED: &[&str] = &["screen", "display", "monitor", "pizza", "pipe", "record", "disk", "wheel"];

/// Reads the mark at `at` after an amount in `words`: `5'10"`, and `6'` or `10"` where the next word says that it is a
/// length.
pub(super) fn feet(chars: &[char], at: usize, (words, count): (&str, Count)) -> Found {
    let name = |many: &str, one: &str| if count == Count::One { one.to_owned() } else { many.to_owned() };
    let mark = letter(chars, at);
    if mark == '\'' && is_digit(chars, at + 1) {
        let place = at + 1;
        let len = n_digits(chars, place);
        let end = place + len;
        (len <= 2 && is_boundary(chars, end)).then_some(())?;
        let inches: String = chars[place..end].iter().collect();
        let end = end + usize::from(letter(chars, end) == '"');
        let inch = if inches == "1" { "inch" } else { "inches" };
        return Some((format!("{words} {} {} {inch}", name("feet", "foot"), cardinal(&inches)), end));
    }
    let names = match mark {
        '\'' => ("feet", "foot"),
        '"' => ("inches", "inch"),
        _ => return None,
    };
    let noun = word(chars, skip_space(chars, at + 1));
    let is_length = letter(chars, at + 1) == ' ';
    let name = match (MEASURED.contains(&&*noun), SIZED.contains(&&*noun)) {
        (true, _) => name(names.0, names.1),
        (_, true) => names.1.to_owned(),
        _ => return None,
    };
    is_length.then(|| (format!("{words} {name}"), at + 1))
}

/// Reads the inches of `5 ft 10 in` behind the feet that end at `at`.
pub(super) fn inches(chars: &[char], at: usize) -> Found {
    let place = skip_space(chars, at + usize::from(letter(chars, at) == '.'));
    let (number, end) = Number::read(chars, place).filter(|_| place > at)?;
    let sign = skip_space(chars, end);
    let name = if number.is_one() { "inch" } else { "inches" };
    let is_inch = starts_with(chars, sign, "in") && is_boundary(chars, sign + 2);
    is_inch.then(|| (format!("{} {name}", number.words()), sign + 2))
}
