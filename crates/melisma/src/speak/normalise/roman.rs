//! Roman numerals after names, chapters and the like.

use super::number::{ordinal, small};
use super::peek::is_capital;

const MONARCHS: &[&str] = &[
    "Henry",
    "Edward",
    "George",
    "William",
    "Charles",
    "James",
    "Louis",
    "Elizabeth",
    "Richard",
    "John",
    "Paul",
    "Pius",
    "Benedict",
    "Napoleon",
    "Frederick",
    "Friedrich",
    "Philip",
    "Ferdinand",
    "Alexander",
    "Catherine",
    "Peter",
    "Nicholas",
    "Leo",
    "Gregory",
    "Innocent",
    "Clement",
    "Urban",
    "Francis",
    "Ramses",
    "Ramesses",
    "Ptolemy",
    "Wilhelm",
    "Mary",
    "Otto",
    "Ivan",
    "Carl",
    "Karl",
    "Gustav",
    "Christian",
    "Haakon",
    "Harald",
    "Olaf",
    "Sixtus",
    "Julius",
    "Boniface",
    "Darius",
    "Xerxes",
    "Robert",
    "Malcolm",
    "Juan",
    "Felipe",
    "Carlos",
    "Albert",
    "Leopold",
    "Umberto",
    "Mehmed",
    "Selim",
    "Suleiman",
    "Murad",
    "Constantine",
    "Theodosius",
    "Justinian",
    "Margrethe",
    "Abdullah",
];
const NUMBERED: &[&str] = &[
    "chapter", "part", "act", "scene", "volume", "book", "section", "war", "phase", "type", "class", "stage", "title",
    "article", "appendix", "figure", "table", "level", "bowl", "episode", "season", "grade", "factor", "step", "unit",
    "division", "category", "round", "mark", "canto", "verse", "number",
];
/// Words after a king's number; without them an I is a pronoun.
const DEEDS: &[&str] =
    &["was", "died", "of", "ruled", "reigned", "became", "had", "and", "is", "were", "granted", "invaded"];

/// Returns the value of a numeral in capitals.
fn value(numeral: &str) -> Option<u32> {
    const SIGNS: [(&str, u32); 13] = [
        ("M", 1000),
        ("CM", 900),
        ("D", 500),
        ("CD", 400),
        ("C", 100),
        ("XC", 90),
        ("L", 50),
        ("XL", 40),
        ("X", 10),
        ("IX", 9),
        ("V", 5),
        ("IV", 4),
        ("I", 1),
    ];
    let (mut rest, mut value) = (numeral, 0);
    for (sign, n) in SIGNS {
        let most = if n.to_string().starts_with('1') { 3 } else { 1 };
        for _ in 0..most {
            if let Some(later) = rest.strip_prefix(sign) {
                (rest, value) = (later, value + n);
            }
        }
    }
    (rest.is_empty() && value > 0 && value < 4000).then_some(value)
}

/// Returns the words for a numeral between two words.
pub(super) fn read(numeral: &str, before: &str, after: Option<&str>) -> Option<String> {
    let value = value(numeral).filter(|_| numeral.len() < 16)?;
    let ordinal = || ordinal(&value.to_string());
    let is_single = numeral.len() == 1;
    if !is_single && after.is_some_and(|after| ["century", "centuries", "Century"].contains(&after)) {
        return Some(ordinal());
    }
    if NUMBERED.contains(&&*before.to_ascii_lowercase()) {
        // "War I" and "Part I", but "Type A" and "class C".
        return (!["C", "D", "M", "L"].contains(&numeral)).then(|| small(value));
    }
    let is_monarch = MONARCHS.contains(&before) && value < 40;
    if is_monarch && (!is_single || ["V", "X"].contains(&numeral)) {
        return Some(format!("the {}", ordinal()));
    }
    if is_monarch
        && numeral == "I"
        && after.is_none_or(|after| {
            DEEDS.contains(&after) || !after.starts_with(|letter: char| letter.is_ascii_alphabetic())
        })
    {
        return Some("the first".to_owned());
    }
    let is_small = numeral.bytes().all(|sign| b"IVX".contains(&sign)) && !is_single;
    (is_small && is_capital(before) && before.len() > 1).then(|| small(value))
}
