//! Abbreviations with a full stop, and titles without one.

use super::date::month;
use super::peek::{after_dash, is_capital, is_digit, letter, next_word, skip_space, starts_with, word};

/// What may follow an abbreviation.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// A name; has a capital itself.
    Title,
    /// A name that begins no sentence, else it is a word of its own.
    Guest,
    /// Anything; never the end of a sentence.
    Inner,
    /// Anything; ends a sentence if the next word has a capital.
    Last,
    /// Anything; ends a sentence if the next word often begins one.
    Name,
    /// A number, else it is a word of its own.
    Number,
    /// A number or a word without a capital, else it is a word of its own.
    Lower,
    /// A date, else it is a word of its own.
    Day,
}

use Kind::{Day, Guest, Inner, Last, Lower, Name, Number, Title};

const ABBREVIATIONS: &[(&str, &str, Kind)] = &[
    ("mr", "Mister", Title),
    ("mrs", "Missus", Title),
    ("ms", "Miz", Title),
    ("messrs", "Messieurs", Title),
    ("prof", "Professor", Title),
    ("rev", "Reverend", Title),
    ("gen", "General", Title),
    ("sen", "Senator", Title),
    ("rep", "Representative", Title),
    ("gov", "Governor", Title),
    ("capt", "Captain", Title),
    ("col", "Colonel", Title),
    ("lt", "Lieutenant", Title),
    ("sgt", "Sergeant", Title),
    ("cpl", "Corporal", Title),
    ("maj", "Major", Title),
    ("cmdr", "Commander", Title),
    ("hon", "Honorable", Title),
    ("pres", "President", Title),
    ("mt", "Mount", Title),
    ("ft", "Fort", Title),
    ("fr", "Father", Title),
    ("ft", "featuring", Guest),
    ("feat", "featuring", Guest),
    ("vs", "versus", Inner),
    ("approx", "approximately", Inner),
    ("dept", "department", Inner),
    ("cf", "compare", Inner),
    ("viz", "namely", Inner),
    ("incl", "including", Inner),
    ("excl", "excluding", Inner),
    ("univ", "University", Inner),
    ("assoc", "associate", Inner),
    ("asst", "assistant", Inner),
    ("intl", "international", Inner),
    ("natl", "national", Inner),
    ("govt", "government", Inner),
    ("avg", "average", Inner),
    ("resp", "respectively", Inner),
    ("tel", "telephone", Inner),
    ("est", "established", Number),
    ("est", "estimated", Last),
    ("eg", "for example", Inner),
    ("ie", "that is", Inner),
    ("etc", "et cetera", Last),
    ("misc", "miscellaneous", Last),
    ("yrs", "years", Last),
    ("hrs", "hours", Last),
    ("mins", "minutes", Last),
    ("secs", "seconds", Last),
    ("lbs", "pounds", Last),
    ("oz", "ounces", Last),
    ("inc", "Incorporated", Name),
    ("ltd", "Limited", Name),
    ("corp", "Corporation", Name),
    ("co", "Company", Name),
    ("jr", "Junior", Name),
    ("sr", "Senior", Name),
    ("bros", "Brothers", Name),
    ("esq", "Esquire", Name),
    ("ave", "Avenue", Name),
    ("blvd", "Boulevard", Name),
    ("rd", "Road", Name),
    ("ln", "Lane", Name),
    ("apt", "apartment", Number),
    ("hwy", "Highway", Number),
    ("rte", "Route", Number),
    ("pkwy", "Parkway", Name),
    ("no", "number", Number),
    ("nos", "numbers", Number),
    ("p", "page", Number),
    ("pp", "pages", Number),
    ("pg", "page", Number),
    ("ch", "chapter", Number),
    ("vol", "volume", Number),
    ("vols", "volumes", Number),
    ("fig", "figure", Number),
    ("figs", "figures", Number),
    ("sec", "section", Number),
    ("art", "article", Number),
    ("ext", "extension", Number),
    ("ca", "circa", Number),
    ("c", "circa", Number),
    ("eq", "equation", Number),
    ("op", "opus", Number),
    ("ver", "version", Number),
    ("para", "paragraph", Number),
    ("max", "maximum", Lower),
    ("min", "minimum", Lower),
    ("temp", "temperature", Lower),
    ("mon", "Monday", Day),
    ("tue", "Tuesday", Day),
    ("tues", "Tuesday", Day),
    ("wed", "Wednesday", Day),
    ("thu", "Thursday", Day),
    ("thur", "Thursday", Day),
    ("thurs", "Thursday", Day),
    ("fri", "Friday", Day),
    ("sat", "Saturday", Day),
    ("sun", "Sunday", Day),
];
/// Days whose abbreviation is also a word or a name.
const WORDS: &[&str] = &["mon", "wed", "sat", "sun"];
/// Words that often begin a sentence and are no part of a name.
pub(super) const STARTERS: &[&str] = &[
    "He",
    "She",
    "It",
    "The",
    "They",
    "We",
    "I",
    "You",
    "A",
    "An",
    "This",
    "That",
    "These",
    "Those",
    "In",
    "On",
    "At",
    "But",
    "And",
    "So",
    "If",
    "When",
    "While",
    "After",
    "Before",
    "My",
    "His",
    "Her",
    "Their",
    "Our",
    "Its",
    "There",
    "Then",
    "What",
    "Who",
    "Why",
    "How",
    "Where",
    "However",
    "Meanwhile",
    "Not",
    "No",
    "Yes",
    "For",
    "To",
    "From",
    "With",
    "As",
    "One",
    "Some",
    "Many",
    "Most",
    "All",
    "Each",
];
/// Words with a capital that are no name of a street.
const NO_STREET: &[&str] = &[
    "In",
    "At",
    "The",
    "To",
    "From",
    "Near",
    "And",
    "Of",
    "On",
    "For",
    "By",
    "Mount",
    "Lake",
    "Fort",
    "Port",
    "Visit",
    "Saint",
    "Our",
    "My",
    "When",
    "But",
    "Or",
    "With",
    "I",
    "Is",
    "Was",
    "Old",
    "East",
    "West",
    "Doctor",
    "Mister",
    "Missus",
    "Miz",
    "Professor",
    "Father",
    "Captain",
];

/// What needs no full stop between a title and a name, behind a name, or in front of a number.
const BARE: &[&str] = &[
    "Mr", "MR", "Mrs", "MRS", "Ms", "Prof", "Capt", "Sgt", "Cpl", "Lt", "Col", "Mt", "Ave", "Blvd", "Rd", "Ln", "Pkwy",
    "Jr", "Sr", "Ltd", "Inc", "Corp", "Bros", "Hwy", "Apt", "Rte", "Ext", "Fig", "Vol",
];
/// Letters of the longest day.
const MAX_DAY: usize = 9;

/// Words for an abbreviation.
pub(super) struct Expansion {
    pub(super) words: &'static str,
    pub(super) end: usize,
    /// Whether its full stop also ends the sentence.
    pub(super) is_last: bool,
}

/// Returns whether a full stop in front of `at` also ends a sentence: anything with a capital follows, or nothing.
pub(super) fn ends_before_capital(chars: &[char], at: usize) -> bool {
    let is_word = |next: &str| next.len() == 1 || next.chars().any(|letter| letter.is_ascii_lowercase());
    next_word(chars, at).is_none_or(|next| is_capital(&next) && is_word(&next))
}

/// Returns whether a full stop in front of `at`, behind a part of a name, also ends a sentence.
pub(super) fn ends_before_starter(chars: &[char], at: usize) -> bool {
    next_word(chars, at).is_none_or(|next| STARTERS.contains(&&*next))
}

/// Reads the abbreviation `word` that ends at `end`; `before` is the word before it.
pub(super) fn read(word: &str, chars: &[char], end: usize, before: &str) -> Option<Expansion> {
    let has_stop = letter(chars, end) == '.';
    if !has_stop && !is_capital(word) && word != "vs" {
        return None;
    }
    let lower = word.to_ascii_lowercase();
    let after = end + usize::from(has_stop);
    let next = next_word(chars, after).unwrap_or_default();
    let is_named = is_capital(word) && is_capital(&next);
    let street = Street { start: end.saturating_sub(word.len()), after, has_stop, before };
    if ["st", "dr"].contains(&&*lower) {
        return street.place(&lower, chars).filter(|_| is_capital(word) && (has_stop || is_named || lower == "st"));
    }
    let is_bare = has_stop || BARE.contains(&word);
    let is_counted = next.starts_with(|letter: char| letter.is_ascii_digit());
    let fits = |kind: Kind| match kind {
        Title => is_named && word != "FT" && is_bare || (has_stop && ["mr", "mrs"].contains(&&*lower)),
        Guest => has_stop && is_capital(&next) && !ends_before_starter(chars, after),
        Inner => has_stop || lower == "vs",
        Last => has_stop,
        // Of several, one is no word if the next is none: "Max. temp. 5".
        Lower => {
            let is_lower = next.starts_with(|letter: char| letter.is_ascii_lowercase()) || is_of(Lower, &next);
            has_stop && (is_counted || is_lower)
        }
        Name => is_capital(word) && (has_stop || (is_bare && street.has_name(chars))),
        Number => {
            is_bare && is_numbered(chars, skip_space(chars, after)) || (has_stop && lower == "no" && next == "of")
        }
        Day => {
            let is_free = !WORDS.contains(&&*lower);
            // "Thu 5" and "Sun, May 5", but "Sun 5".
            let is_dated = (is_counted || month(&next).is_some()) && (is_free || letter(chars, after) == ',');
            is_capital(word) && (is_dated || (has_stop && (is_free || is_date(chars, after))))
                || in_week(chars, street.start, after)
        }
    };
    let &(_, words, kind) = ABBREVIATIONS.iter().filter(|(name, ..)| *name == lower).find(|(.., kind)| fits(*kind))?;
    let is_last = has_stop
        && match kind {
            Last => ends_before_capital(chars, after),
            Name => ends_before_starter(chars, after),
            _ => false,
        };
    Some(Expansion { words, end: after, is_last })
}

fn is_numbered(chars: &[char], at: usize) -> bool {
    let numeral = word(chars, at);
    let is_numeral = numeral.len() > 1 && numeral.bytes().all(|sign| b"IVXL".contains(&sign));
    is_digit(chars, at) || letter(chars, at) == '#' || is_numeral
}

fn is_date(chars: &[char], at: usize) -> bool {
    [',', '-'].contains(&letter(chars, at))
        || next_word(chars, at)
            .is_some_and(|next| month(&next).is_some() || next.starts_with(|letter: char| letter.is_ascii_digit()))
}

/// Returns whether a word is a day of the week or its abbreviation.
pub(super) fn is_day(name: &str) -> bool {
    is_capital(name) && (name.ends_with("day") || is_of(Day, name))
}

fn is_of(kind: Kind, name: &str) -> bool {
    ABBREVIATIONS.iter().any(|(short, _, of)| *of == kind && name.eq_ignore_ascii_case(short))
}

/// Returns whether a day from `start` to `end` begins or ends a range of days.
fn in_week(chars: &[char], start: usize, end: usize) -> bool {
    let behind = |n: usize| start.checked_sub(n).map_or(' ', |at| chars[at]);
    let last = match [behind(1), behind(2), behind(3)] {
        ['-', '.', _] => start - 2,
        ['-', ..] => start - 1,
        [' ', '-', ' '] => start.saturating_sub(3),
        _ => start,
    };
    let letters = chars[..last].iter().rev().take(MAX_DAY).take_while(|letter| letter.is_ascii_alphabetic()).count();
    let is_end = last < start && is_day(&word(&chars[..last], last - letters));
    is_end || after_dash(chars, end).is_some_and(|next| is_day(&word(chars, next)))
}

/// What stands around an abbreviation that may be one of a street.
struct Street<'a> {
    start: usize,
    after: usize,
    has_stop: bool,
    before: &'a str,
}

impl Street<'_> {
    /// Returns whether an ordinal in digits stands in front: `5th St`.
    fn is_numbered(&self, chars: &[char]) -> bool {
        let Some(at) = self.start.checked_sub(4) else { return false };
        is_digit(chars, at)
            && chars[at + 3] == ' '
            && ["st", "nd", "rd", "th"].iter().any(|end| starts_with(chars, at + 1, end))
    }

    /// Returns whether the name of a street stands in front.
    fn has_name(&self, chars: &[char]) -> bool {
        let is_name = is_capital(self.before) && !NO_STREET.contains(&self.before) && !STARTERS.contains(&self.before);
        let is_prayer = next_word(chars, self.after).is_some_and(|next| next == "Maria");
        (is_name && !is_prayer) || self.is_numbered(chars)
    }

    /// Reads "St." and "Dr.", which belong to a name in front of them or after them.
    fn place(&self, lower: &str, chars: &[char]) -> Option<Expansion> {
        let next = next_word(chars, self.after);
        let is_next = letter(chars, self.after) != ','
            && next.as_deref().is_some_and(|next| is_capital(next) && !STARTERS.contains(&next));
        let is_bound = !is_next || self.is_numbered(chars) || (lower == "st" && self.has_stop);
        let is_street = self.has_name(chars) && is_bound;
        let words = match (lower, is_street) {
            ("st", true) => "Street",
            ("st", false) => "Saint",
            (_, true) => "Drive",
            _ => "Doctor",
        };
        let is_last = is_street && self.has_stop && ends_before_starter(chars, self.after);
        (is_street || self.has_stop || next.as_deref().is_some_and(is_capital)).then_some(Expansion {
            words,
            end: self.after,
            is_last,
        })
    }
}
