"""Datasets: built, resumed, opened and pickled."""

import os
import pickle
import tempfile
import unittest

import numpy

import melisma
from melisma import audio, dataset, mel, pack, snac
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
                self.wavs, self.path(name), segment=1.0, drop_tail=True, progress=lambda *now: calls.append(now)
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
            again = dataset.build(self.wavs, self.path(name), segment=1.0, drop_tail=True, progress=False)
            self.assertEqual(again["rows_resumed"], 6)

    def test_values_of_the_preset(self):
        dataset.build([os.path.join(self.wavs, "0.wav")], self.path("y.h5"), preset="torchaudio", segment=0.5, n_mels=20, progress=False)
        self.assertEqual((dataset.open(self.path("y.h5"))[0].shape, dataset.open(self.path("y.h5"))[0].dtype), ((20, 41), "f4"))

    def test_tokens(self):
        report = dataset.build(self.wavs, self.path("t.safetensors"), feature="tokens", device="cpu", progress=False)
        rows = dataset.open(self.path("t.safetensors"))
        self.assertEqual((report["rows"], len(rows)), (3, 3))
        encoder = snac.Encoder(device="cpu")
        for index, (codes, text) in enumerate(rows):
            clip = audio.read(os.path.join(self.wavs, f"{index}.wav"), sample_rate=24_000)
            expected = encoder.encode(clip.samples)
            self.assertEqual(text, f"text {index}")
            for level, found in zip(expected, snac.populate(codes.astype("i4")), strict=True):
                numpy.testing.assert_array_equal(found[0], level)
        with open(self.path("table.csv"), "w") as file:
            file.write("path|text\n0|zero\n1|one\n2|two\n")
        dataset.build(
            self.wavs, self.path("u.h5"), feature="tokens", metadata=self.path("table.csv"), text_column="text",
            verify_audio=True, device="cpu", progress=False,
        )
        self.assertEqual([text for _, text in dataset.open(self.path("u.h5"))], ["zero", "one", "two"])
        with open(self.path("other.csv"), "w") as file:
            file.write("text|file\nthree|0\nfour|1\nfive|2\n")
        dataset.build(
            self.wavs, self.path("v.h5"), feature="tokens", metadata=self.path("other.csv"), text_column="text",
            path_column="file", device="cpu", progress=False,
        )
        self.assertEqual([text for _, text in dataset.open(self.path("v.h5"))], ["three", "four", "five"])

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

    def test_what_is_refused(self):
        with open(os.path.join(self.wavs, "bad.wav"), "wb") as file:
            file.write(b"RIFF")
        report = dataset.build(self.wavs, self.path("x.h5"), segment=1.0, progress=False)
        self.assertEqual((report["files_failed"], report["failures"][0]["path"]), (1, "bad.wav"))
        build = dataset.build
        for exception, text, work in [
            (ValueError, "bad.wav", lambda: build(self.wavs, self.path("y.h5"), on_error="fail", progress=False)),
            (ValueError, "not of this plan", lambda: build(self.wavs, self.path("x.h5"), segment=2.0, progress=False)),
            (melisma.MelismaError, "nothing", lambda: build(self.path("nothing"), self.path("y.h5"), progress=False)),
            (ValueError, "unknown feature", lambda: build(self.wavs, self.path("y.h5"), feature="f0", progress=False)),
            (ValueError, "unknown key `mels`", lambda: build(self.wavs, self.path("y.h5"), mels=3, progress=False)),
            (ValueError, "-1", lambda: build(self.wavs, self.path("y.h5"), segment=-1, progress=False)),
            (ValueError, "shard", lambda: build(self.wavs, self.path("y.h5"), shard=(1, 1), progress=False)),
            (ValueError, "shard", lambda: build(self.wavs, self.path("y.h5"), shard=numpy.dtype("f4"), progress=False)),
            (ValueError, "shard", lambda: build(self.wavs, self.path("y.h5"), shard=(0, 1, 2), progress=False)),
            (ValueError, "on_error", lambda: build(self.wavs, self.path("y.h5"), on_error="ignore", progress=False)),
            (ValueError, "kind of dataset", lambda: build(self.wavs, self.path("y.zip"), progress=False)),
            (ZeroDivisionError, "", lambda: build(self.wavs, self.path("z.h5"), progress=lambda done, total: 1 / 0)),
            (OSError, "none.h5", lambda: dataset.open(self.path("none.h5"))),
            (ValueError, "unknown column", lambda: dataset.open(self.path("x.h5")).column("mels")),
            (IndexError, "row 99", lambda: dataset.open(self.path("x.h5"))[99]),
        ]:
            with self.assertRaisesRegex(exception, text):
                work()


if __name__ == "__main__":
    unittest.main()
