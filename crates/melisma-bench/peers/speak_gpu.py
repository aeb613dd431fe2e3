"""Peer of `melisma bench speak --device cuda`: PyTorch 2.11 with a language model of Orpheus' shape, random weights in bf16.

usage: speak_gpu.py eager|compiled PAST BATCH...
A cache of fixed length and one step of all texts in a CUDA graph, as fast servers have it; `compiled` has each layer
compiled by `torch.compile` with its choice of kernels. All tokens of the vocabulary are weighed, and 64 of them drawn
from. The last line of output is one JSON object {row: {peer: figure}}, in tokens per second.
"""

import json
import statistics
import sys

import torch
import torch.nn.functional as F

WIDTH, LAYERS, HEADS, KEY_HEADS, HEAD, INNER, TOKENS, CONTEXT = 3072, 28, 24, 8, 128, 8192, 156940, 1024
SPLIT = [HEADS, KEY_HEADS, KEY_HEADS]


def weights(*shape):
    return torch.empty(*shape, device="cuda", dtype=torch.bfloat16).normal_(std=0.02)


def layer():
    ones = lambda: torch.ones(WIDTH, device="cuda", dtype=torch.bfloat16)
    return (
        ones(),
        weights(sum(SPLIT) * HEAD, WIDTH),
        weights(WIDTH, HEADS * HEAD),
        ones(),
        weights(2 * INNER, WIDTH),
        weights(WIDTH, INNER),
    )


def turned(x, cos, sin):
    a, b = x[..., : HEAD // 2], x[..., HEAD // 2 :]
    return torch.cat([a * cos - b * sin, b * cos + a * sin], -1)


def block(x, weights, keys, values, turn, place, mask):
    norm1, qkv, out, norm2, gate_up, down = weights
    batch = x.shape[0]
    normed = F.rms_norm(x, (WIDTH,), norm1, 1e-5)
    q, k, v = F.linear(normed, qkv).view(batch, sum(SPLIT), HEAD).split(SPLIT, 1)
    keys.index_put_(place, turned(k, *turn))
    values.index_put_(place, v)
    mixed = F.scaled_dot_product_attention(turned(q, *turn)[:, :, None], keys, values, attn_mask=mask, enable_gqa=True)
    x = x + F.linear(mixed.reshape(batch, WIDTH), out)
    gate, up = F.linear(F.rms_norm(x, (WIDTH,), norm2, 1e-5), gate_up).chunk(2, -1)
    return x + F.linear(F.silu(gate) * up, down)


def rate(block, model, n_past, batch):
    """Tokens per second of a step that draws a token for each of `batch` texts after `n_past` tokens."""
    table, layers = model
    cache = [
        [torch.zeros(batch, KEY_HEADS, CONTEXT, HEAD, device="cuda", dtype=torch.bfloat16) for _ in range(2)]
        for _ in layers
    ]
    tokens = torch.zeros(batch, dtype=torch.long, device="cuda")
    position = torch.full((batch,), n_past, device="cuda")
    mask = (torch.arange(CONTEXT, device="cuda")[None] <= position[:, None])[:, None, None]
    rows = torch.arange(batch, device="cuda")[:, None]
    place = (rows, torch.arange(KEY_HEADS, device="cuda")[None], position[:, None])
    frequencies = 500000.0 ** (-torch.arange(0, HEAD, 2, device="cuda").float() / HEAD)

    def step():
        angle = position.float()[:, None] * frequencies
        turn = [part.to(torch.bfloat16)[:, None] for part in (angle.cos(), angle.sin())]
        x = table[tokens]
        for weights, (keys, values) in zip(layers, cache):
            x = block(x, weights, keys, values, turn, place, mask)
        ones = torch.ones(WIDTH, device="cuda", dtype=torch.bfloat16)
        logits = F.linear(F.rms_norm(x, (WIDTH,), ones, 1e-5), table).float() / 0.6
        top, at = logits.topk(64, -1)
        return at.gather(1, torch.multinomial(top.softmax(-1), 1))[:, 0]

    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        for _ in range(3):
            step()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        step()

    def work():
        graph.replay()
        torch.cuda.synchronize()

    return batch / statistics.median(times(work, least=40, seconds=0, warm_up=3))


def main(how, n_past, *batches):
    torch.manual_seed(0)
    torch.set_grad_enabled(False)
    model = weights(TOKENS, WIDTH), [layer() for _ in range(LAYERS)]
    own = block
    if how == "compiled":
        own = torch.compile(block, mode="max-autotune-no-cudagraphs", dynamic=False)
    peer = {"eager": "torch graph", "compiled": "torch compiled graph"}[how]
    rate_of = lambda batch: rate(own, model, int(n_past), int(batch))
    return {f"speak/tokens of {batch} texts at once 3B": {peer: rate_of(batch)} for batch in batches}


if __name__ == "__main__":
    print(json.dumps(main(*sys.argv[1:])))
