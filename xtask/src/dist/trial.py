"""usage: trial.py VERSION: speaks, encodes, decodes and packs with a wheel and nothing else of Melisma."""

import importlib.metadata
import pathlib
import platform
import sys
import tempfile

import numpy

import melisma
from melisma import pack, snac, speak

licences = [file for file in importlib.metadata.files("melisma") if file.name == "licences.txt"]
print(melisma.__version__, licences[0].locate().stat().st_size, "bytes of licences", melisma.__file__)
assert melisma.__version__ == sys.argv[1], sys.argv

speech = speak.Speaker(device="cpu").speak("Hello.")
codes = snac.Encoder("builtin:mini24", device="cpu").encode(speech.samples, sample_rate=speech.sample_rate)
samples = snac.Decoder("builtin:mini24", device="cpu").decode(codes)
assert samples.size >= speech.samples.size > 0 and samples.std() > 0, (samples.size, speech.samples.size)

weights = {"samples": samples}
with tempfile.TemporaryDirectory() as folder:
    path = pathlib.Path(folder) / "packed.safetensors"
    sizes = pack.save_file(weights, path)
    numpy.testing.assert_array_equal(pack.load_file(path, "np")["samples"], samples)
print(platform.machine(), f"{speech.seconds:.2f} s of speech,", len(codes[0]), "frames,", sizes)
