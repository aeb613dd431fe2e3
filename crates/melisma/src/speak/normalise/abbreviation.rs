//! Abbreviations with a full stop, and titles without one.

use super::date::month;
use super::peek::{is_capital, is_digit, letter, next_word, skip_space, word};

/// What may follow an abbreviation.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// A name; needs no full stop if it has a capital.
    Title,
    /// Anything; never the end of a sentence.
    Inner,
    /// Anything; ends a sentence if the next word has a capital.
    Last,
    /// Anything; ends a sentence if the next word often begins one.
    Name,
    /// A number, else it is a word of its own.
    Number,
    /// A date, else it is a word of its own.
    Day,
}

use Kind::{Day, Inner, Last, Name, Number, Title};

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
    ("est", "established", Inner),
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
const STARTERS: &[&str] = &[
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
    "In", "At", "The", "To", "From", "Near", "And", "Of", "On", "For", "By", "Mount", "Lake", "Fort", "Port", "Visit",
    "Saint", "Our", "My", "When", "But", "Or", "With", "I", "Is", "Was", "Old", "East", "West",
];

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
    let is_named = is_capital(word) && next_word(chars, after).is_some_and(|next| is_capital(&next));
    if ["st", "dr"].contains(&&*lower) {
        return (is_capital(word) && (has_stop || is_named)).then(|| place(&lower, chars, after, before));
    }
    let &(_, words, kind) = ABBREVIATIONS.iter().find(|(name, ..)| *name == lower)?;
    let fits = match kind {
        Title => {
            is_named && word != "FT" && (has_stop || ["mr", "mrs", "ms", "prof"].contains(&&*lower))
                || (has_stop && ["mr", "mrs"].contains(&&*lower))
        }
        Inner => has_stop || lower == "vs",
        Last => has_stop,
        Name => has_stop && is_capital(word),
        Number => has_stop && is_numbered(chars, skip_space(chars, after)),
        Day => has_stop && is_capital(word) && (!WORDS.contains(&&*lower) || is_date(chars, after)),
    };
    let is_last = has_stop
        && match kind {
            Last => ends_before_capital(chars, after),
            Name => ends_before_starter(chars, after),
            _ => false,
        };
    fits.then_some(Expansion { words, end: after, is_last })
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

/// Reads "St." and "Dr.", which belong to a name in front of them or after them.
fn place(lower: &str, chars: &[char], after: usize, before: &str) -> Expansion {
    let next = next_word(chars, after);
    let is_next = next.as_deref().is_some_and(|next| is_capital(next) && !STARTERS.contains(&next));
    let is_street = is_capital(before) && !NO_STREET.contains(&before) && (!is_next || lower == "st");
    let words = match (lower, is_street) {
        ("st", true) => "Street",
        ("st", false) => "Saint",
        (_, true) => "Drive",
        _ => "Doctor",
    };
    Expansion {
        words,
        end: after,
        is_last: is_street && letter(chars, after.wrapping_sub(1)) == '.' && ends_before_starter(chars, after),
    }
}
