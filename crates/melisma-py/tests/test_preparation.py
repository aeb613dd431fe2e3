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
        for wrong in ({"inputs": self.wavs}, {"feature": tokens}, {"list": "x"}, {"root": "x"}, {"device": "cpu"}):
            with self.assertRaisesRegex(ValueError, f"{next(iter(wrong))} belongs to a repair"):
                dataset.verify(self.path("x.h5"), **wrong)

    def test_a_list_of_any_name_is_built_and_repaired(self):
        with open(self.path("names"), "w") as file:
            file.write("0.wav\n2.wav\n")
        given = {"list": self.path("names"), "root": self.wavs}
        report = dataset.build((), self.path("x.h5"), Mel(segment=1.0), **given, progress=False)
        with open(self.path("x.h5"), "rb") as file:
            whole = file.read()
        place = next(c for c in melisma._melisma._dataset_columns(self.path("x.h5"))[0] if c[0] == "mel")[4]
        with open(self.path("x.h5"), "r+b") as file:
            file.seek(place)
            file.write(b"\x55")
        found = dataset.verify(self.path("x.h5"), repair=True, **given)
        self.assertEqual((report.files_ok, found.rebuilt, found.problem), (2, [0], None))
        with open(self.path("x.h5"), "rb") as file:
            self.assertEqual(file.read(), whole)

    def test_threads_and_memory_are_those_of_the_call(self):
        for number in (1, 2):
            part = self.path(f"{number}.h5")
            dataset.build(self.wavs, part, Mel(segment=1.0), shard=(number, 2), progress=False)
        shards = [self.path("1.h5"), self.path("2.h5")]
        for work in (
            lambda **given: dataset.verify(shards[0], **given),
            lambda **given: dataset.merge(shards, self.path("x.h5"), overwrite=True, **given),
        ):
            work(threads=1, memory_limit="64MiB")
            for wrong, text in (({"memory_limit": "100KiB"}, "memory"), ({"threads": 0}, "threads")):
                with self.assertRaisesRegex(melisma.MelismaError, text):
                    work(**wrong)

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
        self.assertEqual(report.files_peak_limited, 0)
        # The start of the 10 ms in which the sound begins.
        self.assertEqual(dataset.open(self.path("x.h5")).column("start_sample")[0], 22_050 // 221 * 221)
        config = json.loads(dataset.open(self.path("x.h5")).attributes["config"])
        self.assertEqual((config["trim"], config["loudness"]), ({"threshold_db": -40.0, "margin_seconds": 0.0}, -30.0))
        click = tone(22_050 * 2) / 20
        click[0, 9_000] = 0.9
        audio.write(os.path.join(self.wavs, "1.wav"), click, 22_050)
        report = dataset.build(self.wavs, self.path("z.h5"), Mel(segment=0.5, loudness=-20.0), progress=False)
        self.assertEqual((report.files_ok, report.files_peak_limited), (3, 1))
        with self.assertRaisesRegex(ValueError, "trim is 3"):
            Mel(trim=3)
        with self.assertRaisesRegex(melisma.MelismaError, "a loudness of 3 LUFS is out of range: -70 to 0"):
            dataset.build(self.wavs, self.path("y.h5"), Mel(loudness=3.0), progress=False)


if __name__ == "__main__":
    unittest.main()
