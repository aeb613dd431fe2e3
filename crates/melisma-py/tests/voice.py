"""A voice model of random weights for builtin:mini24: it speaks noise, and ends by itself."""

import json
import os

import numpy

from melisma import pack, snac

BEGIN, END, BEFORE, AFTER, SPEECH = 256, 258, 259, 260, 264
N_CHANNELS, N_LAYERS, N_HEADS = 16, 2, 2


def write(folder, *, end=1.6, n_tokens=SPEECH + 7 * 4096, custom=None, **format):
    """Writes the files of a model; `format` changes its `speak.yaml`, where None leaves a key out. With a large negative
    `end` it does not end by itself. `custom` is the id of `<custom_token_0>`, which only some tokenizers have."""
    os.makedirs(folder, exist_ok=True)
    config = {
        "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_act": "silu", "rms_norm_eps": 1e-5,
        "hidden_size": N_CHANNELS, "intermediate_size": N_CHANNELS, "num_hidden_layers": N_LAYERS,
        "num_attention_heads": N_HEADS, "num_key_value_heads": 1, "rope_theta": 10000.0,
        "max_position_embeddings": 8192, "tie_word_embeddings": False, "vocab_size": n_tokens,
    }
    known = {
        "voices": ["ann", "bob"], "prompt": "{voice}: {text}", "before": [BEFORE], "after": [AFTER, AFTER + 1],
        "speech": SPEECH, "end": END, "codec": snac.Decoder(device="cpu").model_hash, "temperature": 1,
    }
    known = {key: value for key, value in (known | format).items() if value is not None}
    for name, content in {"config.json": config, "tokenizer.json": tokenizer(custom), "speak.yaml": known}.items():
        # JSON is YAML.
        with open(os.path.join(folder, name), "w", encoding="utf-8") as file:
            json.dump(content, file)
    pack.save_file(weights(n_tokens, end), os.path.join(folder, "model.packed.safetensors"))
    return folder


def tokenizer(custom):
    """Tokens that are bytes, each text begun by a token of its own."""
    printed = [byte for byte in range(256) if byte in range(33, 127) or byte in range(161, 173) or byte in range(174, 256)]
    others = [byte for byte in range(256) if byte not in printed]
    vocabulary = {chr(byte): byte for byte in printed} | {chr(256 + at): byte for at, byte in enumerate(others)}
    begin = "<|begin_of_text|>"
    level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
    added = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
    tokens = [{"id": BEGIN, "content": begin, **added}]
    if custom is not None:
        tokens.append({"id": custom, "content": "<custom_token_0>", **added})
    return {
        "version": "1.0", "added_tokens": tokens, "pre_tokenizer": level,
        "post_processor": {
            "type": "TemplateProcessing",
            "single": [{"SpecialToken": {"id": begin, "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
            "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 1}}],
            "special_tokens": {begin: {"id": begin, "ids": [BEGIN], "tokens": [begin]}},
        },
        "decoder": level, "model": {"type": "BPE", "vocab": vocabulary, "merges": []},
    }


def weights(n_tokens, end):
    """Weights as `transformers` names them. Channel 0 is on in every token, and the end likes it."""
    random = numpy.random.default_rng(5)

    def draw(rows, columns, scale):
        return random.uniform(-scale, scale, (rows, columns)).astype("f4")

    tensors = {
        "model.embed_tokens.weight": draw(n_tokens, N_CHANNELS, 1), "lm_head.weight": draw(n_tokens, N_CHANNELS, 1),
        "model.norm.weight": numpy.ones(N_CHANNELS, "f4"),
    }
    tensors["model.embed_tokens.weight"][:, 0] = 4
    tensors["lm_head.weight"][:, 0] = 0
    tensors["lm_head.weight"][END, 0] = end
    n_keys = N_CHANNELS // N_HEADS
    for layer in range(N_LAYERS):
        for name, rows in {
            "self_attn.q_proj": N_CHANNELS, "self_attn.k_proj": n_keys, "self_attn.v_proj": n_keys,
            "self_attn.o_proj": N_CHANNELS, "mlp.gate_proj": N_CHANNELS, "mlp.up_proj": N_CHANNELS,
            "mlp.down_proj": N_CHANNELS,
        }.items():
            tensors[f"model.layers.{layer}.{name}.weight"] = draw(rows, N_CHANNELS, 0.25)
        for name in ("input_layernorm", "post_attention_layernorm"):
            tensors[f"model.layers.{layer}.{name}.weight"] = numpy.ones(N_CHANNELS, "f4")
    return tensors
