"""Makes the golden files of the room `llama` with `transformers`: three tiny random models and their logits.

    pip install torch==2.15.0 transformers==5.23.0
    python make.py

`three_to_one` has six heads on two key heads, llama3 scaling and a tied head, in f32; `untied` has a
head of its own, linear scaling, and bf16 weights in two shards; `head_64` has heads of 64 channels
that together are wider than the model, in f16. All are computed in f32 with the weights of the file.

`expected_bf16.safetensors` of the two that are not bf16 is `expected.safetensors` of the model whose
matrices were rounded to bf16, as `--precision bf16` does on a GPU.

`expected.safetensors` of each model has a `prompt`, the 200 tokens `greedy` that follow it, and
`logits` [8, tokens] at the `positions` of prompt and text together. `sampler.safetensors` has
`logits`, a `past`, and for each case of `sampler.json` the probabilities after `transformers`'
logits processors.
"""

import json
import pathlib

import torch
from safetensors.torch import load_file, save_file
from transformers import LlamaConfig, LlamaForCausalLM
from transformers.generation.logits_process import (
    MinPLogitsWarper,
    RepetitionPenaltyLogitsProcessor,
    TemperatureLogitsWarper,
    TopKLogitsWarper,
    TopPLogitsWarper,
)

HERE = pathlib.Path(__file__).parent
PROMPT, GREEDY = 20, 200

LLAMA3 = {
    "rope_type": "llama3",
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 64,
}
MODELS = {
    "three_to_one": {
        "hidden_size": 48, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 6,
        "num_key_value_heads": 2, "vocab_size": 128, "tie_word_embeddings": True, "rope_theta": 500000.0,
        "rope": LLAMA3, "dtype": torch.float32,
    },
    "untied": {
        "hidden_size": 32, "intermediate_size": 56, "num_hidden_layers": 2, "num_attention_heads": 4,
        "num_key_value_heads": 4, "vocab_size": 99, "tie_word_embeddings": False, "rope_theta": 10000.0,
        "rope": {"rope_type": "linear", "factor": 2.0}, "dtype": torch.bfloat16,
    },
    "head_64": {
        "hidden_size": 64, "intermediate_size": 72, "num_hidden_layers": 1, "num_attention_heads": 2,
        "num_key_value_heads": 1, "head_dim": 64, "vocab_size": 64, "tie_word_embeddings": True,
        "rope_theta": 10000.0, "rope": {"rope_type": "default"}, "dtype": torch.float16,
    },
}


def config(sizes):
    """Returns the keys of `config.json` in the style of published files."""
    keys = {key: value for key, value in sizes.items() if key not in ("rope", "dtype")}
    keys |= {
        "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_act": "silu", "attention_bias": False,
        "mlp_bias": False, "rms_norm_eps": 1e-5, "max_position_embeddings": 512,
        "torch_dtype": str(sizes["dtype"]).removeprefix("torch."),
    }
    if sizes["rope"]["rope_type"] == "linear":
        keys["rope_parameters"] = sizes["rope"] | {"rope_theta": keys.pop("rope_theta")}
    elif sizes["rope"]["rope_type"] == "llama3":
        keys["rope_scaling"] = sizes["rope"]
    return keys


def model(name, sizes, seed):
    folder = HERE / name
    folder.mkdir(exist_ok=True)
    keys = config(sizes)
    (folder / "config.json").write_text(json.dumps(keys, indent=2, sort_keys=True) + "\n")
    torch.manual_seed(seed)
    # Given both ways, so that this version and older ones read the same rotary positions.
    rope = sizes["rope"] | {"rope_theta": sizes["rope_theta"]}
    llama = LlamaForCausalLM(LlamaConfig(**{k: v for k, v in keys.items() if not k.startswith("rope")},
                                         rope_parameters=rope, attn_implementation="eager")).eval()
    with torch.no_grad():
        for parameter_name, parameter in llama.named_parameters():
            if "norm" in parameter_name:
                parameter.uniform_(0.5, 1.5)
            else:
                parameter.normal_(0.0, 1.6 / parameter.shape[1] ** 0.5)
            parameter.copy_(parameter.to(sizes["dtype"]).float())
    tensors = {key: value.detach().to(sizes["dtype"]).contiguous() for key, value in llama.named_parameters()}
    if name == "untied":
        cut = sorted(tensors)
        shards = [cut[: len(cut) // 2], cut[len(cut) // 2 :]]
        index = {"metadata": {}, "weight_map": {}}
        for number, names in enumerate(shards, 1):
            file = f"model-{number:05}-of-{len(shards):05}.safetensors"
            save_file({key: tensors[key] for key in names}, folder / file, metadata={"format": "pt"})
            index["weight_map"] |= {key: file for key in names}
        (folder / "model.safetensors.index.json").write_text(json.dumps(index, indent=2, sort_keys=True) + "\n")
    else:
        save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    prompt = torch.randint(0, sizes["vocab_size"], (1, PROMPT))
    expect(llama, prompt, folder / "expected.safetensors")
    if sizes["dtype"] != torch.bfloat16:
        with torch.no_grad():
            for parameter in llama.parameters():
                if parameter.dim() == 2:
                    parameter.copy_(parameter.bfloat16().float())
        expect(llama, prompt, folder / "expected_bf16.safetensors")


def expect(llama, prompt, path):
    """Writes the greedy text after a prompt, and logits of both."""
    with torch.no_grad():
        text = prompt
        for _ in range(GREEDY):
            text = torch.cat([text, llama(text).logits[:, -1:].argmax(-1)], dim=1)
        logits = llama(text).logits[0]
    best = logits[PROMPT - 1 : -1].topk(2).values
    greedy = text[0, PROMPT:]
    assert torch.equal(logits[PROMPT - 1 : -1].argmax(-1), greedy)
    print(path.parent.name, path.name, "smallest margin", (best[:, 0] - best[:, 1]).min().item(), "distinct", len(greedy.unique()),
          "largest logit", logits.abs().max().item())
    positions = torch.tensor([0, 1, PROMPT - 1, PROMPT, 63, 64, 150, PROMPT + GREEDY - 1], dtype=torch.int32)
    save_file({"prompt": prompt[0].int(), "greedy": greedy.int(), "positions": positions,
               "logits": logits[positions.long()].contiguous()}, path)


def sampler():
    torch.manual_seed(4)
    logits, past = torch.randn(1, 300) * 3, torch.randint(0, 300, (1, 50))
    cases = [
        {"repetition_penalty": 1.0, "temperature": 1.0, "top_k": 0, "top_p": 1.0, "min_p": 0.0},
        {"repetition_penalty": 1.1, "temperature": 0.6, "top_k": 0, "top_p": 0.9, "min_p": 0.0},
        {"repetition_penalty": 1.3, "temperature": 1.5, "top_k": 40, "top_p": 0.8, "min_p": 0.05},
        {"repetition_penalty": 1.0, "temperature": 0.8, "top_k": 3, "top_p": 1.0, "min_p": 0.0},
        {"repetition_penalty": 0.7, "temperature": 1.0, "top_k": 0, "top_p": 1.0, "min_p": 0.2},
        {"repetition_penalty": 2.0, "temperature": 2.0, "top_k": 0, "top_p": 0.3, "min_p": 0.0},
    ]
    for window in [50, 8]:
        rows = []
        for case in cases:
            scores = logits.clone()
            recent = past[:, past.shape[1] - window :]
            if case["repetition_penalty"] != 1.0:
                scores = RepetitionPenaltyLogitsProcessor(case["repetition_penalty"])(recent, scores)
            scores = TemperatureLogitsWarper(case["temperature"])(recent, scores)
            if case["top_k"]:
                scores = TopKLogitsWarper(case["top_k"])(recent, scores)
            if case["top_p"] < 1.0:
                scores = TopPLogitsWarper(case["top_p"])(recent, scores)
            if case["min_p"] > 0.0:
                scores = MinPLogitsWarper(case["min_p"])(recent, scores)
            rows.append(scores.softmax(-1)[0])
        if window == 50:
            whole = torch.stack(rows)
    save_file({"logits": logits[0], "past": past[0].int(), "all": whole, "last_8": torch.stack(rows)},
              HERE / "sampler.safetensors")
    (HERE / "sampler.json").write_text(json.dumps(cases, indent=1) + "\n")


for seed, (name, sizes) in enumerate(MODELS.items()):
    model(name, sizes, seed)
sampler()
for name in MODELS:
    found = load_file(HERE / name / "expected.safetensors")
    print(name, {key: tuple(value.shape) for key, value in found.items()})
