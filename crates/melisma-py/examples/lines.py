"""Trains a language model on a .jsonl corpus: python lines.py TRAIN.jsonl MODEL_FOLDER [LEARNING_RATE]

The corpus is one of `melisma encode --format orpheus`. The folder has a model of transformers with its tokenizer; its
`speak.yaml`, if it has one, names the tokens around a text where they are not those of Orpheus."""

import json
import os
import sys

import torch
import yaml
from transformers import AutoModelForCausalLM, AutoTokenizer

# As in the format of Orpheus, whose ids the lines have.
ORPHEUS = {"before": [128259], "after": [128009, 128260, 128261, 128257], "speech": 128266, "end": 128258}


def load(path):
    """Returns the rows, by `datasets` where it is installed."""
    try:
        from datasets import load_dataset
    except ImportError:
        with open(path, encoding="utf-8") as file:
            return [json.loads(line) for line in file]
    return load_dataset("json", data_files=path, split="train")


def tokens_of(folder):
    path = os.path.join(folder, "speak.yaml")
    if not os.path.exists(path):
        return ORPHEUS
    with open(path, encoding="utf-8") as file:
        return ORPHEUS | yaml.safe_load(file)


def example(row, tokenizer, tokens):
    """Returns the ids of a row and what is learned of them: only the speech."""
    prompt = [*tokens["before"], *tokenizer(row["text"])["input_ids"], *tokens["after"]]
    speech = [id - ORPHEUS["speech"] + tokens["speech"] for id in row["codes_list"]] + [tokens["end"]]
    return torch.tensor(prompt + speech), torch.tensor([-100] * len(prompt) + speech)


def collate(examples):
    """Returns the ids, the labels and which of them are there, padded at the end."""
    ids, labels = zip(*examples)
    pad = lambda rows, value: torch.nn.utils.rnn.pad_sequence(rows, batch_first=True, padding_value=value)
    mask = pad([torch.ones_like(row) for row in ids], 0)
    return {"input_ids": pad(ids, 0), "labels": pad(labels, -100), "attention_mask": mask}


def main():
    path, folder = sys.argv[1:3]
    tokens, tokenizer = tokens_of(folder), AutoTokenizer.from_pretrained(folder)
    examples = [example(row, tokenizer, tokens) for row in load(path) if row.get("text")]
    print(f"{len(examples)} rows, {sum(len(ids) for ids, _ in examples)} tokens")
    device = "cuda" if torch.cuda.is_available() else "cpu"
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).to(device).train()
    optimizer = torch.optim.AdamW(model.parameters(), float(sys.argv[3]) if len(sys.argv) > 3 else 1e-5)
    losses = []
    for _ in range(3):
        for batch in torch.utils.data.DataLoader(examples, 4, shuffle=True, collate_fn=collate):
            loss = model(**{name: value.to(device) for name, value in batch.items()}).loss
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
    print(f"loss {losses[0]:.3f} to {losses[-1]:.3f}")


main()
