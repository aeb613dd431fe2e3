//! Addresses of the web, of mail and of files, handles and hashtags.

use super::Found;
use super::acronym::spell;
use super::number::{cardinal, digits};
use super::peek::{letter, starts_with};

const SCHEMES: &[&str] = &["https://", "http://", "ftp://", "file://", "HTTPS://", "HTTP://"];
/// Ends of names that are sites without "www".
const DOMAINS: &[&str] = &[
    "com", "org", "net", "edu", "gov", "io", "ai", "dev", "app", "info", "uk", "de", "fr", "eu", "co", "tv", "ca",
    "au", "jp", "ch", "nl", "se", "biz",
];
/// Suffixes of files, and how they are said if not letter by letter.
const SUFFIXES: &[(&str, &str)] = &[
    ("pdf", ""),
    ("txt", ""),
    ("doc", "doc"),
    ("docx", ""),
    ("xls", ""),
    ("xlsx", ""),
    ("csv", ""),
    ("zip", "zip"),
    ("png", ""),
    ("jpg", ""),
    ("jpeg", "j peg"),
    ("gif", "gif"),
    ("mp3", ""),
    ("mp4", ""),
    ("wav", "wav"),
    ("flac", "flac"),
    ("htm", ""),
    ("html", ""),
    ("css", ""),
    ("js", ""),
    ("ts", ""),
    ("py", ""),
    ("rs", ""),
    ("cpp", ""),
    ("json", "json"),
    ("yaml", "yaml"),
    ("yml", ""),
    ("toml", "toml"),
    ("xml", ""),
    ("md", ""),
    ("exe", ""),
    ("sh", ""),
    ("log", "log"),
    ("tar", "tar"),
    ("gz", ""),
    ("iso", "iso"),
    ("svg", ""),
    ("opus", "opus"),
    ("mov", "mov"),
    ("bin", "bin"),
    ("safetensors", "safetensors"),
    ("jsonl", ""),
    ("ini", ""),
    ("cfg", ""),
    ("bak", "back"),
    ("h5", ""),
];

fn is_name(letter: char) -> bool {
    letter.is_ascii_alphanumeric() || ".-_+".contains(letter)
}

fn is_url(letter: char) -> bool {
    letter.is_ascii_graphic() && !"\"<>()[]{}|\\^`*".contains(letter)
}

/// Returns whether an address can begin at `at`: no part of one stands in front.
pub(super) fn can_begin(chars: &[char], at: usize) -> bool {
    at == 0 || !(is_name(chars[at - 1]) || "@/:".contains(chars[at - 1]))
}

/// Reads an address, which ends before marks that end a clause.
pub(super) fn read(chars: &[char], at: usize) -> Found {
    if let Some(scheme) = SCHEMES.iter().find(|scheme| starts_with(chars, at, scheme)) {
        let start = at + scheme.len();
        let end = end_of(chars, start, is_url);
        return (end > start).then(|| (said(&chars[start..end]), end));
    }
    let end = end_of(chars, at, is_name);
    let name: String = chars.get(at..end)?.iter().collect();
    if letter(chars, end) == '@' && letter(chars, end + 1).is_ascii_alphanumeric() && end > at {
        let end = end_of(chars, end + 1, is_name);
        return Some((said(&chars[at..end]), end));
    }
    let (_, last) = name.rsplit_once('.')?;
    let is_sub = name.starts_with("www.") || name.starts_with("WWW.");
    let is_site = is_sub || (DOMAINS.contains(&last) && is_site(&name));
    if is_site && !(name.contains('_') || name.contains('+')) {
        let end = match letter(chars, end) {
            '/' | '?' | '#' | ':' => end_of(chars, end, is_url),
            _ => end,
        };
        return Some((said(&chars[at..end]), end));
    }
    let is_file =
        SUFFIXES.iter().any(|(suffix, _)| *suffix == last) && name.len() > last.len() + 1 && !name.starts_with('.');
    (is_file && letter(chars, end) != '/').then(|| (said(&chars[at..end]), end))
}

fn is_site(name: &str) -> bool {
    let labels = || name.split('.');
    let has_letter = labels()
        .next()
        .is_some_and(|label| label.len() > 1 && label.contains(|letter: char| letter.is_ascii_lowercase()));
    has_letter && labels().all(|label| !label.is_empty())
}

fn end_of(chars: &[char], at: usize, fits: impl Fn(char) -> bool) -> usize {
    let mut end = at + chars.get(at..).unwrap_or_default().iter().take_while(|letter| fits(**letter)).count();
    while end > at && ".,;:!?'-_/+".contains(chars[end - 1]) {
        end -= 1;
    }
    end
}

/// Reads an address part by part.
pub(super) fn said(address: &[char]) -> String {
    let mut words: Vec<String> = Vec::new();
    let mut at = 0;
    let mut suffix = "";
    while at < address.len() {
        let sign = address[at];
        let kind = |letter: char| (letter.is_ascii_digit(), letter.is_ascii_alphabetic());
        let len = match kind(sign) {
            (false, false) => 1,
            kinds => address[at..].iter().take_while(|letter| kind(**letter) == kinds).count(),
        };
        let part: String = address[at..at + len].iter().collect();
        at += len;
        words.push(match kind(sign) {
            (true, _) if part.len() <= 2 => cardinal(&part),
            (true, _) => digits(&part),
            (_, true) => {
                let is_last = at == address.len() && suffix == ".";
                let known = SUFFIXES.iter().find(|(suffix, _)| is_last && *suffix == part);
                known.map_or_else(
                    || label(&part),
                    |(_, words)| if words.is_empty() { spell(&part) } else { (*words).to_owned() },
                )
            }
            _ => symbol(sign).to_owned(),
        });
        suffix = if sign == '.' { "." } else { "" };
    }
    words.join(" ")
}

/// Returns a part of an address: a word if it can be one, and otherwise its letters.
fn label(part: &str) -> String {
    let has_vowel = part.contains(['a', 'e', 'i', 'o', 'u', 'y', 'A', 'E', 'I', 'O', 'U', 'Y']);
    match has_vowel
        && (part.len() > 2 || ["me", "io", "to", "of", "in", "on", "at", "by", "my", "we", "go"].contains(&part))
        && part != "edu"
        && part != "aws"
    {
        true => part.to_ascii_lowercase(),
        false if part.len() == 1 => part.to_ascii_lowercase(),
        false => spell(part),
    }
}

fn symbol(sign: char) -> &'static str {
    match sign {
        '.' => "dot",
        '/' => "slash",
        '-' => "dash",
        '_' => "underscore",
        '?' => "question mark",
        '=' => "equals",
        '&' => "and",
        '#' => "hash",
        '%' => "percent",
        '+' => "plus",
        '~' => "tilde",
        ':' => "colon",
        '@' => "at",
        '$' => "dollar",
        _ => "",
    }
}

/// Returns the words of a hashtag or handle: `MachineLearning` is two.
pub(super) fn tag(name: &str) -> String {
    let mut words = String::new();
    let mut last = ' ';
    for (index, letter) in name.char_indices() {
        let next = name[index + letter.len_utf8()..].chars().next().unwrap_or(' ');
        let is_new = (letter.is_ascii_uppercase()
            && (last.is_ascii_lowercase() || (last.is_ascii_uppercase() && next.is_ascii_lowercase())))
            || (letter.is_ascii_digit() != last.is_ascii_digit());
        if is_new || letter == '_' {
            words.push(' ');
        }
        if letter != '_' {
            words.push(letter);
        }
        last = letter;
    }
    words.trim().to_owned()
}
