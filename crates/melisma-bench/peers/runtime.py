"""Peers of `melisma bench runtime`: numpy and PyTorch on the CPU, PyTorch on the GPU.

usage: runtime.py numpy THREADS | torch THREADS | cuda
The last line of output is one JSON object {row: {peer: figure}}, figures in the row's unit.
"""

import json
import sys
import time


def products(numpy, rows, peer, threads, prepare):
    """`prepare(a, b, c)` returns a function that multiplies."""
    generator = numpy.random.default_rng(1)
    shapes = [(1024, 1024, 1024), (1024, 1024, 32), (1024, 32, 1024)]
    for m, k, n in shapes:
        a, b = (generator.random(shape, dtype=numpy.float32) - 0.5 for shape in ((m, k), (k, n)))
        seconds = median_seconds(prepare(a, b, numpy.empty((m, n), dtype=numpy.float32)))
        rows[f"runtime/matmul {m}x{k}x{n} {threads}t"] = {peer: 2 * m * k * n / seconds / 1e9}


def with_numpy(rows, threads):
    numpy = numpy_on(threads)
    products(numpy, rows, "numpy", threads, lambda a, b, c: lambda: numpy.matmul(a, b, out=c))


def with_torch(rows, threads):
    import numpy
    import torch

    torch.set_num_threads(int(threads))

    def prepare(*arrays):
        a, b, c = map(torch.from_numpy, arrays)
        return lambda: torch.matmul(a, b, out=c)

    products(numpy, rows, "torch", threads, prepare)


def cuda(rows):
    import torch

    torch.backends.cuda.matmul.fp32_precision = "ieee"
    device = torch.device("cuda")

    def median_device_seconds(work, repeat=20):
        for _ in range(5):
            work()
        times = []
        for _ in range(repeat):
            start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
            start.record()
            work()
            end.record()
            end.synchronize()
            times.append(start.elapsed_time(end) * 1e-3)
        return statistics.median(times)

    size = 256 << 20
    on_device = torch.empty(size, dtype=torch.uint8, device=device)
    for kind, on_host in (("pinned", torch.empty(size, dtype=torch.uint8).pin_memory()), ("pageable", torch.ones(size, dtype=torch.uint8))):
        to = median_device_seconds(lambda: on_device.copy_(on_host, non_blocking=True))
        back = median_device_seconds(lambda: on_host.copy_(on_device, non_blocking=True))
        rows[f"runtime/copy {kind} to device"] = {"torch": size / to / 1e9}
        rows[f"runtime/copy {kind} from device"] = {"torch": size / back / 1e9}

    kinds = {"f32": torch.float32, "tf32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16}
    for name, dtype in kinds.items():
        torch.backends.cuda.matmul.fp32_precision = "tf32" if name == "tf32" else "ieee"
        for n in (1024, 4096):
            a = torch.rand((n, n), device=device, dtype=dtype) - 0.5
            b = torch.rand((n, n), device=device, dtype=dtype) - 0.5
            c = torch.empty((n, n), device=device, dtype=dtype)
            seconds = median_device_seconds(lambda: torch.matmul(a, b, out=c))
            rows[f"runtime/matmul {name} {n}x{n}x{n}"] = {"torch": 2 * n**3 / seconds / 1e12}

    length = 64 << 20
    floats = torch.rand(length, device=device)
    halves = torch.empty(length, dtype=torch.float16, device=device)
    seconds = median_device_seconds(lambda: halves.copy_(floats))
    rows["runtime/convert f32 to f16"] = {"torch": 6 * length / seconds / 1e9}
    integers = torch.ones(length, dtype=torch.int16, device=device)
    seconds = median_device_seconds(lambda: floats.copy_(integers))
    rows["runtime/convert i16 to f32"] = {"torch": 6 * length / seconds / 1e9}

    small = torch.rand(4096, device=device)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(60):
            small.mul_(1.0001)

    def replay():
        graph.replay()
        torch.cuda.synchronize()

    rows["runtime/graph of 60 kernels"] = {"torch": median_seconds(replay) * 1e6}


if __name__ == "__main__":
    figures = {}
    {"numpy": with_numpy, "torch": with_torch, "cuda": cuda}[sys.argv[1]](figures, *sys.argv[2:])
    print(json.dumps(figures))
