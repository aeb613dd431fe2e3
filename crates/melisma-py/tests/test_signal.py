"""Ctrl-C: every long call raises KeyboardInterrupt within a second, and its objects stay usable."""

import os
import signal
import tempfile
import threading
import time
import unittest

import numpy

import test_tensor  # It clears the environment.
from melisma import audio, dataset, mel, snac, synth

PROMISED_S = 1.0
ATTEMPTS = 3
"""A busy machine may delay a thread for longer than the promise, but not each time: the fastest attempt counts."""


def frames(n):
    return numpy.random.default_rng(0).integers(0, 4096, (n, 7), dtype="i4")


class Interrupts(unittest.TestCase):
    def check(self, work, after=0.3):
        """`work` takes seconds; the signal comes `after` it began."""
        delays = []
        while len(delays) < ATTEMPTS and min(delays, default=PROMISED_S) >= PROMISED_S:
            sent = []

            def send():
                sent.append(time.monotonic())
                os.kill(os.getpid(), signal.SIGINT)

            timer = threading.Timer(after, send)
            timer.start()
            try:
                work()
            except KeyboardInterrupt:
                delays.append(time.monotonic() - sent[0])
            else:
                timer.cancel()
                self.fail("it ended before the signal came")
        self.assertLess(min(delays), PROMISED_S)

    def test_decoding(self):
        decoder = snac.Decoder(device="cpu")
        codes = frames(100_000)
        self.check(lambda: decoder.decode(codes))
        self.check(lambda: decoder.decode_batch([codes] * 3))
        stream = decoder.stream()
        self.check(lambda: stream.push(codes))
        self.assertEqual(decoder.decode(frames(1)).size, 2_048)

    def test_encoding(self):
        encoder = snac.Encoder(device="cpu")
        samples = numpy.zeros(24_000 * 3_600, "f4")
        self.check(lambda: encoder.encode(samples))
        stream = encoder.stream()
        self.check(lambda: stream.push(samples))
        self.assertEqual(len(encoder.encode(samples[:2_048])[0]), 1)

    def test_spectrograms(self):
        samples = numpy.zeros(22_050 * 60, "f4")
        self.check(lambda: mel.spectrogram(samples, n_fft=4_096, hop_length=1, n_mels=10))
        self.check(lambda: mel.spectrogram(numpy.zeros((10_000, 22_050), "f4"), n_fft=4_096, hop_length=64))
        self.assertEqual(mel.spectrogram(samples[:22_050]).shape, (80, 87))

    def test_rendering(self):
        self.check(lambda: synth.render("preset:focus", seconds=7_200))
        self.check(lambda: synth.render("preset:focus", seconds=7_200, loudness=None))
        self.check(lambda: synth.Stream("focus").read(1 << 28))

    def test_a_build_of_spectrograms_resumes(self):
        with tempfile.TemporaryDirectory() as folder:
            audio.write(os.path.join(folder, "long.wav"), numpy.zeros(22_050 * 600, "i2"), 22_050)
            path = os.path.join(folder, "x.h5")
            self.check(lambda: dataset.build(folder, path, segment=1.0, segment_hop=0.002, progress=False), after=0.5)
            self.assertTrue(os.path.exists(path + ".partial"))
            self.assertFalse(os.path.exists(path))


if __name__ == "__main__":
    unittest.main()
