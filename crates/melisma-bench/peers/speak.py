"""Peers of `melisma bench speak`: `transformers` 5.23.0 with its cache, and the decoder of `snac` 1.2.1.

usage: speak.py f32|bf16 FOLDER THREADS TEXT N_TOKENS SHORT N_SHORT BATCH...
FOLDER has the voice model, and its codec's shape as codec.json. `transformers` draws N_TOKENS after the prompt of
TEXT, and N_SHORT after those of BATCH texts SHORT, but no more than LONGEST and LONGEST_SHORT: the figures are rates,
and a token never costs less after a longer past. The last line of output is one JSON object {row: {peer: figure}}.

Drawn as we do it, and greedily, which costs less, with a cache that grows and with one of fixed length. The codec has
random weights and decodes all frames at once.
"""

import json
import os
import statistics
import sys

import tokenizers
import torch
import yaml
from snac import SNAC
from transformers import LlamaForCausalLM

DRAWN = {"do_sample": True, "temperature": 0.6, "top_k": 0, "top_p": 0.9, "repetition_penalty": 1.1}
GREEDY = {"do_sample": False}
STATIC = {"cache_implementation": "static"}
HOWS = {"": DRAWN, ", greedy": GREEDY, ", greedy, static cache": GREEDY | STATIC}
# Whole frames of seven tokens.
LONGEST = 210
LONGEST_SHORT = 70


class Voice:
    def __init__(self, folder, dtype):
        self.model = LlamaForCausalLM.from_pretrained(folder, dtype=dtype).eval()
        self.tokenizer = tokenizers.Tokenizer.from_file(os.path.join(folder, "tokenizer.json"))
        self.tokenizer.no_truncation()
        with open(os.path.join(folder, "speak.yaml")) as file:
            self.format = yaml.safe_load(file)

    def prompt(self, text):
        filled = self.format["prompt"].format(voice=self.format["voices"][0], text=text)
        ids = self.tokenizer.encode(filled).ids
        return torch.tensor([self.format["before"] + ids + self.format["after"]])

    def draw(self, prompts, n_tokens, how):
        """Returns `n_tokens` after each of the prompts."""
        mask = torch.ones_like(prompts)
        found = self.model.generate(
            prompts, attention_mask=mask, min_new_tokens=n_tokens, max_new_tokens=n_tokens, pad_token_id=0, **how
        )
        return found[:, prompts.shape[1] :]


def decoder(folder):
    with open(os.path.join(folder, "codec.json")) as file:
        config = json.load(file)
    return SNAC(**config).eval(), config


def levels(tokens, first, config):
    """Codes by level from the tokens of frames: slots of levels 0, 1, 2, 2, 1, 2, 2."""
    codes = (tokens.view(-1, 7) - first) % config["codebook_size"]
    return [codes[:, slots].reshape(1, -1) for slots in ([0], [1, 4], [2, 3, 5, 6])]


def main(dtype, folder, threads, text, n_tokens, short, n_short, *batches):
    torch.set_num_threads(int(threads))
    n_tokens, n_short = min(int(n_tokens), LONGEST), min(int(n_short), LONGEST_SHORT)
    voice = Voice(folder, {"f32": torch.float32, "bf16": torch.bfloat16}[dtype])
    codec, config = decoder(folder)
    frame_seconds = codec.hop_length * config["vq_strides"][0] / config["sampling_rate"]
    rows = {}

    def fill(row, peer, amount, work):
        found = times(work, least=2, seconds=0, warm_up=0)
        rows.setdefault(f"speak/{row}", {})[peer] = amount / statistics.median(found)

    with torch.inference_mode():
        prompt = voice.prompt(text)
        for suffix, how in HOWS.items():
            name = f"transformers {dtype}{suffix}"
            try:
                voice.draw(prompt, 14, how)
            except Exception as error:  # not every version has every kind of cache
                print(f"{name}: {error}", file=sys.stderr)
                continue

            def speak():
                tokens = voice.draw(prompt, n_tokens, how)
                return codec.decode(levels(tokens, voice.format["speech"], config))

            fill(f"text to audio 15M {threads}t", name, n_tokens / 7 * frame_seconds, speak)
            for batch in map(int, batches):
                prompts = voice.prompt(short).repeat(batch, 1)
                work = lambda: voice.draw(prompts, n_short, how)
                texts = "1 text" if batch == 1 else f"{batch} texts"
                fill(f"tokens of {texts} at once 15M {threads}t", name, batch * n_short, work)
    return rows


if __name__ == "__main__":
    print(json.dumps(main(*sys.argv[1:])))
