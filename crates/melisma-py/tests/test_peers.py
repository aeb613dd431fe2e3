"""The other libraries' side of `melisma bench`: what needs numpy alone is measured where nothing else is installed."""

import json
import os
import subprocess
import sys
import unittest

FOLDER = os.path.join(os.path.dirname(__file__), "../../melisma-bench/peers")
HIDE = "import sys; sys.modules.update(dict.fromkeys(['torch', 'torchaudio', 'librosa', 'threadpoolctl']))\n"
"""Makes an import of these fail."""


def figures(name, *arguments):
    script = HIDE
    for file in ("measure.py", name):
        with open(os.path.join(FOLDER, file)) as source:
            script += source.read()
    ran = subprocess.run([sys.executable, "-", *arguments], input=script, capture_output=True, text=True)
    return json.loads(ran.stdout.splitlines()[-1]) if ran.returncode == 0 else ran.stderr


class Numpy(unittest.TestCase):
    def test_products_spectrograms_and_slices_need_nothing_else(self):
        found = figures("runtime.py", "numpy", "2")
        shapes = ("1024x1024x1024", "1024x1024x32", "1024x32x1024")
        self.assertEqual(sorted(found), sorted(f"runtime/matmul {shape} 2t" for shape in shapes))
        self.assertTrue(all(list(row) == ["numpy"] and row["numpy"] > 0 for row in found.values()), found)
        found = figures("mel.py", "numpy", "2")
        self.assertTrue(list(found) == ["1024-256", "400-160"] and all(rate > 0 for rate in found.values()), found)
        found = figures("snac.py", "slices")
        self.assertTrue(len(found) == 5 and all(row["numpy"] > 0 for row in found.values()), found)

    def test_a_library_that_is_missing_is_named(self):
        for name, part in (("runtime.py", ["torch", "1"]), ("mel.py", ["librosa", "1"]), ("snac.py", ["population", "cpu"])):
            self.assertRegex(figures(name, *part), "(torch|librosa)")


if __name__ == "__main__":
    unittest.main()
