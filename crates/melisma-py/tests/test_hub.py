"""Packages that need not be installed: torch, and huggingface_hub with its cache."""

import contextlib
import fnmatch
import os
import pickle
import shutil
import subprocess
import sys
import tempfile
import types
import unittest
from unittest import mock

import numpy

import melisma
from folder import FolderCase
from melisma import audio, dataset, pack, snac

MODEL = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../../golden/snac/tiny24")
NAME = "someone/snac_24khz"


@contextlib.contextmanager
def without(name):
    """A Python in which a package is not installed."""
    with mock.patch.dict(sys.modules, {name: None}):
        yield


class Missing(FolderCase):
    def test_torch(self):
        pack.save_file({"w": numpy.zeros(4, "f4")}, self.path("w.safetensors"))
        audio.write(self.path("a.wav"), numpy.zeros(8_000), 8_000)
        dataset.build(self.path("a.wav"), self.path("a.h5"), dataset.Mel(segment=0.5), progress=False)
        rows = dataset.open(self.path("a.h5")).__getitems__([0])
        with without("torch"):
            for work in [
                lambda: pack.load_file(self.path("w.safetensors"), "pt"),
                lambda: pack.safe_open(self.path("w.safetensors"), framework="pt"),
                lambda: pack.decompress(pack.compress(numpy.zeros(3)), "pt"),
                lambda: pack.load_to_device(self.path("w.safetensors")),
                lambda: dataset.collate(rows),
            ]:
                with self.assertRaisesRegex(ImportError, "torch is not installed\nhint: pip install torch") as raised:
                    work()
                self.assertIsInstance(raised.exception, melisma.MelismaImportError)
        again = pickle.loads(pickle.dumps(raised.exception))
        self.assertEqual((type(again), again.hint), (melisma.MelismaImportError, "pip install torch"))

    def test_ray(self):
        with without("ray"):
            with self.assertRaisesRegex(ImportError, r'ray is not installed\nhint: pip install "ray\[data\]"'):
                import melisma.ray

    def test_packages_that_fail_by_themselves(self):
        with open(self.path("broken.py"), "w") as file:
            file.write("import nothing_of_this_name")
        sys.path.insert(0, self.folder)
        self.addCleanup(sys.path.remove, self.folder)
        with self.assertRaisesRegex(ModuleNotFoundError, "nothing_of_this_name"):
            melisma._array.optional("broken")


class Hub(unittest.TestCase):
    """The Hub, played by a module that gives a folder or an error."""

    def setUp(self):
        self.asked = []
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.addCleanup(os.chdir, os.getcwd())
        os.chdir(self.folder.name)

    def hub(self, answer):
        def snapshot_download(*arguments, **named):
            self.asked.append((arguments, named))
            if isinstance(answer, Exception):
                raise answer
            return answer

        module = types.ModuleType("huggingface_hub")
        module.snapshot_download = snapshot_download
        return mock.patch.dict(sys.modules, {"huggingface_hub": module})

    def test_a_name_is_opened_from_the_cache(self):
        with self.hub(MODEL):
            model = snac.SNAC.from_pretrained(NAME, revision="v1", device="cpu", noise=3)
            self.assertEqual(model.sampling_rate, 24_000)
        [(arguments, named)] = self.asked
        self.assertEqual((arguments, named["revision"]), ((NAME,), "v1"))
        def is_fetched(name):
            return any(fnmatch.fnmatch(name, pattern) for pattern in named["allow_patterns"])

        for name in ["config.json", "model.safetensors", "pytorch_model.bin", "model.packed.safetensors", "voice.packed.safetensors"]:
            self.assertTrue(is_fetched(name), name)
        self.assertFalse(is_fetched("optimizer.safetensors"))

    def test_paths_are_not_looked_for(self):
        os.makedirs(NAME)
        with self.hub("builtin:mini24"):
            self.assertEqual(snac.SNAC.from_pretrained("builtin:mini24").codebook_size, 4096)
            for path in [NAME, f"./{NAME}", "/nowhere/x", "none", "a/b/c", "models/", "../x/y", "-a/b", "a b/c"]:
                with self.assertRaises((ValueError, OSError), msg=path):
                    snac.SNAC.from_pretrained(path)
        self.assertEqual(self.asked, [])

    def test_without_a_network(self):
        for fault in [ConnectionError("no route\nmore"), FileNotFoundError("no route\nmore"), ValueError("no route")]:
            with self.hub(fault), self.assertRaises(FileNotFoundError) as raised:
                snac.SNAC.from_pretrained(NAME)
            self.assertIsInstance(raised.exception, melisma.MelismaError)
            self.assertRegex(str(raised.exception), f"^{NAME}: .* no route\nhint: check the name and the network")
            self.assertIs(type(pickle.loads(pickle.dumps(raised.exception))), melisma.MelismaFileNotFoundError)

    def test_without_the_package(self):
        with without("huggingface_hub"), self.assertRaises(ImportError) as raised:
            snac.SNAC.from_pretrained(NAME)
        self.assertRegex(str(raised.exception), f"^{NAME}: no such folder.*\nhint: pip install huggingface_hub$")


class Cache(unittest.TestCase):
    """The real package without a network, and a cache as it makes one."""

    CODE = "from melisma import snac; print(snac.SNAC.from_pretrained({name!r}, device='cpu').sampling_rate)"

    def setUp(self):
        try:
            import huggingface_hub  # noqa: F401
        except ImportError:
            self.skipTest("huggingface_hub is not installed")
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.home = folder.name

    def run_offline(self, name):
        names = {"HF_HOME": self.home, "HF_HUB_OFFLINE": "1", "HF_HUB_DISABLE_TELEMETRY": "1"}
        return subprocess.run(
            [sys.executable, "-c", self.CODE.format(name=name)], env={**os.environ, **names}, cwd=self.home,
            capture_output=True, text=True, timeout=300,
        )

    def test_the_cache_is_honoured(self):
        commit = "0" * 40
        model = os.path.join(self.home, "hub", "models--" + NAME.replace("/", "--"))
        snapshot = os.path.join(model, "snapshots", commit)
        os.makedirs(snapshot)
        os.makedirs(os.path.join(model, "refs"))
        with open(os.path.join(model, "refs", "main"), "w") as file:
            file.write(commit)
        for name in ["config.json", "model.safetensors"]:
            shutil.copy(os.path.join(MODEL, name), snapshot)
        ran = self.run_offline(NAME)
        self.assertEqual((ran.stdout, ran.returncode), ("24000\n", 0), ran.stderr)

    def test_what_the_cache_lacks(self):
        ran = self.run_offline("someone/else")
        self.assertIn("MelismaFileNotFoundError: someone/else: no such folder", ran.stderr)
        self.assertIn("hint: check the name and the network", ran.stderr)


if __name__ == "__main__":
    unittest.main()
