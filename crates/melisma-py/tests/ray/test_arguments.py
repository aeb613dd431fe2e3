"""Arguments, folders and locks that need no cluster."""

import inspect
import json
import math
import os
import tempfile
import unittest
import warnings
from unittest import mock

from jobs import write_files
from melisma import MelismaError
from melisma import ray as jobs_on_ray
from melisma.ray import Mel, Table, Tokens, Workers, _clips, _cluster, _dataset, _folder, _jobs, _lock, _pack, _remote, _stage

HALF = Mel(segment=0.5)


class Stop(Exception):
    """Ends a call before it needs a cluster."""


class Case(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        self.wavs = self.path("wavs")

    def path(self, name):
        return os.path.join(self.folder, name)

    def work(self, feature=Mel(), output="out.h5", inputs=None, shards=None, overwrite=False, **more):
        options = {
            "store": None, "overwrite": overwrite, "feature": feature, "memory_limit": None, "scratch": self.folder,
            "list": None, "root": None, **more,
        }
        places = [self.wavs] if inputs is None else inputs
        return _dataset.Build(places, self.path(output), shards, options)


class Arguments(Case):
    def test_workers(self):
        for wrong in ({"num_cpus": -1}, {"num_cpus": math.nan}, {"num_gpus": -1}, {"count": 0}, {"count": 1.5}):
            with self.assertRaisesRegex(ValueError, next(iter(wrong))):
                Workers(**wrong)

    def test_wrong_arguments_of_build(self):
        for wrong, text in (
            ({"workers": 2}, "workers is 2"), ({"shards": 0}, "shards is 0"), ({"shards": True}, "shards is True"),
            ({"retries": -1}, "retries is -1"), ({"retries": None}, "retries"), ({"store": "zarr"}, "`zarr`"),
            ({"threads": 2}, "`threads` cannot be set"), ({"on_error": "fail"}, "`on_error` cannot be set"),
        ):
            with self.assertRaisesRegex(ValueError, text):
                jobs_on_ray.build(self.wavs, self.path("out.h5"), **wrong)
        with self.assertRaisesRegex(ValueError, "`npy`"):
            jobs_on_ray.build(self.wavs, self.path("rows.npy"))
        with self.assertRaisesRegex(ValueError, "`jsonl`"):
            jobs_on_ray.build(self.wavs, self.path("out.jsonl"))
        with self.assertRaisesRegex(ValueError, "count is 0"):
            jobs_on_ray.clips("focus", self.path("clips"), 0)
        with self.assertRaisesRegex(ValueError, "key cannot be used with clips"):
            jobs_on_ray.clips("focus", self.path("clips"), 2, key="A")
        for wrong, text in (
            ({"output": "out.txt"}, "unknown kind of output `.txt`"), ({"speed": 2.0}, "tokens have no speed"),
            ({"seed": -1}, "seed is -1"), ({"shards": 0}, "shards is 0"), ({"format": "ids"}, "format is 'ids'"),
            ({"format": "orpheus"}, "for lines of tokens"), ({"drop_repeats": True}, "for lines of tokens"),
        ):
            given = {"texts": self.path("list.jsonl"), "output": self.path("out.h5"), "voice_model": self.path("voice")}
            with self.assertRaisesRegex(ValueError, text):
                jobs_on_ray.speak(**(given | wrong))

    def begun(self, job, *arguments, **more):
        """The work of a job that is begun without a cluster."""
        with mock.patch.object(_jobs, "_run", side_effect=Stop) as run, self.assertRaises(Stop):
            job(*arguments, **more)
        return run.call_args.args[0]

    def test_paths_mean_the_same_on_every_node(self):
        build = self.begun(jobs_on_ray.build, ["a.wav"], "out.h5", list="names", root="wavs")
        self.assertEqual(build.listing, (os.path.abspath("names"), os.path.abspath("wavs")))
        self.assertEqual(build.needs().reads, tuple(map(os.path.abspath, ("a.wav", "names", "wavs"))))
        with self.assertRaisesRegex(ValueError, "a remote folder has no list and no root"):
            self.begun(jobs_on_ray.build, "s3://bucket/wavs", "out.h5", root="wavs")
        for preset, expected in (
            ("mine.yaml", os.path.abspath("mine.yaml")), ("preset:mine.yml", os.path.abspath("mine.yml")),
            ("preset:focus", "preset:focus"), ("focus", "focus"),
        ):
            clips = self.begun(jobs_on_ray.clips, preset, "clips", 2, tempo=96, mode="dorian", voices=None)
            self.assertEqual(clips.settings["preset"], expected)
            self.assertEqual(clips.settings["changes"], {"tempo": 96.0, "mode": "dorian"})
            self.assertEqual(clips.needs().reads, (expected,) if os.path.isabs(expected) else ())
        speak = self.begun(jobs_on_ray.speak, "l.jsonl", "out.jsonl", "voice", format="orpheus", drop_repeats=True)
        self.assertEqual((speak.asked["format"], speak.asked["drop_repeats"]), ("orpheus", True))

    def test_spoken_corpora_of_built_in_codecs_are_warned_of(self):
        for voice_model, codec in (("builtin:voice", "builtin:solo24"), ("voice", "builtin:mini24")):
            with self.assertWarnsRegex(UserWarning, f"codes of {codec}; .*: speak to a folder") as warned:
                self.begun(jobs_on_ray.speak, "l.jsonl", "out.jsonl", voice_model)
            self.assertEqual(os.path.basename(warned.filename), "test_arguments.py")
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            self.begun(jobs_on_ray.speak, "l.jsonl", "out")
            self.begun(jobs_on_ray.speak, "l.jsonl", "out.jsonl", "voice", model="snac_24khz")

    def test_lists_have_a_root(self):
        write_files(self.wavs, 3)
        with open(self.path("names"), "w", encoding="utf-8") as file:
            file.write("002.wav\n000.wav\n")
        work = self.work(HALF, inputs=[], shards=1, list=self.path("names"), root=self.wavs)
        self.assertEqual(work.prepare(1)["files"], 2)
        with self.assertRaisesRegex(ValueError, "begun with root="):
            self.work(HALF, inputs=[], shards=1, list=self.path("names")).prepare(1)

    def test_old_spellings(self):
        for text, feature, old in (
            (r"Mel\(segment=...\)", Mel(segment=0.5), {"segment": 0.5}),
            (r"Mel\(preset=..., n_mels=...\)", Mel("whisper-80", n_mels=40), {"preset": "whisper-80", "n_mels": 40}),
            (r"Tokens\(model=...\)", Tokens("builtin:mini24"), {"feature": "tokens", "model": "builtin:mini24"}),
            (
                r"Tokens\(texts=Table\(...\)\)", Tokens(texts=Table(os.path.abspath("t.csv"), 2)),
                {"feature": "tokens", "metadata": "t.csv", "text_column": 2},
            ),
        ):
            with mock.patch.object(_jobs, "_run", side_effect=Stop) as run:
                with self.assertWarnsRegex(DeprecationWarning, f"use melisma.ray.build.*{text}") as warned:
                    with self.assertRaises(Stop):
                        jobs_on_ray.build(self.wavs, self.path("out.h5"), **old)
            self.assertEqual(run.call_args.args[0].feature, feature)
            self.assertEqual(os.path.basename(warned.filename), "test_arguments.py")
        with self.assertRaisesRegex(TypeError, r"use Mel\(segment=...\)"):
            jobs_on_ray.build(self.wavs, self.path("out.h5"), Mel(), segment=0.5)

    def test_docstrings_list_every_argument(self):
        for name in jobs_on_ray.__all__:
            value = getattr(jobs_on_ray, name)
            for key in inspect.signature(value).parameters:
                listed = [inspect.getdoc(kind) for kind in getattr(value, "__mro__", [value])[:2]]
                self.assertTrue(any(f"    {key}: " in (said or "") for said in listed), f"{name}: {key}")

    def test_a_job_knows_its_feature(self):
        write_files(self.wavs, 2)
        self.work(HALF, shards=1).prepare(1)
        for other, text in (
            (Mel(segment=1.0), "begun with segment=0.5, this call has segment=1.0"),
            (Mel(segment=0.5, n_mels=40), "begun with n_mels=None, this call has n_mels=40"),
            (Tokens(), "begun with feature='Mel', this call has feature='Tokens'"),
        ):
            with self.assertRaisesRegex(ValueError, text):
                self.work(other, shards=1).prepare(1)

    def test_settings_are_checked_before_the_job_begins(self):
        write_files(self.wavs, 1)
        for wrong in (Mel(frobnicate=1), Mel("x"), Mel(segment=-1.0), Tokens("/nowhere")):
            with self.assertRaises((ValueError, OSError)):
                self.work(wrong).prepare(1)
        clip = {
            "preset": "focus", "count": 2, "seconds": 1.0, "seed": "0", "rate": 16_000, "loudness": None,
            "sample_format": "s16",
        }
        _clips.check(clip)
        _clips.check(clip | {"changes": {"tempo": 96.0, "mode": "dorian"}})
        for wrong in ({"seconds": -1.0}, {"rate": 0}, {"preset": "nothing"}, {"changes": {"mode": "ionian"}}):
            with self.assertRaises(MelismaError):
                _clips.check(clip | wrong)
        _pack.check(None)
        with self.assertRaises(MelismaError):
            _pack.check(3)
        self.assertEqual(os.listdir(self.folder), ["wavs"])

    def test_an_input_is_never_the_output(self):
        write_files(self.wavs, 2)
        for output in ("wavs/001.wav", "wavs"):
            with self.assertRaisesRegex(ValueError, "would replace the input"):
                self.work(output=output, overwrite=True).prepare(1)
        self.assertEqual(len(os.listdir(self.wavs)), 2)

    def test_nodes_without_a_folder_to_write_to(self):
        write_files(self.wavs, 1)
        for place in ("/proc", os.path.join(self.wavs, "000.wav")):
            fault = _cluster.find_fault(_cluster.Needs(_cluster.melisma.__version__, (), (place,)))
            self.assertIn("not a folder that this node can write to", fault)

    def test_uris_that_cannot_be_listed(self):
        for uri in ("file:///nowhere/at/all", "foo://x/y"):
            with self.assertRaisesRegex(ValueError, uri):
                _remote.Remote(uri, None).list()
        write_files(self.wavs, 1)
        open(os.path.join(os.fsencode(self.wavs), b"a\xff.wav"), "wb").close()
        listed, skipped = _remote.Remote(f"file://{self.wavs}", None).list()
        self.assertEqual((len(listed), len(skipped)), (1, 1))


class Folders(Case):
    def test_foreign_folders_stay(self):
        write_files(self.wavs, 1)
        precious = self.path("out.h5.shards/precious.txt")
        os.mkdir(os.path.dirname(precious))
        for name in (precious, self.path("out.h5.shards/job.json")):
            open(name, "w").close()
            for overwrite in (False, True):
                with self.assertRaisesRegex(ValueError, "remove the folder yourself"):
                    self.work(overwrite=overwrite).prepare(1)
        self.assertTrue(os.path.exists(precious))

    def test_damaged_files_of_a_job(self):
        write_files(self.wavs, 4)
        work = self.work(HALF, shards=2)
        work.prepare(1)
        work.open(1, "cpu")
        for shard in (0, 1):
            work.folder.write(f"{_folder.stem(shard)}.json", work.run(shard))
        self.assertEqual(work.prepare(1)["done"], [0, 1])
        os.truncate(work._path(0), 100)
        self.assertEqual(work.prepare(1)["done"], [1])
        with self.assertRaisesRegex(ValueError, "has 2 shards, this call has shards=3"):
            self.work(HALF, shards=3).prepare(1)
        os.truncate(work.folder.at("inputs.list"), 10)
        with self.assertRaisesRegex(ValueError, "overwrite=True to start the job over"):
            work.prepare(1)
        self.assertEqual(self.work(HALF, overwrite=True, shards=2).prepare(1)["done"], [])

    def test_one_driver_at_a_time(self):
        folder = _folder.Folder(self.path("out.h5.shards"))
        first, second = _lock.Lock(folder, "first"), _lock.Lock(folder, "second")
        first.take()
        with self.assertRaisesRegex(ValueError, r"another driver works on this job \(first\)"):
            second.take(0)
        os.close(first._file)
        second.take(0)
        with open(folder.at("lock"), encoding="utf-8") as file:
            self.assertEqual(json.load(file), {"owner": "second"})
        second.release()
        self.assertFalse(os.path.exists(folder.path))

    def test_staged_files_are_private(self):
        write_files(self.wavs, 2)
        remote = _remote.Remote(f"file://{self.wavs}", self.folder)
        listed, _ = remote.list()
        first, second = _stage.Stage(remote, listed), _stage.Stage(remote, listed)
        os.mkdir(self.path(f"{_stage.PREFIX}dead"))
        with first.stage((0, 1), False):
            with second.stage((0, 1), False):
                self.assertEqual(sorted(os.listdir(first.folder)), ["000.wav", "001.wav"])
            self.assertEqual(sorted(os.listdir(first.folder)), ["000.wav", "001.wav"])
        with self.assertRaisesRegex(ValueError, "another program removed"), first.stage((0, 1), False):
            os.remove(os.path.join(first.folder, "000.wav"))
        self.assertEqual(os.listdir(self.folder), ["wavs"])


if __name__ == "__main__":
    unittest.main()
