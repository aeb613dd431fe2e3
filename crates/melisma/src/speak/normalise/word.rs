//! Words: plain ones, abbreviations, acronyms, numerals and mixtures.

use super::acronym::{self, Neighbour, spell};
use super::peek::{MAX_WORD, adjacent, after_dash, is_boundary, is_digit, letter, skip_space, word};
use super::reader::Reader;
use super::{abbreviation, address, date, number, roman};

/// Words whose letters follow rules of their own.
const SPECIAL: &[(&str, &str)] = &[
    ("iOS", "i o s"),
    ("macOS", "mac o s"),
    ("iPadOS", "i pad o s"),
    ("PhD", "p h d"),
    ("LaTeX", "latex"),
    ("WWI", "World War one"),
    ("WWII", "World War two"),
    ("OK", "okay"),
    ("ok", "okay"),
    ("DJs", "d j's"),
    ("TVs", "t v's"),
    ("BSc", "b s c"),
    ("MSc", "m s c"),
    ("pH", "p h"),
    ("GHz", "gigahertz"),
    ("kHz", "kilohertz"),
    ("MHz", "megahertz"),
    ("kWh", "kilowatt hours"),
    ("xkcd", "x k c d"),
    ("html", "h t m l"),
    ("http", "h t t p"),
    ("https", "h t t p s"),
    ("css", "c s s"),
    ("pdf", "p d f"),
    ("pm", "p m"),
    ("tv", "t v"),
    ("vs", "versus"),
    ("aka", "also known as"),
    ("asap", "as soon as possible"),
    ("fyi", "f y i"),
    ("url", "u r l"),
    ("cpu", "c p u"),
    ("gpu", "g p u"),
    ("usb", "u s b"),
    ("sql", "s q l"),
    ("mp", "m p"),
    ("kg", "kilograms"),
    ("km", "kilometers"),
    ("cm", "centimeters"),
    ("mph", "miles per hour"),
    ("btw", "by the way"),
    ("ft", "feet"),
    ("tsp", "teaspoon"),
    ("tbsp", "tablespoon"),
    ("pls", "please"),
    ("plz", "please"),
    ("thx", "thanks"),
    ("idk", "I don't know"),
    ("brb", "be right back"),
    ("imo", "in my opinion"),
    ("tbh", "to be honest"),
];
impl Reader<'_> {
    /// Reads the word that begins here.
    pub(super) fn word(&mut self) {
        let run = self.run();
        let end = self.at + run.len();
        let is_inner = self.behind().is_ascii_digit();
        let near = self.phrase.near_word().to_owned();
        if self.dotted() || (!is_inner && self.initial(&run, &near)) {
            return;
        }
        if let Some(expansion) = abbreviation::read(&run, self.chars, end, &near)
            && !is_inner
            && (is_boundary(self.chars, end))
        {
            self.take(expansion.words, expansion.end);
            if expansion.is_last {
                self.phrase.mark('.');
            }
            if let Some(next) = after_dash(self.chars, self.at)
                && abbreviation::is_day(&word(self.chars, next))
                && expansion.words.ends_with("day")
            {
                self.take("to", next);
            }
            return;
        }
        if let Some(month) = date::month(&run)
            && let Some((words, end)) =
                date::after_month(self.chars, end, month).or_else(|| date::bare(self.chars, end, (&run, month)))
        {
            self.take(&words, end);
            self.counted = Some(end);
            return;
        }
        // "v2" and "V2.1", but "V8" is an engine.
        let is_pointed = |at: usize| letter(self.chars, at) == '.' && is_digit(self.chars, at + 1);
        if !is_inner
            && is_digit(self.chars, end)
            && (run == "v" || (run == "V" && is_pointed(end + number::n_digits(self.chars, end))))
        {
            self.take("version", end);
            // What follows is a number of its own, not a part of a word.
            return self.version();
        }
        if self.slashed(&run, end) {
            return;
        }
        let (stem, tail) = run.strip_suffix("'s").map_or((&*run, ""), |stem| (stem, "'s"));
        if let Some((_, words)) = SPECIAL.iter().find(|(name, _)| *name == stem)
            && letter(self.chars, end) != '+'
        {
            self.take(&format!("{words}{tail}"), end);
            self.written = run;
            return;
        }
        if !is_digit(self.chars, end)
            && !is_inner
            && let Some(words) = self.numeral((stem, tail), end, &near)
        {
            return self.take(&words, end);
        }
        let is_capitals = run.bytes().all(|byte| byte.is_ascii_uppercase());
        let start = self.at.checked_sub(1).map(|at| self.chars[at]);
        self.at = end;
        let next = word(self.chars, skip_space(self.chars, end));
        let is_linked = letter(self.chars, end) == '&' || start.is_some_and(|sign| sign == '&');
        let is_numbered = letter(self.chars, end) == '-' && is_digit(self.chars, end + 1);
        let is_mixed = is_inner || is_digit(self.chars, end) || is_linked || is_numbered;
        let is_short = run.len() == 1 || (run.len() < 4 && is_capitals);
        if is_mixed && is_short {
            self.phrase.say(&spell(&run));
        } else {
            self.letters(&run, &next);
        }
        // Signs look at a short word again and again.
        self.written = run;
        self.written.truncate(MAX_WORD);
        self.suffix();
    }

    /// Returns the words for a numeral with or without "'s".
    fn numeral(&self, (stem, tail): (&str, &str), end: usize, near: &str) -> Option<String> {
        if stem.is_empty() || !stem.bytes().all(|byte| byte.is_ascii_uppercase()) {
            return None;
        }
        let after = if tail.is_empty() { adjacent(self.chars, end) } else { None };
        let earlier = self.phrase.earlier_word();
        let words = roman::read(stem, &roman::Context { before: near, earlier, after: after.as_deref() })?;
        Some(words + tail)
    }

    /// Returns the letters here, with apostrophes between them.
    fn run(&self) -> String {
        let mut run = String::new();
        let mut at = self.at;
        while letter(self.chars, at).is_ascii_alphabetic()
            || (letter(self.chars, at) == '\'' && !run.is_empty() && letter(self.chars, at + 1).is_ascii_alphabetic())
        {
            run.push(self.chars[at]);
            at += 1;
        }
        run
    }

    /// Reads what belongs to a word behind it: `file(s)`, `C++`, `C#`.
    fn suffix(&mut self) {
        let next = [self.here(), self.ahead(1), self.ahead(2)];
        match next {
            ['(', 's', ')'] => {
                self.phrase.append("s");
                self.at += 3;
            }
            ['+', '+', _] => self.take("plus plus", self.at + 2),
            ['#', after, _] if self.written.len() == 1 && !after.is_ascii_alphanumeric() => {
                self.take("sharp", self.at + 1)
            }
            _ => {}
        }
    }

    fn version(&mut self) {
        let (words, end) = match super::phone::version(self.chars, self.at) {
            Some(found) => found,
            None => match number::Number::read(self.chars, self.at) {
                Some((number, end)) => (number.words(), end),
                None => return,
            },
        };
        self.take(&words, end);
    }

    /// Reads `w/o`, `n/a` and `b/c`.
    fn slashed(&mut self, run: &str, end: usize) -> bool {
        if run.len() != 1 || letter(self.chars, end) != '/' {
            return false;
        }
        let second = word(self.chars, end + 1);
        let end = end + 1 + second.len();
        let words = match (&*run.to_ascii_lowercase(), &*second.to_ascii_lowercase()) {
            ("w", "o" | "out") => "without",
            ("w", "in") => "within",
            ("w", "") if letter(self.chars, end) == ' ' => "with",
            ("n", "a") => "not applicable",
            ("c", "o") => "care of",
            ("b", "c") if run == "b" && self.behind() != '/' => "because",
            _ => return false,
        };
        self.take(words, end);
        true
    }

    /// Says letters without digits: a plain word, an acronym, or several of them.
    fn letters(&mut self, run: &str, next: &str) {
        let is_capitals = run.bytes().filter(u8::is_ascii_alphabetic).all(|byte| byte.is_ascii_uppercase());
        if let (Some((stem, tail)), true) = (run.split_once('\''), is_capitals) {
            let stem = if stem == "I" { stem.to_owned() } else { stem.to_ascii_lowercase() };
            return self.phrase.word(&format!("{stem}'{}", tail.to_ascii_lowercase()));
        }
        let is_loud = |word: &str| word.len() > 1 && acronym::is_shouted(word);
        let neighbour = if is_loud(next) || is_loud(&self.written) { Neighbour::Shouted } else { Neighbour::Plain };
        let parts = parts(run);
        let words: Vec<String> = parts.iter().map(|part| said(part, neighbour)).collect();
        match &words[..] {
            [word] if !word.contains(' ') => self.phrase.word(word),
            words => self.phrase.say(&words.join(" ")),
        }
    }

    /// Says the words of a hashtag or handle.
    pub(super) fn tag(&mut self, name: &str) {
        for part in address::tag(name).split_whitespace() {
            match part.starts_with(|letter: char| letter.is_ascii_digit()) {
                true if part.len() <= 4 => self.phrase.say(&number::cardinal(part)),
                true => self.phrase.say(&number::digits(part)),
                false => {
                    let words: Vec<String> = parts(part).iter().map(|part| said(part, Neighbour::Plain)).collect();
                    self.phrase.say(&words.join(" "));
                }
            }
        }
    }
}

/// Returns the parts of a word, each with two capitals or more, or fewer: `OpenAI` is `Open` and `AI`.
fn parts(run: &str) -> Vec<&str> {
    let bytes = run.as_bytes();
    let (mut parts, mut start, mut at) = (Vec::new(), 0, 0);
    while at < bytes.len() {
        let n = bytes[at..].iter().take_while(|byte| byte.is_ascii_uppercase()).count();
        if n < 2 {
            at += n.max(1);
            continue;
        }
        let rest = &run[at + n..];
        let is_plural = ["s", "'s"].contains(&rest);
        let end = match rest.bytes().next() {
            None => at + n,
            Some(_) if is_plural => run.len(),
            // "IPv6", "PCIe".
            Some(_) if rest.len() == 1 => at + n,
            Some(b'\'') => at + n,
            Some(_) => at + n - 1,
        };
        if at > start {
            parts.push(&run[start..at]);
        }
        parts.push(&run[at..end]);
        (start, at) = (end, end);
    }
    if start < run.len() {
        parts.push(&run[start..]);
    }
    parts
}

/// Returns the words for a part of [`parts`].
fn said(part: &str, neighbour: Neighbour) -> String {
    let n = part.bytes().take_while(u8::is_ascii_uppercase).count();
    match n {
        0 | 1 if part.len() == 1 || n != part.len() => part.to_owned(),
        n => {
            let words = acronym::read(&part[..n], neighbour);
            match &part[n..] {
                "" => words,
                _ if words.contains(' ') || part.ends_with("'s") => format!("{words}'s"),
                tail => format!("{words}{tail}"),
            }
        }
    }
}
