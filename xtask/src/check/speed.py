"""Changes the speed of recorded speech and measures it with DNSMOS, beside the same speech at its own speed.

usage: speed.py MELISMA CONVERT FOLDER
"""

import glob
import importlib.util
import os
import subprocess
import sys
import wave

import numpy as np

MELISMA, CONVERT, FOLDER = sys.argv[1:]
# Readings for LibriVox, of Debian's package pocketsphinx-testdata. DNSMOS rates synthetic voices by how fast they
# speak: espeak-ng's own faster speech loses 0.4.
CLIPS = sorted(glob.glob("/usr/share/pocketsphinx/test/data/librivox/*.wav"))
SPEEDS = [0.8, 1.25]
# DNSMOS rates 9.01 s of 16 kHz; its overall score is a polynomial of the model's third output.
RATE, WINDOW = 16000, 144160
OVERALL = np.poly1d([-0.06766283, 1.11546468, 0.04602535])
# The most that the overall score, 1 to 5, may fall on average.
LIMIT = 0.15


def run(*command):
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, (command, done.stderr)


def read(path):
    with wave.open(path) as file:
        assert (file.getframerate(), file.getnchannels()) == (RATE, 1)
        return np.frombuffer(file.readframes(file.getnframes()), "<i2").astype(np.float32) / 32768


def score(samples):
    """The mean over windows; a short clip repeats, as DNSMOS' own script has it."""
    while len(samples) < WINDOW:
        samples = np.append(samples, samples)
    found = []
    for start in range(0, len(samples) - WINDOW + 1, RATE):
        np.save("window.npy", samples[None, start : start + WINDOW])
        run(MELISMA, "-q", "-f", "run", MODEL, "--input", "input_1=window.npy", "-o", "scores")
        (name,) = os.listdir("scores")
        found.append(OVERALL(np.load(os.path.join("scores", name))[0][2]))
    return np.mean(found)


if not CLIPS:
    print("speed: not measured, pocketsphinx-testdata is not installed")
    sys.exit(0)
os.chdir(FOLDER)
package = importlib.util.find_spec("speechmos").submodule_search_locations[0]
MODEL = os.path.join(package, "dnsmos_models", "sig_bak_ovr.onnx")
losses = {speed: [] for speed in SPEEDS}
for clip in CLIPS:
    original = read(clip)
    before = score(original)
    for speed in SPEEDS:
        run(CONVERT, clip, "changed.wav", str(speed))
        changed = read("changed.wav")
        assert len(changed) == int(len(original) / speed + 0.5), (clip, speed)
        losses[speed].append(before - score(changed))
for speed, loss in losses.items():
    print(f"speed {speed}: DNSMOS falls by {np.mean(loss):.3f} on average, {max(loss):.3f} at most, of {len(loss)} clips")
if max(np.mean(loss) for loss in losses.values()) > LIMIT:
    sys.exit(f"more than {LIMIT}")
