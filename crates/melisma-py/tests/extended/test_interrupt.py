"""Ctrl-C in the calls that need more time or memory than the plain check has."""

import os
import shutil
import sys
import tempfile
import unittest

import numpy

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from melisma import TensorOptimizer, audio, dataset, optimize, pack, synth
from test_onnx import GOLDEN
from test_signal import Interruptible, alone


class Interrupts(Interruptible):
    def setUp(self):
        super().setUp()
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def path(self, name):
        return os.path.join(self.folder, name)

    @alone
    def test_audio(self):
        samples = numpy.zeros(200_000_000, "f4")
        self.check(lambda: audio.resample(samples, 48_000, 44_100))
        self.check(lambda: audio.stretch(samples, 48_000, 1.1))
        self.check(lambda: audio.write(self.path("x.mp3"), samples, 48_000))
        self.assertEqual(os.listdir(self.folder), [])

    @alone
    def test_products(self):
        optimizer = TensorOptimizer({"device": "cpu"})
        left = numpy.zeros((12_000, 8_000), "f4")
        right = numpy.zeros((8_000, 8_000), "f4")
        self.check(lambda: optimizer.matmul(left, right))
        with optimizer.mixed_precision_context() as scope:
            self.check(lambda: scope.matmul(left, right))

    @alone
    def test_a_long_composition(self):
        self.check(lambda: synth.compose("focus", seconds=86_400), after=0.1)

    @alone
    def test_weights(self):
        weights = numpy.random.default_rng(0).standard_normal(150_000_000, dtype="f4")
        self.check(lambda: pack.save_file({"w": weights}, self.path("x.safetensors")))
        self.check(lambda: pack.compress(weights))
        self.assertEqual(os.listdir(self.folder), [])
        blob = pack.compress(weights)
        self.check(lambda: pack.decompress(blob), after=0.1)
        pack.save_file({"w": weights}, self.path("x.safetensors"))
        self.check(lambda: pack.load_file(self.path("x.safetensors"), "np"), after=0.1)

    @alone
    def test_a_build_of_tokens_and_its_scan(self):
        audio.write(self.path("long.wav"), numpy.zeros(24_000 * 3_600, "f4"), 24_000)
        build = lambda: dataset.build(self.folder, self.path("x.h5"), dataset.Tokens(), device="cpu", progress=False)
        self.check(build, after=1.0)

    @alone
    def test_models(self):
        model = shutil.copy(os.path.join(GOLDEN, "vocoder.onnx"), self.folder)
        config = {"cache_dir": self.path("cache"), "threads": 1}
        x = numpy.load(os.path.join(GOLDEN, "vocoder.x.npy"))
        self.check(lambda: optimize.optimize(model, {"x": x.shape}, config=config), after=1.0)
        long = numpy.zeros((*x.shape[:-1], 4_000_000), "f4")
        session = optimize.Session(model, config=config)
        self.check(lambda: session.run(None, {"x": long}))


if __name__ == "__main__":
    unittest.main()
