"""The examples that need nothing but numpy."""

import json
import os
import subprocess
import sys
import tempfile
import unittest

import numpy

from melisma import snac

EXAMPLES = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../examples")


def run(name, *arguments, **options):
    script = os.path.join(EXAMPLES, name)
    return subprocess.run([sys.executable, script, *arguments], check=True, capture_output=True, **options).stdout


class Examples(unittest.TestCase):
    def test_orpheus(self):
        codes = numpy.random.default_rng(0).integers(0, 4096, (12, 7))
        pcm = numpy.frombuffer(run("orpheus.py", input=snac.Encoder().to_text(codes).encode()), "<i2")
        numpy.testing.assert_allclose(pcm / 32768, snac.Decoder().decode(codes), atol=1 / 32768)

    def test_chords(self):
        with tempfile.TemporaryDirectory() as folder:
            run("chords.py", folder, "3")
            self.assertEqual(len(os.listdir(folder)), 6)
            with open(os.path.join(folder, "0000.json")) as file:
                self.assertEqual(sorted(json.load(file)), ["chord", "instrument", "root"])


if __name__ == "__main__":
    unittest.main()
