"""The text side of the voice: one token for each letter, and `tokenizer.json` for it.

Ids: 0 padding, 1 begins a text, 2 begins its speech, 3 ends it, 4 to 36 letters and marks, 64 + 4096 slot + code speech.
"""
import json

PAD, TEXT, SPEECH, END = range(4)
FIRST_LETTER, FIRST_CODE, N_CODES, N_SLOTS = 4, 64, 4096, 7
LETTERS = " abcdefghijklmnopqrstuvwxyz.,?!'-"
N_TOKENS = FIRST_CODE + N_SLOTS * N_CODES
# The codec's level of each slot.
SLOT_LEVELS = (0, 1, 2, 2, 1, 2, 2)


def replace(pattern, content):
    return {"type": "Replace", "pattern": {"Regex": pattern}, "content": content}


def tokenizer_json():
    """Returns a BPE of single letters that lowers case, and turns accents and other marks into those it has."""
    named = {PAD: "<pad>", TEXT: "<text>", SPEECH: "<speech>", END: "<end>"}
    flags = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
    normalizers = [
        {"type": "NFKD"},
        {"type": "StripAccents"},
        {"type": "Lowercase"},
        replace("[\u2018\u2019\u02bc`\u00b4]", "'"),
        replace("\\s*(--|[;:\u2013\u2014])\\s*", ", "),
        # Other marks go here, not in the model: it loses count of the letters after those that it does not know.
        replace("[^\\p{L}\\p{N}\\s.,?!'-]", ""),
        replace("\\s+", " "),
    ]
    return {
        "version": "1.0", "truncation": None, "padding": None,
        "added_tokens": [{"id": id, "content": content, **flags} for id, content in named.items()],
        "normalizer": {"type": "Sequence", "normalizers": normalizers},
        "pre_tokenizer": None, "post_processor": None, "decoder": {"type": "Fuse"},
        "model": {
            "type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": None,
            "end_of_word_suffix": None, "fuse_unk": False, "byte_fallback": False, "ignore_merges": False,
            "vocab": {letter: FIRST_LETTER + index for index, letter in enumerate(LETTERS)}, "merges": [],
        },
    }


class Letters:
    """The tokenizer as training uses it."""

    def __init__(self):
        from tokenizers import Tokenizer

        self.inner = Tokenizer.from_str(json.dumps(tokenizer_json()))

    def ids(self, text):
        return self.inner.encode(text).ids

    def plain(self, text):
        """Returns what is left of a text in the letters of the voice."""
        return "".join(LETTERS[id - FIRST_LETTER] for id in self.ids(text)).strip()
