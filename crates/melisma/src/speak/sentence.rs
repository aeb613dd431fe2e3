//! Long text to pieces that end where sentences do.

/// Marks that end a sentence, and those that end a clause.
const SENTENCE: &[char] = &['.', '!', '?', '…', '。', '！', '？'];
const CLAUSE: &[char] = &[',', ';', ':', '—', '–', '，', '；', '：', '、'];
/// Marks that may follow them.
const CLOSING: &[char] = &['"', '\'', ')', ']', '»', '”', '’', '」', '』', '）'];
/// Marks of scripts without spaces: a piece may end after them within a word.
const UNSPACED: &[char] = &['。', '！', '？', '，', '；', '：', '、'];
const ABBREVIATIONS: &[&str] =
    &["mr", "mrs", "ms", "dr", "prof", "st", "vs", "etc", "e.g", "i.e", "no", "fig", "vol", "approx", "inc", "ltd"];

/// How well a piece may end after a part of the text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum End {
    Word,
    Clause,
    Sentence,
}

/// A word, or a part of one.
#[derive(Debug)]
struct Part<'a> {
    text: &'a str,
    n_chars: usize,
    /// Whether a space precedes it.
    is_spaced: bool,
    end: End,
}

/// Cuts `text` into pieces of at most `max_chars` characters, as few as possible: after a sentence,
/// else after a clause, else between words, and within a word only if it is longer. Runs of white
/// space become one space.
pub fn cut(text: &str, max_chars: usize) -> Vec<String> {
    let parts = parts(text, max_chars.max(1));
    let (mut pieces, mut rest) = (Vec::new(), &parts[..]);
    while !rest.is_empty() {
        let (piece, later) = rest.split_at(fitting(rest, max_chars));
        pieces.push(join(piece));
        rest = later;
    }
    pieces
}

/// Returns how many of `parts` make the next piece.
fn fitting(parts: &[Part<'_>], max_chars: usize) -> usize {
    let mut n_chars = 0;
    let fits = |(index, part): &(usize, &Part<'_>)| {
        n_chars += part.n_chars + usize::from(part.is_spaced && *index > 0);
        n_chars <= max_chars
    };
    let n = parts.iter().enumerate().take_while(fits).count().max(1);
    if n == parts.len() {
        return n;
    }
    let last = |end: End| parts[..n].iter().rposition(|part| part.end >= end).map(|index| index + 1);
    last(End::Sentence).or_else(|| last(End::Clause)).unwrap_or(n)
}

fn join(parts: &[Part<'_>]) -> String {
    let mut piece = String::new();
    for part in parts {
        if part.is_spaced && !piece.is_empty() {
            piece.push(' ');
        }
        piece.push_str(part.text);
    }
    piece
}

fn parts(text: &str, max_chars: usize) -> Vec<Part<'_>> {
    let mut parts: Vec<Part<'_>> = Vec::new();
    for line in text.split('\n') {
        if line.trim().is_empty()
            && let Some(last) = parts.last_mut()
        {
            // A paragraph ends, if only with a heading.
            last.end = End::Sentence;
        }
        for word in line.split_whitespace() {
            if let Some(last) = parts.last_mut().filter(|last| is_dotted(last.text)) {
                last.end = if word.starts_with(char::is_lowercase) { End::Word } else { last.end };
            }
            let mut rest = word;
            while !rest.is_empty() {
                let (part, later) = rest.split_at(part_len(rest, max_chars));
                let is_spaced = rest.len() == word.len();
                parts.push(Part { text: part, n_chars: part.chars().count(), is_spaced, end: end(part) });
                rest = later;
            }
        }
    }
    parts
}

/// Returns the bytes of a word up to where a piece may end.
fn part_len(word: &str, max_chars: usize) -> usize {
    let longest = word.char_indices().nth(max_chars).map_or(word.len(), |(index, _)| index);
    let Some(mark) = word[..longest].find(UNSPACED) else { return longest };
    let follows = |letter: char| UNSPACED.contains(&letter) || CLOSING.contains(&letter);
    mark + word[mark..longest].find(|letter| !follows(letter)).unwrap_or(longest - mark)
}

fn end(part: &str) -> End {
    let bare = part.trim_end_matches(CLOSING);
    if bare.ends_with(CLAUSE) {
        return End::Clause;
    }
    match bare.strip_suffix(SENTENCE) {
        Some(word) if !(bare.ends_with('.') && is_short(word)) => End::Sentence,
        _ => End::Word,
    }
}

/// Returns whether a part is letters with full stops such as `p.m.`, which end a sentence before a capital only.
fn is_dotted(part: &str) -> bool {
    let bare = part.trim_matches(|letter: char| !letter.is_alphanumeric() && letter != '.');
    bare.strip_suffix('.')
        .is_some_and(|letters| letters.contains('.') && letters.split('.').all(|one| one.chars().count() == 1))
}

/// Returns whether a word before a full stop is an abbreviation or an initial.
fn is_short(word: &str) -> bool {
    let word = word.trim_start_matches(|letter: char| !letter.is_alphanumeric());
    let mut letters = word.chars();
    // The "m." of "five p m." is no initial.
    let is_initial = letters.next().is_some_and(|letter| letter.is_alphabetic() && !letter.is_lowercase());
    (is_initial && letters.next().is_none()) || ABBREVIATIONS.contains(&&*word.to_lowercase())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn pieces_end_with_sentences() {
        let text = "Dr. Who came at 3.15 p.m. today. \"Really?\" she asked. Yes!";
        assert_eq!(cut(text, 60), [text]);
        assert_eq!(cut(text, 40), ["Dr. Who came at 3.15 p.m. today.", "\"Really?\" she asked. Yes!"]);
        assert_eq!(cut(text, 20), ["Dr. Who came at 3.15", "p.m. today.", "\"Really?\" she asked.", "Yes!"]);
    }

    #[test]
    fn letters_with_full_stops_end_a_sentence_before_a_capital() {
        assert_eq!(cut("It was 5 p.m. He left.", 15), ["It was 5 p.m.", "He left."]);
        assert_eq!(cut("It was 5 p.m. when he left.", 21), ["It was 5 p.m. when he", "left."]);
        assert_eq!(cut("It was five p m. He left.", 18), ["It was five p m.", "He left."]);
        assert_eq!(cut("It was J. Smith who left.", 16), ["It was J. Smith", "who left."]);
    }

    #[test]
    fn long_sentences_are_cut_at_clauses_then_words_then_anywhere() {
        assert_eq!(cut("one two, three four five", 18), ["one two,", "three four five"]);
        assert_eq!(cut("one two three four", 9), ["one two", "three", "four"]);
        assert_eq!(cut("abcdefgh", 3), ["abc", "def", "gh"]);
        assert_eq!(cut("今日は。元気？はい、元気です！", 7), ["今日は。元気？", "はい、", "元気です！"]);
    }

    #[test]
    fn headings_end_and_white_space_shrinks() {
        assert_eq!(cut("A heading\n\nThe text   goes\non  here", 26), ["A heading", "The text goes on here"]);
        assert_eq!(cut(" \n\t ", 10), [""; 0]);
        assert_eq!(cut("so <laugh> it was.", 12), ["so <laugh>", "it was."]);
    }

    proptest! {
        #[test]
        fn nothing_is_lost_and_no_piece_is_too_long(
            words in prop::collection::vec(prop::sample::select(vec!["a", "Mr.", "word", "end.", "yes!", "no,", "\n\n", "。", "é…", "<sigh>", "looooooooong"]), 0..60),
            max_chars in 1_usize..40,
        ) {
            let text = words.join(" ");
            let pieces = cut(&text, max_chars);
            let bare = |text: &str| text.split_whitespace().collect::<String>();
            prop_assert_eq!(bare(&pieces.concat()), bare(&text));
            for piece in &pieces {
                prop_assert!((1..=max_chars).contains(&piece.chars().count()), "{:?}", piece);
            }
        }
    }
}
