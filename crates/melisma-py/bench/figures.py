"""Figures of the package beside what it replaces, measured in one run: python figures.py [ROW...]

Each line ends with the target that it is held to, and whether it holds. Rows with a package that is missing are left
out, and say so. RUST_SECONDS names the program of `cargo bench --no-run -p melisma-py --bench rust_seconds`, which times
the library alone.
"""

import json
import os
import pathlib
import runpy
import statistics
import subprocess
import sys
import tempfile
import time

import numpy

from melisma import audio, dataset, mel, pack, snac

ROUNDS = 7
SNAC_24KHZ = runpy.run_path(str(pathlib.Path(__file__).parents[2] / "melisma-bench/peers/snac.py"))["CONFIG"]


def seconds(work, rounds=ROUNDS, prepare=lambda: None):
    """The median of several rounds after a warm-up."""
    return in_turns([work], rounds, prepare)[0]


def in_turns(works, rounds=ROUNDS, prepare=lambda: None):
    """The medians of several rounds after a warm-up. Whatever disturbs a round disturbs all of them."""
    times = [[] for _ in works]
    for index in range(rounds + 1):
        for work, taken in zip(works, times):
            prepare()
            start = time.perf_counter()
            work()
            if index:
                taken.append(time.perf_counter() - start)
    return [statistics.median(taken) for taken in times]


def show(name, ours, theirs=None, peer=None, target=None):
    line = f"{name:44} {ours * 1e6:12.1f} us"
    if theirs is not None:
        line += f"   {peer} {theirs * 1e6:12.1f} us   {theirs / ours:6.2f}x"
    if target is not None:
        words, holds = target
        line += f"   {words}: {'holds' if holds else 'MISSED'}"
    print(line, flush=True)


class Rust:
    """The library's calls without Python around them, timed by a program of its own."""

    def __init__(self):
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
        program = os.environ.get("RUST_SECONDS")
        self.process = subprocess.Popen([program], **pipes) if program else None

    def __bool__(self):
        return self.process is not None

    def seconds(self, call, rounds):
        """The median of several rounds of a call."""
        print(call, rounds, file=self.process.stdin, flush=True)
        return float(self.process.stdout.readline())


RUST = Rust()


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

    ours = seconds(many) / 1000
    if RUST:
        rust = RUST.seconds("populate", 10_000)
        show("populate, 28 frames", ours, rust, "Rust", ("within 3 us", ours - rust < 3e-6))
    show("populate, 28 frames", ours, seconds(loop, 1000), "numpy slices")


def spectrogram():
    samples = (numpy.sin(numpy.arange(10 * 22_050) * 0.05) * 0.1).astype("f4")
    if RUST:
        ours, rust = [], []
        # Twenty calls of each in turns: both find their own samples and tables in the caches.
        for _ in range(15):
            rust.append(RUST.seconds("mel", 20))
            ours.append(seconds(lambda: mel.spectrogram(samples), 20))
        ours, rust = statistics.median(ours), statistics.median(rust)
        show("mel.spectrogram, 10 s", ours, rust, "Rust", ("within 5 %", ours < rust * 1.05))
    try:
        import torch

        sys.path.append(os.environ.get("TEST_TORCHAUDIO", "."))
        # Spectrograms are plain torch. torchaudio's compiled parts may be of another CUDA, which it checks.
        version, torch.version.cuda = torch.version.cuda, None
        import torchaudio

        torch.version.cuda = version
    except ImportError as error:
        return print(f"mel beside torchaudio: left out, {error}")
    other = torchaudio.transforms.MelSpectrogram(16_000)
    tensor = torch.from_numpy(samples)
    ours, theirs = in_turns([lambda: mel.spectrogram(tensor, preset="torchaudio"), lambda: other(tensor)], 40)
    expected = other(tensor)
    difference = (expected - mel.spectrogram(tensor, preset="torchaudio")).abs().max() / expected.max()
    show("mel, preset torchaudio, 10 s", ours, theirs, "torchaudio", (f"difference {difference:.1e} of 1e-5", difference < 1e-5))


def codec():
    try:
        import snac as theirs
        import torch
    except ImportError as error:
        return print(f"SNAC beside the snac package: left out, {error}")
    torch.manual_seed(0)
    with tempfile.TemporaryDirectory(dir=".") as folder:
        with open(os.path.join(folder, "config.json"), "w") as file:
            json.dump(SNAC_24KHZ, file)
        original = theirs.SNAC.from_config(os.path.join(folder, "config.json")).eval()
        torch.save(original.state_dict(), os.path.join(folder, "pytorch_model.bin"))
        ours = snac.SNAC.from_pretrained(folder, noise=None)
    for module in original.modules():
        if type(module).__name__ == "NoiseBlock":
            module.forward = lambda x: x
    batch = torch.randn(1, 1, 24 * 2_048) * 0.1
    with torch.inference_mode():
        codes = original.encode(batch)
        found = ours.encode(batch)
        same = sum((a == b).sum().item() for a, b in zip(found, codes)) / sum(a.numel() for a in codes)
        difference = (ours.decode(codes) - original.decode(codes)).abs().max().item()
        times = in_turns([lambda: ours.encode(batch), lambda: original.encode(batch)])
        show("SNAC.encode, 2 s, 24 kHz", *times, "snac", (f"{same:.1%} of the codes of 99 %", same >= 0.99))
        times = in_turns([lambda: ours.decode(codes), lambda: original.decode(codes)])
        show("SNAC.decode, 2 s, 24 kHz", *times, "snac", (f"difference {difference:.1e} of 1e-4", difference < 1e-4))


def save_both(tensors, folder):
    """The tensors as a plain and as a packed file, and the sizes of both."""
    import safetensors.torch

    plain, packed = os.path.join(folder, "plain.safetensors"), os.path.join(folder, "packed.safetensors")
    safetensors.torch.save_file(tensors, plain)
    return plain, packed, pack.save_file(tensors, packed)


def weights():
    try:
        import safetensors.torch
        import torch
    except ImportError as error:
        return print(f"load_file beside safetensors: left out, {error}")
    tensors = {f"layer.{index}": (torch.randn(2048, 2048) * 0.02).bfloat16() for index in range(64)}
    with tempfile.TemporaryDirectory(dir=".") as folder:
        plain, packed, sizes = save_both(tensors, folder)
        del tensors
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

        ours = lambda: pack.load_file(packed, "pt")
        cloned = lambda: [tensor.clone() for tensor in safetensors.torch.load_file(plain).values()]
        for state, prepare in [("cold", forget), ("warm", lambda: None)]:
            times = in_turns([ours, cloned, read], 5, prepare)
            rate = sizes.source_bytes / times[2] / 1e9
            target = ("1.3x", times[1] >= 1.3 * times[0]) if state == "cold" else None
            show(f"load_file, {state} (the disk reads {rate:.2f} GB/s)", *times[:2], "safetensors + clone", target)


def gpu():
    try:
        import safetensors.torch
        import torch
    except ImportError as error:
        return print(f"load_to_device beside safetensors: left out, {error}")
    if not torch.cuda.is_available():
        return print("load_to_device beside safetensors: left out, torch finds no GPU")
    tensors = {f"layer.{index}": (torch.randn(4096, 4096) * 0.02).bfloat16() for index in range(64)}
    with tempfile.TemporaryDirectory(dir=".") as folder:
        plain, packed, sizes = save_both(tensors, folder)
        del tensors

        def loaded(load):
            def work():
                tensors = load()
                torch.cuda.synchronize()
                return tensors

            return work

        works = [
            loaded(lambda: pack.load_to_device(packed)),
            loaded(lambda: pack.load_to_device(plain)),
            loaded(lambda: safetensors.torch.load_file(plain, device="cuda")),
        ]
        ours, theirs = works[0](), works[2]()
        same = all(torch.equal(ours[name], theirs[name]) for name in theirs)
        del ours, theirs
        times = in_turns(works, 5)
        name = f"load_to_device, {sizes.source_bytes >> 20} MiB"
        show(f"{name}, packed, warm", times[0], times[2], "safetensors", ("the same bytes", same))
        show(f"{name}, plain, warm", times[1], times[2], "safetensors")


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

    def epoch(data, **options):
        """A function that loads everything once. The workers have been started when it is timed."""
        loader = torch.utils.data.DataLoader(
            data, batch_size=32, shuffle=True, num_workers=2, persistent_workers=True, **options
        )
        return lambda: [None for _ in loader]

    with tempfile.TemporaryDirectory(dir=".") as folder:
        for index in range(8):
            audio.write(os.path.join(folder, f"{index}.wav"), numpy.random.default_rng(index).standard_normal(22_050 * 60) * 0.1, 22_050)
        dataset.build(folder, os.path.join(folder, "rows.h5"), dataset.Mel(segment=1.0, segment_hop=0.02), progress=False)
        rows = dataset.open(os.path.join(folder, "rows.h5"))
        values = numpy.array(rows.column("mel"))
        others = []
        for name, options in {"contiguous": {}, "chunked": {"chunks": (1, *values.shape[1:])}}.items():
            path = os.path.join(folder, f"{name}.h5")
            with h5py.File(path, "w") as file:
                file.create_dataset("mel", data=values, **options)
            others.append(Other(path, len(rows)))
        del values
        epochs = [epoch(rows, collate_fn=dataset.collate), epoch(rows), *map(epoch, others)]
        mapped, copied, contiguous, chunked = (time / len(rows) for time in in_turns(epochs, 3))
        name = f"DataLoader, 2 workers, a row of {len(rows)}"
        show(name, mapped, contiguous, "h5py contiguous", ("2x", contiguous >= 2 * mapped))
        show(name, mapped, chunked, "h5py chunked")
        show(f"{name}, torch's collate", copied, contiguous, "h5py contiguous")


if __name__ == "__main__":
    print(f"{os.cpu_count()} CPUs, load {os.getloadavg()[0]:.1f}")
    if not RUST:
        print("populate and mel beside Rust: left out, RUST_SECONDS is not set")
    rows = {"populate": populate, "mel": spectrogram, "snac": codec, "pack": weights, "gpu": gpu, "loader": loader}
    for name in sys.argv[1:] or rows:
        rows[name]()
