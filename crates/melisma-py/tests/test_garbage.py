"""Objects that refer to each other are collected, as those of Python are."""

import gc
import os
import shutil
import unittest
import weakref

import numpy

import melisma
import test_tensor  # It clears the environment.
from folder import FolderCase
from melisma import audio, dataset, mel, optimize, pack, snac, synth
from test_onnx import GOLDEN


class Any:
    """What a program hangs its objects on."""


class Cycles(FolderCase):
    def make(self, *makes):
        """Closes a ring of objects, each made from the one before, and lets go of it."""
        ring = [makes[0]()]
        for make in makes[1:]:
            ring.append(make(ring[-1]))
        watched = [weakref.ref(one) for one in ring if type(one).__weakrefoffset__]
        self.assertTrue(watched)
        ring[0].kept = ring[-1]
        ring.clear()
        gc.collect()
        self.assertEqual([found() for found in watched], [None] * len(watched))

    def test_streams_of_codecs(self):
        self.make(lambda: snac.Decoder(device="cpu"), lambda decoder: decoder.stream())
        self.make(lambda: snac.Encoder(device="cpu"), lambda encoder: encoder.stream())

    def test_many_decoders_take_the_memory_of_one(self):
        decoders = weakref.WeakSet()
        for _ in range(5):
            decoder = snac.Decoder(device="cpu")
            decoder.own = decoder.stream()
            decoders.add(decoder)
            del decoder
            gc.collect()
        self.assertEqual(len(decoders), 0)

    def test_sessions_and_scopes_of_optimizers(self):
        model = shutil.copy(os.path.join(GOLDEN, "vocoder.onnx"), self.folder)
        config = {"device": "cpu", "threads": 1, "cache_dir": self.path("cache")}
        new = lambda: melisma.TensorOptimizer(config)
        self.make(new, lambda optimizer: optimizer.mixed_precision())
        self.make(new, lambda optimizer: super(optimize.Session, optimize.Session).__new__(optimize.Session, model, optimizer))

    def test_objects_that_hold_themselves(self):
        audio.write(self.path("a.wav"), numpy.zeros(22_050), 22_050)
        dataset.build(self.path("a.wav"), self.path("a.h5"), dataset.Mel(segment=1.0), progress=False)
        pack.save_file({"w": numpy.zeros(9, "f4")}, self.path("w.safetensors"))
        model = os.path.join(GOLDEN, "vocoder.onnx")
        for make in [
            lambda: dataset.open(self.path("a.h5")),
            lambda: dataset.open(self.path("a.h5")).__getitems__([0]),
            lambda: mel.Transform(),
            lambda: snac.Decoder(device="cpu"),
            lambda: snac.Encoder(device="cpu"),
            lambda: snac.SNAC("builtin:mini24", device="cpu"),
            lambda: snac.Decoder(device="cpu").stream(),
            lambda: snac.Encoder(device="cpu").stream(),
            lambda: synth.Stream(),
            lambda: synth.Score(),
            lambda: pack.Encoder(),
            lambda: pack.Decoder(),
            lambda: pack.safe_open(self.path("w.safetensors"), "np"),
            lambda: pack.safe_open(self.path("w.safetensors"), "np").get_slice("w"),
            lambda: optimize.Session(model, config={"device": "cpu", "threads": 1}),
            lambda: melisma.TensorOptimizer({"device": "cpu", "threads": 1}),
            lambda: melisma.TensorRTOptimizer({"device": "cpu", "threads": 1}),
            lambda: melisma.MemoryTracker(),
        ]:
            self.make(make)

    def test_native_objects_in_a_ring(self):
        """Those without attributes refer to nothing that could refer to them."""
        holder = Any()
        gone = weakref.ref(holder)
        optimizer = melisma.TensorOptimizer({"device": "cpu", "threads": 1})
        holder.held = [
            optimizer, optimizer.optimize_tensor(numpy.zeros(3, "f4")), optimizer.memory.track("x"), melisma.Config(),
            optimizer.mixed_precision(), melisma.trace(), holder,
        ]
        optimizer.holder = holder
        del holder, optimizer
        gc.collect()
        self.assertIsNone(gone())


if __name__ == "__main__":
    unittest.main()
