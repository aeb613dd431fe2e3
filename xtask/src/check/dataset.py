"""usage: dataset.py MELISMA FOLDER: builds datasets and reads them with h5py, numpy and safetensors."""

import json
import os
import subprocess
import sys
import wave

import h5py
import numpy
from safetensors.numpy import load_file

melisma, folder = sys.argv[1:]
os.chdir(folder)
os.mkdir("w")
generator = numpy.random.default_rng(1)
for index in range(60):
    with wave.open(f"w/{index:02}.wav", "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(22050)
        file.writeframes(generator.integers(-9000, 9000, 22050 + 500 * index, dtype=numpy.int16).tobytes())
open("w/bad.wav", "wb").write(b"RIFF")


def build(output, *more):
    command = [melisma, "dataset", "build", "w", "-o", output, "--segment", "500ms", "--device", "cpu", "--json", *more]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 1, done.stderr
    return json.loads(done.stdout)


report = build("a.h5")
with h5py.File("a.h5") as file:
    n = report["segments"]
    mel = file["mel"]
    assert mel.shape == (n, 80, 44) and mel.dtype == numpy.float16, mel
    assert mel.id.get_offset() % 4096 == 0
    for name, dtype in {"file_index": "<i8", "start_sample": "<i8", "valid_frames": "<i4", "status": "|u1", "checksum": "<u8"}.items():
        assert file[name].shape == (n,) and file[name].dtype.str == dtype, name
    assert file["path"][0] == b"00.wav" and set(file["status"][:]) == {0}
    assert numpy.isfinite(mel[:].astype(numpy.float32)).all() and mel[0].std() > 0
    config = json.loads(file.attrs["config"])
    assert config["mel"]["n_mels"] == 80 and file.attrs["sample_rate"] == 22050
    values, paths = mel[:], file["path"][:]
    # What anybody can do without HDF5 at all.
    mapped = numpy.memmap("a.h5", numpy.float16, "r", mel.id.get_offset(), mel.shape)
    assert (mapped == values).all()
build("a.safetensors")
tensors = load_file("a.safetensors")
assert (tensors["mel"] == values).all() and bytes(tensors["path"][0]) == b"00.wav"
build("a")
assert (numpy.load("a/mel.npy") == values).all() and (numpy.load("a/path.npy") == paths).all()

# A build that is killed: h5py opens what is there, and the end is the same bytes.
for attempt in range(8):
    command = [melisma, "dataset", "build", "w", "-o", "k.h5", "--segment", "500ms", "--device", "cpu"]
    child = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        child.wait(0.002 * (attempt + 1))
    except subprocess.TimeoutExpired:
        child.kill()
        child.wait()
    if os.path.exists("k.h5.partial"):
        with h5py.File("k.h5.partial") as file:
            assert file["mel"].shape == (n, 80, 44) and set(file["status"][:]) <= {0, 255}
build("k.h5")
assert open("k.h5", "rb").read() == open("a.h5", "rb").read()
print("h5py", h5py.__version__, "read", n, "rows")
