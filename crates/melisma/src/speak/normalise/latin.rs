//! Latin letters with accents, and single Greek letters, in plain English letters.

/// The base letters from U+00C0 to U+017F and from U+1E00 to U+1EFF; a dot where there is none.
const SUPPLEMENT: &[u8] = b"AAAAAA.CEEEEIIII.NOOOOO..UUUUY..aaaaaa.ceeeeiiii.nooooo..uuuuy.y\
    AaAaAaCcCcCcCcDd..EeEeEeEeEeGgGgGgGgHh..IiIiIiIiI...JjKk.LlLlLl....NnNnNn...OoOoOo..RrRrRrSsSsSsSsTtTt..\
    UuUuUuUuUuUuWwYyYZzZzZz.";
const ADDITIONAL: &[u8] =
    b"AaBbBbBbCcDdDdDdDdDdEeEeEeEeEeFfGgHhHhHhHhHhIiIiKkKkKkLlLlLlLlMmMmMmNnNnNnNnOoOoOoOoPpPpRrRrRrRr\
    SsSsSsSsSsTtTtTtTtUuUuUuUuUuVvVvWwWwWwWwWwXxXxYyZzZzZzhtwy......AaAaAaAaAaAaAaAaAaAaAaAaEeEeEeEeEeEeEeEeIiIi\
    OoOoOoOoOoOoOoOoOoOoOoOoUuUuUuUuUuUuUuYyYyYyYy......";
/// Letters that are two, or that have no accent to leave out.
const SPECIAL: &[(char, &str)] = &[
    ('Æ', "Ae"),
    ('æ', "ae"),
    ('Œ', "Oe"),
    ('œ', "oe"),
    ('Ø', "O"),
    ('ø', "o"),
    ('ß', "ss"),
    ('ẞ', "Ss"),
    ('Þ', "Th"),
    ('þ', "th"),
    ('Ð', "D"),
    ('ð', "d"),
    ('Đ', "D"),
    ('đ', "d"),
    ('Ħ', "H"),
    ('ħ', "h"),
    ('ı', "i"),
    ('Ĳ', "Ij"),
    ('ĳ', "ij"),
    ('ĸ', "k"),
    ('Ŀ', "L"),
    ('ŀ', "l"),
    ('Ł', "L"),
    ('ł', "l"),
    ('ŉ', "n"),
    ('Ŋ', "Ng"),
    ('ŋ', "ng"),
    ('Ŧ', "T"),
    ('ŧ', "t"),
    ('ſ', "s"),
    ('Ơ', "O"),
    ('ơ', "o"),
    ('Ư', "U"),
    ('ư', "u"),
    ('Ș', "S"),
    ('ș', "s"),
    ('Ț', "T"),
    ('ț', "t"),
    ('Ǎ', "A"),
    ('ǎ', "a"),
    ('ǐ', "i"),
    ('ǒ', "o"),
    ('ǔ', "u"),
    ('ﬁ', "fi"),
    ('ﬂ', "fl"),
    ('ﬀ', "ff"),
    ('ﬃ', "ffi"),
    ('ﬄ', "ffl"),
    ('ª', "a"),
    ('º', "o"),
];
const GREEK: [&str; 25] = [
    "alpha", "beta", "gamma", "delta", "epsilon", "zeta", "eta", "theta", "iota", "kappa", "lambda", "mu", "nu", "xi",
    "omicron", "pi", "rho", "sigma", "sigma", "tau", "upsilon", "phi", "chi", "psi", "omega",
];

/// Returns the plain letters of a Latin letter.
pub(super) fn plain(letter: char) -> Option<&'static str> {
    if let Some((_, plain)) = SPECIAL.iter().find(|(special, _)| *special == letter) {
        return Some(plain);
    }
    let code = letter as usize;
    let (table, index) = match code {
        0xc0..=0x17f => (SUPPLEMENT, code - 0xc0),
        0x1e00..=0x1eff => (ADDITIONAL, code - 0x1e00),
        _ => return None,
    };
    let letter = table.get(index..=index).and_then(|letter| std::str::from_utf8(letter).ok());
    letter.filter(|letter| *letter != ".")
}

/// Returns the name of a Greek letter.
pub(super) fn greek(letter: char) -> Option<&'static str> {
    let index = match letter {
        'α'..='ω' => letter as usize - 'α' as usize,
        'Α'..='Ω' => letter as usize - 'Α' as usize,
        _ => return None,
    };
    GREEK.get(index).copied()
}
