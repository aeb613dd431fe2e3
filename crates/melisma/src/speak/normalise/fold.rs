//! A text to the few characters that the rules know: accents, typographic marks and markup are gone.

use super::latin;
use super::passage::Passages;

/// A text of ASCII and the signs `£€¥₹₩¢°µΩ`. A blank line ends a sentence.
pub(super) struct Folded {
    pub(super) chars: Vec<char>,
    pub(super) left_out: Passages,
}

const ENTITIES: &[(&str, &str)] = &[
    ("&amp;", "&"),
    ("&lt;", "<"),
    ("&gt;", ">"),
    ("&quot;", "\""),
    ("&apos;", "'"),
    ("&#39;", "'"),
    ("&nbsp;", " "),
    ("&ndash;", "-"),
    ("&mdash;", " -- "),
    ("&hellip;", "..."),
];

const RAISED: [char; 11] = ['⁰', '¹', '²', '³', '⁴', '⁵', '⁶', '⁷', '⁸', '⁹', '⁻'];

/// Signs that belong to the word in front, without a reading.
const UNSAID: [char; 6] = ['©', '®', '™', '℠', '†', '‡'];

pub(super) fn fold(text: &str) -> Folded {
    let mut folded = Folded { chars: Vec::with_capacity(text.len()), left_out: Passages::default() };
    for line in text.split(['\n', '\u{2028}', '\u{2029}']) {
        folded.line(line.trim());
        folded.chars.push('\n');
    }
    folded
}

/// Returns whether a line only separates others: `---`, `====`, fences and rows such as `|---|:--|`.
fn is_rule(line: &str) -> bool {
    let is_fence = line.starts_with("```") || line.starts_with("~~~");
    let marks = line.bytes().filter(|byte| !byte.is_ascii_whitespace());
    let is_drawn = line.bytes().all(|byte| b"-*_=~|:+ \t\r".contains(&byte));
    is_fence || (is_drawn && marks.take(3).count() == 3)
}

/// Takes the marks of headings, quotes and items off a line, and returns whether there were some.
fn strip_markup(mut line: &str) -> (bool, &str) {
    let mut is_block = false;
    loop {
        let bare = line.trim_start();
        let hashes = bare.len() - bare.trim_start_matches('#').len();
        let rest = match bare.chars().next() {
            Some('>') if !bare[1..].trim_start().starts_with(|next: char| next.is_ascii_digit() || next == '=') => {
                &bare[1..]
            }
            Some('#') if hashes <= 6 && bare[hashes..].starts_with(' ') => &bare[hashes..],
            Some(mark @ ('-' | '*' | '+' | '•' | '‣' | '▪' | '◦' | '·')) => {
                let rest = &bare[mark.len_utf8()..];
                let is_item = rest.starts_with([' ', '\t'])
                    && rest.trim_start().starts_with(|next: char| next.is_alphabetic() || "[*_`(\"'“‘#".contains(next));
                match mark.is_ascii() && !is_item || !rest.starts_with([' ', '\t']) {
                    true => return (is_block, bare),
                    false => rest,
                }
            }
            Some('[') if is_block && ["[ ]", "[x]", "[X]"].iter().any(|sign| bare.starts_with(sign)) => &bare[3..],
            _ => return (is_block, bare),
        };
        is_block = true;
        line = rest;
    }
}

impl Folded {
    fn line(&mut self, line: &str) {
        if line.is_empty() || is_rule(line) {
            return self.chars.push('\n');
        }
        let (is_block, mut content) = strip_markup(line);
        let digits = content.len() - content.trim_start_matches(|letter: char| letter.is_ascii_digit()).len();
        let (number, rest) = content.split_at(digits);
        let is_numbered = (1..=3).contains(&digits) && (rest.starts_with(". ") || rest.starts_with(") "));
        if is_block || is_numbered {
            self.chars.push('\n');
            self.chars.push('\n');
        }
        if is_numbered {
            self.chars.extend(number.chars());
            self.chars.push(',');
            content = &rest[1..];
        }
        self.content(content);
        if is_block || is_numbered {
            self.chars.push('\n');
        }
    }

    fn content(&mut self, content: &str) {
        let mut rest = content;
        // "10¹²" is one power.
        let mut is_raised = false;
        while let Some(letter) = rest.chars().next() {
            let len = if letter.is_ascii() {
                self.ascii(letter, rest)
            } else if let Some(digit) = RAISED.iter().position(|raised| *raised == letter) {
                if !std::mem::replace(&mut is_raised, true) {
                    self.chars.push('^');
                }
                self.chars.push(if digit == 10 { '-' } else { char::from(b'0' + digit as u8) });
                rest = &rest[letter.len_utf8()..];
                continue;
            } else if let Some(words) = sign(letter).or_else(|| latin::plain(letter)) {
                self.chars.extend(words.chars());
                letter.len_utf8()
            } else {
                self.foreign(letter, rest)
            };
            rest = &rest[len..];
            is_raised = false;
        }
    }

    fn ascii(&mut self, letter: char, rest: &str) -> usize {
        if letter == '&'
            && let Some((name, plain)) = ENTITIES.iter().find(|(name, _)| rest.starts_with(name))
        {
            self.chars.extend(plain.chars());
            return name.len();
        }
        self.chars.push(if letter.is_ascii_control() { ' ' } else { letter });
        1
    }

    /// Takes a character that no table has.
    fn foreign(&mut self, letter: char, rest: &str) -> usize {
        let code = letter as u32;
        if letter.is_whitespace() || is_silent(letter) {
            if letter.is_whitespace() {
                self.chars.push(' ');
            }
            return letter.len_utf8();
        }
        if UNSAID.contains(&letter) {
            self.left_out.add([letter].into_iter());
            return letter.len_utf8();
        }
        if let 0xff01..=0xff5e = code {
            self.chars.extend(char::from_u32(code - 0xfee0));
            return letter.len_utf8();
        }
        let is_foreign = |letter: char| {
            !letter.is_ascii()
                && !letter.is_whitespace()
                && !RAISED.contains(&letter)
                && sign(letter).is_none()
                && latin::plain(letter).is_none()
        };
        let len = rest.find(|letter| !is_foreign(letter)).unwrap_or(rest.len());
        self.chars.push(' ');
        match latin::greek(letter) {
            Some(name) if len == letter.len_utf8() => self.chars.extend(name.chars()),
            _ => self.left_out.add(rest[..len].chars()),
        }
        self.chars.push(' ');
        len
    }
}

/// Returns whether a character is never seen: joiners, variants, marks over letters.
fn is_silent(letter: char) -> bool {
    matches!(letter, '\u{ad}' | '\u{300}'..='\u{36f}' | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}'
        | '\u{2060}'..='\u{206f}' | '\u{fe00}'..='\u{fe0f}' | '\u{feff}' | '\u{80}'..='\u{9f}')
}

/// Returns what a typographic sign is in plain characters.
fn sign(letter: char) -> Option<&'static str> {
    Some(match letter {
        '‘' | '’' | '‚' | '‛' | '′' | 'ʼ' | '´' | '‹' | '›' => "'",
        '“' | '”' | '„' | '‟' | '″' | '«' | '»' | '「' | '」' | '『' | '』' => "\"",
        '‐' | '‑' | '–' | '−' | '‒' => "-",
        '—' | '―' => " -- ",
        '…' => "...",
        '。' | '．' => ". ",
        '！' => "! ",
        '？' => "? ",
        '¿' | '¡' | '✓' | '✔' => " ",
        '，' | '、' => ", ",
        '；' => "; ",
        '：' => ": ",
        '•' | '‣' | '▪' | '◦' | '·' => ", ",
        '×' => " times ",
        '÷' => " divided by ",
        '±' => " plus or minus ",
        '≤' => "<=",
        '≥' => ">=",
        '≠' => "!=",
        '≈' | '∼' => " ~",
        '→' | '➜' | '⇒' => " to ",
        '∞' => " infinity ",
        '√' => " the square root of ",
        '№' => "No. ",
        '½' => " 1/2",
        '¼' => " 1/4",
        '¾' => " 3/4",
        '⅓' => " 1/3",
        '⅔' => " 2/3",
        '⅕' => " 1/5",
        '⅖' => " 2/5",
        '⅗' => " 3/5",
        '⅘' => " 4/5",
        '⅙' => " 1/6",
        '⅚' => " 5/6",
        '⅛' => " 1/8",
        '⅜' => " 3/8",
        '⅝' => " 5/8",
        '⅞' => " 7/8",
        '⁄' => "/",
        '₀' => "0",
        '₁' => "1",
        '₂' => "2",
        '₃' => "3",
        '₄' => "4",
        '₅' => "5",
        '₆' => "6",
        '₇' => "7",
        '₈' => "8",
        '₉' => "9",
        '℃' => "°C",
        '℉' => "°F",
        'Ω' | '\u{2126}' => "Ω",
        'µ' | 'μ' => "µ",
        '£' => "£",
        '€' => "€",
        '¥' | '￥' => "¥",
        '₹' => "₹",
        '₩' => "₩",
        '¢' => "¢",
        '°' | '˚' => "°",
        '‰' => " per thousand ",
        '§' => " section ",
        _ => return None,
    })
}
