"""Peer of `melisma bench dataset`: the loop that people write with soundfile, torchaudio and h5py.

usage: dataset.py FOLDER THREADS
The last line of output is one JSON object {peer: files a second}.
"""

import glob
import json
import os
import sys
import tempfile
import time


def main(folder, threads):
    import h5py
    import soundfile
    import torch
    import torchaudio

    torch.set_num_threads(threads)
    paths = sorted(glob.glob(os.path.join(folder, "*.wav")))
    rate, samples = 22050, 220500
    mel = torchaudio.transforms.MelSpectrogram(rate, 1024, hop_length=256, n_mels=80)
    times = []
    with torch.inference_mode(), tempfile.TemporaryDirectory() as scratch:
        for run in range(2):
            start = time.perf_counter()
            with h5py.File(os.path.join(scratch, f"{run}.h5"), "w") as file:
                values = file.create_dataset("mel", (len(paths), 80, 1 + samples // 256), dtype="f2")
                for index, path in enumerate(paths):
                    sound, _ = soundfile.read(path, dtype="float32")
                    m = mel(torch.from_numpy(sound)).clamp_min_(1e-10).log10_().mul_(20).half()
                    values[index] = m.numpy()
            times.append(time.perf_counter() - start)
    print(json.dumps({"soundfile+torchaudio+h5py": len(paths) / min(times)}))


main(sys.argv[1], int(sys.argv[2]))
