//! Roman numerals after names, chapters and the like.

use super::abbreviation::STARTERS;
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
/// Words after a king's number that follow no pronoun.
const DEEDS: &[&str] = &["died", "of", "ruled", "reigned", "is", "granted", "invaded"];
/// Words after either: the number is one if the king begins the sentence, or has a title.
const EITHER: &[&str] = &["was", "became", "had", "and", "were"];
const TITLES: &[&str] = &["King", "Queen", "Pope", "Emperor", "Tsar", "Kaiser", "Saint", "of", "under", "by"];
/// Words that make "Mark" a number rather than a name.
const ARTICLES: &[&str] = &["a", "an", "the", "A", "The"];
/// Words that follow the number of a part, and no pronoun.
const NO_VERBS: &[&str] = &[
    "of", "to", "is", "in", "at", "on", "for", "by", "with", "from", "through", "or", "has", "are", "diabetes",
    "error", "errors", "trial", "trials", "cancer", "tumor", "tumors",
];

/// Returns the value of a numeral in capitals.
fn value(numeral: &str) -> Option<u32> {
    // A sign, its value, and how often it may stand.
    const SIGNS: [(&str, u32, usize); 13] = [
        ("M", 1000, 3),
        ("CM", 900, 1),
        ("D", 500, 1),
        ("CD", 400, 1),
        ("C", 100, 3),
        ("XC", 90, 1),
        ("L", 50, 1),
        ("XL", 40, 1),
        ("X", 10, 3),
        ("IX", 9, 1),
        ("V", 5, 1),
        ("IV", 4, 1),
        ("I", 1, 3),
    ];
    let (mut rest, mut value) = (numeral, 0);
    for (sign, n, most) in SIGNS {
        for _ in 0..most {
            if let Some(later) = rest.strip_prefix(sign) {
                (rest, value) = (later, value + n);
            }
        }
    }
    (rest.is_empty() && value > 0 && value < 4000).then_some(value)
}

/// What stands around a numeral.
pub(super) struct Context<'a> {
    /// The word before it, and the one before that.
    pub(super) before: &'a str,
    pub(super) earlier: &'a str,
    pub(super) after: Option<&'a str>,
}

impl Context<'_> {
    /// Returns whether "I" is a pronoun: behind a noun or the name Mark, and before a verb.
    fn is_pronoun(&self) -> bool {
        let is_verb = |after: &str| after.starts_with(|c: char| c.is_ascii_lowercase()) && !NO_VERBS.contains(&after);
        let is_person = self.before == "Mark" && !ARTICLES.contains(&self.earlier);
        (is_person || !is_capital(self.before)) && self.after.is_some_and(is_verb)
    }

    fn is_first_of_name(&self) -> bool {
        let is_titled = self.earlier.is_empty() || TITLES.contains(&self.earlier);
        self.after.is_none_or(|after| {
            !after.starts_with(|letter: char| letter.is_ascii_alphabetic())
                || DEEDS.contains(&after)
                || (is_titled && EITHER.contains(&after))
        })
    }
}

/// Returns the words for a numeral.
pub(super) fn read(numeral: &str, context: &Context) -> Option<String> {
    let value = value(numeral).filter(|_| numeral.len() < 16)?;
    let &Context { before, after, .. } = context;
    let ordinal = || ordinal(&value.to_string());
    let is_single = numeral.len() == 1;
    if !is_single && after.is_some_and(|after| ["century", "centuries", "Century"].contains(&after)) {
        return Some(ordinal());
    }
    if NUMBERED.contains(&&*before.to_ascii_lowercase()) {
        // "War I" and "Part I", but "Type A", "class C" and "the part I like".
        let is_letter = ["C", "D", "M", "L"].contains(&numeral);
        let is_pronoun = numeral == "I" && context.is_pronoun();
        return (!is_letter && !is_pronoun).then(|| small(value));
    }
    if MONARCHS.contains(&before) && value < 40 {
        let is_ordinal = !is_single || ["V", "X"].contains(&numeral) || (numeral == "I" && context.is_first_of_name());
        return is_ordinal.then(|| format!("the {}", ordinal()));
    }
    let is_small = numeral.bytes().all(|sign| b"IVX".contains(&sign)) && !is_single;
    let is_name = is_capital(before) && before.len() > 1 && !STARTERS.contains(&before);
    (is_small && is_name).then(|| small(value))
}
