//! The words that a text is read as: letters and the marks `. , ? ! ; :`, with single spaces.

/// Words in the order in which they are read.
#[derive(Debug, Default)]
pub(super) struct Phrase {
    text: String,
    /// Where the last word begins, or its part after a hyphen.
    last: usize,
    /// Where the word or part before it begins.
    earlier: usize,
    /// Whether the next word may follow a hyphen: it stands between two letters.
    is_joined: bool,
    /// Whether the last words were a single one, which may be joined.
    is_single: bool,
}

impl Phrase {
    /// Adds a word of the text as it stands, after a hyphen if one came before it.
    pub(super) fn word(&mut self, word: &str) {
        let is_joined = std::mem::take(&mut self.is_joined) && self.is_single && !self.is_paused();
        self.push(word, if is_joined { '-' } else { ' ' });
        self.is_single = true;
    }

    /// Adds words that stand for something else; a word may end with a mark.
    pub(super) fn say(&mut self, words: &str) {
        self.is_joined = false;
        let mut n = 0;
        for word in words.split(' ').filter(|word| !word.is_empty()) {
            let bare = word.trim_end_matches([',', '.']);
            self.push(bare, ' ');
            if let Some(mark) = word[bare.len()..].chars().next() {
                self.mark(mark);
            }
            n += 1;
        }
        self.is_single = n == 1;
    }

    fn push(&mut self, word: &str, before: char) {
        if !self.text.is_empty() {
            self.text.push(before);
        }
        self.earlier = std::mem::replace(&mut self.last, self.text.len());
        self.text.push_str(word);
    }

    /// Adds a mark after the last word. One that ends a sentence wins over a pause.
    pub(super) fn mark(&mut self, mark: char) {
        self.is_joined = false;
        match self.text.chars().next_back() {
            None => {}
            Some(',' | ';' | ':') if ".!?".contains(mark) => {
                self.text.pop();
                self.text.push(mark);
            }
            Some('.' | '!' | '?' | ',' | ';' | ':') => {}
            Some(_) => self.text.push(mark),
        }
    }

    /// Notes a hyphen between two letters.
    pub(super) fn hyphen(&mut self) {
        self.is_joined = true;
    }

    /// Adds letters to the last word.
    pub(super) fn append(&mut self, letters: &str) {
        self.text.push_str(letters);
    }

    /// Makes the last word one that owns something, and returns whether there is one. After an `s` nothing is said.
    pub(super) fn own(&mut self) -> bool {
        if !self.text.is_empty() && !self.text.ends_with('s') {
            self.append("'s");
        }
        !self.text.is_empty()
    }

    /// Returns the last word, without its mark.
    pub(super) fn last_word(&self) -> &str {
        self.text[self.last..].trim_end_matches(['.', '!', '?', ',', ';', ':'])
    }

    /// Returns the last word if the next one follows without a pause.
    pub(super) fn near_word(&self) -> &str {
        if self.is_paused() { "" } else { self.last_word() }
    }

    /// Returns the word before the last one; nothing if the last one begins a sentence.
    pub(super) fn earlier_word(&self) -> &str {
        let earlier = self.text[self.earlier..self.last].trim_end();
        if earlier.ends_with(['.', '!', '?', ';', ':']) { "" } else { earlier }
    }

    /// Returns whether a mark follows the last word.
    pub(super) fn is_paused(&self) -> bool {
        self.text.ends_with(['.', '!', '?', ',', ';', ':'])
    }

    /// Returns all words.
    pub(super) fn finish(mut self) -> String {
        while self.text.ends_with([',', ';', ':']) {
            self.text.pop();
        }
        self.text
    }
}
