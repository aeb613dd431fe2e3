"""Datasets: columns of tables, silence and loudness, and rows that are rebuilt."""

import dataclasses
import json
import os
import unittest

import numpy

import melisma
from melisma import audio, dataset
from melisma.dataset import Mel, Table, Tokens, Trim
from folder import FolderCase
from test_audio import tone


class Prepared(FolderCase):
    def setUp(self):
        super().setUp()
        self.wavs = self.path("wavs")
        os.mkdir(self.wavs)
        for index in range(3):
            samples = tone(22_050 * 2 + 5_000 * index) * numpy.float32(0.5 + 0.1 * index)
            audio.write(os.path.join(self.wavs, f"{index}.wav"), samples, 22_050)

    def test_damaged_rows_are_rebuilt(self):
        with open(self.path("t.csv"), "w") as file:
            file.write("path,text,lang\n0.wav,One.,en\n1.wav,Two.,de\n2.wav,Three.,fr\n")
        tokens = Tokens(texts=Table(self.path("t.csv"), "text", keep=("lang",)), trim=True)
        for name, feature, column in (("x.h5", Mel(segment=1.0), "mel"), ("x.safetensors", tokens, "lang")):
            dataset.build(self.wavs, self.path(name), feature, device="cpu", progress=False)
            with open(self.path(name), "rb") as file:
                whole = file.read()
            found = dataset.verify(self.path(name), repair=True, inputs=self.wavs, feature=feature, device="cpu")
            self.assertEqual((found.rebuilt, found.problem), ([], None))
            place = next(c for c in melisma._melisma._dataset_columns(self.path(name))[0] if c[0] == column)[4]
            with open(self.path(name), "r+b") as file:
                file.seek(place + 1)
                file.write(b"\x55")
            self.assertEqual(dataset.verify(self.path(name)).damaged, 1)
            # Spectrograms know their settings; tokens only those that are not files.
            given = None if column == "mel" else dataclasses.replace(tokens, trim=False)
            found = dataset.verify(self.path(name), repair=True, inputs=[self.wavs], feature=given, device="cpu")
            self.assertEqual((found.rebuilt, found.damaged, found.problem), ([0], 0, None))
            with open(self.path(name), "rb") as file:
                self.assertEqual(file.read(), whole)
        with self.assertRaisesRegex(melisma.MelismaError, "these are tokens; their model is needed"):
            dataset.verify(self.path("x.safetensors"), repair=True, inputs=self.wavs)
        os.remove(os.path.join(self.wavs, "2.wav"))
        with open(self.path("x.h5"), "r+b") as file:
            file.seek(4096 * 20)
            file.write(b"\x55\x55\x55")
        with self.assertRaisesRegex(melisma.MelismaError, "2.wav is missing among them"):
            dataset.verify(self.path("x.h5"), repair=True, inputs=self.wavs)
        with self.assertRaisesRegex(ValueError, "without the original audio"):
            dataset.verify(self.path("x.h5"), repair=True)
        with self.assertRaisesRegex(ValueError, "those of a repair"):
            dataset.verify(self.path("x.h5"), inputs=self.wavs)

    def test_columns_of_a_table_are_kept(self):
        with open(self.path("t.csv"), "w") as file:
            file.write("path,text,who,lang\n0.wav,One.,tara,en\n1.wav,Two.,leo,de\n2.wav,Three.,,fr\n")
        table = Table(self.path("t.csv"), "text", keep=("lang",), speaker_column="who")
        for name in ("x.safetensors", "x.h5", "x"):
            dataset.build(self.wavs, self.path(name), Tokens(texts=table), device="cpu", progress=False)
            rows = dataset.open(self.path(name))
            self.assertEqual([rows[index][1] for index in range(3)], ["tara: One.", "leo: Two.", "Three."])
            self.assertEqual([rows.text(index, "source") for index in (0, 1, -1)], ["tara", "leo", ""])
            self.assertEqual((rows.text(2, "lang"), rows.text(2, "path"), rows.text(-3)), ("fr", "2.wav", "tara: One."))
            with self.assertRaisesRegex(ValueError, "`mel` is not a column of texts"):
                rows.text(0, "mel")
            with self.assertRaises(IndexError):
                rows.text(3)
        dataset.merge([self.path("x.h5")], self.path("x.jsonl"))
        with open(self.path("x.jsonl"), encoding="utf-8") as file:
            self.assertEqual([(row["source"], row["lang"]) for row in map(json.loads, file)], [("tara", "en"), ("leo", "de"), ("", "fr")])
        with self.assertRaisesRegex(melisma.MelismaError, "no column `age` in its first line"):
            table = Table(self.path("t.csv"), "text", keep=("age",))
            dataset.build(self.wavs, self.path("y.h5"), Tokens(texts=table), device="cpu", progress=False)
        with self.assertRaisesRegex(ValueError, "keep is 'lang'"):
            Table(self.path("t.csv"), "text", keep="lang")

    def test_silence_is_left_out_and_loudness_set(self):
        silence = numpy.zeros(22_050, "f4")
        samples = numpy.concatenate([silence, tone(22_050)[0], silence])
        audio.write(os.path.join(self.wavs, "0.wav"), samples, 22_050)
        audio.write(os.path.join(self.wavs, "1.wav"), silence, 22_050)
        trim = Trim(threshold_db=-40.0, margin=0.0)
        report = dataset.build(self.wavs, self.path("x.h5"), Mel(segment=0.5, trim=trim, loudness=-30.0), progress=False)
        self.assertEqual((report.files_ok, report.files_failed, report.failures_by_code), (2, 1, {"silent": 1}))
        # The start of the 10 ms in which the sound begins.
        self.assertEqual(dataset.open(self.path("x.h5")).column("start_sample")[0], 22_050 // 221 * 221)
        config = json.loads(dataset.open(self.path("x.h5")).attributes["config"])
        self.assertEqual((config["trim"], config["loudness"]), ({"threshold_db": -40.0, "margin_seconds": 0.0}, -30.0))
        with self.assertRaisesRegex(ValueError, "trim is 3"):
            Mel(trim=3)
        with self.assertRaisesRegex(melisma.MelismaError, "a loudness of 3 LUFS is out of range: -70 to 0"):
            dataset.build(self.wavs, self.path("y.h5"), Mel(loudness=3.0), progress=False)


if __name__ == "__main__":
    unittest.main()
