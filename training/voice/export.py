#!/usr/bin/env python3
"""Writes a trained voice as Melisma and transformers read it: a folder with two shards in bf16, and its codec.

    export.py WEIGHTS.safetensors FOLDER [--codec-hash HASH]    # the weights as language.py saves them
    export.py --codec CODEC.safetensors FOLDER                  # solo24: whole, and the decoder alone
"""
import argparse, json, os

import torch
from safetensors.torch import load_file, save_file

import letters
from model import SHAPE

CODEC = dict(sampling_rate=24000, encoder_dim=24, encoder_rates=[2, 4, 8, 8], decoder_dim=384,
             decoder_rates=[8, 8, 4, 2], attn_window_size=None, codebook_size=4096, codebook_dim=8,
             vq_strides=[4, 2, 1], noise=True, depthwise=True)
# The sampler's defaults; the model card says why these.
SAMPLER = {"temperature": 0.6, "top_k": 50, "top_p": 0.9}
TABLE = "model.embed_tokens.weight"


def write_json(path, value):
    with open(path, "w") as file:
        json.dump(value, file, indent=1)
        file.write("\n")


def write_voice(weights, folder, codec_hash):
    """Writes the language model: its table in one shard, everything else in the other."""
    os.makedirs(folder, exist_ok=True)
    shards = {"tokens.safetensors": [TABLE], "layers.safetensors": sorted(set(weights) - {TABLE})}
    for name, keys in shards.items():
        part = {key: weights[key].to(torch.bfloat16).contiguous().cpu() for key in keys}
        save_file(part, f"{folder}/{name}", metadata={"format": "pt"})
    size = sum(2 * weight.numel() for weight in weights.values())
    names = {key: name for name, keys in shards.items() for key in keys}
    write_json(f"{folder}/model.safetensors.index.json", {"metadata": {"total_size": size}, "weight_map": names})
    write_json(f"{folder}/tokenizer.json", letters.tokenizer_json())
    write_json(f"{folder}/config.json", {
        "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_act": "silu",
        "hidden_size": SHAPE.width, "intermediate_size": SHAPE.inner, "num_hidden_layers": SHAPE.layers,
        "num_attention_heads": SHAPE.heads, "num_key_value_heads": SHAPE.key_heads, "head_dim": SHAPE.head,
        "vocab_size": letters.N_TOKENS, "rms_norm_eps": SHAPE.epsilon, "rope_theta": SHAPE.theta,
        "tie_word_embeddings": True, "max_position_embeddings": 8192, "torch_dtype": "bfloat16",
        "bos_token_id": letters.TEXT, "eos_token_id": letters.END, "pad_token_id": letters.PAD,
    })
    lines = [
        'prompt: "{text}"', f"before: [{letters.TEXT}]", f"after: [{letters.SPEECH}]", f"speech: {letters.FIRST_CODE}",
        f"end: {letters.END}", *([f"codec: {codec_hash}"] if codec_hash else []),
        *(f"{key}: {value}" for key, value in SAMPLER.items()), "normalise: true",
    ]
    with open(f"{folder}/speak.yaml", "w") as file:
        file.write("\n".join(lines) + "\n")


def write_codec(weights, folder):
    """Writes `whole/`, which encodes too, and `decoder/`, which only decodes, in fp16."""
    halves = {key: weight.half().contiguous() for key, weight in weights.items()}
    decoder = {key: weight for key, weight in halves.items() if not key.startswith("encoder.")}
    for name, part in (("whole", halves), ("decoder", decoder)):
        os.makedirs(f"{folder}/{name}", exist_ok=True)
        save_file(part, f"{folder}/{name}/model.safetensors", metadata={"format": "pt"})
        write_json(f"{folder}/{name}/config.json", CODEC)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("weights")
    parser.add_argument("folder")
    parser.add_argument("--codec", action="store_true")
    parser.add_argument("--codec-hash", default="")
    arguments = parser.parse_args()
    weights = load_file(arguments.weights)
    if arguments.codec:
        write_codec(weights, arguments.folder)
    else:
        write_voice(weights, arguments.folder, arguments.codec_hash)


if __name__ == "__main__":
    main()
