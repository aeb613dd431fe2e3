//! Groups of digits that are read one by one: telephone numbers, cards, versions and addresses.

use super::Found;
use super::number::{cardinal, digits, n_digits};
use super::peek::{is_boundary, is_digit, letter, starts_with};

const MAX_GROUPS: usize = 8;
const MAX_DIGITS: usize = 20;
/// Sizes of groups without a plus or parentheses.
const PATTERNS: &[&[usize]] = &[&[3, 3, 4], &[1, 3, 3, 4], &[3, 2, 4], &[4, 4, 4, 4], &[4, 6, 5]];

/// Reads `+1 (555) 010-9999`, `555-0199` and the like.
pub(super) fn read(chars: &[char], at: usize) -> Found {
    let has_plus = letter(chars, at) == '+';
    let mut place = at + usize::from(has_plus);
    let mut has_paren = false;
    let (mut groups, mut marks) = (Vec::<String>::new(), String::new());
    let mut found = None;
    while groups.len() < MAX_GROUPS {
        let is_open = letter(chars, place) == '(';
        let start = place + usize::from(is_open);
        let len = n_digits(chars, start);
        let end = start + len;
        let is_closed = is_open && letter(chars, end) == ')';
        let n_all: usize = groups.iter().map(String::len).sum::<usize>() + len;
        if len == 0 || is_open != is_closed || n_all > MAX_DIGITS || (is_open && has_paren) {
            break;
        }
        has_paren |= is_open;
        groups.push(chars[start..end].iter().collect());
        place = end + usize::from(is_closed);
        let is_whole = is_boundary(chars, place) && !(letter(chars, place) == '.' && is_digit(chars, place + 1));
        if is_whole && is_phone(&groups, &marks, &Signs { has_plus, has_paren }) {
            found = Some((groups.len(), place));
        }
        match letter(chars, place) {
            mark @ ('-' | '.' | ' ') if is_digit(chars, place + 1) || letter(chars, place + 1) == '(' => {
                marks.push(mark);
                place += 1;
            }
            _ if is_closed && is_digit(chars, place) => marks.push(')'),
            _ => break,
        }
    }
    let (n, end) = found?;
    let words: Vec<String> = groups[..n].iter().map(|group| digits(group)).collect();
    Some((format!("{}{}", if has_plus { "plus " } else { "" }, words.join(", ")), end))
}

/// What marks a number as one of a telephone.
struct Signs {
    has_plus: bool,
    has_paren: bool,
}

fn is_phone(groups: &[String], marks: &str, &Signs { has_plus, has_paren }: &Signs) -> bool {
    let sizes: Vec<usize> = groups.iter().map(String::len).collect();
    let n_all: usize = sizes.iter().sum();
    if has_plus || has_paren {
        let first = if has_plus { 1..=4 } else { 3..=5 };
        let is_first = first.contains(&sizes[0]) || groups[0].starts_with('0');
        return n_all >= 7 && (groups.len() > 1 || has_plus) && (groups.len() == 1 || is_first);
    }
    let is_dashed = marks.bytes().all(|mark| mark == b'-');
    let is_even = is_dashed || marks.bytes().all(|mark| mark == b' ') || marks.bytes().all(|mark| mark == b'.');
    let is_known = is_even && PATTERNS.contains(&&*sizes);
    let is_local = is_dashed && (sizes == [3, 4] || (groups.len() >= 4 && n_all >= 8));
    let is_british = groups.len() > 1 && is_even && !marks.contains('.') && groups[0].starts_with('0') && n_all >= 9;
    is_known || is_local || is_british
}

/// The states of the United States, before whose ZIP codes they stand.
const STATES: &str = "AL AK AZ AR CA CO CT DE FL GA HI ID IL IN IA KS KY LA ME MD MA MI MN MS MO MT NE NV NH NJ NM NY \
                      NC ND OH OK OR PA RI SC SD TN TX UT VT VA WA WV WI WY DC";

/// Reads a ZIP code after the state `before`.
pub(super) fn zip(chars: &[char], at: usize, before: &str) -> Found {
    let is_state = before.len() == 2 && STATES.split(' ').any(|state| state == before);
    let has_more = letter(chars, at + 5) == '-' && n_digits(chars, at + 6) == 4;
    let end = if has_more { at + 10 } else { at + 5 };
    let is_code = is_state && n_digits(chars, at) == 5 && is_boundary(chars, end) && !is_digit(chars, end + 1);
    let part = |from: usize, till: usize| digits(&chars[from..till].iter().collect::<String>());
    is_code.then(|| match has_more {
        true => (format!("{}, {}", part(at, at + 5), part(at + 6, end)), end),
        false => (part(at, end), end),
    })
}

/// Reads the digits of `1-800-FLOWERS`.
pub(super) fn toll_free(chars: &[char], at: usize) -> Found {
    let is_free = starts_with(chars, at, "1-8") && n_digits(chars, at + 2) == 3 && letter(chars, at + 5) == '-';
    let code: String = chars.get(at + 2..at + 5)?.iter().collect();
    let words = if code == "800" { cardinal(&code) } else { digits(&code) };
    (is_free && letter(chars, at + 6).is_ascii_uppercase()).then(|| (format!("one {words}"), at + 6))
}

/// Reads `3.0.1` and `192.168.0.1`: three numbers or more with dots between them.
pub(super) fn version(chars: &[char], at: usize) -> Found {
    let (mut parts, mut end) = (Vec::<String>::new(), at);
    loop {
        let len = n_digits(chars, end);
        parts.push(chars[end..end + len].iter().collect());
        end += len;
        if len == 0 || letter(chars, end) != '.' || !is_digit(chars, end + 1) {
            break;
        }
        end += 1;
    }
    let dot = if parts.len() == 4 { " dot " } else { " point " };
    (parts.len() > 2).then(|| (parts.iter().map(|part| cardinal(part)).collect::<Vec<_>>().join(dot), end))
}
