"""Shows the rows of a .jsonl corpus as trainers of transformers take them: python lines.py TRAIN.jsonl MODEL_FOLDER

The corpus is one of `melisma encode --format orpheus`, and the folder has the tokenizer of the language model."""

import json
import sys

from transformers import AutoTokenizer

# Around the text, as in the format of Orpheus.
BEFORE, AFTER, END = [128259], [128009, 128260, 128261, 128257], [128258]


def load(path):
    """Returns the rows, by `datasets` where it is installed."""
    try:
        from datasets import load_dataset
    except ImportError:
        with open(path, encoding="utf-8") as file:
            return [json.loads(line) for line in file]
    return load_dataset("json", data_files=path, split="train")


def example(row, tokenizer):
    """Returns the tokens of a row. Only those of the speech are learned."""
    prompt = BEFORE + tokenizer(row["text"])["input_ids"] + AFTER
    speech = list(row["codes_list"]) + END
    return {
        "input_ids": prompt + speech,
        "attention_mask": [1] * (len(prompt) + len(speech)),
        "labels": [-100] * len(prompt) + speech,
    }


path, folder = sys.argv[1:]
tokenizer = AutoTokenizer.from_pretrained(folder)
examples = [example(row, tokenizer) for row in load(path) if row.get("text")]
print(f"{len(examples)} rows, {sum(len(one['input_ids']) for one in examples)} tokens, the first of {examples[0]['input_ids'][:3]}")
