//! Words in capitals: acronyms that are words, letters, and words that are shouted.

/// Acronyms that are said as words.
const WORDS: &[&str] = &[
    "NASA", "NATO", "UNESCO", "UNICEF", "OPEC", "AIDS", "LASER", "RADAR", "SONAR", "SCUBA", "COVID", "FIFA", "UEFA",
    "NAFTA", "ASCII", "GIF", "RAM", "ROM", "PIN", "SIM", "LAN", "WAN", "WIFI", "SWAT", "NASDAQ", "JSON", "YAML",
    "CUDA", "BIOS", "DOS", "SNAC", "CAPTCHA", "ASEAN", "FEMA", "POTUS", "SCOTUS", "SARS", "SAT", "MOMA", "OSHA",
    "NIMBY", "YOLO", "TASER", "GULAG", "INTERPOL", "MIDI", "FLAC", "SAAS", "NORAD", "NAND", "FUD", "MERS", "GUI",
    "DRAM", "RAID", "CERN",
];
/// Short words that are shouted rather than spelled.
const SHOUTED: &[&str] = &[
    "THE", "AND", "NOT", "YOU", "ALL", "NO", "YES", "STOP", "HELP", "NOW", "NEW", "FREE", "SALE", "THIS", "THAT", "IS",
    "ON", "OF", "TO", "DO", "GO", "WE", "HE", "BE", "ME", "MY", "SO", "UP", "OR", "AT", "BY", "AS", "AN", "IF", "ARE",
    "WAS", "FOR", "BUT", "CAN", "OUT", "GET", "HAS", "HIS", "HER", "SHE", "ITS", "ONE", "TWO", "BIG", "BAD", "GOOD",
    "OFF", "OPEN", "EXIT", "PLEASE", "READ", "NOTE", "TODO", "WITH", "FROM", "WILL", "HAVE", "BEEN", "WANT", "LOVE",
    "HATE", "VERY", "MUCH", "MORE", "MOST", "BEST", "LAST", "NEXT", "LEFT", "HERE", "WHAT", "WHEN", "WHY", "HOW",
    "ANY", "DAY", "MUST", "ONLY", "EVER", "OVER", "KEEP", "LOOK", "COME", "BACK", "DOWN", "JUST", "LIKE", "MAKE",
    "TAKE", "TIME", "GAME", "END", "OLD", "MAN", "DONT", "CALL", "WAIT", "RUN", "SAY", "SEE", "TOO", "OUR", "YOUR",
    "THEY", "THEM", "ITEM", "BOY", "OKAY", "HEY", "WOW", "HI",
];
/// Long ones that are spelled all the same.
const SPELLED: &[&str] = &["HTTPS", "NAACP", "ASPCA", "UCLA", "USAID", "LGBTQ", "LGBTQIA", "IEEE", "AAPL", "EULA"];
const MIN_SHOUTED: usize = 5;

/// Returns whether a word in capitals is one that somebody shouts, whatever stands beside it.
pub(super) fn is_shouted(word: &str) -> bool {
    if word.bytes().any(|byte| byte.is_ascii_lowercase()) || SPELLED.contains(&word) || WORDS.contains(&word) {
        return false;
    }
    let has_vowel = word.contains(['A', 'E', 'I', 'O', 'U', 'Y']);
    SHOUTED.contains(&word) || (word.len() >= MIN_SHOUTED && has_vowel && longest_cluster(word) < 5)
}

fn longest_cluster(word: &str) -> usize {
    word.split(['A', 'E', 'I', 'O', 'U', 'Y']).map(str::len).max().unwrap_or(0)
}

/// Returns the letters of a word one by one.
pub(super) fn spell(word: &str) -> String {
    let mut words = String::with_capacity(2 * word.len());
    for letter in word.chars().filter(char::is_ascii_alphabetic) {
        if !words.is_empty() {
            words.push(' ');
        }
        words.push(letter.to_ascii_lowercase());
    }
    words
}

/// Returns two capitals or more as they are read. `is_loud`: whether a word beside it is shouted.
pub(super) fn read(word: &str, neighbour: Neighbour) -> String {
    let is_word = WORDS.contains(&word)
        || is_shouted(word)
        || (neighbour == Neighbour::Shouted
            && word.len() > 1
            && word.contains(['A', 'E', 'I', 'O', 'U', 'Y'])
            && !SPELLED.contains(&word));
    if is_word { word.to_ascii_lowercase() } else { spell(word) }
}

/// What stands beside a word.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Neighbour {
    Shouted,
    Plain,
}
