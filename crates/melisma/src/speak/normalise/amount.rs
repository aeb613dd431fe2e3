//! Numbers with what they count: money, units, percent, ranges, dimensions and powers of ten.

use super::Found;
use super::currency::{self, Count, Currency};
use super::date::{bare_year, is_plural};
use super::description::is_described;
use super::foot::{feet, inches};
use super::number::{Number, digits, hundreds, leads_to_equals, n_digits, small, year};
use super::peek::{after_stop, is_boundary, is_digit, is_lettered, letter, skip_space, starts_with, word};
use super::{clock, number, unit};

/// Numbers of a dimension such as `2 x 3 x 4`.
const MAX_NUMBERS: usize = 4;
/// Letters after an amount of money, and after any number.
const MONEY_SCALES: &[(&str, &str)] = &[
    ("bn", "billion"),
    ("mn", "million"),
    ("tn", "trillion"),
    ("K", "thousand"),
    ("k", "thousand"),
    ("M", "million"),
    ("m", "million"),
    ("B", "billion"),
    ("b", "billion"),
    ("T", "trillion"),
];
const SCALES: &[(&str, &str)] = &[("bn", "billion"), ("M", "million"), ("mn", "million")];
const THOUSAND: &[(&str, &str)] = &[("k", "thousand"), ("K", "thousand")];
/// What is counted in thousands, millions and billions: "5m users", but "5m waves".
const MASSES: &str = "people users views viewers followers subscribers customers members visitors listeners players \
                      voters workers students households men women children jobs homes accounts downloads streams \
                      copies posts likes shares tokens parameters barrels tonnes tons dollars pounds euros years";
const SCALE_WORDS: &[&str] = &["thousand", "million", "billion", "trillion"];
/// The ends of units whose numbers may have a decimal comma.
const METRIC: &[&str] =
    &["meter", "gram", "liter", "celsius", "kilometer per hour", "hectare", "watt", "watt hour", "percent"];
/// What a single amount describes: "a five dollar bill".
const DESCRIBED: &[&str] = &[
    "bill", "note", "coin", "ticket", "fine", "fee", "menu", "increase", "discount", "deal", "house", "company", "man",
    "question", "project", "budget", "contract", "prize", "lawsuit",
];

/// One number or several, and what they count.
struct Amount {
    numbers: Vec<Number>,
    /// What stands between them.
    between: &'static str,
    end: usize,
}

/// Reads the number at `at`, with its currency in front; `before` is the word before it.
pub(super) fn read(chars: &[char], at: usize, before: &str) -> Found {
    let (currency, start) = match currency::read(chars, at) {
        Some((currency, end)) => (Some(currency), skip_space(chars, end)),
        None => (None, at),
    };
    let is_minus = currency.is_some() && letter(chars, start) == '-';
    let amount = numbers(chars, start + usize::from(is_minus), currency)?;
    let (words, end) = match currency {
        Some(currency) => money(chars, &amount, (currency, before)),
        None => counted(chars, &amount, before),
    };
    Some((if is_minus { format!("minus {words}") } else { words }, end))
}

/// Reads an amount as it is written on the continent of Europe: `1.234,56 €` and `5,5 km`.
pub(super) fn continental(chars: &[char], at: usize, before: &str) -> Found {
    continental_number(chars, at, None)?;
    read(chars, at, before)
}

fn continental_number(chars: &[char], at: usize, currency: Option<Currency>) -> Option<(Number, usize)> {
    let (number, end) = Number::continental(chars, at)?;
    let behind = || currency::read(chars, skip_space(chars, end)).map(|(currency, _)| currency);
    let is_sure = number.fraction.is_some() || number.whole.len() > 6;
    let fits = match currency.or_else(behind) {
        // "€1.234", but "€1.234 billion" and "€1.459/l".
        Some(currency) => {
            let is_scaled = scale(chars, end, MONEY_SCALES).is_some() || scale_word(chars, end).is_some();
            is_sure || (currency.one == "euro" && !is_scaled && letter(chars, end) != '/')
        }
        None => {
            let unit = unit::read(chars, end);
            is_sure && unit.is_some_and(|(unit, _)| METRIC.iter().any(|end| unit.one.ends_with(end)))
        }
    };
    fits.then_some((number, end))
}

/// Reads one number of an amount.
fn number_at(chars: &[char], at: usize, currency: Option<Currency>) -> Option<(Number, usize)> {
    continental_number(chars, at, currency).or_else(|| Number::read(chars, at))
}

/// Reads numbers with hyphens or an `x` between them.
fn numbers(chars: &[char], at: usize, currency: Option<Currency>) -> Option<Amount> {
    let (first, end) = number_at(chars, at, currency)?;
    let mut amount = Amount { numbers: vec![first], between: "", end };
    while amount.numbers.len() < MAX_NUMBERS {
        let place = skip_space(chars, amount.end);
        let between = match letter(chars, place) {
            '-' if amount.between.is_empty() => " to ",
            'x' if amount.between != " to " && currency.is_none() => " by ",
            _ => break,
        };
        let is_spaced = place > amount.end;
        let next = skip_space(chars, place + 1);
        if is_spaced != (next > place + 1) {
            break;
        }
        let next = match currency::read(chars, next).filter(|_| currency.is_some()) {
            Some((_, end)) => end,
            None => next,
        };
        let Some((number, end)) = number_at(chars, next, currency).filter(|_| is_digit(chars, next)) else { break };
        // "1-2-3" is no range, "5 - 3 = 2" a difference, "3-2x" no dimension.
        let follows = at > 1 && chars[at - 1] == '-' && chars[at - 2].is_ascii_digit();
        let is_chain = between == " to " && (follows || (letter(chars, end) == '-' && is_digit(chars, end + 1)));
        let is_equation = leads_to_equals(chars, next);
        if is_chain || (is_equation && between == " to ") {
            break;
        }
        let between = if is_equation { " times " } else { between };
        (amount.between, amount.end) = (between, end);
        amount.numbers.push(number);
    }
    Some(amount)
}

impl Amount {
    fn last(&self) -> &Number {
        &self.numbers[self.numbers.len() - 1]
    }

    fn count(&self) -> Count {
        if self.numbers.len() == 1 && self.last().is_one() { Count::One } else { Count::Many }
    }

    fn words(&self) -> String {
        self.numbers.iter().map(Number::words).collect::<Vec<_>>().join(self.between)
    }
}

/// Returns the scale at `at` that stands in `table`, or after a space as a word.
fn scale(chars: &[char], at: usize, table: &[(&'static str, &'static str)]) -> Option<(&'static str, usize)> {
    let fits = |(sign, _): &&(&str, &str)| starts_with(chars, at, sign) && is_boundary(chars, at + sign.len());
    table.iter().find(fits).map(|(sign, words)| (*words, at + sign.len()))
}

fn scale_word(chars: &[char], at: usize) -> Option<(&'static str, usize)> {
    let place = skip_space(chars, at);
    let name = word(chars, place);
    let name = SCALE_WORDS.iter().find(|word| **word == name).filter(|_| place > at)?;
    Some((name, place + name.len()))
}

fn money(chars: &[char], amount: &Amount, (currency, before): (Currency, &str)) -> (String, usize) {
    let scale = scale(chars, amount.end, MONEY_SCALES).or_else(|| scale_word(chars, amount.end));
    let mut end = scale.map_or(amount.end, |(_, end)| end);
    let after = word(chars, skip_space(chars, end));
    let is_described = DESCRIBED.contains(&&*after) || is_described(before, &after);
    let count = if is_described { Count::One } else { amount.count() };
    let mut words = match (&amount.numbers[..], scale) {
        ([number], None) => price(number, currency, count),
        (_, Some((scale, _))) => {
            let count = if is_described { Count::One } else { Count::Many };
            format!("{} {scale} {}", amount.words(), currency.of(count))
        }
        _ => format!("{} {}", amount.words(), currency.of(count)),
    };
    if let Some((rate, later)) = rate(chars, end) {
        words.push_str(&rate);
        end = after_stop(chars, later);
    }
    (words, end)
}

/// Returns one amount of money, with cents if it has two decimals.
fn price(number: &Number, currency: Currency, count: Count) -> String {
    let name = |number: &Number| format!("{} {}", number.words(), currency.of(count));
    let Some(cents) = number.fraction.as_deref().filter(|cents| cents.len() == 2 && !currency.cent[0].is_empty())
    else {
        return name(number);
    };
    let bare = Number { fraction: None, ..number.clone() };
    let n_cents: u32 = cents.parse().unwrap_or(0);
    // Of an amount with cents, one alone describes: "a three dollar and fifty cent coffee".
    let cent = format!("{} {}", small(n_cents), currency.cent[usize::from(n_cents != 1 && count == Count::Many)]);
    let has_whole = !bare.whole.bytes().all(|digit| digit == b'0');
    match (has_whole, n_cents) {
        (_, 0) => format!("{} {}", bare.words(), currency.of(if bare.is_one() { Count::One } else { count })),
        (false, _) => cent,
        _ => {
            let count = if bare.is_one() { Count::One } else { count };
            format!("{} {} and {cent}", bare.words(), currency.of(count))
        }
    }
}

/// Reads a slash and what an amount is counted by.
fn rate(chars: &[char], at: usize) -> Option<(String, usize)> {
    (letter(chars, at) == '/' && letter(chars, at + 1).is_ascii_alphabetic()).then_some(())?;
    Some(match unit::per(chars, at + 1) {
        Some((name, end)) => (format!(" per {name}"), end),
        None => (" per".to_owned(), at + 1),
    })
}

fn counted(chars: &[char], amount: &Amount, before: &str) -> (String, usize) {
    let mut words = amount.words();
    let end = amount.end;
    if let Some((more, end)) = power(chars, end) {
        return (words + &more, end);
    }
    if let Some((feet, end)) = feet(chars, end, (&words, amount.count())) {
        return (feet, end);
    }
    let place = skip_space(chars, end);
    if let Some((currency, end)) = currency::read(chars, place)
        && !is_digit(chars, end)
    {
        return match &amount.numbers[..] {
            [number] => (price(number, currency, amount.count()), end),
            _ => (format!("{words} {}", currency.of(amount.count())), end),
        };
    }
    if letter(chars, place) == '¢' {
        let name = if amount.count() == Count::One { "cent" } else { "cents" };
        return (format!("{words} {name}"), place + 1);
    }
    if let Some((half, end)) = clock::half(chars, end) {
        return (format!("{words} {half}"), end);
    }
    let is_mass = |(_, end): &(&str, usize)| {
        let noun = word(chars, skip_space(chars, *end));
        MASSES.split(' ').any(|mass| mass == noun)
    };
    if let Some((scale, end)) = scale(chars, end, SCALES)
        .or_else(|| scale(chars, end, MONEY_SCALES).filter(is_mass))
        .or_else(|| scale(chars, end, THOUSAND).filter(|_| amount.last().fraction.is_some()))
        .filter(|_| amount.last().fraction.is_some() || amount.last().whole.len() < 4)
    {
        return (format!("{words} {scale}"), end);
    }
    // "4.5/5 stars", but "USB 2.0/3.0".
    if amount.last().fraction.is_some()
        && letter(chars, end) == '/'
        && Number::read(chars, end + 1).is_some_and(|(most, _)| most.fraction.is_none())
    {
        return (format!("{words} out of"), end + 1);
    }
    if let Some((unit, mut end)) = unit::read(chars, end) {
        let after = word(chars, skip_space(chars, after_stop(chars, end)));
        let is_one = amount.count() == Count::One || is_described(before, &after);
        let name = if is_one { unit.one } else { unit.many };
        words = format!("{words} {name}");
        if let Some((inches, end)) = inches(chars, end).filter(|_| unit.one == "foot") {
            return (format!("{words} {inches}"), after_stop(chars, end));
        }
        if let Some((rate, later)) = rate(chars, end) {
            words.push_str(&rate);
            end = later;
        }
        return (words, after_stop(chars, end));
    }
    (plain(chars, amount, before).unwrap_or(words), end)
}

/// Words before a number that is dialled.
const CALLED: &[&str] = &["call", "dial", "called", "dialed", "dialled", "calling", "text", "texted", "phone"];
/// Digits of a telephone number without signs.
const PHONE_LEN: usize = 10;

/// Returns the lines of a picture, as in `1080p`.
fn lines(number: &Number) -> Option<String> {
    match (number.whole.len(), number.value()?) {
        (4, value) => Some(year(value)),
        (3, value) => Some(hundreds(value)),
        _ => None,
    }
}

/// Returns numbers without a unit that are years.
fn plain(chars: &[char], amount: &Amount, before: &str) -> Option<String> {
    let after = word(chars, skip_space(chars, amount.end));
    match &amount.numbers[..] {
        [number] if letter(chars, amount.end) == 'p' && is_boundary(chars, amount.end + 1) => lines(number),
        [number] if is_dialled(number, before) && !is_plural(&after) => Some(digits(&number.whole)),
        // "401(k)"
        [number] if number.whole.len() == 3 && is_lettered(chars, amount.end) => number.value().map(hundreds),
        [number] => bare_year(number, before, &after),
        [first, last] if first == last && first.whole.len() == 2 => Some(format!("{0}-{0}", first.words())),
        [first, last] if amount.between == " to " => {
            let from = bare_year(first, "in", "")?;
            let till = match last.whole.len() {
                2 if last.fraction.is_none() => small(last.value()?),
                _ => bare_year(last, "in", "")?,
            };
            Some(format!("{from} to {till}"))
        }
        _ => None,
    }
}

/// Returns whether a number after this word may be dialled.
pub(super) fn calls(word: &str) -> bool {
    CALLED.contains(&&*word.to_ascii_lowercase())
}

/// Returns whether a number is one of a telephone, by the word `before` it or its length.
fn is_dialled(number: &Number, before: &str) -> bool {
    let len = number.whole.len();
    let is_called = calls(before) && (len == 3 || len > 4);
    let is_bare = !number.is_grouped && number.fraction.is_none();
    is_bare && (is_called || (len == PHONE_LEN && !number.whole.ends_with("000")))
}

/// Reads `e-3` after a number.
fn power(chars: &[char], at: usize) -> Option<(String, usize)> {
    matches!(letter(chars, at), 'e' | 'E').then_some(())?;
    let sign = usize::from(['-', '+'].contains(&letter(chars, at + 1)));
    let place = at + 1 + sign;
    let end = place + n_digits(chars, place);
    (end > place && end <= place + 3 && is_boundary(chars, end)).then_some(())?;
    let exponent = number::cardinal(&chars[place..end].iter().collect::<String>());
    let minus = if letter(chars, at + 1) == '-' { "minus " } else { "" };
    Some((format!(" times ten to the power of {minus}{exponent}"), end))
}
