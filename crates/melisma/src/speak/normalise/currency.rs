//! Names of money.

use super::peek::{is_boundary, letter, starts_with};

/// The words for one and for several, and those of a hundredth; empty if it has none.
#[derive(Debug, Clone, Copy)]
pub(super) struct Currency {
    signs: [&'static str; 2],
    pub(super) one: &'static str,
    pub(super) many: &'static str,
    pub(super) cent: [&'static str; 2],
}

const fn currency(signs: [&'static str; 2], words: [&'static str; 2], cent: [&'static str; 2]) -> Currency {
    Currency { signs, one: words[0], many: words[1], cent }
}

const CURRENCIES: &[Currency] = &[
    currency(["$", "USD"], ["dollar", "dollars"], ["cent", "cents"]),
    currency(["£", "GBP"], ["pound", "pounds"], ["penny", "pence"]),
    currency(["€", "EUR"], ["euro", "euros"], ["cent", "cents"]),
    currency(["¥", "JPY"], ["yen", "yen"], ["", ""]),
    currency(["₹", "INR"], ["rupee", "rupees"], ["paisa", "paise"]),
    currency(["₩", "KRW"], ["won", "won"], ["", ""]),
    currency(["CHF", "CHF"], ["Swiss franc", "Swiss francs"], ["centime", "centimes"]),
    currency(["CAD", "C$"], ["Canadian dollar", "Canadian dollars"], ["cent", "cents"]),
    currency(["AUD", "A$"], ["Australian dollar", "Australian dollars"], ["cent", "cents"]),
    currency(["US$", "US$"], ["u s dollar", "u s dollars"], ["cent", "cents"]),
    currency(["HK$", "HKD"], ["Hong Kong dollar", "Hong Kong dollars"], ["cent", "cents"]),
    currency(["NZ$", "NZD"], ["New Zealand dollar", "New Zealand dollars"], ["cent", "cents"]),
    currency(["CNY", "RMB"], ["yuan", "yuan"], ["", ""]),
];

/// Returns the currency at `at`, and where its sign ends.
pub(super) fn read(chars: &[char], at: usize) -> Option<(Currency, usize)> {
    CURRENCIES.iter().find_map(|currency| {
        let end = |sign: &str| at + sign.chars().count();
        let is_name = |sign: &str| sign.ends_with(|letter: char| letter.is_ascii_alphabetic());
        let fits = |sign: &&&str| {
            let is_whole = !is_name(sign) || is_boundary(chars, end(sign)) || letter(chars, end(sign)).is_ascii_digit();
            starts_with(chars, at, sign) && is_whole
        };
        currency.signs.iter().find(fits).map(|sign| (*currency, end(sign)))
    })
}

impl Currency {
    /// Returns the words for one, or for several.
    pub(super) fn of(&self, n: Count) -> &'static str {
        match n {
            Count::One => self.one,
            Count::Many => self.many,
        }
    }
}

/// How many are counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Count {
    One,
    Many,
}
