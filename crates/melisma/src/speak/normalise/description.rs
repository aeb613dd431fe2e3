//! An amount that describes the noun behind it: "a fifty dollar gift card".

use super::peek::is_capital;

/// Words before an amount that belong to a noun behind it.
const ARTICLES: &[&str] =
    &["a", "an", "the", "this", "that", "his", "her", "my", "our", "your", "their", "its", "each", "every", "another"];
/// Words after an amount that are no noun and describe none.
const NO_NOUNS: &[&str] = &[
    "i", "you", "he", "she", "it", "we", "they", "was", "is", "were", "are", "will", "would", "has", "had", "have",
    "can", "could", "should", "may", "might", "must", "that", "which", "who", "in", "on", "to", "from", "for", "of",
    "at", "and", "or", "but", "by", "with", "as", "per", "a", "an", "the", "each", "more", "less", "than", "if",
    "when", "then", "so", "not", "into", "out", "off", "up", "down", "over", "under", "after", "before", "until",
    "away", "ago", "spent", "paid", "lost", "won", "due", "only", "later", "earlier", "ahead", "apart", "between",
    "north", "south", "east", "west", "where", "while", "because", "near", "about", "around", "there", "here", "back",
    "also", "still", "now", "too", "without", "within", "through", "during", "since", "above", "below", "beyond", "do",
    "did", "does", "be", "been", "goes", "went", "came", "covers", "buys", "pays", "gets", "helps", "makes", "comes",
    "leaves", "lasts", "takes", "gives", "adds", "means", "saves", "just", "my", "your", "his", "her", "our", "their",
];

/// Returns whether an amount between two words describes the second one.
pub(super) fn is_described(before: &str, after: &str) -> bool {
    let before = before.to_ascii_lowercase();
    let is_noun = !after.is_empty() && !is_capital(after) && !NO_NOUNS.contains(&after);
    // "the $50 owed", but "a $50 limited edition".
    let is_verb = after.ends_with("ed") && !["a", "an"].contains(&&*before);
    ARTICLES.contains(&&*before) && is_noun && !is_verb
}
