"""Jobs on a cluster of two nodes: nodes, workers and drivers die, files vanish, and the bytes stay the same."""

import glob
import json
import os
import shutil
import signal
import subprocess
import tempfile
import time
import unittest

import numpy
import ray
from ray.cluster_utils import Cluster

import melisma.ray
from jobs import digest, start_driver, write_files
from melisma import dataset, pack, synth
from melisma.ray import JobError, Mel, Tokens, Workers

HALF = Mel(segment=0.5)
#: A copy of the package whose workers behave as this variable says.
ODD = "MELISMA_ODD"


def odd_package(folder):
    """The package with a hook for faults that cannot be made from outside; returns what goes onto PYTHONPATH."""
    source = os.path.dirname(melisma.__file__)
    shutil.copytree(source, os.path.join(folder, "melisma"))
    with open(os.path.join(folder, "melisma", "__init__.py"), "a", encoding="utf-8") as file:
        file.write(
            "\nimport os, shutil\n"
            f"_odd = os.environ.get({ODD!r})\n"
            "if _odd == 'version':\n    __version__ = '0.0.1'\n"
            "if _odd == 'crash':\n"
            "    from melisma import _melisma\n"
            "    import melisma._feature\n"
            "    class _Crash:\n"
            "        def build(self, order):\n"
            "            os.kill(os.getpid(), 9)\n"
            "    melisma._feature.builder = lambda feature, place: _Crash()\n"
            "if _odd == 'full':\n    shutil.disk_usage = lambda path: shutil._ntuple_diskusage(1, 1, 0)\n"
            "if _odd == 'blind':\n"
            "    _exists = os.path.exists\n"
            "    os.path.exists = lambda path: 'wavs' not in str(path) and _exists(path)\n"
        )
    return folder


class Nodes(unittest.TestCase):
    """A cluster of a head, which the driver uses, and a second node."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        self.wavs = self.path("wavs")
        self.cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1})
        self.addCleanup(self.cluster.shutdown)
        self.second = None

    def path(self, name):
        return os.path.join(self.folder, name)

    def start(self, odd=None):
        variables = {}
        if odd is not None:
            variables = {ODD: odd, "PYTHONPATH": odd_package(self.path("odd"))}
        self.second = self.cluster.add_node(num_cpus=1, env_vars=variables)
        self.cluster.wait_for_nodes()
        ray.init(address=self.cluster.address, log_to_driver=False)
        self.addCleanup(ray.shutdown)

    def alone(self, feature, name="alone.h5"):
        dataset.build(self.wavs, self.path(name), feature, device="cpu", threads=1, progress=False)
        return digest(self.path(name))


class Results(Nodes):
    def test_the_bytes_of_one_machine(self):
        write_files(self.wavs, 12)
        with open(os.path.join(self.wavs, "bad.wav"), "wb") as file:
            file.write(b"RIFF")
        self.start()
        for name, feature in {
            "mel.h5": HALF,
            "mel.safetensors": Mel("whisper-80", segment=0.5),
            "npy": HALF,
            "tokens.safetensors": Tokens(),
            "tokens.jsonl": Tokens(format="orpheus", drop_repeats=True),
        }.items():
            expected = self.alone(feature, f"alone-{name}")
            report = melisma.ray.build(self.wavs, self.path(name), feature, shards=5)
            self.assertIsInstance(report, melisma.ray.BuildReport)
            self.assertEqual(digest(self.path(name)), expected, name)
            self.assertEqual((report["shards"], report["shards_resumed"], report["faults"]), (5, 0, []))
            self.assertEqual((report["files_ok"], report["files_failed"]), (12, 1))
            self.assertEqual([failure["path"] for failure in report["failures"]], ["bad.wav"])
            self.assertEqual(
                digest(self.path(f"{name}.failures.jsonl")), digest(self.path(f"alone-{name}.failures.jsonl"))
            )
            again = melisma.ray.build(self.wavs, self.path(name), feature, shards=5)
            self.assertEqual((again.shards_resumed, again["rows"]), (5, report.rows))
            self.assertEqual(glob.glob(self.path(f"{name}.shards/shard-*{os.path.splitext(name)[1] or '[0-9]'}")), [])
        with self.assertRaisesRegex(ValueError, "begun with segment=0.5, this call has segment=1.0"):
            melisma.ray.build(self.wavs, self.path("mel.h5"), Mel(segment=1.0), shards=5)
        with self.assertWarnsRegex(DeprecationWarning, r"use melisma.ray.build\(inputs, output, Mel\(segment=...\)\)"):
            melisma.ray.build(self.wavs, self.path("mel.h5"), shards=5, segment=1.0, overwrite=True)
        self.assertEqual(digest(self.path("mel.h5")), self.alone(Mel(segment=1.0), "alone-1.h5"))

    def test_files_behind_a_uri(self):
        write_files(self.wavs, 6)
        self.start()
        expected = self.alone(HALF)
        scratch = self.path("scratch")
        os.mkdir(scratch)
        report = melisma.ray.build(
            f"file://{self.wavs}", self.path("uri.h5"), HALF, shards=3, scratch=scratch
        )
        self.assertEqual((digest(self.path("uri.h5")), report["files_ok"]), (expected, 6))
        self.assertEqual(os.listdir(scratch), [])
        with open(self.path("names"), "w", encoding="utf-8") as file:
            file.writelines(f"{index:03}.wav\n" for index in range(6))
        given = {"list": self.path("names"), "root": self.wavs}
        report = melisma.ray.build((), self.path("listed.h5"), HALF, shards=3, **given)
        self.assertEqual((digest(self.path("listed.h5")), report.files_peak_limited), (expected, 0))

    def test_checkpoints_and_clips(self):
        self.start()
        names = [f"model-0000{index}-of-00003.safetensors" for index in (1, 2, 3)]
        os.mkdir(self.path("model"))
        weight_map = {}
        for index, name in enumerate(names):
            tensor = numpy.sin(numpy.arange(4096 * 16, dtype="f4") * (index + 1)).reshape(256, 256)
            write_plain(self.path(f"model/{name}"), f"w{index}", tensor)
            weight_map[f"w{index}"] = name
        index = self.path("model/model.safetensors.index.json")
        with open(index, "w", encoding="utf-8") as file:
            json.dump({"metadata": {"total_size": 1}, "weight_map": weight_map}, file)
        report = melisma.ray.pack(index)
        self.assertEqual((report["shards"], report["faults"]), (3, []))
        self.assertLess(report["packed_bytes"], report["source_bytes"])
        with open(report["output"], encoding="utf-8") as file:
            packed = json.load(file)["weight_map"]
        for number, name in enumerate(names):
            plain = pack.load_file(self.path(f"model/{name}"), "np")[f"w{number}"]
            numpy.testing.assert_array_equal(pack.load_file(self.path(f"model/{packed[f'w{number}']}"), "np")[f"w{number}"], plain)
        self.assertEqual(melisma.ray.pack(index)["shards_resumed"], 3)
        write_plain(self.path(f"model/{names[1]}"), "w1", numpy.zeros((256, 256), "f4"))
        self.assertEqual(melisma.ray.pack(index)["shards_resumed"], 2)
        self.assertEqual(pack.load_file(self.path(f"model/{packed['w1']}"), "np")["w1"].any(), False)

        clips = self.path("clips")
        report = melisma.ray.clips("preset:bright", clips, 5, seconds=1.0, rate=16_000, shards=3)
        self.assertEqual((report["clips"], report["clips_kept"], report["samples"]), (5, 0, 5 * 16_000))
        self.assertEqual(len(glob.glob(os.path.join(clips, "clip_*.wav"))), 5)
        with open(os.path.join(clips, "clip_000003.json"), encoding="utf-8") as file:
            label = json.load(file)
        self.assertEqual((label["seed"], label["audio"]), (3, "clip_000003.wav"))
        self.assertEqual(len(synth.Score.from_dict(label["score"]).notes), len(label["score"]["notes"]))
        whole = digest(clips)
        os.truncate(os.path.join(clips, "clip_000001.wav"), 100)
        report = melisma.ray.clips("preset:bright", clips, 5, seconds=1.0, rate=16_000, shards=3)
        self.assertEqual((report["shards_resumed"], digest(clips)), (2, whole))
        melisma.ray.clips("preset:bright", clips, 2, seconds=0.5, rate=16_000, overwrite=True)
        self.assertEqual(len(os.listdir(clips)), 4)

    def test_clips_of_an_own_preset_and_its_changes(self):
        self.start()
        mine, alone = self.path("mine.yaml"), self.path("alone")
        with open(mine, "w", encoding="utf-8") as file:
            file.write(synth.preset_yaml("sleep"))
        asked = "--clips 3 --seconds 1 --rate 16000 --tempo 96 --mode dorian -q".split()
        subprocess.run([os.environ["MELISMA"], "synth", f"preset:{mine}", "-o", alone, *asked], check=True)
        given = {"seconds": 1.0, "rate": 16_000, "tempo": 96, "mode": "dorian"}
        self.assertEqual(melisma.ray.clips(mine, self.path("own"), 3, **given).clips, 3)
        self.assertEqual(digest(self.path("own")), digest(alone))
        with open(mine, "a", encoding="utf-8") as file:
            file.write("# changed\n")
        with self.assertRaisesRegex(ValueError, "begun with file "):
            melisma.ray.clips(mine, self.path("own"), 3, **given)


class Deaths(Nodes):
    def test_a_worker_that_crashes(self):
        write_files(self.wavs, 9)
        self.start("crash")
        expected = self.alone(HALF)
        # Every worker of the second node dies at its first shard; those of the head do the work.
        report = melisma.ray.build(self.wavs, self.path("out.h5"), HALF, shards=3, retries=3)
        self.assertEqual((digest(self.path("out.h5")), report["shards_failed"]), (expected, 0))
        self.assertIn("the worker or its node died", {fault["message"] for fault in report["faults"]})
        self.assertTrue(all(self.second.node_id[:8] in fault["node"] for fault in report["faults"]), report["faults"])

    def test_a_node_dies_in_mid_run(self):
        write_files(self.wavs, 40, seconds=4.0)
        expected = self.alone(Tokens())
        self.start()
        driver = start_driver(
            self.cluster.address,
            f"r = melisma.ray.build({self.wavs!r}, {self.path('out.h5')!r}, melisma.ray.Tokens(), shards=20)\n"
            f"import json; json.dump(dict(r), open({self.path('report.json')!r}, 'w'))",
        )
        self.wait_for_shards(4, driver)
        self.cluster.remove_node(self.second, allow_graceful=False)
        self.assertEqual(driver.wait(), 0)
        with open(self.path("report.json"), encoding="utf-8") as file:
            report = json.load(file)
        self.assertEqual(digest(self.path("out.h5")), expected)
        self.assertEqual((report["shards_failed"], report["files_ok"], report["rows"]), (0, 40, 40))

    def test_the_driver_is_killed_and_started_again(self):
        write_files(self.wavs, 40, seconds=4.0)
        expected = self.alone(Tokens())
        self.start()
        code = f"melisma.ray.build({self.wavs!r}, {self.path('out.h5')!r}, melisma.ray.Tokens(), shards=20)"
        driver = start_driver(self.cluster.address, code)
        self.wait_for_shards(6, driver)
        os.killpg(driver.pid, signal.SIGKILL)
        driver.wait()
        time.sleep(1)
        done = {path: os.stat(path).st_mtime_ns for path in glob.glob(self.path("out.h5.shards/shard-*.json"))}
        self.assertFalse(os.path.exists(self.path("out.h5")))
        report = melisma.ray.build(self.wavs, self.path("out.h5"), Tokens(), shards=20)
        self.assertGreaterEqual(report["shards_resumed"], len(done))
        self.assertEqual((digest(self.path("out.h5")), report["files_ok"], report["rows"]), (expected, 40, 40))
        again = {path: os.stat(path).st_mtime_ns for path in done}
        self.assertEqual(again, done, "finished shards are not done twice")

    def wait_for_shards(self, count, driver):
        while len(glob.glob(self.path("out.h5.shards/shard-*.json"))) < count:
            self.assertIsNone(driver.poll(), "the driver has ended")
            time.sleep(0.05)

    def test_a_poisoned_shard(self):
        write_files(self.wavs, 9)
        self.start()
        expected = self.alone(HALF)
        begin(self, shards=3)
        # A folder with the name of its unfinished file: shard 2 fails wherever it is tried.
        poison = self.path("out.h5.shards/shard-00002.h5.partial")
        os.makedirs(os.path.join(poison, "stray"))
        with self.assertRaises(JobError) as raised:
            melisma.ray.build(self.wavs, self.path("out.h5"), HALF, shards=3, retries=1)
        faults = raised.exception.faults
        self.assertEqual([fault["shard"] for fault in faults], [2, 2], "tried twice, the others not listed")
        self.assertTrue(all(fault["node"] and "stray" in fault["message"] for fault in faults), faults)
        self.assertFalse(os.path.exists(self.path("out.h5")))
        report = melisma.ray.build(
            self.wavs, self.path("out.h5"), HALF, shards=3, retries=0, allow_missing=True
        )
        self.assertEqual((report["shards_failed"], report["missing_shards"], report["shards_resumed"]), (1, 1, 2))
        self.assertEqual(dataset.open(self.path("out.h5")).attributes["missing_shards"], "2/3")
        shutil.rmtree(poison)
        report = melisma.ray.build(self.wavs, self.path("out.h5"), HALF, shards=3)
        self.assertEqual((digest(self.path("out.h5")), report["shards_resumed"]), (expected, 2))


class Faults(Nodes):
    """Each is named with its node, and the rest goes on."""

    def check(self, odd, text):
        write_files(self.wavs, 6)
        self.start(odd)
        expected = self.alone(HALF)
        report = melisma.ray.build(self.wavs, self.path("out.h5"), HALF, shards=3)
        self.assertEqual(digest(self.path("out.h5")), expected)
        [fault] = report["faults"]
        self.assertIn(text, fault["message"])
        self.assertIn(self.second.node_id[:8], fault["node"])

    def test_another_version(self):
        self.check("version", "melisma 0.0.1 is installed, the driver has")

    def test_a_full_disk(self):
        self.check("full", "the disk is full")

    def test_a_path_that_only_the_driver_sees(self):
        self.check("blind", "not found on this node")

    def test_files_that_vanish(self):
        write_files(self.wavs, 6)
        self.start()
        begin(self, shards=3)
        os.remove(os.path.join(self.wavs, "003.wav"))
        report = melisma.ray.build(self.wavs, self.path("out.h5"), HALF, shards=3)
        self.assertEqual((report["files_ok"], report["files_failed"], report["faults"]), (5, 1, []))
        self.assertEqual(report["failures"][0]["path"], "003.wav")
        self.assertEqual(sorted(set(dataset.open(self.path("out.h5")).column("file_index").tolist())), [0, 1, 2, 4, 5])

    def test_nothing_can_work(self):
        self.start()
        with self.assertRaises(JobError) as raised:
            melisma.ray.build(self.path("nowhere"), self.path("out.h5"))
        self.assertEqual(len(raised.exception.faults), 2)
        write_files(self.wavs, 1)
        with self.assertRaisesRegex(JobError, "no node has room for a worker with num_cpus=1 and num_gpus=4"):
            melisma.ray.build(self.wavs, self.path("out.h5"), workers=Workers(num_gpus=4))


def begin(test, shards):
    """Begins the job `out.h5` and leaves it there."""
    options = {"store": None, "overwrite": False, "feature": HALF, "memory_limit": None, "scratch": None}
    options |= {"list": None, "root": None}
    melisma.ray._dataset.Build([test.wavs], test.path("out.h5"), shards, options).prepare(2)


def write_plain(path, name, tensor):
    """A safetensors file with one tensor."""
    header = json.dumps({name: {"dtype": "F32", "shape": list(tensor.shape), "data_offsets": [0, tensor.nbytes]}})
    header += " " * (-len(header) % 8)
    with open(path, "wb") as file:
        file.write(len(header).to_bytes(8, "little") + header.encode() + tensor.tobytes())


if __name__ == "__main__":
    unittest.main()
