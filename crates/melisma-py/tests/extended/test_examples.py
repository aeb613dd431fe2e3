"""The examples that need torch or openai."""

import os
import subprocess
import sys
import tempfile
import unittest

import numpy

from melisma import audio

EXAMPLES = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../examples")


def run(name, *arguments):
    script = os.path.join(EXAMPLES, name)
    return subprocess.run([sys.executable, script, *arguments], check=True, capture_output=True, text=True, timeout=1_800).stdout


class Examples(unittest.TestCase):
    def test_train(self):
        with tempfile.TemporaryDirectory() as folder:
            for index in range(4):
                audio.write(os.path.join(folder, f"{index}.wav"), numpy.sin(numpy.arange(88_200) / (5 + index)), 22_050)
            self.assertRegex(run("train.py", folder), "^16 rows, loss")

    def test_weights(self):
        with tempfile.TemporaryDirectory() as folder:
            self.assertIn("without a difference", run("weights.py", os.path.join(folder, "x.safetensors")))

    def test_speech(self):
        with tempfile.TemporaryDirectory() as folder:
            self.assertIn("s of speech", run("speech.py", os.path.join(folder, "x.wav")))


if __name__ == "__main__":
    unittest.main()
