"""Peers of `melisma bench dataset`.

usage: dataset.py loop | pipeline, then FOLDER THREADS FILES
loop: a plain loop with soundfile, torchaudio and h5py, on a CPU.
pipeline: PyTorch on a GPU: threads read files into pinned batches of 128, a ring of three batches, a copy
stream and a compute stream, autocast, h5py.
The last line of output is one JSON object {"files/s": rate}.
"""

import collections
import concurrent.futures
import glob
import itertools
import json
import os
import sys
import tempfile
import time

import h5py
import soundfile
import torch
import torchaudio

RATE, SAMPLES, FRAMES = 22050, 220500, 862


def loop(paths, threads, scratch):
    torch.set_num_threads(threads)
    mel = torchaudio.transforms.MelSpectrogram(RATE, 1024, hop_length=256, n_mels=80)
    times = []
    for run in range(2):
        start = time.perf_counter()
        with h5py.File(os.path.join(scratch, f"{run}.h5"), "w") as file:
            values = file.create_dataset("mel", (len(paths), 80, FRAMES), dtype="f2")
            for index, path in enumerate(paths):
                sound, _ = soundfile.read(path, dtype="float32")
                m = mel(torch.from_numpy(sound)).clamp_min_(1e-10).log10_().mul_(20).half()
                values[index] = m.numpy()
        times.append(time.perf_counter() - start)
    return len(paths) / min(times)


class Buffers:
    def __init__(self, batch):
        self.sound = torch.empty((batch, SAMPLES), pin_memory=True)
        self.sound_np = self.sound.numpy()
        self.mel = torch.empty((batch, 80, FRAMES), dtype=torch.float16, pin_memory=True)
        self.mel_np = self.mel.numpy()
        self.on_device = torch.empty((batch, SAMPLES), device="cuda")
        self.done = torch.cuda.Event()


def pipeline(paths, threads, scratch, batch=128):
    mel = torchaudio.transforms.MelSpectrogram(RATE, 1024, hop_length=256, n_mels=80).cuda()
    copies, compute = torch.cuda.Stream(), torch.cuda.Stream()
    ring = [Buffers(batch) for _ in range(3)]

    def read(job):
        buffers, row, path = job
        buffers.sound_np[row] = soundfile.read(path, dtype="float32")[0]

    def launch(buffers, pool, part):
        list(pool.map(read, [(buffers, row, path) for row, path in enumerate(part)]))
        n = len(part)
        with torch.cuda.stream(copies):
            buffers.on_device[:n].copy_(buffers.sound[:n], non_blocking=True)
            copied = torch.cuda.Event()
            copied.record(copies)
        with torch.cuda.stream(compute):
            compute.wait_event(copied)
            with torch.autocast(device_type="cuda", dtype=torch.float16):
                m = mel(buffers.on_device[:n])
            m = m.float().clamp_min_(1e-10).log10_().mul_(20).to(torch.float16)
            buffers.mel[:n].copy_(m, non_blocking=True)
            buffers.done.record(compute)

    def finish(values, buffers, first, n):
        buffers.done.synchronize()
        values[first : first + n] = buffers.mel_np[:n]

    best = 0.0
    with concurrent.futures.ThreadPoolExecutor(threads) as pool, torch.inference_mode():
        for run in range(3):
            start = time.perf_counter()
            with h5py.File(os.path.join(scratch, f"{run}.h5"), "w") as file:
                values = file.create_dataset("mel", (len(paths), 80, FRAMES), dtype="f2")
                free, in_flight = collections.deque(ring), collections.deque()
                for first in itertools.count(0, batch):
                    part = paths[first : first + batch]
                    if not part:
                        break
                    if not free:
                        done = in_flight.popleft()
                        finish(values, *done)
                        free.append(done[0])
                    buffers = free.popleft()
                    launch(buffers, pool, part)
                    in_flight.append((buffers, first, len(part)))
                while in_flight:
                    finish(values, *in_flight.popleft())
            best = max(best, len(paths) / (time.perf_counter() - start))
    return best


def main(which, folder, threads, files):
    paths = sorted(glob.glob(os.path.join(folder, "*.wav")))[:files]
    with tempfile.TemporaryDirectory(dir=os.path.dirname(folder)) as scratch, torch.inference_mode():
        rate = {"loop": loop, "pipeline": pipeline}[which](paths, threads, scratch)
    print(json.dumps({"files/s": rate}))


main(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
