//! Numbers in words.

use super::peek::{is_digit, letter, skip_space};

const SMALL: [&str; 20] = [
    "zero",
    "one",
    "two",
    "three",
    "four",
    "five",
    "six",
    "seven",
    "eight",
    "nine",
    "ten",
    "eleven",
    "twelve",
    "thirteen",
    "fourteen",
    "fifteen",
    "sixteen",
    "seventeen",
    "eighteen",
    "nineteen",
];
const TENS: [&str; 10] = ["", "", "twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety"];
const SCALES: [&str; 12] = [
    "",
    " thousand",
    " million",
    " billion",
    " trillion",
    " quadrillion",
    " quintillion",
    " sextillion",
    " septillion",
    " octillion",
    " nonillion",
    " decillion",
];
/// Digits of the largest number that has a name here.
pub(super) const MAX_DIGITS: usize = 36;
/// Digits of a number without commas that are read one by one, because it is a name rather than an amount.
const MAX_BARE: usize = 12;
/// Numbers of a sum that are looked at.
const MAX_TERMS: usize = 6;

/// A number as it is written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Number {
    /// Digits without commas; none in `.5`.
    pub(super) whole: String,
    pub(super) fraction: Option<String>,
    /// Whether it has commas.
    pub(super) is_grouped: bool,
}

impl Number {
    /// Reads the number at `at`, and returns where it ends.
    pub(super) fn read(chars: &[char], at: usize) -> Option<(Self, usize)> {
        let mut end = at + n_digits(chars, at);
        let mut whole: String = chars.get(at..end)?.iter().collect();
        let mut is_grouped = false;
        if (1..=3).contains(&whole.len()) {
            while chars.get(end) == Some(&',') && n_digits(chars, end + 1) == 3 {
                whole.extend(&chars[end + 1..end + 4]);
                end += 4;
                is_grouped = true;
            }
        }
        if let Some(later) = spaced(chars, at, end) {
            whole = chars[at..later].iter().filter(|letter| letter.is_ascii_digit()).collect();
            (end, is_grouped) = (later, true);
        }
        let mut fraction = None;
        if chars.get(end) == Some(&'.') {
            let n = n_digits(chars, end + 1);
            if n > 0 {
                fraction = Some(chars[end + 1..=end + n].iter().collect());
                end += 1 + n;
            }
        }
        let is_number = !whole.is_empty() || fraction.is_some();
        is_number.then_some((Self { whole, fraction, is_grouped }, end))
    }

    /// Reads a number with a comma before one or two decimals, with dots between its groups, or with both: `1.234,56`.
    pub(super) fn continental(chars: &[char], at: usize) -> Option<(Self, usize)> {
        let mut end = at + n_digits(chars, at);
        let mut whole: String = chars.get(at..end)?.iter().collect();
        let is_grouped = (1..=3).contains(&whole.len()) && !whole.starts_with('0') && is_group(chars, end);
        while is_grouped && whole.len() < MAX_DIGITS && is_group(chars, end) {
            whole.extend(&chars[end + 1..end + 4]);
            end += 4;
        }
        let mut fraction = None;
        let n = n_digits(chars, end + 1);
        if !whole.is_empty() && letter(chars, end) == ',' && (1..=2).contains(&n) {
            fraction = Some(chars[end + 1..=end + n].iter().collect());
            end += 1 + n;
        }
        let is_mark = |at: usize| [',', '.'].contains(&letter(chars, at));
        let is_part =
            (at > 1 && is_mark(at - 1) && is_digit(chars, at - 2)) || (is_mark(end) && is_digit(chars, end + 1));
        let is_number = (is_grouped || fraction.is_some()) && !is_part;
        is_number.then_some((Self { whole, fraction, is_grouped }, end))
    }

    /// Returns whether what it counts is singular.
    pub(super) fn is_one(&self) -> bool {
        self.whole == "1" && self.fraction.is_none()
    }

    /// Returns whether its digits are read one by one, because it is too long.
    pub(super) fn is_spelled(&self) -> bool {
        self.whole.len() > MAX_DIGITS || (!self.is_grouped && self.whole.len() > MAX_BARE)
    }

    pub(super) fn words(&self) -> String {
        let mut words = if self.is_spelled() { digits(&self.whole) } else { cardinal(&self.whole) };
        if let Some(fraction) = &self.fraction {
            words.push_str(if words.is_empty() { "point " } else { " point " });
            words.push_str(&digits(fraction));
        }
        words
    }

    /// Returns its value if it is whole and has at most nine digits.
    pub(super) fn value(&self) -> Option<u32> {
        (self.fraction.is_none() && self.whole.len() <= 9).then(|| self.whole.parse().ok()).flatten()
    }
}

/// Returns whether a dot and three digits stand at `at`.
fn is_group(chars: &[char], at: usize) -> bool {
    letter(chars, at) == '.' && n_digits(chars, at + 1) == 3
}

/// Returns whether numbers at `at`, with signs between them, lead to a sign of equality.
pub(super) fn leads_to_equals(chars: &[char], mut at: usize) -> bool {
    for _ in 0..MAX_TERMS {
        let Some((_, end)) = Number::read(chars, at).filter(|_| is_digit(chars, at)) else { return false };
        let place = skip_space(chars, end);
        match letter(chars, place) {
            '=' => return true,
            '+' | '-' | '*' | '/' | 'x' => at = skip_space(chars, place + 1),
            _ => return false,
        }
    }
    false
}

/// Returns the end of `10 000` or `1 234 567`: groups of three digits after the first one, which ends at `end`.
fn spaced(chars: &[char], at: usize, end: usize) -> Option<usize> {
    let is_first = (1..=3).contains(&(end - at))
        && chars[at] != '0'
        && (at == 0 || chars[at - 1] != ' ' || at < 2 || !chars[at - 2].is_ascii_digit());
    let (mut later, mut has_zeros) = (end, false);
    while is_first
        && later - at < 4 * MAX_DIGITS / 3
        && chars.get(later) == Some(&' ')
        && n_digits(chars, later + 1) == 3
    {
        has_zeros |= chars[later + 1..later + 4] == ['0'; 3];
        later += 4;
    }
    (later > end && (has_zeros || (end - at < 3 && later > end + 4))).then_some(later)
}

/// Returns the number of digits at `at`.
pub(super) fn n_digits(chars: &[char], at: usize) -> usize {
    chars.get(at..).unwrap_or_default().iter().take_while(|letter| letter.is_ascii_digit()).count()
}

/// Returns digits one by one.
pub(super) fn digits(text: &str) -> String {
    let digit = |byte: u8| SMALL[usize::from(byte.wrapping_sub(b'0')).min(9)];
    text.bytes().map(digit).collect::<Vec<_>>().join(" ")
}

/// Returns a number of digits in words; one with zeros in front, or without a name, digit by digit.
pub(super) fn cardinal(text: &str) -> String {
    if text.len() > MAX_DIGITS || (text.len() > 1 && text.starts_with('0')) {
        return digits(text);
    }
    if text == "0" {
        return SMALL[0].to_owned();
    }
    let mut words: Vec<String> = Vec::new();
    let n_groups = text.len().div_ceil(3);
    let mut rest = text;
    for scale in (0..n_groups).rev() {
        let (group, later) = rest.split_at(rest.len() - 3 * scale);
        rest = later;
        match group.parse::<u32>() {
            Ok(0) | Err(_) => {}
            Ok(value) => words.push(below_thousand(value) + SCALES[scale]),
        }
    }
    words.join(" ")
}

pub(super) fn small(value: u32) -> String {
    cardinal(&value.to_string())
}

fn below_thousand(value: u32) -> String {
    let (hundreds, rest) = (value / 100, value % 100);
    let hundred = (hundreds > 0).then(|| format!("{} hundred", SMALL[hundreds as usize]));
    let rest = (rest > 0).then(|| below_hundred(rest));
    hundred.into_iter().chain(rest).collect::<Vec<_>>().join(" ")
}

fn below_hundred(value: u32) -> String {
    match (value / 10, value % 10) {
        (0 | 1, _) => SMALL[value as usize].to_owned(),
        (tens, 0) => TENS[tens as usize].to_owned(),
        (tens, ones) => format!("{}-{}", TENS[tens as usize], SMALL[ones as usize]),
    }
}

/// Returns the ordinal of a number of digits.
pub(super) fn ordinal(text: &str) -> String {
    let text = match text.trim_start_matches('0') {
        "" => "0",
        bare => bare,
    };
    let words = cardinal(text);
    let cut = words.rfind([' ', '-']).map_or(0, |at| at + 1);
    let (head, last) = words.split_at(cut);
    let last = match last {
        "one" => "first".to_owned(),
        "two" => "second".to_owned(),
        "three" => "third".to_owned(),
        "five" => "fifth".to_owned(),
        "eight" => "eighth".to_owned(),
        "nine" => "ninth".to_owned(),
        "twelve" => "twelfth".to_owned(),
        last => match last.strip_suffix('y') {
            Some(stem) => format!("{stem}ieth"),
            None => format!("{last}th"),
        },
    };
    format!("{head}{last}")
}

/// Returns a year as it is said: `nineteen eighty-four`.
pub(super) fn year(value: u32) -> String {
    let (century, rest) = (value / 100, value % 100);
    match (century, rest) {
        (0..=9 | 100.., _) => small(value),
        (_, 0) if century % 10 == 0 => small(value),
        (_, 0) => format!("{} hundred", small(century)),
        (_, 1..=9) if century % 10 == 0 => small(value),
        (_, 1..=9) => format!("{} oh {}", small(century), small(rest)),
        _ => format!("{} {}", small(century), small(rest)),
    }
}

/// Returns a number below 1000 as it is said in names: `seven twenty`, `four oh one`.
pub(super) fn hundreds(value: u32) -> String {
    match (value / 100, value % 100) {
        (hundred @ 1..=9, rest @ 1..=9) => format!("{} oh {}", small(hundred), small(rest)),
        (hundred @ 1..=9, rest @ 10..) => format!("{} {}", small(hundred), small(rest)),
        _ => small(value),
    }
}

/// Returns the decade that begins with a year, or with two digits of one.
pub(super) fn decade(value: u32) -> String {
    match value {
        2000 => "two thousands".to_owned(),
        value if value >= 100 && value % 100 == 0 => format!("{} hundreds", small(value / 100)),
        value => {
            let words = year(value);
            match words.strip_suffix('y') {
                Some(stem) => format!("{stem}ies"),
                None => format!("{words}s"),
            }
        }
    }
}
