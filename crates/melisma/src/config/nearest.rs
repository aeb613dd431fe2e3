//! Finds the known word that a mistyped one most likely meant.

/// Returns the nearest of `known` to `word`, if at most a third of its letters differ.
pub fn nearest<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    // Keys are never this long, and the cost of the distance is the product of both lengths.
    if word.chars().count() > 64 {
        return None;
    }
    let word = word.to_lowercase();
    known
        .into_iter()
        .map(|candidate| (distance(&word, candidate), candidate))
        .filter(|(distance, candidate)| *distance <= 1 + candidate.len() / 3)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

/// Returns the Levenshtein distance between `a` and `b`: insertions, deletions and substitutions.
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, from) in a.chars().enumerate() {
        let mut diagonal = std::mem::replace(&mut row[0], i + 1);
        for (j, to) in b.iter().enumerate() {
            let substituted = diagonal + usize::from(from != *to);
            diagonal = row[j + 1];
            row[j + 1] = substituted.min(diagonal + 1).min(row[j] + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_typing_errors_only() {
        let known = ["device", "threads", "memory_limit"];
        assert_eq!(nearest("thread", known), Some("threads"));
        assert_eq!(nearest("memorylimit", known), Some("memory_limit"));
        assert_eq!(nearest("Devcie", known), Some("device"));
        assert_eq!(nearest("colour", known), None);
        assert_eq!((nearest("rnu", ["run"]), nearest("nur", ["ran"])), (Some("run"), None));
        assert_eq!(nearest(&"x".repeat(1 << 20), known), None);
    }

    #[test]
    fn counts_edits() {
        assert_eq!(distance("kitten", "sitting"), 3);
        assert_eq!(distance("", "abc"), 3);
        assert_eq!(distance("abc", "abc"), 0);
    }
}
