//! The text that ends the speech, for upstreams that send it and go on.

/// Looks for the stop in texts, however it is split among them.
#[derive(Debug)]
pub(super) struct Stop {
    text: String,
    /// The end of what came, where the stop may begin.
    held: String,
}

impl Stop {
    /// Looks for `text`; an empty one never comes.
    pub(super) fn new(text: &str) -> Self {
        Self { text: text.to_owned(), held: String::new() }
    }

    /// Takes a text. Returns what is certainly before the stop, and whether the stop was there.
    pub(super) fn push(&mut self, text: &str) -> (String, bool) {
        let Self { text: stop, held } = self;
        held.push_str(text);
        if stop.is_empty() {
            return (std::mem::take(held), false);
        }
        if let Some(at) = held.find(&**stop) {
            held.truncate(at);
            return (std::mem::take(held), true);
        }
        let begun = |n: &usize| stop.get(..*n).is_some_and(|begin| held.ends_with(begin));
        let n_begun = (1..stop.len()).rev().find(begun).unwrap_or(0);
        let rest = held.split_off(held.len() - n_begun);
        (std::mem::replace(held, rest), false)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stop_is_found_however_it_is_split() {
        let whole = "<custom_token_20><custom_token_2><custom_token_30>";
        for n in 1..=whole.len() {
            let (mut stop, mut before) = (Stop::new("<custom_token_2>"), String::new());
            let is_found = whole.as_bytes().chunks(n).any(|piece| {
                let (text, is_found) = stop.push(std::str::from_utf8(piece).unwrap());
                before += &text;
                is_found
            });
            assert!(is_found && before == "<custom_token_20>", "pieces of {n}: {before}");
        }
    }

    #[test]
    fn what_only_looks_like_a_stop_is_passed_on() {
        let mut stop = Stop::new("aab");
        assert_eq!(["a", "a", "a", "c"].map(|text| stop.push(text).0), ["", "", "a", "aac"]);
        assert_eq!(Stop::new("").push("aab"), ("aab".to_owned(), false));
        assert_eq!(Stop::new("é!").push("né"), ("n".to_owned(), false));
    }
}
