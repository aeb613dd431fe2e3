"""Peers of `melisma bench snac`: PyTorch `snac` 1.2.1 and ONNX Runtime, the published 24 kHz shape with random weights.

usage: snac.py torch | folded | load | onnxruntime | slices | population cpu | population cuda | populate | cuda
The last line of output is one JSON object {row: {peer: figure}}, figures in the row's unit.

What servers do for one new frame is to decode the last four again (28 tokens); that is what the rows of single frames
compare with. ONNX Runtime gets the same decoder without its noise blocks, which favours it.
"""

import json
import os
import statistics
import sys
import tempfile
import time

CONFIG = {
    "sampling_rate": 24000,
    "encoder_dim": 48,
    "encoder_rates": [2, 4, 8, 8],
    "decoder_dim": 1024,
    "decoder_rates": [8, 8, 4, 2],
    "attn_window_size": None,
    "codebook_size": 4096,
    "codebook_dim": 8,
    "vq_strides": [4, 2, 1],
    "noise": True,
    "depthwise": True,
}
FRAME_SECONDS = 2048 / 24000
CLIP_FRAMES = 117
WINDOW_FRAMES = 4
POPULATED = (1, 4, 7, 8, 28)
POPULATED_THERE = (1, 4, 8, 28)


def p99(found):
    return found[min(len(found) - 1, round(0.99 * (len(found) - 1)))]


def fill(rows, name, peer, figure):
    rows.setdefault(name, {})[peer] = figure


def model(torch, folded=False, noise=True):
    from snac import SNAC
    from snac.layers import NoiseBlock

    torch.manual_seed(0)
    made = SNAC(**CONFIG).eval()
    for parameter in made.parameters():
        parameter.requires_grad_(False)
    if folded:
        for module in made.modules():
            if torch.nn.utils.parametrize.is_parametrized(module):
                torch.nn.utils.parametrize.remove_parametrizations(module, "weight")
    if not noise:
        for module in made.modules():
            for name, child in module.named_children():
                if isinstance(child, NoiseBlock):
                    setattr(module, name, torch.nn.Identity())
    return made


def codes(torch, n_frames, batch=1, device="cpu"):
    generator = torch.Generator().manual_seed(1)
    draw = lambda n: torch.randint(0, 4096, (batch, n), generator=generator).to(device)
    return [draw(n_frames), draw(2 * n_frames), draw(4 * n_frames)]


def decoded_on_cpu(rows, peer, threads, decode):
    """`decode(n_frames)` returns a function that decodes that many frames."""
    found = times(decode(CLIP_FRAMES), least=2, seconds=0)
    fill(rows, f"snac/clip {threads}t", peer, CLIP_FRAMES * FRAME_SECONDS / statistics.median(found))
    if threads == 1:
        found = times(decode(WINDOW_FRAMES), least=20, seconds=4, warm_up=3)
        fill(rows, "snac/one frame 1t p50", f"{peer}, 28-token window", 1e3 * statistics.median(found))
        fill(rows, "snac/one frame 1t p99", f"{peer}, 28-token window", 1e3 * p99(found))


def pytorch(rows, peer="torch"):
    import torch

    made = model(torch, folded=peer != "torch")

    def decode(n_frames):
        given = codes(torch, n_frames)
        return lambda: made.decode(given)

    with torch.inference_mode():
        for threads in (1, 2):
            torch.set_num_threads(threads)
            decoded_on_cpu(rows, peer, threads, decode)


def loading(rows):
    import torch
    from snac import SNAC

    with tempfile.TemporaryDirectory() as directory:
        path = os.path.join(directory, "pytorch_model.bin")
        torch.save(model(torch).state_dict(), path)

        def load():
            made = SNAC(**CONFIG)
            made.load_state_dict(torch.load(path, map_location="cpu", weights_only=True))
            made.eval()

        fill(rows, "snac/load", "torch", statistics.median(times(load, least=3, seconds=0)))


def onnx_runtime(rows):
    import onnxruntime
    import torch
    from snac import layers

    # The package's own writes the traced shape into the graph.
    layers.snake = lambda x, alpha: x + (alpha + 1e-9).reciprocal() * torch.sin(alpha * x).pow(2)
    made = model(torch, folded=True, noise=False)

    class Decode(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.quantizer, self.decoder = made.quantizer, made.decoder

        def forward(self, coarse, middle, fine):
            return self.decoder(self.quantizer.from_codes([coarse, middle, fine]))

    names = [f"audio_codes.{level}" for level in range(3)]
    with tempfile.TemporaryDirectory() as directory:
        path = os.path.join(directory, "decoder.onnx")
        axes = {name: {1: f"codes_{level}"} for level, name in enumerate(names)}
        # The exporter talks on stdout, whose last line is ours.
        stdout, sys.stdout = sys.stdout, sys.stderr
        try:
            with torch.inference_mode():
                torch.onnx.export(
                    Decode(), tuple(codes(torch, 6)), path, input_names=names, dynamic_axes=axes, dynamo=False
                )
        finally:
            sys.stdout = stdout
        for threads in (1, 2):
            options = onnxruntime.SessionOptions()
            options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
            session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])

            def decode(n_frames):
                given = {name: level.numpy() for name, level in zip(names, codes(torch, n_frames))}
                return lambda: session.run(None, given)

            decoded_on_cpu(rows, "onnxruntime", threads, decode)


def multiframe_of(n):
    return [(i * 2654435) % 4096 for i in range(7 * n)]


def spread(view, levels):
    """The loop of `population` as slices of frames [n, 7]."""
    codes_0, codes_1, codes_2 = levels
    codes_0[0, :] = view[:, 0]
    codes_1[0, 0::2], codes_1[0, 1::2] = view[:, 1], view[:, 4]
    codes_2[0, 0::4], codes_2[0, 1::4] = view[:, 2], view[:, 3]
    codes_2[0, 2::4], codes_2[0, 3::4] = view[:, 5], view[:, 6]
    return all(bool(((level >= 0) & (level <= 4096)).all()) for level in levels)


def numpy_slices(rows):
    numpy = numpy_on(1)
    for n in POPULATED:
        multiframe, levels = multiframe_of(n), [numpy.empty((1, n * k), dtype="i4") for k in (1, 2, 4)]
        work = lambda: spread(numpy.array(multiframe, dtype="i4").reshape(n, 7), levels)
        fill(rows, f"snac/populate {n} frames", "numpy", 1e6 * statistics.median(times(work, least=50, seconds=0.3, warm_up=10)))


def populated_there(rows):
    """`snac.populate` of a tensor on the GPU, and slices of torch: frames and levels stay there, the flags come back."""
    import torch
    from melisma import snac

    with torch.inference_mode():
        for n in POPULATED_THERE:
            view = torch.tensor(multiframe_of(n), dtype=torch.int32, device="cuda").view(n, 7)
            levels = [torch.empty((1, n * k), dtype=torch.int32, device="cuda") for k in (1, 2, 4)]
            for peer, work in (("melisma", lambda: snac.populate(view)), ("torch vectorised", lambda: spread(view, levels))):

                def synchronised():
                    work()
                    torch.cuda.synchronize()

                found = times(synchronised, least=50, seconds=0.3, warm_up=10)
                fill(rows, f"snac/populate {n} frames, from Python in device memory", peer, 1e6 * statistics.median(found))


def population(rows, kind):
    """The plain loop and its vectorised form, both with their validation."""
    import torch

    device = torch.device(kind)
    if kind == "cpu":
        torch.set_num_threads(1)

    def buffers(n):
        return [torch.empty((1, n * k), dtype=torch.int32, device=device) for k in (1, 2, 4)]

    def loop(multiframe, n):
        codes_0, codes_1, codes_2 = buffers(n)
        for i in range(n):
            base = i * 7
            codes_0[0, i] = multiframe[base]
            codes_1[0, i * 2] = multiframe[base + 1]
            codes_1[0, i * 2 + 1] = multiframe[base + 4]
            codes_2[0, i * 4] = multiframe[base + 2]
            codes_2[0, i * 4 + 1] = multiframe[base + 3]
            codes_2[0, i * 4 + 2] = multiframe[base + 5]
            codes_2[0, i * 4 + 3] = multiframe[base + 6]
        return not any(bool(torch.any(level < 0)) or bool(torch.any(level > 4096)) for level in (codes_0, codes_1, codes_2))

    def vectorised(multiframe, n, kept):
        return spread(torch.tensor(multiframe[: n * 7], dtype=torch.int32, device=device).view(n, 7), kept)

    with torch.inference_mode():
        for n in POPULATED:
            multiframe, kept = multiframe_of(n), buffers(n)
            for peer, work in (
                ("python loop", lambda: loop(multiframe, n)),
                ("torch vectorised", lambda: vectorised(multiframe, n, kept)),
            ):
                found = times(work, least=50, seconds=0.3, warm_up=10)
                fill(rows, f"snac/populate {n} frames", peer, 1e6 * statistics.median(found))


def cuda(rows):
    import torch

    def timed(work, least, seconds):
        def synchronised():
            work()
            torch.cuda.synchronize()

        return times(synchronised, least, seconds, warm_up=5)

    def measure(peer, decode):
        """`decode(batch, n_frames)` returns a function that decodes and copies the sound back."""
        found = timed(decode(1, WINDOW_FRAMES), least=200, seconds=2)
        fill(rows, "snac/one frame p50", f"{peer}, 28-token window", 1e3 * statistics.median(found))
        fill(rows, "snac/one frame p99", f"{peer}, 28-token window", 1e3 * p99(found))
        for batch in (32, 256):
            found = timed(decode(batch, 12), least=5, seconds=1)
            realtime = batch * 12 * FRAME_SECONDS / statistics.median(found)
            for suffix in ("", ", tf32", ", bf16"):
                fill(rows, f"snac/{batch} streams{suffix}", peer, realtime)

    eager, folded = model(torch).cuda(), model(torch, folded=True).cuda()
    with torch.inference_mode():
        for peer, precision in (("torch", "ieee"), ("torch tf32", "tf32")):
            torch.backends.cuda.matmul.fp32_precision = precision
            torch.backends.cudnn.conv.fp32_precision = precision

            def decode(batch, n_frames):
                given = codes(torch, n_frames, batch, "cuda")
                return lambda: eager.decode(given).cpu()

            def replay(batch, n_frames):
                given = codes(torch, n_frames, batch, "cuda")
                stream = torch.cuda.Stream()
                with torch.cuda.stream(stream):
                    for _ in range(3):
                        folded.decode(given)
                torch.cuda.synchronize()
                graph = torch.cuda.CUDAGraph()
                with torch.cuda.graph(graph):
                    sound = folded.decode(given)
                host = torch.empty(sound.shape, pin_memory=True)

                def work():
                    graph.replay()
                    host.copy_(sound, non_blocking=True)

                return work

            measure(peer, decode)
            measure(f"{peer} graph", replay)


PARTS = {
    "torch": pytorch,
    "folded": lambda rows: pytorch(rows, "torch folded"),
    "load": loading,
    "onnxruntime": onnx_runtime,
    "slices": numpy_slices,
    "population": population,
    "populate": populated_there,
    "cuda": cuda,
}

if __name__ == "__main__":
    figures = {}
    PARTS[sys.argv[1]](figures, *sys.argv[2:])
    print(json.dumps(figures))
