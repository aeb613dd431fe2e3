"""The examples in the docstrings and in the README."""

import contextlib
import doctest
import importlib
import pathlib
import pkgutil
import tempfile
import unittest

import melisma
from melisma import audio

README = pathlib.Path(__file__).parents[3] / "README.md"


class Readme(unittest.TestCase):
    def test_its_lines_run(self):
        blocks = README.read_text().split("```python\n")[1:]
        self.assertEqual(len(blocks), 1)
        with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
            exec(blocks[0].split("```")[0], {})
            samples, sample_rate = audio.read("speech.wav")
        self.assertEqual((samples.shape, sample_rate), ((1, 2048), 24000))


def load_tests(loader, tests, pattern):
    for module in pkgutil.iter_modules(melisma.__path__):
        if module.name not in ("_melisma", "_worker", "ray"):
            tests.addTests(doctest.DocTestSuite(importlib.import_module(f"melisma.{module.name}")))
    return tests


if __name__ == "__main__":
    unittest.main()
