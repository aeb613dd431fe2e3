"""A voice of one's own: recordings to tokens, a tiny model trained on them, and its speech.

`python speak.py MELISMA FOLDER` writes everything into the folder. The recordings are chirps, one for each text, and
the model learns them by heart.
"""

import json
import pathlib
import subprocess
import sys
import wave

import numpy
import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import LlamaConfig, LlamaForCausalLM
from transformers.utils import logging

VOICE, CODEC = "chirp", "builtin:mini24"
TEXTS = ["Good morning.", "How are you today?", "The cat sat on the mat.", "It is 12 o'clock.", "See you tomorrow!"]
RATE, STEPS, N_SLOTS, N_CODES = 24_000, 200, 7, 4096
# The ids of `--format orpheus` begin here.
ORPHEUS_SPEECH = 128_266
STEERING = ["<before>", "<after>", "<end>"]


def record(folder):
    """Writes a recording for each text, and the text beside it."""
    folder.mkdir()
    for index, text in enumerate(TEXTS):
        time = numpy.arange(int(RATE * 0.8)) / RATE
        samples = 0.5 * numpy.sin(2 * numpy.pi * (200 + 90 * index + 700 * time) * time)
        with wave.open(str(folder / f"{index}.wav"), "wb") as file:
            file.setnchannels(1)
            file.setsampwidth(2)
            file.setframerate(RATE)
            file.writeframes((samples * 32767).astype("<i2").tobytes())
        (folder / f"{index}.txt").write_text(text)


def train_tokenizer(path):
    """Writes a byte-level BPE with its steering tokens behind the vocabulary; returns it."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=300, initial_alphabet=alphabet, show_progress=False)
    tokenizer.train_from_iterator([f"{VOICE}: {text}" for text in TEXTS], trainer)
    tokenizer.add_special_tokens(STEERING)
    tokenizer.save(str(path))
    return tokenizer


def train(sequences, n_tokens):
    """Returns a model that has learned the sequences."""
    torch.manual_seed(0)
    torch.use_deterministic_algorithms(True)
    config = LlamaConfig(
        vocab_size=n_tokens, hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=2,
        num_key_value_heads=1, max_position_embeddings=4096, tie_word_embeddings=True, bos_token_id=None,
        eos_token_id=sequences[0][-1], pad_token_id=None,
    )
    model = LlamaForCausalLM(config)
    print(f"{sum(parameter.numel() for parameter in model.parameters()) / 1e6:.2f} M parameters")
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-2)
    width = max(map(len, sequences))
    padded = torch.tensor([ids + [0] * (width - len(ids)) for ids in sequences])
    mask = torch.tensor([[1] * len(ids) + [0] * (width - len(ids)) for ids in sequences])
    labels = padded.masked_fill(mask == 0, -100)
    losses = []
    for _ in range(STEPS):
        loss = model(input_ids=padded, attention_mask=mask, labels=labels).loss
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    print(f"loss {losses[0]:.2f} to {losses[-1]:.2f} in {STEPS} steps")
    assert losses[-1] < losses[0] / 2, "the model has learned nothing"
    return model.eval()


def greedy(model, prompt, speech, end, n):
    """Returns `n` tokens that the model finds most likely, of those that its frames allow."""

    def allowed(_batch, ids):
        drawn = len(ids) - len(prompt)
        slot = speech + N_CODES * (drawn % N_SLOTS)
        codes = list(range(slot, slot + N_CODES))
        return [*codes, end] if drawn > 0 and drawn % N_SLOTS == 0 else codes

    ids = torch.tensor([prompt])
    with torch.no_grad():
        generated = model.generate(
            ids, attention_mask=torch.ones_like(ids), do_sample=False, max_new_tokens=n, pad_token_id=0,
            prefix_allowed_tokens_fn=allowed,
        )
    return generated[0, len(prompt) :].tolist()


def main(program, folder):
    def melisma(*arguments):
        ran = subprocess.run([program, *map(str, arguments)], capture_output=True, text=True)
        assert ran.returncode == 0, f"{arguments}: {ran.stderr}"
        return ran.stdout

    record(folder / "wavs")
    logging.disable_progress_bar()
    encoded = json.loads(melisma(
        "encode", folder / "wavs", "-o", folder / "train.jsonl", "--format", "orpheus", "--drop-repeats", "--model", CODEC, "--json",
    ))
    rows = [json.loads(line) for line in (folder / "train.jsonl").read_text().splitlines()]
    assert [row["text"] for row in rows] == TEXTS and all(row["codes_list"] for row in rows), rows

    voice = folder / "voice"
    voice.mkdir()
    tokenizer = train_tokenizer(voice / "tokenizer.json")
    before, after, end = map(tokenizer.token_to_id, STEERING)
    # The first multiple of 8 behind the tokenizer's tokens.
    speech = -(-tokenizer.get_vocab_size() // 8) * 8

    def prompt(text):
        return [before, *tokenizer.encode(f"{VOICE}: {text}").ids, after]

    spoken = [[token - ORPHEUS_SPEECH + speech for token in row["codes_list"]] for row in rows]
    sequences = [[*prompt(row["text"]), *tokens, end] for row, tokens in zip(rows, spoken)]
    model = train(sequences, speech + N_SLOTS * N_CODES)
    model.save_pretrained(voice)
    (voice / "speak.yaml").write_text(
        f"voices: [{VOICE}]\nbefore: [{before}]\nafter: [{after}]\nspeech: {speech}\nend: {end}\n"
        f"codec: {encoded['model']['hash']}\ntemperature: 0\n"
    )

    by_heart = 0
    for text in [*TEXTS, "Something that it has never heard."]:
        tokens = folder / "tokens.txt"
        report = json.loads(melisma(
            "speak", text, "-o", folder / "speech.wav", "-f", "--tokens", tokens, "--voice-model", voice, "--model", CODEC, "--json",
        ))
        assert report["frames"] > 0 and report["samples"] == 2048 * report["frames"], report
        ids = [int(part.split(">")[0]) - 10 + speech for part in tokens.read_text().split("<custom_token_")[1:]]
        assert len(ids) == N_SLOTS * report["frames"] and report["tokens"]["rejected"] == 0, report
        expected = greedy(model, prompt(text), speech, end, len(ids) + 1)
        assert ids == expected[: len(ids)], f"{text}: these are not the tokens of transformers"
        assert expected[-1] == end or report["notes"], f"{text}: {report}"
        by_heart += text in TEXTS and ids == spoken[TEXTS.index(text)]
        print(f"{text} {report['frames']} frames, as transformers generates them; {report['notes'] or 'ended by itself'}")
    assert by_heart >= len(TEXTS) - 1, f"only {by_heart} of {len(TEXTS)} texts were learned by heart"


if __name__ == "__main__":
    main(sys.argv[1], pathlib.Path(sys.argv[2]))
