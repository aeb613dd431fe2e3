"""usage: corpora.py MELISMA FOLDER HOUND: the WAV files of hound and scipy, read by melisma and by libsndfile."""

import glob
import json
import os
import shutil
import subprocess
import sys

import h5py
import numpy
import scipy
import soundfile

melisma, folder, hound = sys.argv[1:]
os.chdir(folder)
shutil.rmtree("w", ignore_errors=True)
os.mkdir("w")
data = os.path.join(os.path.dirname(scipy.__file__), "io", "tests", "data")
for name, place in (("hound", hound), ("scipy", data)):
    for path in glob.glob(os.path.join(place, "**", "*.wav"), recursive=True):
        shutil.copy(path, f"w/{name}-{os.path.basename(path)}")
names = sorted(os.listdir("w"))
assert len(names) > 30, names
for name in glob.glob("a.h5*"):
    os.remove(name)
command = [melisma, "dataset", "build", "w", "-o", "a.h5", "--segment", "50ms", "--device", "cpu", "--json"]
done = subprocess.run(command, capture_output=True, text=True, timeout=300)
assert done.returncode in (0, 1), done.stderr
report = json.loads(done.stdout)
failed = {failure["path"]: failure["message"] for failure in report["failures"]}
with h5py.File("a.h5") as file:
    paths = {path.rstrip(b"\0").decode() for path in file["path"][:]}
assert paths | set(failed) == set(names), (set(names) - paths - set(failed))
print(f"{len(names)} files: {len(paths)} with rows, {len(failed)} refused")
for name, message in sorted(failed.items()):
    print(f"  {name}: {message}")

# Where libsndfile reads a file too, spectrograms of its samples and of the file are the same.
compared = 0
for name in sorted(paths - set(failed)):
    try:
        sound, rate = soundfile.read(f"w/{name}", dtype="float32", always_2d=True)
    except soundfile.LibsndfileError:
        continue
    if not len(sound) or not numpy.isfinite(sound).all():
        continue
    soundfile.write("copy.wav", sound.mean(axis=1, dtype=numpy.float32), rate, subtype="FLOAT")
    shape = ["--preset", "torchaudio", "--set", f"sample_rate={rate}", "--set", "padding=constant", "-f", "-q"]
    for source, output in ((f"w/{name}", "x.npy"), ("copy.wav", "y.npy")):
        subprocess.run([melisma, "mel", source, "-o", output, "--device", "cpu", *shape], check=True, stdout=subprocess.DEVNULL)
    x, y = numpy.load("x.npy"), numpy.load("y.npy")
    frames = min(x.shape[1], y.shape[1])
    assert frames > 0 and abs(x.shape[1] - y.shape[1]) <= 1, (name, x.shape, y.shape)
    difference = numpy.abs(x[:, :frames] - y[:, :frames]).max() / max(y.max(), 1e-6)
    assert difference < 1e-4, (name, difference)
    compared += 1
print(f"{compared} files have the samples that libsndfile reads")
