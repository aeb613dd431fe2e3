//! A tokenizer of single bytes and of groups of letters, each text begun by a token of its own.

use std::ops::Range;

use serde_json::{Map, Value, json};

use super::{BEGIN, END, SPEECH};

/// Returns a `tokenizer.json` whose tokens `words` are pairs of printing characters, and triples
/// after those.
pub(super) fn json(words: Range<usize>) -> Value {
    let mut vocab = Map::new();
    let mut spare = 256;
    for byte in 0..=255_u8 {
        // Bytes that print stand for themselves, the others for the letters after those, as in
        // GPT-2.
        let prints = matches!(byte, b'!'..=b'~' | 0xa1..=0xac | 0xae..=0xff);
        let letter = if prints { u32::from(byte) } else { spare };
        spare += u32::from(!prints);
        vocab.insert(char::from_u32(letter).unwrap_or_default().to_string(), byte.into());
    }
    let mut merges = Vec::new();
    for (id, [head, tail]) in words.zip(pairs()) {
        vocab.insert(format!("{head}{tail}"), id.into());
        merges.push(json!([head, tail]));
    }
    let begin = "<|begin_of_text|>";
    let added = |id: u32, content: String| {
        json!({"id": id, "content": content, "single_word": false, "lstrip": false, "rstrip": false,
            "normalized": false, "special": true})
    };
    let mut added_tokens = vec![added(BEGIN, begin.to_owned()), added(BEGIN + 1, "<|eot_id|>".to_owned())];
    added_tokens.extend((END..SPEECH).map(|id| added(id, format!("<custom_token_{}>", id - END))));
    json!({
        "version": "1.0", "padding": null,
        "truncation": {"direction": "Right", "max_length": 4, "strategy": "LongestFirst", "stride": 0},
        "added_tokens": added_tokens, "normalizer": null,
        "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": true},
        "post_processor": {
            "type": "TemplateProcessing",
            "single": [{"SpecialToken": {"id": begin, "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
            "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 1}}],
            "special_tokens": {begin: {"id": begin, "ids": [BEGIN], "tokens": [begin]}},
        },
        "decoder": {"type": "ByteLevel", "add_prefix_space": true, "trim_offsets": true, "use_regex": true},
        "model": {"type": "BPE", "dropout": null, "unk_token": null, "continuing_subword_prefix": null,
            "end_of_word_suffix": null, "fuse_unk": false, "byte_fallback": false, "ignore_merges": false,
            "vocab": vocab, "merges": merges},
    })
}

/// Returns the parts of all pairs of printing characters, then those of all triples.
fn pairs() -> impl Iterator<Item = [String; 2]> {
    let letters = || (b'!'..=b'~').map(|byte| char::from(byte).to_string());
    let pairs = move || letters().flat_map(move |head| letters().map(move |tail| [head.clone(), tail]));
    pairs().chain(pairs().flat_map(move |[a, b]| letters().map(move |tail| [format!("{a}{b}"), tail])))
}
