"""Figures of the package beside what it replaces, measured in one run: python figures.py [ROW...]

Rows with a package that is missing are left out, and say so.
"""

import os
import statistics
import sys
import tempfile
import time

import numpy

from melisma import audio, dataset, mel, pack, snac

ROUNDS = 7


def seconds(work, rounds=ROUNDS, prepare=lambda: None):
    """The median of several rounds after a warm-up."""
    times = []
    for index in range(rounds + 1):
        prepare()
        start = time.perf_counter()
        work()
        if index:
            times.append(time.perf_counter() - start)
    return statistics.median(times)


def show(name, ours, theirs=None, peer=None):
    line = f"{name:44} {ours * 1e6:12.1f} us"
    if theirs is not None:
        line += f"   {peer} {theirs * 1e6:12.1f} us   {theirs / ours:6.2f}x"
    print(line, flush=True)


def populate():
    frames = numpy.random.default_rng(0).integers(0, 4096, 28 * 7, dtype="i4")

    def many():
        for _ in range(1000):
            snac.populate(frames)

    def loop():
        view = frames.reshape(28, 7)
        levels = [numpy.empty((1, 28 * n), "i4") for n in (1, 2, 4)]
        for level, start, step, slot in [(0, 0, 1, 0), (1, 0, 2, 1), (1, 1, 2, 4), (2, 0, 4, 2), (2, 1, 4, 3), (2, 2, 4, 5), (2, 3, 4, 6)]:
            levels[level][0, start::step] = view[:, slot]
        return all(((level >= 0) & (level < 4096)).all() for level in levels)

    show("populate, 28 frames", seconds(many) / 1000, seconds(loop), "numpy slices")


def spectrogram():
    samples = numpy.random.default_rng(0).standard_normal(10 * 22_050).astype("f4") * 0.1
    transform = mel.Transform("builder")
    out = numpy.empty(transform.shape(len(samples)), "f2")
    ours = seconds(lambda: transform(samples, out=out), 40)
    show("mel, 10 s, out= (the native call)", ours)
    show("mel.spectrogram, 10 s", seconds(lambda: mel.spectrogram(samples), 40), ours, "native call")
    try:
        import torch
        import torchaudio
    except ImportError as error:
        return print(f"mel beside torchaudio: left out, {error}")
    other = torchaudio.transforms.MelSpectrogram(16_000)
    tensor = torch.from_numpy(samples)
    ours = seconds(lambda: mel.spectrogram(samples, preset="torchaudio"), 40)
    difference = (other(tensor) - torch.from_numpy(mel.spectrogram(samples, preset="torchaudio"))).abs().max()
    show("mel, preset torchaudio, 10 s", ours, seconds(lambda: other(tensor), 40), "torchaudio")
    print(f"  largest difference {difference:.2e}")


def codec():
    try:
        import snac as theirs
        import torch
    except ImportError as error:
        return print(f"SNAC beside the snac package: left out, {error}")
    folder = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../../golden/snac/tiny24")
    original = theirs.SNAC.from_config(os.path.join(folder, "config.json")).eval()
    original.load_state_dict(torch.load(os.path.join(folder, "pytorch_model.bin"), map_location="cpu"))
    ours = snac.SNAC.from_pretrained(folder, noise=None)
    batch = torch.randn(1, 1, 24 * 2_048) * 0.1
    with torch.inference_mode():
        codes = original.encode(batch)
        show("SNAC.encode, 2 s, tiny model", seconds(lambda: ours.encode(batch)), seconds(lambda: original.encode(batch)), "snac")
        show("SNAC.decode, 2 s, tiny model", seconds(lambda: ours.decode(codes)), seconds(lambda: original.decode(codes)), "snac")


def weights():
    try:
        import safetensors.torch
        import torch
    except ImportError as error:
        return print(f"load_file beside safetensors: left out, {error}")
    tensors = {f"layer.{index}": (torch.randn(2048, 2048) * 0.02).bfloat16() for index in range(32)}
    with tempfile.TemporaryDirectory(dir=".") as folder:
        plain, packed = os.path.join(folder, "plain.safetensors"), os.path.join(folder, "packed.safetensors")
        safetensors.torch.save_file(tensors, plain)
        sizes = pack.save_file(tensors, packed)
        print(f"weights: {sizes.source_bytes >> 20} MiB, packed {sizes.packed_bytes / sizes.source_bytes:.3f} of it")

        def forget():
            for path in (plain, packed):
                with open(path, "rb") as file:
                    os.fsync(file.fileno())
                    os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)

        def read():
            with open(plain, "rb", buffering=0) as file:
                while file.read(1 << 22):
                    pass

        cloned = lambda: [tensor.clone() for tensor in safetensors.torch.load_file(plain).values()]
        for state, prepare in [("cold", forget), ("warm", lambda: None)]:
            rate = sizes.source_bytes / seconds(read, 3, prepare) / 1e9
            ours = seconds(lambda: pack.load_file(packed, "pt"), 3, prepare)
            show(f"load_file, {state} (the disk reads {rate:.2f} GB/s)", ours, seconds(cloned, 3, prepare), "safetensors + clone")


def loader():
    try:
        import h5py
        import torch
    except ImportError as error:
        return print(f"DataLoader beside h5py: left out, {error}")

    class Other(torch.utils.data.Dataset):
        def __init__(self, path, length):
            self.path, self.length, self.file = path, length, None

        def __len__(self):
            return self.length

        def __getitem__(self, index):
            if self.file is None:
                self.file = h5py.File(self.path, "r")["mel"]
            return self.file[index]

    with tempfile.TemporaryDirectory(dir=".") as folder:
        for index in range(8):
            audio.write(os.path.join(folder, f"{index}.wav"), numpy.random.default_rng(index).standard_normal(22_050 * 60) * 0.1, 22_050)
        dataset.build(folder, os.path.join(folder, "rows.h5"), segment=1.0, segment_hop=0.1, progress=False)
        rows = dataset.open(os.path.join(folder, "rows.h5"))
        values = numpy.array(rows.column("mel"))
        layouts = {"contiguous": {}, "chunked": {"chunks": (1, *values.shape[1:])}}
        load = lambda data: [None for _ in torch.utils.data.DataLoader(data, batch_size=32, shuffle=True, num_workers=2)]
        ours = seconds(lambda: load(rows), 3) / len(rows)
        for name, options in layouts.items():
            path = os.path.join(folder, f"{name}.h5")
            with h5py.File(path, "w") as file:
                file.create_dataset("mel", data=values, **options)
            show("DataLoader with 2 workers, a row", ours, seconds(lambda: load(Other(path, len(rows))), 3) / len(rows), f"h5py {name}")


if __name__ == "__main__":
    rows = {"populate": populate, "mel": spectrogram, "snac": codec, "pack": weights, "loader": loader}
    for name in sys.argv[1:] or rows:
        rows[name]()
