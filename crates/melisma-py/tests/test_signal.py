"""Ctrl-C: every long call raises KeyboardInterrupt within a second, and its objects stay usable."""

import faulthandler
import functools
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
import unittest

import numpy

import test_tensor  # It clears the environment.
from melisma import audio, dataset, mel, snac, synth

PROMISED_S = 1.0
"""Of the process's own time, which does not grow while others keep the machine busy."""
ATTEMPTS = 10
"""A thread may be stopped at a bad moment, but not each time: the fastest attempt counts."""
DEADLINE_S = 60
"""A call that takes longer after its signal ends the process, with a traceback."""


def frames(n):
    return numpy.random.default_rng(0).integers(0, 4096, (n, 7), dtype="i4")


def alone(test):
    """Runs a test in a process of its own, which may end without the others."""

    @functools.wraps(test)
    def started(self):
        if "TEST_ALONE" in os.environ:
            return test(self)
        file = sys.modules[type(self).__module__].__file__
        name = os.path.splitext(os.path.basename(file))[0]
        command = [sys.executable, "-m", "unittest", f"{name}.{type(self).__name__}.{test.__name__}"]
        # Slower than all attempts of all its calls.
        ran = subprocess.run(
            command, cwd=os.path.dirname(os.path.abspath(file)), env={**os.environ, "TEST_ALONE": "1"},
            stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=600,
        )
        self.assertEqual(ran.returncode, 0, ran.stdout + ran.stderr)

    return started


class Interruptible(unittest.TestCase):
    def setUp(self):
        # Background jobs and some runners start with SIGINT ignored.
        self.addCleanup(signal.signal, signal.SIGINT, signal.signal(signal.SIGINT, signal.default_int_handler))

    def check(self, work, after=0.3):
        """`work` takes seconds; the signal comes `after` it began, or sooner where a machine is faster."""
        delays = []
        while len(delays) < ATTEMPTS and min(delays, default=PROMISED_S) >= PROMISED_S:
            sent = []

            def send():
                faulthandler.dump_traceback_later(DEADLINE_S, exit=True)
                sent.append(time.process_time())
                os.kill(os.getpid(), signal.SIGINT)

            timer = threading.Timer(after, send)
            try:
                timer.start()
                work()
                timer.cancel()
                timer.join()
                self.assertEqual(sent, [], "the signal came, and nothing was raised")
                after /= 4
                self.assertGreater(after, 1e-4, "it ends before a signal can come")
            except KeyboardInterrupt:
                delays.append(time.process_time() - sent[0])
            finally:
                faulthandler.cancel_dump_traceback_later()
        self.assertLess(min(delays), PROMISED_S)


class Interrupts(Interruptible):
    @alone
    def test_decoding(self):
        decoder = snac.Decoder(device="cpu")
        codes = frames(100_000)
        self.check(lambda: decoder.decode(codes))
        self.check(lambda: decoder.decode_batch([codes] * 3))
        stream = decoder.stream()
        self.check(lambda: stream.push(codes))
        self.assertEqual(decoder.decode(frames(1)).size, 2_048)

    @alone
    def test_encoding(self):
        encoder = snac.Encoder(device="cpu")
        samples = numpy.zeros(24_000 * 3_600, "f4")
        self.check(lambda: encoder.encode(samples))
        stream = encoder.stream()
        self.check(lambda: stream.push(samples))
        self.assertEqual(len(encoder.encode(samples[:2_048])[0]), 1)

    @alone
    def test_spectrograms(self):
        samples = numpy.zeros(22_050 * 60, "f4")
        self.check(lambda: mel.spectrogram(samples, n_fft=4_096, hop_length=1, n_mels=10))
        self.check(lambda: mel.spectrogram(numpy.zeros((10_000, 22_050), "f4"), n_fft=4_096, hop_length=64))
        self.assertEqual(mel.spectrogram(samples[:22_050]).shape, (80, 87))

    @alone
    def test_rendering(self):
        self.check(lambda: synth.render("preset:focus", seconds=7_200))
        self.check(lambda: synth.render("preset:focus", seconds=7_200, loudness=None))
        self.check(lambda: synth.Stream("focus").read(1 << 28))

    @alone
    def test_a_build_of_spectrograms_resumes(self):
        with tempfile.TemporaryDirectory() as folder:
            audio.write(os.path.join(folder, "long.wav"), numpy.zeros(22_050 * 600, "i2"), 22_050)
            path = os.path.join(folder, "x.h5")
            self.check(lambda: dataset.build(folder, path, dataset.Mel(segment=1.0, segment_hop=0.002), progress=False), after=0.5)
            self.assertTrue(os.path.exists(path + ".partial"))
            self.assertFalse(os.path.exists(path))


if __name__ == "__main__":
    unittest.main()
