"""Packs the weights of a transformer and loads them again: python weights.py OUT.safetensors"""

import sys

import torch

from melisma import pack

layer = torch.nn.TransformerEncoderLayer(256, 4, batch_first=True)
model = torch.nn.TransformerEncoder(layer, 4).bfloat16().eval()
sizes = pack.save_file(model.state_dict(), sys.argv[1])
other = torch.nn.TransformerEncoder(layer, 4).bfloat16().eval()
other.load_state_dict(pack.load_file(sys.argv[1], "pt"))
x = torch.randn(1, 10, 256).bfloat16()
with torch.inference_mode():
    assert torch.equal(model(x), other(x))
print(f"{sizes.source_bytes} bytes packed to {sizes.packed_bytes}, and loaded without a difference")
