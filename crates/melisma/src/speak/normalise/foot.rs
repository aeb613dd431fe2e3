//! Feet and inches with marks: `5'10"`.

use super::amount::Amount;
use super::currency::Count;
use super::number::{self, digits, n_digits};
use super::peek::{is_boundary, is_digit, letter, skip_space, word};

/// Nouns before which a mark is one of feet or inches rather than a quotation mark.
const MEASURED: &[&str] = &["tall", "wide", "long", "high", "deep", "thick", "by", "x"];
const SIZED: &[&str] = &["screen", "display", "monitor", "pizza", "pipe", "record", "disk", "wheel"];

/// Reads `5'10"`, and `6'` or `10"` where the next word says that it is a length.
pub(super) fn feet(chars: &[char], amount: &Amount) -> Option<(String, usize)> {
    let name = |many: &str, one: &str| if amount.count() == Count::One { one.to_owned() } else { many.to_owned() };
    let mark = letter(chars, amount.end);
    if mark == '\'' && is_digit(chars, amount.end + 1) {
        let place = amount.end + 1;
        let len = n_digits(chars, place);
        let end = place + len;
        (len <= 2 && is_boundary(chars, end)).then_some(())?;
        let inches: String = chars[place..end].iter().collect();
        let end = end + usize::from(letter(chars, end) == '"');
        let inch = if inches == "1" { "inch" } else { "inches" };
        let inches =
            if inches.len() == 2 && inches.starts_with('0') { digits(&inches) } else { number::cardinal(&inches) };
        return Some((format!("{} {} {inches} {inch}", amount.words(), name("feet", "foot")), end));
    }
    let names = match mark {
        '\'' => ("feet", "foot"),
        '"' => ("inches", "inch"),
        _ => return None,
    };
    let noun = word(chars, skip_space(chars, amount.end + 1));
    let is_length = letter(chars, amount.end + 1) == ' ';
    let name = match (MEASURED.contains(&&*noun), SIZED.contains(&&*noun)) {
        (true, _) => name(names.0, names.1),
        (_, true) => names.1.to_owned(),
        _ => return None,
    };
    is_length.then(|| (format!("{} {name}", amount.words()), amount.end + 1))
}
