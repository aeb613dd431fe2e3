"""A LlamaForCausalLM in PyTorch's own layers, with dropout and a loss that sees only the tokens of the current slot."""
import math
from types import SimpleNamespace

import torch
import torch.nn as nn
import torch.nn.functional as F

from letters import END, FIRST_CODE, N_CODES, N_SLOTS, N_TOKENS, SLOT_LEVELS

SHAPE = SimpleNamespace(width=256, layers=8, heads=4, key_heads=2, head=64, inner=896, epsilon=1e-5, theta=10000.0)


def linear(n_in, n_out):
    return nn.Linear(n_in, n_out, bias=False)


class Layer(nn.Module):
    def __init__(self, drop):
        super().__init__()
        s = SHAPE
        self.n1, self.n2 = nn.Parameter(torch.ones(s.width)), nn.Parameter(torch.ones(s.width))
        self.q, self.o = linear(s.width, s.heads * s.head), linear(s.heads * s.head, s.width)
        self.k, self.v = linear(s.width, s.key_heads * s.head), linear(s.width, s.key_heads * s.head)
        self.gate, self.up, self.down = linear(s.width, s.inner), linear(s.width, s.inner), linear(s.inner, s.width)
        self.drop = nn.Dropout(drop)

    def forward(self, x, cos, sin):
        s, (batch, time, _) = SHAPE, x.shape
        y = F.rms_norm(x, (s.width,), self.n1, s.epsilon)
        q, k, v = (part(y).view(batch, time, -1, s.head).transpose(1, 2) for part in (self.q, self.k, self.v))
        k, v = (part.repeat_interleave(s.heads // s.key_heads, 1) for part in (rotate(k, cos, sin), v))
        a = F.scaled_dot_product_attention(rotate(q, cos, sin), k, v, is_causal=True)
        x = x + self.drop(self.o(a.transpose(1, 2).reshape(batch, time, -1)))
        y = F.rms_norm(x, (s.width,), self.n2, s.epsilon)
        return x + self.drop(self.down(F.silu(self.gate(y)) * self.up(y)))


def rotate(x, cos, sin):
    """Turns halves, not pairs."""
    a, b = x.chunk(2, -1)
    return torch.cat([a * cos - b * sin, b * cos + a * sin], -1)


class Llama(nn.Module):
    def __init__(self, drop=0.0):
        super().__init__()
        s = SHAPE
        self.embed = nn.Embedding(N_TOKENS, s.width)
        self.layers = nn.ModuleList(Layer(drop) for _ in range(s.layers))
        self.norm, self.drop = nn.Parameter(torch.ones(s.width)), nn.Dropout(drop)
        for parameter in self.parameters():
            if parameter.dim() > 1:
                nn.init.normal_(parameter, std=0.02)
        for layer in self.layers:
            for last in (layer.o, layer.down):
                nn.init.normal_(last.weight, std=0.02 / math.sqrt(2 * s.layers))

    def start_from(self, books):
        """Lets codes that sound alike start alike: `books` are the codec's codebooks, [3, codes, 8]."""
        with torch.no_grad():
            for slot, level in enumerate(SLOT_LEVELS):
                directions = F.normalize(books[level], dim=-1)
                mix = torch.randn(directions.shape[1], SHAPE.width, device=books.device)
                noise = torch.randn(N_CODES, SHAPE.width, device=books.device)
                self.table()[slot].copy_(directions @ mix * 0.02 + noise * 0.005)

    def table(self):
        """Returns the rows of the codes, [slots, codes, width]."""
        return self.embed.weight[FIRST_CODE:].view(N_SLOTS, N_CODES, -1)

    def forward(self, tokens):
        s, low = SHAPE, torch.bfloat16 if tokens.is_cuda else torch.float32
        time = torch.arange(tokens.shape[1], device=tokens.device).float()[:, None]
        angles = time * s.theta ** (-torch.arange(0, s.head, 2, device=tokens.device).float() / s.head)
        x, cos, sin = self.drop(self.embed(tokens)), angles.cos().to(low), angles.sin().to(low)
        for layer in self.layers:
            x = layer(x, cos, sin)
        return F.rms_norm(x, (s.width,), self.norm, s.epsilon)

    def losses(self, tokens, places, codes):
        """Returns the cross-entropy [slots] of `codes` [slots, n] after the flat `places` [slots, n] of `tokens`.

        Code 4096 in slot 0 is the end; -1 is no code at all. Only the tokens of a slot compete.
        """
        h = self.forward(tokens).flatten(0, 1)[places]
        logits = torch.bmm(h, self.table().to(h.dtype).transpose(1, 2))
        total = torch.logsumexp(logits.float(), -1)
        end = (h[0].float() * self.embed.weight[END].float()).sum(-1)
        total = torch.cat([torch.logaddexp(total[0], end)[None], total[1:]])
        found = logits.gather(-1, codes.clamp(0, N_CODES - 1)[..., None])[..., 0].float()
        found = torch.where(codes == N_CODES, end[None], found)
        valid = (codes >= 0).float()
        return ((total - found) * valid).sum(-1) / valid.sum(-1).clamp_min(1)

    def published(self):
        """Returns the weights under the names of Hugging Face."""
        out = {"model.embed_tokens.weight": self.embed.weight, "model.norm.weight": self.norm}
        for index, layer in enumerate(self.layers):
            at = f"model.layers.{index}."
            out |= {at + "input_layernorm.weight": layer.n1, at + "post_attention_layernorm.weight": layer.n2}
            out |= {f"{at}self_attn.{name}_proj.weight": getattr(layer, name).weight for name in "qkvo"}
            out |= {f"{at}mlp.{name}_proj.weight": getattr(layer, name).weight for name in ("gate", "up", "down")}
        return {key: weight.detach() for key, weight in out.items()}
