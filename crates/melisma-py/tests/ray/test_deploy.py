"""The job files of Slurm and Kubernetes: every array element runs here in turn, and the results are those of one run."""

import glob
import json
import os
import re
import shutil
import subprocess
import tempfile
import unittest

import numpy
import yaml

from jobs import digest, write_files
from test_cluster import write_plain

ROOT = os.path.join(os.path.dirname(__file__), "..", "..", "..", "..")
DEPLOY = os.path.join(ROOT, "deploy")
#: The program that the check has built.
PROGRAM = os.environ["MELISMA"]


class Jobs(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        write_files(self.path("wavs"), 7)
        with open(self.path("wavs/bad.wav"), "wb") as file:
            file.write(b"RIFF")
        os.mkdir(self.path("model"))
        weight_map = {}
        for index in range(3):
            name = f"model-0000{index + 1}-of-00003.safetensors"
            write_plain(self.path(f"model/{name}"), f"w{index}", numpy.full((64, 64), index, "f4"))
            weight_map[f"w{index}"] = name
        with open(self.path("model/model.safetensors.index.json"), "w", encoding="utf-8") as file:
            json.dump({"metadata": {}, "weight_map": weight_map}, file)

    def path(self, name):
        return os.path.join(self.folder, name)

    def environment(self, **variables):
        inherited = {key: value for key, value in os.environ.items() if not key.startswith("MELISMA")}
        path = f"{os.path.dirname(os.path.abspath(PROGRAM))}:{os.environ['PATH']}"
        return inherited | {"PATH": path, "MELISMA_DEVICE": "cpu"} | variables

    def melisma(self, *arguments):
        ran = subprocess.run([PROGRAM, *arguments], env=self.environment(), capture_output=True, text=True, check=False)
        self.assertLessEqual(ran.returncode, 1, ran.stderr)

    def orders(self):
        """The variables of each job, and what one machine makes: two paths that must be equal."""
        mel, tokens, model = self.path("mel.h5"), self.path("tokens.safetensors"), self.path("model")
        wavs = self.path("wavs")
        self.melisma("dataset", "build", wavs, "-o", self.path("one.h5"), "--segment", "1s")
        self.melisma("encode", wavs, "-o", self.path("one.safetensors"))
        self.melisma("synth", "preset:focus", "-o", self.path("one"), "--clips", "5", "--seconds", "1")
        return {
            "dataset": ({"INPUT": wavs, "OUTPUT": mel, "OPTIONS": "--segment 1s"}, mel, self.path("one.h5")),
            "tokens": ({"INPUT": wavs, "OUTPUT": tokens, "OPTIONS": ""}, tokens, self.path("one.safetensors")),
            "clips": (
                {"PRESET": "preset:focus", "OUTPUT": self.path("clips"), "CLIPS": "5", "OPTIONS": "--seconds 1"},
                self.path("clips"), self.path("one"),
            ),
            "pack": ({"INDEX": f"{model}/model.safetensors.index.json"}, None, None),
        }

    def check_packed(self):
        self.melisma("pack", "-t", self.path("model/model.packed.safetensors.index.json"))
        for packed in glob.glob(self.path("model/*packed*")):
            os.remove(packed)

    def test_slurm(self):
        for name, (variables, output, expected) in self.orders().items():
            script = os.path.join(DEPLOY, "slurm", f"{name}.sbatch")
            with open(script, encoding="utf-8") as file:
                text = file.read()
            self.assertRegex(text, r"(?m)^#SBATCH --array=1-\d+$")
            for index in (1, 2, 3):
                array = {"SLURM_ARRAY_TASK_ID": str(index), "SLURM_ARRAY_TASK_COUNT": "3", "SLURM_CPUS_PER_TASK": "2"}
                self.run_script(["/bin/sh", script], variables | array)
            # One element again.
            array = {"SLURM_ARRAY_TASK_ID": "2", "SLURM_ARRAY_TASK_COUNT": "1", "SHARDS": "3"}
            self.run_script(["/bin/sh", script], variables | array)
            if "OUTPUT" in variables and name != "clips":
                merge = ["/bin/sh", os.path.join(DEPLOY, "slurm", "merge.sbatch")]
                # As if an earlier merge had been killed.
                for path in (output, f"{output}.shards/merging"):
                    shutil.copy(os.path.join(self.folder, "wavs/000.wav"), path)
                self.run_script(merge, variables)
                self.run_script(merge, variables)
                self.assertFalse(glob.glob(f"{output}.shards") + glob.glob(f"{output}.merged"))
            if output is None:
                self.check_packed()
            else:
                self.assertEqual(digest(output), digest(expected), name)

    def test_folders_of_npy_files_and_lines(self):
        script, merge = (os.path.join(DEPLOY, "slurm", f"{name}.sbatch") for name in ("dataset", "merge"))
        variables = {"INPUT": self.path("wavs"), "OUTPUT": self.path("rows"), "OPTIONS": "--segment 1s"}
        for index in (1, 2):
            array = {"SLURM_ARRAY_TASK_ID": str(index), "SLURM_ARRAY_TASK_COUNT": "2"}
            self.run_script(["/bin/sh", script], variables | array)
        self.run_script(["/bin/sh", merge], variables)
        self.melisma("dataset", "build", self.path("wavs"), "-o", self.path("whole"), "--segment", "1s")
        self.assertEqual(digest(self.path("rows")), digest(self.path("whole")))
        lines = variables | array | {"OUTPUT": self.path("rows.jsonl")}
        ran = subprocess.run(["/bin/sh", script], env=self.environment(**lines), capture_output=True, text=True, check=False)
        self.assertEqual((ran.returncode, "cannot be merged" in ran.stderr), (2, True))
        # Those of tokens can.
        options = "--format orpheus --drop-repeats"
        variables = {"INPUT": self.path("wavs"), "OUTPUT": self.path("tokens.jsonl"), "OPTIONS": options}
        for index in (1, 2):
            array = {"SLURM_ARRAY_TASK_ID": str(index), "SLURM_ARRAY_TASK_COUNT": "2"}
            self.run_script(["/bin/sh", os.path.join(DEPLOY, "slurm", "tokens.sbatch")], variables | array)
        self.run_script(["/bin/sh", merge], variables)
        self.melisma("encode", self.path("wavs"), "-o", self.path("whole.jsonl"), *options.split())
        self.assertEqual(digest(self.path("tokens.jsonl")), digest(self.path("whole.jsonl")))
        self.melisma("dataset", "verify", self.path("tokens.jsonl"))

    def test_kubernetes(self):
        for name, (variables, output, expected) in self.orders().items():
            job = self.job(name)
            self.assertEqual((job["spec"]["completionMode"], job["spec"]["completions"]), ("Indexed", job["spec"]["parallelism"]))
            [container] = job["spec"]["template"]["spec"]["containers"]
            given = {variable["name"]: variable["value"] for variable in container["env"]}
            self.assertEqual(given["SHARDS"], str(job["spec"]["completions"]))
            self.assertEqual(set(variables) - {"OPTIONS"}, set(given) - {"SHARDS", "OPTIONS"})
            for index in (0, 1, 2):
                array = {"SHARDS": "3", "JOB_COMPLETION_INDEX": str(index)}
                self.run_script(container["command"] + container["args"], variables | array)
            if "OUTPUT" in variables and name != "clips":
                [container] = self.job("merge")["spec"]["template"]["spec"]["containers"]
                self.run_script(container["command"] + container["args"], {"OUTPUT": output})
            if output is None:
                self.check_packed()
            else:
                self.assertEqual(digest(output), digest(expected), name)

    def job(self, name):
        with open(os.path.join(DEPLOY, "kubernetes", f"{name}.yaml"), encoding="utf-8") as file:
            job = yaml.safe_load(file)
        self.assertEqual((job["apiVersion"], job["kind"], job["metadata"]["name"]), ("batch/v1", "Job", f"melisma-{name}"))
        self.assertTrue(re.fullmatch(r"[a-z-]+", job["metadata"]["name"]))
        return job

    def run_script(self, command, variables):
        ran = subprocess.run(command, env=self.environment(**variables), capture_output=True, text=True, check=False)
        self.assertEqual(ran.returncode, 0, ran.stderr)


if __name__ == "__main__":
    unittest.main()
