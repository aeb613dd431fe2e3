//! Counts in sentences: `1 file`, `2 files`.

/// Returns `n` and the noun: `singular` for 1, its regular plural otherwise.
///
/// ```
/// use melisma::text::count;
/// assert_eq!(count(1, "file"), "1 file");
/// assert_eq!(count(0, "damaged entry"), "0 damaged entries");
/// ```
pub fn count(n: u64, singular: &str) -> String {
    if n == 1 {
        return format!("1 {singular}");
    }
    let is_vowel = |letter: Option<char>| letter.is_some_and(|letter| "aeiou".contains(letter));
    match singular.strip_suffix('y') {
        Some(stem) if !is_vowel(stem.chars().next_back()) => format!("{n} {stem}ies"),
        _ if ["s", "x", "z", "ch", "sh"].iter().any(|end| singular.ends_with(end)) => format!("{n} {singular}es"),
        _ => format!("{n} {singular}s"),
    }
}

#[cfg(test)]
mod tests {
    use super::count;

    #[test]
    fn regular_plurals() {
        let cases = [
            (0, "file", "0 files"),
            (1, "file", "1 file"),
            (2, "entry", "2 entries"),
            (3, "key", "3 keys"),
            (4, "batch", "4 batches"),
            (5, "process", "5 processes"),
            (u64::MAX, "row", "18446744073709551615 rows"),
        ];
        for (n, singular, expected) in cases {
            assert_eq!(count(n, singular), expected);
        }
    }
}
