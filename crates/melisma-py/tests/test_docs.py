"""The examples in the docstrings, in the two readmes and in docs/python.md, and what docstrings say."""

import contextlib
import doctest
import importlib
import inspect
import os
import pathlib
import pkgutil
import re
import shutil
import tempfile
import tomllib
import unittest

import numpy

import melisma
import public
import voice
from melisma import audio, pack, snac
from test_onnx import GOLDEN

README = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../README.md")
#: A name, and what it is, in a section of a docstring.
ENTRY = re.compile(r"^ {4,8}(\w+): \S", re.MULTILINE)
#: Methods that nobody calls by name.
PROTOCOLS = re.compile(r"\.(__\w+__|_repr_html_)$")
GUIDE = pathlib.Path(__file__).parents[3] / "docs/python.md"
FRONT = pathlib.Path(__file__).parents[3] / "README.md"


class Front(unittest.TestCase):
    def test_its_lines_run(self):
        blocks = FRONT.read_text().split("```python\n")[1:]
        self.assertEqual(len(blocks), 1)
        with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
            exec(blocks[0].split("```")[0], {})
            samples, sample_rate = audio.read("speech.wav")
        self.assertEqual((samples.shape, sample_rate), ((1, 2048), 24000))


def load_tests(loader, tests, pattern):
    for module in pkgutil.iter_modules(melisma.__path__):
        if module.name not in ("_melisma", "_worker", "ray"):
            tests.addTests(doctest.DocTestSuite(importlib.import_module(f"melisma.{module.name}")))
    for number, block in enumerate(tasks(), 1):
        example = doctest.DocTestParser().get_doctest(block, {}, f"README.md, task {number}", README, None)
        tests.addTest(doctest.DocTestCase(example, setUp=enter, tearDown=leave))
    for number, block in enumerate(re.findall(r"```python\n(>>>.*?)```", GUIDE.read_text(), re.DOTALL), 1):
        example = doctest.DocTestParser().get_doctest(block, {}, f"python.md, example {number}", str(GUIDE), None)
        tests.addTest(doctest.DocTestCase(example, setUp=enter, tearDown=leave))
    return tests


def tasks():
    """The code blocks of the readme."""
    with open(README, encoding="utf-8") as file:
        return re.findall(r"```python\n(.*?)```", file.read(), re.DOTALL)


def enter(test):
    """A folder with what the readme uses, as the current one."""
    test.before, test.folder = os.getcwd(), tempfile.TemporaryDirectory()
    os.chdir(test.folder.name)
    codes = numpy.random.default_rng(0).integers(0, 4096, (12, 7))
    text = snac.Encoder().to_text(codes)
    with open("tokens.txt", "w") as file:
        file.write(text)
    samples = numpy.sin(numpy.arange(16_000 * 30, dtype="f4") / 9) / 2
    os.mkdir("wavs")
    audio.write("wavs/tone.wav", samples, 16_000)
    shutil.copy(os.path.join(GOLDEN, "vocoder.onnx"), "vocoder.onnx")
    pack.save_file({"layer.weight": numpy.zeros((64, 64), "f4")}, "model.packed.safetensors")
    voice.write("voice")
    test.globs |= {"tokens": text.splitlines(), "samples": samples[:16_000], "play": lambda samples: None}


def leave(test):
    os.chdir(test.before)
    test.folder.cleanup()


class Readme(unittest.TestCase):
    def test_tasks_take_five_lines(self):
        lengths = [len(re.findall(r"^(>>>|\.\.\.) ", block, re.MULTILINE)) for block in tasks()]
        self.assertEqual((len(lengths), max(lengths) <= 5, min(lengths) > 0), (6, True, True), lengths)


class Metadata(unittest.TestCase):
    def test_the_package_says_what_it_is(self):
        with open(os.path.join(os.path.dirname(README), "pyproject.toml"), "rb") as file:
            project = tomllib.load(file)["project"]
        self.assertEqual((project["readme"], project["requires-python"]), ("README.md", ">=3.11"))
        self.assertIn("Programming Language :: Python :: 3.11", project["classifiers"])
        self.assertNotIn("Programming Language :: Python :: 3.10", project["classifiers"])
        self.assertIn("Typing :: Typed", project["classifiers"])
        self.assertEqual(project["keywords"], sorted(set(project["keywords"])))


class Docstrings(unittest.TestCase):
    maxDiff = None

    def names(self):
        kinds = {f"melisma.{name}": getattr(melisma, name) for name in ("PrecisionScope", "Server", "Tensor")}
        methods = {
            f"{owner}.{name}": value
            for owner, kind in kinds.items()
            for name, value in vars(kind).items()
            if not name.startswith("_")
        }
        return {**public.names(), **kinds, **methods}

    def test_everything_public_says_what_it_takes_and_gives(self):
        wrong = []
        for name, value in self.names().items():
            said = inspect.getdoc(value) or ""
            # The default of a field has no docstring of its own; the class describes it.
            if value is None or PROTOCOLS.search(name):
                continue
            if not said:
                wrong.append(f"{name}: no docstring")
            if isinstance(value, type) and issubclass(value, Exception):
                continue
            arguments, _, results = said.partition("Returns:\n")
            listed = arguments.partition("Args:\n")[2]
            known = set(ENTRY.findall(listed))
            wrong += [f"{name}: `{key}` is not said" for key in self.parameters(value) if key not in known]
            if isinstance(value, type) or not callable(value):
                continue
            if not results and not self.gives_nothing(name):
                wrong.append(f"{name}: what it returns is not said")
        self.assertEqual(wrong, [])

    def parameters(self, value):
        found = public.parameters(value) if callable(value) else []
        return [key for key in found or [] if not key.startswith("_")]

    def gives_nothing(self, name):
        return name in {
            "audio.write", "melisma.Server.close", "melisma.Server.reload", "melisma.TensorOptimizer.combine_in_place",
            "melisma.Weights.load", "synth.Stream.note", "synth.Stream.note_off", "synth.Stream.set",
        }


if __name__ == "__main__":
    unittest.main()
