"""Lists of texts on a cluster: audio and tokens with the bytes of one machine, also after a driver was killed."""

import glob
import json
import os
import signal
import subprocess
import sys
import time
import unittest

import melisma.ray
from jobs import digest, start_driver
from test_cluster import Nodes

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))

import voice

PROGRAM = os.environ["MELISMA"]


def write_list(path, count):
    lines = [json.dumps({"text": f"This is text {index}.", "seed": index, "name": f"t{index}"}) for index in range(count)]
    lines[2] = "not json"
    with open(path, "w", encoding="utf-8") as file:
        file.write("\n".join(lines))


class Speaking(Nodes):
    def setUp(self):
        super().setUp()
        voice.write(self.path("voice"))
        self.list = self.path("list.jsonl")

    def alone(self, name, *more):
        command = [PROGRAM, "speak", "--list", self.list, "-o", self.path(name), "--voice-model", self.path("voice"), "-q", *more]
        self.assertEqual(subprocess.run(command).returncode, 1)
        return digest(self.path(name))

    def speak(self, name, **options):
        return melisma.ray.speak(self.list, self.path(name), self.path("voice"), **options)

    def test_the_bytes_of_one_machine(self):
        write_list(self.list, 11)
        self.start()
        for name in ("clips", "corpus.safetensors", "corpus.jsonl", "corpus.h5"):
            expected = self.alone(f"alone-{name}")
            report = self.speak(name, shards=4)
            self.assertIsInstance(report, melisma.ray.SpeakReport)
            self.assertEqual(digest(self.path(name)), expected, name)
            self.assertEqual((report.shards, report.shards_resumed, report.texts, report.faults), (4, 0, 10, []))
            self.assertEqual([failure["path"] for failure in report.failures], ["list.jsonl:3"])
            again = self.speak(name, shards=4)
            self.assertEqual((again.shards_resumed, again.texts, digest(self.path(name))), (4, 10, expected))
        expected = self.alone("alone-ids.jsonl", "--format", "orpheus", "--drop-repeats")
        self.speak("ids.jsonl", shards=4, format="orpheus", drop_repeats=True)
        self.assertEqual(digest(self.path("ids.jsonl")), expected)
        lists = [digest(self.path(f"{name}corpus.h5.failures.jsonl")) for name in ("", "alone-")]
        self.assertEqual(lists[0], lists[1])
        self.assertEqual(glob.glob(self.path("corpus.h5.shards/shard-*.h5*")), [])
        whole = digest(self.path("clips"))
        os.remove(self.path("clips/t5.wav"))
        os.truncate(self.path("clips/t9.wav"), 100)
        report = self.speak("clips", shards=4)
        self.assertEqual((report.shards_resumed, digest(self.path("clips"))), (2, whole))
        with self.assertRaisesRegex(ValueError, "begun with seed=0, this call has seed=1"):
            self.speak("clips", shards=4, seed=1)
        other = self.speak("clips", shards=4, seed=1, temperature=0.5, overwrite=True)
        self.assertEqual((other.texts_kept, len(os.listdir(self.path("clips")))), (0, 10))

    def test_the_driver_is_killed_and_started_again(self):
        write_list(self.list, 400)
        expected = self.alone("alone.safetensors")
        self.start()
        names = [self.list, self.path("out.safetensors"), self.path("voice")]
        driver = start_driver(self.cluster.address, f"melisma.ray.speak(*{names!r}, shards=20)")
        while len(glob.glob(self.path("out.safetensors.shards/shard-*.json"))) < 3:
            self.assertIsNone(driver.poll(), "the driver has ended")
            time.sleep(0.05)
        os.killpg(driver.pid, signal.SIGKILL)
        driver.wait()
        time.sleep(1)
        done = {path: os.stat(path).st_mtime_ns for path in glob.glob(self.path("out.safetensors.shards/shard-*.json"))}
        report = self.speak("out.safetensors", shards=20)
        self.assertGreaterEqual(report.shards_resumed, len(done))
        self.assertEqual((digest(self.path("out.safetensors")), report.texts), (expected, 399))
        self.assertEqual({path: os.stat(path).st_mtime_ns for path in done}, done, "finished shards are not done twice")


if __name__ == "__main__":
    unittest.main()
