//! What stands at a place of a folded text.

/// Characters of a word that rules look at.
pub(super) const MAX_WORD: usize = 24;

pub(super) fn letter(chars: &[char], at: usize) -> char {
    chars.get(at).copied().unwrap_or(' ')
}

pub(super) fn is_digit(chars: &[char], at: usize) -> bool {
    letter(chars, at).is_ascii_digit()
}

/// Returns whether neither a letter nor a digit stands at `at`.
pub(super) fn is_boundary(chars: &[char], at: usize) -> bool {
    !letter(chars, at).is_ascii_alphanumeric()
}

pub(super) fn starts_with(chars: &[char], at: usize, text: &str) -> bool {
    text.chars().enumerate().all(|(index, expected)| chars.get(at + index) == Some(&expected))
}

/// Returns the place after the spaces of a line at `at`, at most two of them.
pub(super) fn skip_space(chars: &[char], at: usize) -> usize {
    at + chars.get(at..).unwrap_or_default().iter().take(2).take_while(|letter| **letter == ' ').count()
}

/// Returns the letters at `at`, at most [`MAX_WORD`].
pub(super) fn word(chars: &[char], at: usize) -> String {
    let letters = chars.get(at..).unwrap_or_default().iter();
    letters.take(MAX_WORD).take_while(|letter| letter.is_ascii_alphabetic()).collect()
}

/// Returns the next word after spaces, quotes and brackets, and `None` where the text or a paragraph ends.
pub(super) fn next_word(chars: &[char], at: usize) -> Option<String> {
    let mut n_lines = 0;
    for index in at..(at + MAX_WORD).min(chars.len()) {
        match chars[index] {
            '\n' => n_lines += 1,
            ' ' | '"' | '\'' | '(' | '[' | '*' | '_' | '`' | ',' | ')' | ']' => {}
            letter if letter.is_ascii_alphabetic() => return Some(word(chars, index)),
            letter => return Some(letter.to_string()),
        }
        if n_lines > 1 {
            return None;
        }
    }
    (at + MAX_WORD < chars.len()).then(String::new)
}

/// Returns the word or sign after a space or the end of a line, and `None` where the text or a paragraph ends.
pub(super) fn adjacent(chars: &[char], at: usize) -> Option<String> {
    let spaces = chars.get(at..).unwrap_or_default().iter().take(3).take_while(|letter| letter.is_ascii_whitespace());
    let (n, n_lines) = spaces.fold((0, 0), |(n, n_lines), space| (n + 1, n_lines + usize::from(*space == '\n')));
    let sign = chars.get(at + n).filter(|_| n_lines < 2)?;
    let name = word(chars, at + n);
    Some(if name.is_empty() { sign.to_string() } else { name })
}

/// Returns whether a letter or digit in parentheses stands at `at`, without a space in front: `401(k)`.
pub(super) fn is_lettered(chars: &[char], at: usize) -> bool {
    let is_attached = at > 0 && (chars[at - 1].is_ascii_alphanumeric() || chars[at - 1] == ')');
    is_attached && [letter(chars, at), letter(chars, at + 2)] == ['(', ')'] && !is_boundary(chars, at + 1)
}

/// Returns the place after the full stop of an abbreviation within a sentence.
pub(super) fn after_stop(chars: &[char], at: usize) -> usize {
    let is_stop = letter(chars, at) == '.' && letter(chars, at + 1) == ' ';
    let next = next_word(chars, at + 1).filter(|_| is_stop);
    at + usize::from(next.is_some_and(|next| next.starts_with(|letter: char| letter.is_ascii_lowercase())))
}

/// Returns the place after a dash at `at` that has a space on both sides, or on none.
pub(super) fn after_dash(chars: &[char], at: usize) -> Option<usize> {
    match [letter(chars, at), letter(chars, at + 1), letter(chars, at + 2)] {
        [' ', '-', ' '] => Some(at + 3),
        ['-', next, _] if !['-', ' '].contains(&next) => Some(at + 1),
        _ => None,
    }
}

pub(super) fn is_capital(word: &str) -> bool {
    word.starts_with(|letter: char| letter.is_ascii_uppercase())
}
