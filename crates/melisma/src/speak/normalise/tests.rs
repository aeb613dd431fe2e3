use proptest::prelude::*;
use proptest::test_runner::RngSeed;

use super::*;

/// Lines of a text, a tab, and its words; `\\n` is the end of a line of the text.
const CASES: &str = include_str!("cases.txt");

fn cases() -> Vec<(String, &'static str)> {
    let lines = CASES.lines().filter(|line| !line.is_empty() && !line.starts_with("## "));
    lines
        .map(|line| line.split_once('\t').expect(line))
        .map(|(text, words)| (text.replace("\\n", "\n"), words))
        .collect()
}

/// Returns what is wrong with the words of a text, whatever it is.
fn fault(text: &str) -> Option<String> {
    let found = normalise(text);
    let words = &found.text;
    let is_plain = |letter: char| letter.is_ascii_alphabetic() || " .,?!'-;:".contains(letter);
    if !words.chars().all(is_plain) || words.contains("  ") || words.trim() != words {
        return Some(format!("{text:?}: {words:?}"));
    }
    if words.len() > 64 * (text.len() + 1) {
        return Some(format!("{} bytes become {}", text.len(), words.len()));
    }
    let again = normalise(words);
    (again != Normalised { text: words.clone(), notes: Vec::new() })
        .then(|| format!("{text:?}: {words:?}, then {again:?}"))
}

#[test]
fn every_case_is_read_as_it_is_written_in_the_table() {
    let cases = cases();
    assert!(cases.len() >= 1000, "{}", cases.len());
    let is_wrong = |(text, words): &&(String, &str)| normalise(text).text != *words;
    let wrong: Vec<_> = cases.iter().filter(is_wrong).map(|case| (case, normalise(&case.0).text)).collect();
    assert!(wrong.is_empty(), "{wrong:#?}");
    let is_unfinished = |(text, words): &&(String, &str)| read_once(text) != *words;
    assert_eq!(cases.iter().find(is_unfinished), None, "the first pass over a case is enough");
    assert_eq!(cases.iter().find_map(|(text, _)| fault(text)), None);
}

#[test]
fn what_nobody_can_read_is_noted() {
    let notes = |text: &str| normalise(text).notes.iter().map(ToString::to_string).collect::<Vec<_>>();
    assert_eq!(notes("Hello, it is 5 p.m., I'm at cafe No. 5: see www.example.com (e.g. today)!"), [""; 0]);
    let left_out = "left out, because it has no reading in English: ";
    let many = "\u{65e5}\u{672c}, \u{1f600} <laugh> \u{1f389} \u{1f600} \u{43f}\u{440} and this";
    assert_eq!(
        notes(many),
        [format!("{left_out}`\u{65e5}\u{672c}`, `\u{1f600}`, `\u{1f389}`, `\u{43f}\u{440}` (6 times in all)")]
    );
    assert_eq!(notes("x7Qz9kL2 \u{1f600}"), [&*format!("{left_out}`\u{1f600}`"), "read letter by letter: `x7Qz9kL2`"]);
    assert_eq!(notes(&"7".repeat(10_000)), ["read letter by letter: `777777777777777777777777...`"]);
    assert_eq!(normalise(&"7".repeat(10_000)).text.split(' ').count(), 10_000);
    assert_eq!(normalise("\u{65e5}\u{672c}"), Normalised { text: String::new(), notes: notes_of("\u{65e5}\u{672c}") });
    assert_eq!(normalise(" \n\t "), Normalised { text: String::new(), notes: Vec::new() });
}

#[test]
fn a_sign_without_a_word_is_noted() {
    let signs = [
        "$$$",
        "\u{a3}\u{a3}",
        "\\",
        "^^",
        "%%",
        "\u{a9}",
        "\u{ae}",
        "\u{2122}",
        "\u{2020}",
        "\u{2021}",
        "<<",
        "~",
        "##",
    ];
    for sign in signs {
        let text = format!("One {sign} and");
        assert_eq!(normalise(&text), Normalised { text: "One and".to_owned(), notes: notes_of(sign) }, "{sign}");
    }
    for mark in ["(", "]", "\"", "--", "*", "**", "~~", "====", "`", "\u{2022}", "...", "|"] {
        assert_eq!(normalise(&format!("One {mark} and")).notes, [], "{mark}");
    }
}

#[test]
fn shouted_words_are_sorted() {
    assert!(acronym::SHOUTED.is_sorted());
}

fn notes_of(text: &str) -> Vec<Note> {
    let mut passages = Passages::default();
    passages.add(text.chars());
    assert_eq!((passages.len(), passages.is_empty()), (1, false));
    vec![Note::LeftOut(passages)]
}

/// The spelling of numbers against their value, by counting up.
#[test]
fn numbers_count_up() {
    let value = |words: &str| {
        let (mut whole, mut group) = (0_u64, 0_u64);
        for word in words.split([' ', '-']) {
            match word {
                "hundred" => group *= 100,
                "thousand" => (whole, group) = (whole + group * 1000, 0),
                "million" => (whole, group) = (whole + group * 1_000_000, 0),
                word => {
                    let below = (0..20).chain((20..100).step_by(10)).find(|n| number::small(*n) == word);
                    group += u64::from(below.expect(word));
                }
            }
        }
        whole + group
    };
    let mut number = 0;
    while number < 999_999_999 {
        assert_eq!(value(&number::cardinal(&number.to_string())), number);
        number = number + 1 + number / 37;
    }
    let ordinals =
        [(0, "zeroth"), (12, "twelfth"), (20, "twentieth"), (101, "one hundred first"), (1000, "one thousandth")];
    for (number, expected) in ordinals {
        assert_eq!(number::ordinal(&number.to_string()), expected);
    }
}

#[test]
fn hostile_texts_have_words_too() {
    // Each was made to be looked at again from every place, or to become far longer.
    let parts = [
        "1", "1-", "1.", "1/", "1:", ",111", "$1", "a.", "a-", "a'", "a@", "aB", "a1", "A", "M", "(", "[", "[](", "<a",
        "<", ">", "http://", "@a_", "#", "-", "^2", "&amp;", "((a.", "+1", "111 ", "\u{65e5}", "e\u{301}", "\n", " ",
        "- ", "1x", "St. ", "_a", ".a", "\u{bd}", "1\u{a0}", "'", "Dr. ", "1 1/2 ", "May 1 ", "A-", "I-", "Max. ",
        "1h", "Sat-", "(a)", "1-1=",
    ];
    for part in parts {
        let text = part.repeat(3000 / part.len());
        assert_eq!(fault(&text), None, "{part}");
    }
}

const MEBI: usize = 1 << 20;

/// Returns the words of the first pass.
fn read_once(text: &str) -> String {
    Reader::new(&fold(text).chars).read().text
}

/// One pass over a text that is so long that a rule which looks at all of it from every place would take minutes.
fn read_long(part: &str, (len, tail): (usize, &str)) -> usize {
    read_once(&(part.repeat(len / part.len()) + tail)).len()
}

#[test]
fn an_earlier_word_is_only_a_part_of_a_hyphenated_one() {
    let mut phrase = phrase::Phrase::default();
    for _ in 0..1000 {
        phrase.word("A");
        phrase.hyphen();
    }
    // What is looked at for each capital letter does not grow with the text.
    assert_eq!((phrase.earlier_word(), phrase.last_word()), ("A-", "A"));
}

#[test]
fn long_runs_of_signs_are_read_in_a_time_that_grows_with_their_length() {
    assert!(["'", "$", "(", "@", "-", "^", "_"].iter().all(|part| read_long(part, (MEBI, "")) == 0));
    for part in ["[](", "www.", "A. ", "$ ", "Mon-", "&amp;"] {
        assert!(read_long(part, (MEBI, "a")) > 0, "{part}");
    }
    assert!(read_long("a.", (MEBI, "bb")) > 0);
    assert!(["A-", "I-"].iter().all(|part| read_long(part, (MEBI / 8, "")) > 0));
}

#[test]
fn long_runs_of_numbers_are_read_in_a_time_that_grows_with_their_length() {
    for part in ["1", "1-", "1,", "1/", "1 - ", "I ", "James I "] {
        assert!(read_long(part, (MEBI / 2, "")) > 0, "{part}");
    }
    // A sign after a long word looks back at it.
    let word = "a".repeat(1 << 19);
    let signs = "/ ".repeat(MEBI / 4);
    assert_eq!(read_long(&word, (word.len(), &signs)), word.len());
}

/// Words of the cases and single signs.
fn pieces() -> Vec<String> {
    let signs = "0123456789abzABIVX.,;:!?'\"-\u{2013}\u{2014}/\\()[]{}<>@#$\u{a3}%^&*+=~`_|\u{b0}\u{bd}\u{b2}\u{e9}\u{65e5}\u{1f600} \n";
    let texts: Vec<String> = cases().into_iter().map(|(text, _)| text).collect();
    let words = texts.iter().flat_map(|text| text.split(' ').map(str::to_owned));
    words.chain(signs.chars().map(String::from)).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { rng_seed: RngSeed::Fixed(1), ..ProptestConfig::with_cases(300) })]

    #[test]
    fn any_mixture_has_words_that_read_as_themselves(
        words in prop::collection::vec((prop::sample::select(pieces()), prop::sample::select(vec!["", " ", " "])), 0..10),
    ) {
        let text: String = words.iter().map(|(word, space)| format!("{word}{space}")).collect();
        prop_assert_eq!(fault(&text), None);
    }

    #[test]
    fn any_text_has_words_that_read_as_themselves(text in "\\PC{0,60}") {
        prop_assert_eq!(fault(&text), None);
    }
}
