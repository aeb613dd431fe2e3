"""Texts to speech: alone, as streams, in batches and lists."""

import asyncio
import json
import os
import tempfile
import threading
import unittest

import numpy

import melisma
import test_tensor  # It clears the environment.
import voice
from melisma import audio, snac, speak
from test_signal import Interruptible, alone

TEXT = "Good morning. It is 12 o'clock!"


class Case(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.folder = folder.name
        cls.speaker = speak.Speaker(voice.write(cls.path("voice")), device="cpu")

    @classmethod
    def path(cls, name):
        return os.path.join(cls.folder, name)

    def assert_same(self, one, other):
        numpy.testing.assert_array_equal(one.samples, other.samples)
        for codes, others in zip(one.codes, other.codes, strict=True):
            numpy.testing.assert_array_equal(codes, others)
        self.assertEqual((one.ledger, one.notes), (other.ledger, other.notes))


class Speeches(Case):
    def test_a_text_has_samples_codes_and_an_account(self):
        speech = self.speaker.speak(TEXT, seed=3)
        n_frames = speech.ledger["frames"]
        self.assertGreater(n_frames, 0)
        self.assertEqual((speech.samples.shape, speech.samples.dtype, speech.sample_rate), ((n_frames * 2048,), "f4", 24_000))
        self.assertEqual([len(codes) for codes in speech.codes], [n_frames, 2 * n_frames, 4 * n_frames])
        self.assertEqual((speech.ledger["accepted"], speech.ledger["rejected"]), (7 * n_frames, 0))
        self.assertAlmostEqual(speech.seconds, n_frames * 2048 / 24_000)
        # The codes decode to the same samples.
        numpy.testing.assert_array_equal(snac.Decoder(device="cpu").decode(speech.codes), speech.samples)
        numpy.testing.assert_array_equal(numpy.asarray(speech), speech.samples)
        self.assertIn("<audio", speech._repr_html_())
        audio.write(self.path("a.wav"), speech, speech.sample_rate)
        self.assertEqual(audio.read(self.path("a.wav")).samples.shape, (1, len(speech.samples)))
        other = speak.Speaker(self.path("voice"), device="cpu", threads=1)
        self.assert_same(other.speak(TEXT, seed=3), speech)
        self.assertEqual((self.speaker.voices, self.speaker.sample_rate), (["ann", "bob"], 24_000))
        self.assertEqual(self.speaker.model_hash, snac.Decoder(device="cpu").model_hash)

    def test_settings_change_the_speech(self):
        base = self.speaker.speak("Hi.")
        defaults = {
            "temperature": 1.0, "top_k": 0, "top_p": 1.0, "min_p": 0.0, "repetition_penalty": 1.0, "penalty_window": None,
            "free": False,
        }
        self.assertEqual(self.speaker.defaults, defaults)
        self.assert_same(self.speaker.speak("Hi.", voice="ann", seed=numpy.int64(0), **defaults), base)
        for other in [
            {"seed": 1}, {"voice": "bob"}, {"temperature": 0.5}, {"top_k": 3}, {"top_p": 0.2}, {"min_p": 0.9},
            {"temperature": 0, "repetition_penalty": 1.5, "penalty_window": 20},
        ]:
            speech = self.speaker.speak("Hi.", **other)
            is_same = len(speech.samples) == len(base.samples) and (speech.codes[2] == base.codes[2]).all()
            self.assertFalse(is_same, other)
        self.assertEqual(len(self.speaker.speak("Hi.", speed=2).samples) * 2, len(base.samples))
        still = self.speaker.speak("Hi.", noise=None)
        numpy.testing.assert_array_equal(still.codes[2], base.codes[2])
        self.assertTrue((still.samples != base.samples).any())
        endless = speak.Speaker(voice.write(self.path("endless"), end=-9.0), device="cpu").speak("Hi.")
        self.assertIn("did not stop and was ended", endless.notes[0])
        try:
            free = self.speaker.speak("Hi.", free=True)
            self.assertGreater(free.ledger["rejected"], 0)
        except melisma.MelismaValueError as error:
            self.assertIn("no speech", error.message)

    def test_streams_are_the_same_speech(self):
        speech = self.speaker.speak(TEXT)
        stream = self.speaker.stream(TEXT)
        pieces = list(stream)
        self.assertGreater(len(pieces), 2)
        numpy.testing.assert_array_equal(numpy.concatenate(pieces), speech.samples)
        numpy.testing.assert_array_equal(stream.codes[1], speech.codes[1])
        self.assertEqual((stream.ledger, stream.notes, stream.sample_rate), (speech.ledger, speech.notes, 24_000))
        self.assertEqual(list(stream), [])
        long = "Out at sea, beyond the last of the sandbanks, a ship is waiting. " * 20
        stream = self.speaker.stream(long)
        pieces, speech = list(stream), self.speaker.speak(long)
        numpy.testing.assert_array_equal(numpy.concatenate(pieces), speech.samples)
        self.assertEqual((stream.ledger, stream.notes), (speech.ledger, speech.notes))
        self.assertGreater(self.speaker.estimate(long).texts_at_once, 1)
        fast = numpy.concatenate(list(self.speaker.stream(TEXT, speed=1.5)))
        numpy.testing.assert_array_equal(fast, self.speaker.speak(TEXT, speed=1.5).samples)

    def test_an_estimate_leaves_nothing_behind(self):
        estimate = self.speaker.estimate(TEXT, voice="bob", temperature=0.5)
        self.assertIsInstance(estimate, speak.Estimate)
        self.assertEqual((estimate.texts_at_once, list(estimate)[0]), (1, "real_time_factor"))
        self.assertTrue(all(figure > 0 for figure in estimate.values()), dict(estimate))
        self.assertEqual(asyncio.run(self.speaker.estimate_async("Hi.")).texts_at_once, 1)
        with self.assertRaisesRegex(ValueError, "the text is empty"):
            self.speaker.estimate(" ")

    def test_the_cpu_rounds_no_weights(self):
        expected = self.speaker.speak("Hi.")
        for precision in (None, "fp32", "bf16"):
            other = speak.Speaker(self.path("voice"), precision=precision, device="cpu")
            self.assert_same(other.speak("Hi."), expected)
        with self.assertRaisesRegex(ValueError, "precision is `fp16`: fp32 or bf16") as refused:
            speak.Speaker(self.path("voice"), precision="fp16", device="cpu")
        self.assertEqual(refused.exception.hint, 'use precision="bf16"')

    @alone
    def test_settings_describe_a_model_and_its_precision(self):
        folder = voice.write(self.path("bare"))
        os.remove(os.path.join(folder, "speak.yaml"))
        with open(self.path("melisma.yaml"), "w", encoding="utf-8") as file:
            file.write("precision: bf16\nspeak:\n  voices: [ann, bob]\n  before: [259]\n  after: [260, 261]\n")
            file.write(f"  speech: 264\n  end: 258\n  codec: {self.speaker.model_hash}\n  temperature: 1\n")
        expected = self.speaker.speak("Hi.")
        os.environ["MELISMA_CONFIG"] = self.path("melisma.yaml")
        self.assert_same(speak.Speaker(folder, device="cpu").speak("Hi."), expected)
        os.environ["MELISMA_SPEAK_VOICES"] = "eve, ann"
        found = speak.Speaker(folder, device="cpu")
        self.assertEqual((found.voices, found.defaults["temperature"]), (["eve", "ann"], 1.0))
        self.assert_same(found.speak("Hi.", voice="ann"), expected)
        self.assertEqual(melisma.Config()["speak.voices"], ["eve", "ann"])
        os.environ["MELISMA_PRECISION"] = "fp16"
        with self.assertRaisesRegex(RuntimeError, "no fp16 products"):
            speak.Speaker(folder, device="cpu")

    def test_many_texts_are_as_each_alone(self):
        texts = [TEXT, "", {"text": "Hi.", "voice": "bob", "seed": 4}, "🎉", {"text": "Hi.", "voice": "eve"}, "Bye."]
        found = self.speaker.speak_all(texts, seed=2)
        self.assertEqual([type(one) for one in found[1:5:2]], [melisma.MelismaValueError] * 2)
        self.assertIn("the text is empty", found[1].message)
        self.assertIn("no word to speak", found[3].message)
        self.assertEqual((found[4].message, found[4].hint), ("unknown voice `eve`", "the voices are ann, bob"))
        self.assert_same(found[0], self.speaker.speak(TEXT, seed=2))
        self.assert_same(found[2], self.speaker.speak("Hi.", voice="bob", seed=4))
        self.assert_same(found[5], self.speaker.speak("Bye.", seed=2))
        self.assertEqual(self.speaker.speak_all([]), [])
        fast = self.speaker.speak_all([TEXT], speed=2)[0]
        self.assert_same(fast, self.speaker.speak(TEXT, speed=2))

    def test_tasks(self):
        async def work():
            return await asyncio.gather(self.speaker.speak_async(TEXT), self.speaker.speak_all_async(["Hi."]))

        one, (two,) = asyncio.run(work())
        self.assert_same(one, self.speaker.speak(TEXT))
        self.assert_same(two, self.speaker.speak("Hi."))

        async def impatient(call):
            async with asyncio.timeout(0.05):
                await call()

        long = "This is a sentence that takes a while. " * 200
        for call in [lambda: self.speaker.speak_async(long), lambda: self.speaker.speak_all_async([long] * 4)]:
            with self.assertRaises(TimeoutError):
                asyncio.run(impatient(call))

    def test_threads_share_a_speaker_but_not_a_stream(self):
        expected = [self.speaker.speak("Hi.", seed=seed) for seed in range(4)]
        found = [None] * 4
        threads = [
            threading.Thread(target=lambda seed=seed: found.__setitem__(seed, self.speaker.speak("Hi.", seed=seed)))
            for seed in range(4)
        ]
        [thread.start() for thread in threads]
        [thread.join() for thread in threads]
        for one, other in zip(found, expected, strict=True):
            self.assert_same(one, other)


class Refusals(Case):
    def test_wrong_arguments(self):
        speaker = self.speaker
        for exception, text, work in [
            (ValueError, "the text is empty", lambda: speaker.speak(" ")),
            (ValueError, "no word to speak", lambda: speaker.speak("🎉 ...")),
            (ValueError, "unknown voice `eve`", lambda: speaker.stream("Hi.", voice="eve")),
            (TypeError, "text: int is not a str", lambda: speaker.speak(3)),
            (TypeError, "voice: int is not a str", lambda: speaker.speak("Hi.", voice=3)),
            (TypeError, "seed: float is not a whole number", lambda: speaker.speak("Hi.", seed=1.5)),
            (ValueError, "seed is -1", lambda: speaker.speak("Hi.", seed=-1)),
            (TypeError, "temperature: str is not a number", lambda: speaker.speak("Hi.", temperature="hot")),
            (TypeError, "top_k: float is not a whole number", lambda: speaker.speak("Hi.", top_k=1.5)),
            (TypeError, "unexpected argument `topk`", lambda: speaker.speak("Hi.", topk=3)),
            (ValueError, "temperature", lambda: speaker.speak("Hi.", temperature=float("nan"))),
            (ValueError, "a top-p of 2", lambda: speaker.speak("Hi.", top_p=2)),
            (ValueError, "penalty", lambda: speaker.speak("Hi.", repetition_penalty=0)),
            (ValueError, "speed", lambda: speaker.speak("Hi.", speed=9)),
            (TypeError, "use a list of them", lambda: speaker.speak_all("Hi.")),
            (TypeError, r"texts\[1\]: int is neither", lambda: speaker.speak_all(["Hi.", 3])),
            (ValueError, r"texts\[0\]: unknown key `speed`", lambda: speaker.speak_all([{"text": "Hi.", "speed": 2}])),
            (ValueError, r"texts\[0\]: `text` is missing", lambda: speaker.speak_all([{"voice": "ann"}])),
            (TypeError, r"texts\[0\]: voice: int", lambda: speaker.speak_all([{"text": "Hi.", "voice": 3}])),
        ]:
            with self.assertRaisesRegex(exception, text):
                work()

    def test_models_that_do_not_fit(self):
        def opened(name, change=None, **format):
            folder = voice.write(self.path(name), **format)
            if change is not None:
                change(folder)
            return lambda: speak.Speaker(folder, device="cpu")

        def without(name):
            return lambda folder: os.remove(os.path.join(folder, name))

        def rewritten(name, old, new):
            def change(folder):
                path = os.path.join(folder, name)
                with open(path, encoding="utf-8") as file:
                    text = file.read()
                assert old in text, old
                with open(path, "w", encoding="utf-8") as file:
                    file.write(text.replace(old, new))
            return change

        for exception, text, work in [
            (OSError, "none", lambda: speak.Speaker(self.path("none"))),
            (ValueError, "no tokenizer.json in this folder", opened("a", without("tokenizer.json"))),
            (ValueError, "not a tokenizer", opened("b", rewritten("tokenizer.json", '"BPE"', '"WordPiece"'))),
            (ValueError, "is not Orpheus', and there is no speak.yaml", opened("c", without("speak.yaml"))),
            (ValueError, "the voice model was trained with 00ff", opened("d", codec="00ff")),
            (ValueError, "shape|vocab_size|model", opened("e", rewritten("config.json", str(264 + 7 * 4096), "28000"))),
            (ValueError, "the format has the token", opened("f", speech=voice.SPEECH + 1)),
            (ValueError, "unknown field `vices`|vices", opened("g", vices=["eve"])),
            (ValueError, "model.safetensors", opened("h", without("model.packed.safetensors"))),
        ]:
            with self.assertRaisesRegex(exception, text):
                work()
        folder = voice.write(self.path("orpheus"), n_tokens=156_940, custom=128_256)
        os.remove(os.path.join(folder, "speak.yaml"))
        with self.assertRaisesRegex(ValueError, "with the built-in codec it speaks noise") as refused:
            speak.Speaker(folder, device="cpu")
        self.assertIn('give the codec that it was trained with: model="snac_24khz/"', refused.exception.hint)
        folder = voice.write(self.path("i"), codec=None)
        with self.assertWarnsRegex(UserWarning, "does not say which codec") as warned:
            speak.Speaker(folder, device="cpu")
        self.assertEqual(os.path.basename(warned.filename), "test_speak.py")

    def test_other_scripts(self):
        # Bytes spell everything.
        self.assertGreater(len(self.speaker.speak("Привет, 世界.").samples), 0)


class Lists(Case):
    def test_the_native_list_writes_both_kinds(self):
        with open(self.path("list.jsonl"), "w", encoding="utf-8") as file:
            file.write('{"text": "Hi.", "name": "a"}\nnot json\n{"text": "Bye.", "voice": "bob", "seed": 3}\n')
        manner = speak.as_manner(1.0, 0, {})
        asked = {
            "list": self.path("list.jsonl"), "voice": None, "seed": 0, "sample_format": "f32", "format": "codes",
            "drop_repeats": False, "shard": (0, 1), "overwrite": False,
        }
        report = self.speaker._list(asked | {"output": self.path("clips")}, manner)
        self.assertEqual((report["texts"], report["texts_kept"], len(report["failures"])), (2, 0, 1))
        self.assertEqual(sorted(os.listdir(self.path("clips"))), sorted(report["files"]))
        self.assertEqual((report["files"], report["failures"][0]["path"]), (["a.wav", "000003.wav"], "list.jsonl:2"))
        numpy.testing.assert_array_equal(
            audio.read(self.path("clips/000003.wav")).samples[0], self.speaker.speak("Bye.", voice="bob", seed=3).samples
        )
        self.assertEqual(self.speaker._list(asked | {"output": self.path("clips")}, manner)["texts_kept"], 2)
        report = self.speaker._list(asked | {"output": self.path("a.safetensors")}, manner)
        rows = melisma.dataset.open(self.path("a.safetensors"))
        codes, text = rows[1]
        self.assertEqual((report["texts"], report["frames"], text), (2, len(rows.column("codes")), "Bye."))
        self.assertEqual(codes.shape[1], 7)
        self.assertEqual(report["failures"][0]["path"], "list.jsonl:2")


    def test_a_list_is_spoken_and_resumed(self):
        with open(self.path("texts.jsonl"), "w", encoding="utf-8") as file:
            file.write('{"text": "Hi.", "name": "a"}\nnot json\n{"text": "Bye.", "voice": "bob", "seed": 3}\n')

        def spoken(output, **options):
            return self.speaker.speak_list(self.path("texts.jsonl"), self.path(output), **options)

        report = spoken("audio", sample_format="f32")
        self.assertIsInstance(report, speak.ListReport)
        self.assertEqual((report.texts, report.texts_kept, report.files), (2, 0, ["a.wav", "000003.wav"]))
        self.assertEqual([failure["path"] for failure in report.failures], ["texts.jsonl:2"])
        self.assertEqual(report.samples, 2048 * report.frames)
        self.assertEqual(report.expected.texts_at_once, 2)
        numpy.testing.assert_array_equal(
            audio.read(self.path("audio/a.wav")).samples[0], self.speaker.speak("Hi.").samples
        )
        os.remove(self.path("audio/a.wav"))
        again = asyncio.run(self.speaker.speak_list_async(self.path("texts.jsonl"), self.path("audio"), sample_format="f32"))
        self.assertEqual((again.texts, again.texts_kept, again.expected.texts_at_once), (2, 1, 1))
        self.assertIsNone(spoken("audio", sample_format="f32").expected)
        # Tokens, as those of the program: each kind, and parts that join.
        whole = spoken("texts.safetensors")
        self.assertEqual((whole.texts, whole.samples, whole.files), (2, 0, []))
        for part in (1, 2):
            spoken(f"part{part}.safetensors", shard=(part, 2))
        melisma.dataset.merge([self.path(f"part{part}.safetensors") for part in (1, 2)], self.path("merged.safetensors"))
        with open(self.path("merged.safetensors"), "rb") as one, open(self.path("texts.safetensors"), "rb") as other:
            self.assertEqual(one.read(), other.read())
        spoken("lines.jsonl")
        spoken("orpheus.jsonl", format="orpheus", drop_repeats=True)
        for name, key in (("lines", "codes"), ("orpheus", "codes_list")):
            with open(self.path(f"{name}.jsonl"), encoding="utf-8") as file:
                self.assertEqual([sorted({"codes", "codes_list"} & json.loads(line).keys()) for line in file], [[key]] * 2)
        self.assertEqual(spoken("lines.jsonl").texts_kept, 2)
        self.assertEqual(spoken("lines.jsonl", overwrite=True).texts_kept, 0)
        for exception, text, output, options in [
            (FileExistsError, "is not of this request", "lines.jsonl", {"seed": 1, "temperature": 0.5}),
            (ValueError, "for lines of tokens", "x.safetensors", {"drop_repeats": True}),
            (ValueError, "for lines of tokens", "x", {"format": "orpheus"}),
            (ValueError, "format is `text`", "x.jsonl", {"format": "text"}),
            (ValueError, "tokens have no speed", "x.jsonl", {"speed": 2.0}),
            (ValueError, "not a folder, nor a corpus", "x.npz", {}),
            (ValueError, "shards count from 1", "x", {"shard": (0, 2)}),
            (ValueError, "sample_format is `s8`", "x", {"sample_format": "s8"}),
        ]:
            with self.assertRaisesRegex(exception, text):
                spoken(output, **options)
        self.assertFalse([name for name in os.listdir(self.folder) if name.startswith("x")])


class Interrupts(Interruptible):
    @alone
    def test_speaking(self):
        with tempfile.TemporaryDirectory() as folder:
            speaker = speak.Speaker(voice.write(folder, end=-9.0), device="cpu")
            long = "This is a sentence that takes a while. " * 1_000
            self.check(lambda: speaker.speak(long))
            self.check(lambda: speaker.speak_all([long] * 8))
            self.check(lambda: list(speaker.stream(long)))
            self.assertGreater(len(speaker.speak("Hi.").samples), 0)


if __name__ == "__main__":
    unittest.main()
