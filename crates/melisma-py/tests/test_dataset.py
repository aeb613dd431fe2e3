"""Datasets: built, resumed, opened and pickled."""

import dataclasses
import json
import os
import pickle
import tempfile
import unittest

import numpy

import melisma
from melisma import audio, dataset, mel, pack, snac
from melisma.dataset import Mel, Table, Tokens
from test_audio import tone
from test_combine import safetensors


class Builds(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.wavs = os.path.join(self.folder.name, "wavs")
        os.mkdir(self.wavs)
        for index in range(3):
            samples = tone(22_050 * 2 + 5_000 * index) * numpy.float32(0.5 + 0.1 * index)
            audio.write(os.path.join(self.wavs, f"{index}.wav"), samples, 22_050)
            with open(os.path.join(self.wavs, f"{index}.txt"), "w") as file:
                file.write(f"text {index}")

    def path(self, name):
        return os.path.join(self.folder.name, name)

    def test_spectrograms_in_every_store(self):
        expected = mel.spectrogram(audio.read(os.path.join(self.wavs, "1.wav")).samples[0, : 22_050])
        for name in ["x.h5", "x.safetensors", "x"]:
            calls = []
            report = dataset.build(
                self.wavs, self.path(name), Mel(segment=1.0, drop_tail=True), progress=lambda *now: calls.append(now)
            )
            self.assertEqual((report["rows"], report["files_ok"], report["failures"]), (6, 3, []))
            self.assertEqual(calls[-1], (6, 6))
            rows = dataset.open(self.path(name))
            self.assertEqual((len(rows), rows[0].shape, rows[0].dtype), (6, (80, 87), "f2"))
            numpy.testing.assert_array_equal(rows[2], expected)
            numpy.testing.assert_array_equal(rows[-1], list(rows)[5])
            self.assertEqual([row.shape for row in rows[1:3]], [(80, 87)] * 2)
            many = rows.__getitems__([2, -1])
            self.assertEqual((many.indices, many.dataset), ([2, -1], rows))
            numpy.testing.assert_array_equal(many, [expected, rows[5]])
            with self.assertRaises(IndexError):
                rows.__getitems__([6])
            numpy.testing.assert_array_equal(pickle.loads(pickle.dumps(rows))[3], rows[3])
            changed = dataset.open(self.path(name))
            changed[2][:] = 0
            numpy.testing.assert_array_equal(dataset.open(self.path(name))[2], expected)
            self.assertEqual(rows.status.tolist(), [0] * 6)
            self.assertIn("file_index", rows.columns)
            again = dataset.build(self.wavs, self.path(name), Mel(segment=1.0, drop_tail=True), progress=False)
            self.assertEqual(again["rows_resumed"], 6)

    def test_values_of_the_preset(self):
        for name, feature in {
            "y.h5": Mel("torchaudio", segment=0.5, n_mels=20),
            "z.h5": Mel("torchaudio", segment=0.5, values={"n_mels": 20}),
        }.items():
            dataset.build([os.path.join(self.wavs, "0.wav")], self.path(name), feature, progress=False)
            row = dataset.open(self.path(name))[0]
            self.assertEqual((row.shape, row.dtype), ((20, 41), "f4"))

    def test_tokens(self):
        with self.assertWarnsRegex(UserWarning, "codes of builtin:mini24; .* Tokens") as warned:
            report = dataset.build(self.wavs, self.path("t.safetensors"), Tokens(), device="cpu", progress=False)
        self.assertEqual(os.path.basename(warned.filename), "test_dataset.py")
        rows = dataset.open(self.path("t.safetensors"))
        self.assertEqual((report["rows"], len(rows)), (3, 3))
        encoder = snac.Encoder(device="cpu")
        for index, (codes, text) in enumerate(rows):
            clip = audio.read(os.path.join(self.wavs, f"{index}.wav"), sample_rate=24_000)
            expected = encoder.encode(clip.samples)
            self.assertEqual(text, f"text {index}")
            for level, found in zip(expected, snac.populate(codes.astype("i4")), strict=True):
                numpy.testing.assert_array_equal(found[0], level)
        self.check_decoding(rows)
        with open(self.path("table.csv"), "w") as file:
            file.write("path|text\n0|zero\n1|one\n2|two\n")
        dataset.build(
            self.wavs, self.path("u.h5"), Tokens(texts=Table(self.path("table.csv"), "text"), verify_audio=True),
            device="cpu", progress=False,
        )
        self.assertEqual([text for _, text in dataset.open(self.path("u.h5"))], ["zero", "one", "two"])
        with open(self.path("other.csv"), "w") as file:
            file.write("text|file\nthree|0\nfour|1\nfive|2\n")
        dataset.build(
            self.wavs, self.path("v.h5"), Tokens(texts=Table(self.path("other.csv"), 1, "file")), device="cpu",
            progress=False,
        )
        self.assertEqual([text for _, text in dataset.open(self.path("v.h5"))], ["three", "four", "five"])

    def check_decoding(self, rows):
        """The rows of a corpus go to the codec that made them only."""
        decoder = snac.Decoder("builtin:mini24", device="cpu")
        expected = decoder.decode(rows[2][0], noise=3)
        numpy.testing.assert_array_equal(decoder.decode_row(rows, -1, noise=3), expected)
        other = snac.Decoder("builtin:solo24", device="cpu")
        with self.assertRaisesRegex(ValueError, f"by the model {decoder.model_hash}, this is {other.model_hash}"):
            other.decode_row(rows, 0)
        with self.assertRaisesRegex(IndexError, "row 3 of 3"):
            decoder.decode_row(rows, 3)
        dataset.build(self.wavs, self.path("mel.h5"), Mel(segment=1.0), progress=False)
        with self.assertRaisesRegex(ValueError, "mel.h5 is not a corpus of tokens"):
            decoder.decode_row(dataset.open(self.path("mel.h5")), 0)
        with self.assertRaisesRegex(TypeError, "str is not a Dataset"):
            decoder.decode_row("t.safetensors", 0)

    def test_shards_count_from_one(self):
        whole = dataset.build(self.wavs, self.path("whole.h5"), Mel(segment=1.0), progress=False)
        parts = [self.path(f"part-{number}.h5") for number in (1, 2, 3)]
        built = [
            dataset.build(self.wavs, part, Mel(segment=1.0), shard=(number, 3), progress=False)
            for number, part in enumerate(parts, 1)
        ]
        self.assertEqual([report.files_ok for report in built], [1, 1, 1])
        self.assertEqual(dataset.merge(parts, self.path("merged.h5")), whole.rows)
        with open(self.path("merged.h5"), "rb") as merged, open(self.path("whole.h5"), "rb") as expected:
            self.assertEqual(merged.read(), expected.read())

    def test_damage_is_found_with_its_file(self):
        dataset.build(self.wavs, self.path("x.h5"), Mel(segment=1.0, drop_tail=True), progress=False)
        found = dataset.verify(self.path("x.h5"))
        self.assertEqual((found.rows, found.damaged, found.first_damaged_files, found.problem), (6, 0, [], None))
        name, kind, shape, file, offset = next(c for c in melisma._melisma._dataset_columns(self.path("x.h5"))[0] if c[0] == "mel")
        with open(file, "r+b") as rows:
            rows.seek(offset + 80 * 87 * 2 * 3)
            rows.write(b"\x55\x55")
        found = dataset.verify(self.path("x.h5"))
        self.assertEqual((found.damaged, found.first_damaged, found.first_damaged_files), (1, [3], ["1.wav"]))
        self.assertIn("1 row damaged, the first is row 3, of 1.wav", found.problem)

    def test_lines_are_built_merged_and_verified(self):
        orpheus = Tokens(format="orpheus", drop_repeats=True)
        for name, feature in {"a": Tokens(), "b": orpheus}.items():
            given = {"format": feature.format, "drop_repeats": feature.drop_repeats} if name == "b" else {}
            whole = self.path(f"{name}.jsonl")
            report = dataset.build(self.wavs, whole, feature, device="cpu", progress=False)
            parts = [self.path(f"{name}{number}.jsonl") for number in (1, 2)]
            stores = [self.path(f"{name}{number}.safetensors") for number in (1, 2)]
            for number in (1, 2):
                shard = {"shard": (number, 2), "device": "cpu", "progress": False}
                dataset.build(self.wavs, parts[number - 1], feature, **shard)
                dataset.build(self.wavs, stores[number - 1], Tokens(), **shard)
            for shards, more in ((parts, {}), (stores, given)):
                merged = self.path("merged.jsonl")
                self.assertEqual(dataset.merge(shards, merged, overwrite=True, **more), report.rows)
                with open(merged, "rb") as found, open(whole, "rb") as expected:
                    self.assertEqual(found.read(), expected.read())
                found = dataset.verify(merged)
                self.assertEqual((found.rows, found.missing_origin, found.problem), (3, None, None))
            os.remove(f"{whole}.origin.json")
            found = dataset.verify(whole)
            self.assertEqual((found.rows, found.missing_origin, found.problem), (3, f"{whole}.origin.json", None))
        with self.assertRaisesRegex(ValueError, "holds codes of every frame"):
            dataset.build(self.wavs, self.path("x.h5"), orpheus, device="cpu", progress=False)
        with self.assertRaisesRegex(ValueError, "lines have no store"):
            dataset.merge(stores, self.path("c.jsonl"), store="hdf5")
        with self.assertRaisesRegex(ValueError, "format is 'ids'"):
            Tokens(format="ids")

    def test_filters_leave_files_out(self):
        os.remove(os.path.join(self.wavs, "1.txt"))
        tokens = Tokens(max_seconds=2.4, require_text=True)
        report = dataset.build(self.wavs, self.path("t.safetensors"), tokens, device="cpu", progress=False)
        self.assertEqual((report.rows, report.files_ok, report.files_failed, report.files_left_out), (1, 1, 0, 2))
        self.assertEqual(report.failures_by_code, {"no-text": 1, "too-long": 1})
        mel_rows = dataset.build(self.wavs, self.path("x.h5"), Mel(segment=1.0, min_seconds=2.1), progress=False)
        self.assertEqual((mel_rows.files_left_out, mel_rows.failures_by_code), (1, {"too-short": 1}))
        with self.assertRaisesRegex(melisma.MelismaError, "exists already, and is not of this plan"):
            dataset.build(self.wavs, self.path("x.h5"), Mel(segment=1.0), progress=False)
        with self.assertRaisesRegex(ValueError, "no file has at least 3 and at most 2 seconds"):
            dataset.build(self.wavs, self.path("y.h5"), Mel(min_seconds=3.0, max_seconds=2.0), progress=False)
        for index in range(3):
            with open(os.path.join(self.wavs, f"x{index}.wav"), "wb") as file:
                file.write(b"RIFF")
        with self.assertRaisesRegex(melisma.MelismaError, "3 files failed, and at most 2 may"):
            dataset.build(self.wavs, self.path("z.h5"), max_failures=2, progress=False)
        self.assertEqual(dataset.build(self.wavs, self.path("z.h5"), max_failures=3, progress=False).files_failed, 3)

    def test_folders_stay_apart_and_lists_have_a_root(self):
        other = os.path.join(self.folder.name, "more")
        os.mkdir(other)
        os.link(os.path.join(self.wavs, "0.wav"), os.path.join(other, "0.wav"))
        dataset.build([self.wavs, other], self.path("x.h5"), Mel(segment=5.0), progress=False)
        paths = [bytes(path).decode() for path in dataset.open(self.path("x.h5")).column("path")]
        self.assertEqual(paths, ["more/0.wav", "wavs/0.wav", "wavs/1.wav", "wavs/2.wav"])
        with open(self.path("list.txt"), "w") as file:
            file.write("2.wav\n0.wav\n")
        report = dataset.build(self.path("list.txt"), self.path("y.h5"), Mel(segment=5.0), root=self.wavs, progress=False)
        self.assertEqual((report.rows, report.files_failed), (2, 0))

    def test_failures_are_counted_by_reason(self):
        for name in ["x.wav", "y.wav"]:
            with open(os.path.join(self.wavs, name), "wb") as file:
                file.write(b"RIFF")
        report = dataset.build(self.wavs, self.path("x.h5"), Mel(segment=1.0), progress=False)
        self.assertEqual(report.failures_by_code, {report.failures[0]["code"]: 2})
        with self.assertRaisesRegex(ValueError, "no row can be made of 1 file"):
            dataset.build(os.path.join(self.wavs, "x.wav"), self.path("y.h5"), Mel(segment=1.0), progress=False)
        with self.assertRaisesRegex(ValueError, "rows.npy: a dataset is a folder of .npy files"):
            dataset.build(self.wavs, self.path("rows.npy"), progress=False)
        self.assertEqual(sorted(os.listdir(self.folder.name)), ["wavs", "x.h5", "x.h5.failures.jsonl"])

    def test_reports_are_dataclasses_and_mappings(self):
        report = dataset.build(self.wavs, self.path("x.h5"), Mel(segment=1.0, drop_tail=True), progress=False)
        self.assertIsInstance(report, dataset.Report)
        self.assertEqual((report.rows, report["rows"], report.get("rows"), report.get("x", 3)), (6, 6, 6, 3))
        self.assertEqual(list(report.keys()), [field.name for field in dataclasses.fields(report)])
        self.assertEqual((len(report), "rows" in report, "x" in report), (13, True, False))
        self.assertEqual({**report}, dataclasses.asdict(report))
        self.assertEqual((dict(report.items()), pickle.loads(pickle.dumps(report))), (report, report))
        self.assertEqual(json.loads(json.dumps(dict(report)))["files_ok"], 3)
        with self.assertRaises(KeyError):
            report["row"]
        with self.assertRaises(dataclasses.FrozenInstanceError):
            report.rows = 7
        with self.assertRaises(TypeError):
            report["rows"] = 7

    def test_features_are_values(self):
        feature = Mel("whisper-80", segment=2.0, n_mels=40)
        self.assertEqual(feature, Mel(preset="whisper-80", segment=2.0, values={"n_mels": 40}))
        self.assertEqual(hash(feature), hash(Mel("whisper-80", segment=2.0, n_mels=40)))
        self.assertEqual(dataclasses.replace(feature, segment=3.0), Mel("whisper-80", segment=3.0, n_mels=40))
        self.assertEqual(eval(repr(feature)), feature)
        tokens = Tokens(model="m", texts=Table("t.csv", 2))
        for value in [feature, tokens]:
            self.assertEqual(pickle.loads(pickle.dumps(value)), value)
            with self.assertRaises(dataclasses.FrozenInstanceError):
                value.model = "n"

    def old(self, text, output, *arguments, **spelled):
        """Builds in an old spelling, which is warned of where the call is."""
        with self.assertWarnsRegex(DeprecationWarning, text) as warned:
            report = dataset.build(self.wavs, self.path(output), *arguments, **spelled, device="cpu", progress=False)
        self.assertEqual(os.path.basename(warned.filename), "test_dataset.py")
        return report, dataset.open(self.path(output)).attributes

    def new(self, output, feature):
        report = dataset.build(self.wavs, self.path(output), feature, device="cpu", progress=False)
        return report, dataset.open(self.path(output)).attributes

    def same(self, old, new):
        self.assertEqual((old[0].rows, old[1]), (new[0].rows, new[1]))

    def test_old_spellings(self):
        with open(self.path("table.csv"), "w") as file:
            file.write("path|text\n0|zero\n1|one\n2|two\n")
        ends = r"is deprecated; use melisma.dataset.build\(inputs, output, "
        self.same(
            self.old(ends + r"Mel\(segment=..., n_mels=...\)\)", "a.h5", segment=1.0, n_mels=20),
            self.new("b.h5", Mel(segment=1.0, n_mels=20)),
        )
        self.same(
            self.old(
                ends + r"Mel\(segment=..., drop_tail=...\)\)", "c.h5", feature="mel", segment=1.0, drop_tail=True,
                model="unused",
            ),
            self.new("d.h5", Mel(segment=1.0, drop_tail=True)),
        )
        self.same(self.old(ends + r"Tokens\(\)\)", "e.h5", feature="tokens"), self.new("f.h5", Tokens()))
        spelled = {"metadata": self.path("table.csv"), "text_column": "text", "verify_audio": False, "min_snr": 3.0}
        self.same(
            self.old(
                ends + r"Tokens\(model=..., texts=Table\(...\), verify_audio=..., min_snr=...\)\)", "g.h5",
                feature="tokens", model="builtin:mini24", **spelled,
            ),
            self.new("h.h5", Tokens(texts=Table(self.path("table.csv"), "text"))),
        )
        self.assertEqual([text for _, text in dataset.open(self.path("g.h5"))], ["zero", "one", "two"])
        with self.assertRaisesRegex(ValueError, "unknown argument `n_mels` for tokens"):
            dataset.build(self.wavs, self.path("i.h5"), feature="tokens", n_mels=3)
        with self.assertRaisesRegex(ValueError, "metadata without text_column"):
            dataset.build(self.wavs, self.path("i.h5"), feature="tokens", metadata="t.csv")

    def test_files_of_others(self):
        pack.save_file({"w": numpy.zeros((3, 4), "f4")}, self.path("packed.safetensors"))
        plain = {
            "weights": {"w": numpy.zeros((3, 4), "f4")},
            "axes": {"status": numpy.zeros((), "f4"), "mel": numpy.zeros((2, 3, 4), "f4")},
            "lengths": {"status": numpy.zeros(3, "f4"), "mel": numpy.zeros((2, 3, 4), "f4")},
            "empty": {},
        }
        for name, arrays in plain.items():
            safetensors(self.path(f"{name}.safetensors"), arrays)
        os.mkdir(self.path("arrays"))
        numpy.save(os.path.join(self.path("arrays"), "w.npy"), numpy.zeros(3, "f4"))
        for name in ["packed.safetensors", *(f"{name}.safetensors" for name in plain), "arrays", "wavs", "wavs/0.wav", "wavs/0.txt"]:
            with self.assertRaisesRegex(melisma.MelismaError, os.path.basename(name), msg=name):
                dataset.open(self.path(name))
        with self.assertRaisesRegex(ValueError, "is not a dataset: it has no column `status`\n.*build"):
            dataset.open(self.path("weights.safetensors"))

    def test_techniques_change_no_row(self):
        plain = Mel(segment=1.0)
        dataset.build(self.wavs, self.path("plain.h5"), plain, progress=False)
        features = [
            Mel(segment=1.0, num_mega_buffers=3, seg_microbatch_segments=2, autosize_gpu_batch=False),
            Mel(segment=1.0, buffers_in_flight=1, segments_per_buffer=1),
        ]
        self.assertEqual((features[0].buffers_in_flight, features[0].segments_per_buffer), (3, 2))
        self.assertEqual(eval(repr(features[0])), features[0])
        for index, feature in enumerate(features):
            dataset.build(self.wavs, self.path(f"{index}.h5"), feature, progress=False)
            with open(self.path("plain.h5"), "rb") as expected, open(self.path(f"{index}.h5"), "rb") as found:
                self.assertEqual(found.read(), expected.read())
        for text, work in {
            "buffers_in_flight is 0\n.*1 to 1024": lambda: Mel(buffers_in_flight=0),
            "num_mega_buffers is 1025": lambda: Mel(num_mega_buffers=1025),
            "seg_microbatch_segments is True": lambda: Mel(seg_microbatch_segments=True),
            "segments_per_buffer is '8'": lambda: Mel(segments_per_buffer="8"),
            "are the same": lambda: Mel(buffers_in_flight=1, num_mega_buffers=2),
            "autosize_gpu_batch is 1": lambda: Mel(autosize_gpu_batch=1),
        }.items():
            with self.assertRaisesRegex(ValueError, text):
                work()

    def test_what_is_refused(self):
        with open(os.path.join(self.wavs, "bad.wav"), "wb") as file:
            file.write(b"RIFF")
        report = dataset.build(self.wavs, self.path("x.h5"), Mel(segment=1.0), progress=False)
        self.assertEqual((report["files_failed"], report["failures"][0]["path"]), (1, "bad.wav"))
        build = dataset.build
        for exception, text, work in [
            (ValueError, "bad.wav", lambda: build(self.wavs, self.path("y.h5"), on_error="fail", progress=False)),
            (ValueError, "not of this plan", lambda: build(self.wavs, self.path("x.h5"), Mel(segment=2.0), progress=False)),
            (melisma.MelismaError, "nothing", lambda: build(self.path("nothing"), self.path("y.h5"), progress=False)),
            (ValueError, "unknown feature", lambda: build(self.wavs, self.path("y.h5"), "f0", progress=False)),
            (ValueError, "unknown key `mels`", lambda: build(self.wavs, self.path("y.h5"), Mel(mels=3), progress=False)),
            (ValueError, "-1", lambda: build(self.wavs, self.path("y.h5"), Mel(segment=-1), progress=False)),
            (ValueError, "values: list", lambda: Mel(values=[])),
            (ValueError, "use Table", lambda: Tokens(texts="table.csv")),
            (ValueError, "min_snr is 20 without verify_audio", lambda: Tokens(min_snr=20)),
            (TypeError, r"`segment` beside a feature; use Mel\(segment=", lambda: build(self.wavs, "y.h5", Mel(), segment=1.0)),
            (TypeError, r"use Tokens\(model=", lambda: build(self.wavs, "y.h5", Tokens(), model="x")),
            (ValueError, "from 1\n.*use \\(1, 8\\)", lambda: build(self.wavs, self.path("y.h5"), shard=(0, 8), progress=False)),
            (ValueError, "1 <= number", lambda: build(self.wavs, self.path("y.h5"), shard=(2, 1), progress=False)),
            (ValueError, "1 <= number", lambda: build(self.wavs, self.path("y.h5"), shard=(-1, 2), progress=False)),
            (ValueError, "shard", lambda: build(self.wavs, self.path("y.h5"), shard=(1.0, 2), progress=False)),
            (ValueError, "shard", lambda: build(self.wavs, self.path("y.h5"), shard=(True, 2), progress=False)),
            (ValueError, "shard", lambda: build(self.wavs, self.path("y.h5"), shard=numpy.dtype("f4"), progress=False)),
            (ValueError, "shard", lambda: build(self.wavs, self.path("y.h5"), shard=(0, 1, 2), progress=False)),
            (ValueError, "on_error", lambda: build(self.wavs, self.path("y.h5"), on_error="ignore", progress=False)),
            (ValueError, "unknown output suffix", lambda: build(self.wavs, self.path("y.zip"), progress=False)),
            (ZeroDivisionError, "", lambda: build(self.wavs, self.path("z.h5"), progress=lambda done, total: 1 / 0)),
            (OSError, "none.h5", lambda: dataset.open(self.path("none.h5"))),
            (ValueError, "unknown column", lambda: dataset.open(self.path("x.h5")).column("mels")),
            (IndexError, "row 99", lambda: dataset.open(self.path("x.h5"))[99]),
        ]:
            with self.assertRaisesRegex(exception, text):
                work()


if __name__ == "__main__":
    unittest.main()
