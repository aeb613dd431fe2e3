"""What type checkers see: results whose type depends on an argument."""

import importlib.util
import os
import subprocess
import sys
import tempfile
import unittest

import melisma

PROGRAM = '''
from typing import Any, assert_type

import numpy
import numpy.typing as npt

import melisma
from melisma import audio, dataset, mel, optimize, pack, snac, speak, synth
from melisma.dataset import Mel, Table, Tokens

Floats = npt.NDArray[numpy.float32]
Array = npt.NDArray[Any]


class Tensor:
    """As torch has it."""

    def detach(self) -> "Tensor":
        return self


array, room, tensor = numpy.zeros(9, "f4"), numpy.zeros(9, "f8"), Tensor()
assert_type(audio.resample(array, 2, 1), Floats)
assert_type(audio.resample(tensor, 2, 1), Tensor)
assert_type(audio.resample(tensor, 2, 1, out=tensor), Tensor)
assert_type(audio.stretch([0.0], 8000, 2), Floats)
assert_type(audio.stretch(tensor, 8000, 2), Tensor)
assert_type(mel.spectrogram(array, n_mels=40), Array)
assert_type(mel.spectrogram(tensor, preset="whisper-80"), Tensor)
assert_type(mel.spectrogram(array, out=tensor), Tensor)
assert_type(mel.Transform()(array), Array)
assert_type(mel.Transform()(tensor), Tensor)
assert_type(snac.populate(array), tuple[npt.NDArray[numpy.int32], npt.NDArray[numpy.int32], npt.NDArray[numpy.int32]])
assert_type(snac.populate(tensor), tuple[Tensor, Tensor, Tensor])
assert_type(snac.Decoder().decode(array), Floats)
assert_type(snac.Decoder().decode(array, out=tensor), Tensor)
assert_type(snac.Decoder().decode_row(dataset.open("x"), -1), Floats)
assert_type(snac.SNAC("x").encode(array), list[npt.NDArray[numpy.int64]])
assert_type(snac.SNAC("x").encode(tensor), list[Tensor])
assert_type(snac.SNAC("x").decode([tensor]), Tensor)
assert_type(snac.SNAC("x").decode([array]), Floats)
assert_type(snac.SNAC("x").forward(tensor), tuple[Tensor, list[Tensor]])
assert_type(speak.Speaker("x").speak("Hi.", voice="ann", temperature=0.5).samples, Floats)
assert_type(list(speak.Speaker("x").stream("Hi.")), list[Floats])
assert_type(speak.Speaker("x", precision="bf16").estimate("Hi.").step_seconds, float)
assert_type(speak.Speaker("x").speak_list("x", "y", format="orpheus", drop_repeats=True).expected, speak.Estimate | None)
assert_type(speak.Speaker("x").speak_all(["Hi.", {"text": "Bye."}]), list[speak.Speech | melisma.MelismaError])
assert_type(synth.render("preset:focus"), Floats)
assert_type(synth.render("preset:focus", out=tensor), Tensor)
assert_type(synth.render("song.mid", seed="monday"), Floats)
assert_type(synth.render_all(["preset:focus"]), list[Floats])
assert_type(synth.render_all(["preset:focus"], out=tensor), Tensor)
assert_type(synth.voices([60]), Floats)
assert_type(synth.voices(tensor), Tensor)
assert_type(synth.voices([60], out=tensor), Tensor)
assert_type(snac.validate(tensor).valid_0, bool)
assert_type(pack.load_file("x", "np"), dict[str, Array])
assert_type(pack.load_file("x"), dict[str, Any])
assert_type(pack.decompress(b""), Array)
assert_type(pack.decompress(b"", out=tensor), Tensor)
assert_type(pack.Decoder().decode(b"", (2,), "f4"), Array)
with pack.safe_open("x", "np") as file:
    assert_type(file.get_tensor("w"), Array)
    assert_type(file.get_slice("w")[:, 3], Array)
assert_type(melisma.TensorOptimizer().optimize_tensor(tensor), Tensor)
assert_type(melisma.TensorOptimizer().optimize_tensor(array), melisma.Tensor)
assert_type(dataset.open("x")[1:2], list[Any])
assert_type(dataset.build("x", "y", Mel(segment=1.0, n_mels=20), shard=(1, 8)), dataset.Report)
assert_type(dataset.build("x", "y", Tokens(model="m", texts=Table("t", 1))).rows, int)
assert_type(optimize.optimize("x").engine, str)
with melisma.span("x") as span:
    assert_type(span, melisma.span)


async def awaited() -> None:
    assert_type(await synth.render_async("preset:focus"), Floats)
    assert_type(await synth.render_async("preset:focus", out=tensor), Tensor)
    assert_type(await snac.Decoder().decode_async(array), Floats)
    assert_type(await speak.Speaker("x").speak_async("Hi."), speak.Speech)
    assert_type(await snac.Encoder().encode_async(array), list[npt.NDArray[numpy.int32]])
    assert_type(await mel.spectrogram_async(tensor), Tensor)
    assert_type(await pack.load_file_async("x", "np"), dict[str, Array])
    assert_type(await dataset.build_async("x", "y"), dataset.Report)
'''


class Types(unittest.TestCase):
    def test_results_have_the_type_of_their_argument(self):
        if importlib.util.find_spec("mypy") is None:
            self.skipTest("mypy is not installed")
        with tempfile.TemporaryDirectory() as folder:
            program = os.path.join(folder, "program.py")
            with open(program, "w") as file:
                file.write(PROGRAM)
            environment = {**os.environ, "MYPYPATH": os.path.dirname(melisma.__path__[0])}
            command = [sys.executable, "-m", "mypy", "--strict", "--no-incremental", program]
            ran = subprocess.run(command, env=environment, cwd=folder, capture_output=True, text=True, timeout=600)
        self.assertEqual(ran.returncode, 0, ran.stdout + ran.stderr)


if __name__ == "__main__":
    unittest.main()
