"""The examples that need torch or openai."""

import importlib.util
import json
import os
import re
import subprocess
import sys
import tempfile
import unittest

import numpy

from melisma import audio, dataset, pack

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import voice  # noqa: E402

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

    def test_corpus_and_lines(self):
        with tempfile.TemporaryDirectory() as folder:
            for index in range(4):
                audio.write(os.path.join(folder, f"{index}.wav"), numpy.sin(numpy.arange(88_200) / (5 + index)), 22_050)
                with open(os.path.join(folder, f"{index}.txt"), "w", encoding="utf-8") as file:
                    file.write(f"Tone {index}.")
            for name in ("x.safetensors", "x.h5"):
                path = os.path.join(folder, name)
                dataset.build(folder, path, dataset.Tokens(), device="cpu", progress=False)
                losses = re.fullmatch("4 rows, loss (.*) to (.*)\n", run("corpus.py", path))
                self.assertLess(float(losses[2]), float(losses[1]))
            path = os.path.join(folder, "x.jsonl")
            dataset.build(folder, path, dataset.Tokens(format="orpheus"), device="cpu", progress=False)
            if importlib.util.find_spec("transformers") is None:
                self.skipTest("transformers is not installed")
            from safetensors.numpy import save_file

            with open(path, encoding="utf-8") as file:
                codes = sum(len(json.loads(line)["codes_list"]) for line in file)
            # Around each text of 7 letters, a begin of text, three tokens of the format and its end.
            tokens = codes + 4 * (7 + 1 + 3 + 1)
            folder = voice.write(os.path.join(folder, "voice"))
            weights = pack.load_file(os.path.join(folder, "model.packed.safetensors"), "np")
            save_file(weights, os.path.join(folder, "model.safetensors"), {"format": "pt"})
            shown = re.fullmatch(f"4 rows, {tokens} tokens\nloss (.*) to (.*)\n", run("lines.py", path, folder, "0.01"))
            self.assertLess(float(shown[2]), float(shown[1]))

    def test_the_manual_s_lines_of_datasets(self):
        if importlib.util.find_spec("datasets") is None:
            self.skipTest("datasets is not installed")
        with open(os.path.join(EXAMPLES, "../../../docs/corpus.md"), encoding="utf-8") as file:
            [block] = [block for block in re.findall(r"```python\n(.*?)```", file.read(), re.DOTALL) if "to_parquet" in block]
        with tempfile.TemporaryDirectory() as folder:
            audio.write(os.path.join(folder, "a.wav"), numpy.sin(numpy.arange(88_200) / 5), 22_050)
            with open(os.path.join(folder, "a.txt"), "w", encoding="utf-8") as file:
                file.write("A tone.")
            path = os.path.join(folder, "train.jsonl")
            dataset.build(os.path.join(folder, "a.wav"), path, dataset.Tokens(), device="cpu", progress=False)
            with open(path, encoding="utf-8") as file:
                expected = [json.loads(line) for line in file]
            read = block + "print(len(rows), rows.column_names)\n"
            read += "print(load_dataset('parquet', data_files='train.parquet', split='train').to_list() == rows.to_list())\n"
            read += "import json; print(json.dumps(rows.to_list()))"
            environment = os.environ | {"HF_HOME": os.path.join(folder, "cache"), "HF_HUB_OFFLINE": "1"}
            ran = subprocess.run(
                [sys.executable, "-c", read], cwd=folder, env=environment, check=True, capture_output=True, text=True,
                timeout=1_800,
            )
            shown, same, rows = ran.stdout.splitlines()
            self.assertEqual((shown, same), ("1 ['path', 'seconds', 'text', 'codes']", "True"))
            self.assertEqual(json.loads(rows), expected)

    def test_weights(self):
        with tempfile.TemporaryDirectory() as folder:
            self.assertIn("without a difference", run("weights.py", os.path.join(folder, "x.safetensors")))

    def test_speech(self):
        with tempfile.TemporaryDirectory() as folder:
            self.assertIn("s of speech", run("speech.py", os.path.join(folder, "x.wav")))


if __name__ == "__main__":
    unittest.main()
