//! `tokenizer.json`: texts to the tokens of a language model.
//!
//! A text never becomes a control token. The tokenizer knows only the tokens of its vocabulary, not those that were
//! added to it, so `<|eot_id|>` in a text is eleven characters like any others.

use std::collections::{HashMap, HashSet};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

use serde::Deserialize;
use tokenizers::models::bpe::BPE;
use tokenizers::{Encoding, Model, NormalizerWrapper, PostProcessorWrapper, PreTokenizerWrapper};

use crate::llama::Source;
use crate::{Error, Result};

/// The largest `tokenizer.json`; that of Llama 3 has 17 MB.
const MAX_FILE: u64 = 128 << 20;
const FILE: &str = "tokenizer.json";
const FOREIGN: &str = "tokenizer.json must be the one that the model was trained with, a BPE";

/// The parts of the file that are used: cutting and padding would change a text, and a random dropout its tokens.
#[derive(Deserialize)]
struct File {
    #[serde(default)]
    added_tokens: Vec<Added>,
    normalizer: Option<NormalizerWrapper>,
    pre_tokenizer: Option<PreTokenizerWrapper>,
    post_processor: Option<PostProcessorWrapper>,
    model: BPE,
}

#[derive(Deserialize)]
struct Added {
    id: u32,
    content: String,
}

/// Turns texts into tokens.
#[derive(Debug)]
pub struct Tokenizer {
    inner: tokenizers::Tokenizer,
    /// Tokens that were added to the vocabulary, most of them to steer the model.
    added: HashMap<String, u32>,
    added_ids: HashSet<u32>,
    /// What stands for characters that the vocabulary lacks.
    unknown: Option<u32>,
}

impl Tokenizer {
    /// Opens the `tokenizer.json` of a folder, or that of `builtin:voice`.
    ///
    /// # Errors
    /// `Io` when it cannot be read, otherwise those of [`Tokenizer::from_json`].
    pub fn open(folder: &Path) -> Result<Self> {
        let source = Source::find(folder)?;
        if !source.has(FILE) {
            let message = format!("{}: no {FILE} in this folder", folder.display());
            return Err(Error::invalid(message).with_hint("copy it from where the model was published or trained"));
        }
        Self::from_json(&source.text(FILE, MAX_FILE)?).map_err(|error| error.at(folder.join(FILE).display()))
    }

    /// Reads a `tokenizer.json`.
    ///
    /// # Errors
    /// `Corrupt` when it is malformed or of another kind than BPE.
    pub fn from_json(text: &str) -> Result<Self> {
        let read = || {
            let file: File = serde_json::from_str(text)
                .map_err(|error| Error::corrupt(format!("not a tokenizer: {error}")).with_source(error))?;
            let File { added_tokens, normalizer, pre_tokenizer, post_processor, mut model } = file;
            model.dropout = None;
            let unknown = model.unk_token.as_ref().and_then(|token| model.token_to_id(token));
            let mut inner = tokenizers::Tokenizer::new(model);
            inner.with_normalizer(normalizer).map_err(|error| Error::corrupt(format!("its normalizer: {error}")))?;
            inner.with_pre_tokenizer(pre_tokenizer).with_post_processor(post_processor);
            let added_ids = added_tokens.iter().map(|token| token.id).collect();
            let added = added_tokens.into_iter().map(|token| (token.content, token.id)).collect();
            Ok(Self { inner, added, added_ids, unknown })
        };
        guarded(read).map_err(|error: Error| error.with_hint(FOREIGN))
    }

    /// Returns the id of a token that was added to the vocabulary.
    pub(super) fn added(&self, token: &str) -> Option<u32> {
        self.added.get(token).copied()
    }

    /// Returns the number of tokens of the vocabulary, without those that were added.
    pub(super) fn n_tokens(&self) -> usize {
        self.inner.get_vocab_size(false)
    }

    /// Returns the tokens of `text`, with those that the tokenizer puts around every text.
    ///
    /// # Errors
    /// `InvalidArgument` when the vocabulary has no tokens for a character, or a control token would come out.
    pub fn encode(&self, text: &str) -> Result<Vec<u32>> {
        let encode = || self.inner.encode(text, true).map_err(|error| Error::invalid(format!("tokenizer: {error}")));
        let encoding = guarded(encode)?;
        self.check(text, &encoding)?;
        Ok(encoding.get_ids().to_vec())
    }

    /// Refuses an encoding that has lost letters of `text`, or has control tokens for them.
    fn check(&self, text: &str, encoding: &Encoding) -> Result<()> {
        let mut is_covered = vec![false; text.len()];
        let masks = encoding.get_special_tokens_mask();
        for ((&id, &(start, end)), &mask) in encoding.get_ids().iter().zip(encoding.get_offsets()).zip(masks) {
            if mask != 0 {
                continue;
            }
            let found = text.get(start..end).unwrap_or_default();
            if Some(id) == self.unknown {
                return Err(lost(found));
            }
            if self.added_ids.contains(&id) {
                let message = format!("`{found:.64}` would become a control token of the model");
                return Err(Error::invalid(message).with_hint("write it in another way"));
            }
            is_covered.get_mut(start..end).unwrap_or_default().fill(true);
        }
        let is_lost = |(at, letter): &(usize, char)| letter.is_alphanumeric() && !is_covered[*at];
        match text.char_indices().find(is_lost) {
            // Places after a lost letter may be off by its length, so only its word is known.
            Some((at, _)) => {
                let begun = text[..at].rsplit(char::is_whitespace).next().unwrap_or_default();
                Err(lost(text[at - begun.len()..].split_whitespace().next().unwrap_or_default()))
            }
            None => Ok(()),
        }
    }
}

fn lost(letters: &str) -> Error {
    Error::invalid(format!("the tokenizer has no tokens for a letter or digit of `{letters:.64}`"))
        .with_hint("normalise the text, so that numbers are read in words, or leave it out: the model cannot speak it")
}

/// Runs code of the tokenizer. A malformed file can make it panic, which becomes an error.
fn guarded<T>(run: impl FnOnce() -> Result<T>) -> Result<T> {
    catch_unwind(AssertUnwindSafe(run)).unwrap_or_else(|_| Err(Error::corrupt("the tokenizer is malformed")))
}
