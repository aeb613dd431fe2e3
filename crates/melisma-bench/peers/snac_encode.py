"""Peers of the encode rows of `melisma bench snac`: PyTorch and ONNX Runtime with the weights that we encode with.

usage: snac_encode.py torch | onnxruntime FOLDER LABEL THREADS...
       snac_encode.py eager | graph | compile FOLDER LABEL CLIPS...
FOLDER has `config.json`, `model.safetensors` and `clip.f32`, one clip at the model's rate; LABEL names the model in
rows. The first two parts encode the clip on a CPU with each number of threads, the others on a GPU each number of
copies of it at once.
The last line of output is one JSON object {"rows": {row: {peer: figure}}, "codes": {peer: codes of the clip}}.

The model is written here from the architecture, so that only PyTorch is needed. Weight normalisation is folded away,
which favours the peers. All products are FP32.
"""

import json
import math
import os
import statistics
import sys
import tempfile

import torch
from torch import nn
from torch.nn import functional as F


class Snake(nn.Module):
    def __init__(self, n_channels):
        super().__init__()
        self.alpha = nn.Parameter(torch.ones(1, n_channels, 1))

    def forward(self, x):
        return x + (self.alpha + 1e-9).reciprocal() * torch.sin(self.alpha * x).square()


class Residual(nn.Module):
    def __init__(self, n_channels, dilation):
        super().__init__()
        wide = nn.Conv1d(n_channels, n_channels, 7, dilation=dilation, padding=3 * dilation, groups=n_channels)
        self.block = nn.Sequential(Snake(n_channels), wide, Snake(n_channels), nn.Conv1d(n_channels, n_channels, 1))

    def forward(self, x):
        return x + self.block(x)


class Block(nn.Module):
    def __init__(self, n_channels, rate):
        super().__init__()
        down = nn.Conv1d(n_channels, 2 * n_channels, 2 * rate, stride=rate, padding=math.ceil(rate / 2))
        self.block = nn.Sequential(*(Residual(n_channels, dilation) for dilation in (1, 3, 9)), Snake(n_channels), down)

    def forward(self, x):
        return self.block(x)


class Attention(nn.Module):
    def __init__(self, n_channels, window, head_dim=64):
        super().__init__()
        self.shape = (-1, window, n_channels // head_dim, head_dim)
        self.norm = nn.LayerNorm(n_channels)
        self.to_qkv = nn.Linear(n_channels, 3 * n_channels, bias=False)
        self.to_out = nn.Linear(n_channels, n_channels, bias=False)
        frequency = 10000.0 ** (-torch.arange(0, head_dim, 2).float() / head_dim)
        angle = torch.outer(torch.arange(window).float(), frequency).repeat(1, 2)
        self.register_buffer("cos", angle.cos(), persistent=False)
        self.register_buffer("sin", angle.sin(), persistent=False)

    def rotated(self, x):
        first, second = x.chunk(2, dim=-1)
        return x * self.cos + torch.cat((-second, first), dim=-1) * self.sin

    def forward(self, x):
        batch, n_channels, _ = x.shape
        parts = self.to_qkv(self.norm(x.transpose(1, 2))).chunk(3, dim=-1)
        # [B · windows, heads, window, 64]
        q, k, v = (part.reshape(self.shape).transpose(1, 2) for part in parts)
        mixed = F.scaled_dot_product_attention(self.rotated(q), self.rotated(k), v)
        return x + self.to_out(mixed.transpose(1, 2).reshape(batch, -1, n_channels)).transpose(1, 2)


class Encoder(nn.Module):
    def __init__(self, config):
        super().__init__()
        n_channels = config["encoder_dim"]
        layers = [nn.Conv1d(1, n_channels, 7, padding=3)]
        for rate in config["encoder_rates"]:
            layers.append(Block(n_channels, rate))
            n_channels *= 2
        if config["attn_window_size"]:
            layers.append(Attention(n_channels, config["attn_window_size"]))
        layers.append(nn.Conv1d(n_channels, n_channels, 7, padding=3, groups=n_channels))
        self.block = nn.Sequential(*layers)

    def forward(self, x):
        return self.block(x)


class Level(nn.Module):
    def __init__(self, n_channels, config, stride):
        super().__init__()
        dim = config["codebook_dim"]
        self.stride = stride
        self.in_proj, self.out_proj = nn.Conv1d(n_channels, dim, 1), nn.Conv1d(dim, n_channels, 1)
        self.codebook = nn.Embedding(config["codebook_size"], dim)

    def forward(self, residual):
        pooled = F.avg_pool1d(residual, self.stride, self.stride) if self.stride > 1 else residual
        vectors = F.normalize(self.in_proj(pooled).transpose(1, 2), dim=-1)
        codes = (vectors @ F.normalize(self.codebook.weight, dim=-1).T).argmax(-1)
        decoded = self.out_proj(self.codebook(codes).transpose(1, 2))
        # [B, C, T / stride] to [B, C, T]
        return decoded[..., None].expand(-1, -1, -1, self.stride).flatten(2), codes


class Encode(nn.Module):
    def __init__(self, config):
        super().__init__()
        n_channels = config["encoder_dim"] << len(config["encoder_rates"])
        self.encoder, self.quantizer = Encoder(config), nn.Module()
        self.quantizer.quantizers = nn.ModuleList(Level(n_channels, config, s) for s in config["vq_strides"])

    def forward(self, sound):
        residual, found = self.encoder(sound), []
        for level in self.quantizer.quantizers:
            decoded, codes = level(residual)
            residual = residual - decoded
            found.append(codes)
        return tuple(found)


def tensors(path):
    with open(path, "rb") as file:
        size = int.from_bytes(file.read(8), "little")
        header, data = json.loads(file.read(size)), bytearray(file.read())
    header.pop("__metadata__", None)
    for name, entry in header.items():
        begin, end = entry["data_offsets"]
        values = torch.frombuffer(data, dtype=torch.float32, offset=begin, count=(end - begin) // 4)
        yield name, values.reshape(entry["shape"])


def model(folder):
    with open(os.path.join(folder, "config.json")) as file:
        config = json.load(file)
    stored = dict(tensors(os.path.join(folder, "model.safetensors")))
    weights = {}
    for name, tensor in stored.items():
        if name.endswith(".original1"):
            base = name.removesuffix(".parametrizations.weight.original1")
            gain = stored[name.replace("original1", "original0")]
            weights[f"{base}.weight"] = gain * tensor / tensor.norm(dim=(1, 2), keepdim=True)
        elif not name.endswith(".original0"):
            weights[name] = tensor
    made = Encode(config).eval().requires_grad_(False)
    made.load_state_dict({name: weights[name] for name in made.state_dict()})
    return made, config


def clip(folder, config):
    """The clip as `[1, 1, T]`, padded to whole frames and windows, and its seconds."""
    with open(os.path.join(folder, "clip.f32"), "rb") as file:
        samples = torch.frombuffer(bytearray(file.read()), dtype=torch.float32)
    unit = math.prod(config["encoder_rates"]) * math.lcm(config["vq_strides"][0], config["attn_window_size"] or 1)
    return F.pad(samples, (0, -len(samples) % unit))[None, None], len(samples) / config["sampling_rate"]


def to_lists(codes):
    return [level[0].tolist() for level in codes]


class Found:
    def __init__(self):
        self.rows, self.codes = {}, {}

    def rate(self, row, peer, seconds, found):
        self.rows.setdefault(f"snac/encode {row}", {})[peer] = seconds / statistics.median(found)


def pytorch(found, folder, label, *counts):
    made, config = model(folder)
    sound, seconds = clip(folder, config)
    for threads in map(int, counts):
        torch.set_num_threads(threads)
        work = lambda: made(sound)
        found.rate(f"clip {label} {threads}t", "torch", seconds, times(work, least=2, seconds=0))
    found.codes["torch"] = to_lists(made(sound))


def onnx_runtime(found, folder, label, *counts):
    import onnxruntime

    made, config = model(folder)
    sound, seconds = clip(folder, config)
    names = [f"codes.{level}" for level in range(len(config["vq_strides"]))]
    with tempfile.TemporaryDirectory() as directory:
        path = os.path.join(directory, "encoder.onnx")
        # The exporter talks on stdout, whose last line is ours.
        stdout, sys.stdout = sys.stdout, sys.stderr
        try:
            torch.onnx.export(made, (sound,), path, input_names=["sound"], output_names=names, dynamo=False)
        finally:
            sys.stdout = stdout
        for threads in map(int, counts):
            options = onnxruntime.SessionOptions()
            options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
            session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
            work = lambda: session.run(None, {"sound": sound.numpy()})
            found.rate(f"clip {label} {threads}t", "onnxruntime", seconds, times(work, least=2, seconds=0))
        found.codes["onnxruntime"] = to_lists(work())


def on_gpu(found, args, peer, prepare):
    """`prepare(model, sound)` returns a function that encodes the sound on the device and gives the codes there."""
    torch.set_float32_matmul_precision("highest")
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    folder, label, *counts = args
    made, config = model(folder)
    made = made.cuda()
    one, seconds = clip(folder, config)
    for n in map(int, counts):
        host = one.expand(n, -1, -1).contiguous().pin_memory()
        sound = host.cuda()
        run = prepare(made, sound)

        def work():
            sound.copy_(host, non_blocking=True)
            return [level.cpu() for level in run()]

        row = f"clip {label}" if n == 1 else f"{n} clips {label}"
        found.rate(row, peer, n * seconds, times(work, least=5, seconds=1, warm_up=3))
        if n == 1:
            found.codes[peer] = to_lists(work())


def eager(found, *args):
    on_gpu(found, args, "torch", lambda made, sound: lambda: made(sound))


def graph(found, *args):
    def prepare(made, sound):
        with torch.cuda.stream(torch.cuda.Stream()):
            for _ in range(3):
                made(sound)
        torch.cuda.synchronize()
        captured = torch.cuda.CUDAGraph()
        with torch.cuda.graph(captured):
            codes = made(sound)

        def run():
            captured.replay()
            return codes

        return run

    on_gpu(found, args, "torch graph", prepare)


def compile_model(found, *args):
    def prepare(made, sound):
        quick = torch.compile(made, dynamic=False)
        return lambda: quick(sound)

    on_gpu(found, args, "torch compile", prepare)


PARTS = {"torch": pytorch, "onnxruntime": onnx_runtime, "eager": eager, "graph": graph, "compile": compile_model}

if __name__ == "__main__":
    figures = Found()
    with torch.inference_mode():
        PARTS[sys.argv[1]](figures, *sys.argv[2:])
    print(json.dumps({"rows": figures.rows, "codes": figures.codes}))
