"""Packs the weights of a transformer and loads them again: python weights.py OUT.safetensors [MODEL]

MODEL is a folder that `transformers` loads. A small Llama with random weights takes its place here.
"""

import sys

import torch
import transformers

from melisma import pack

if len(sys.argv) > 2:
    model = transformers.AutoModelForCausalLM.from_pretrained(sys.argv[2], dtype=torch.bfloat16).eval()
else:
    sizes = {"vocab_size": 1000, "hidden_size": 256, "intermediate_size": 512, "num_hidden_layers": 4}
    config = transformers.LlamaConfig(**sizes, num_attention_heads=4)
    model = transformers.LlamaForCausalLM(config).bfloat16().eval()
sizes = pack.save_file(model.state_dict(), sys.argv[1])
other = type(model)(model.config).bfloat16().eval()
other.load_state_dict(pack.load_file(sys.argv[1], "pt"))
ids = torch.arange(10)[None]
with torch.inference_mode():
    assert torch.equal(model(ids).logits, other(ids).logits)
print(f"{sizes.source_bytes} bytes packed to {sizes.packed_bytes}, and loaded without a difference")
