"""Scores and generated music to audio."""

import os
import tempfile
import unittest

import numpy

from melisma import synth


def note(start=0.0, key=60, instrument="lead", **others):
    return synth.Note(instrument, start, 0.3, key, 0.7, **others)


class Scores(unittest.TestCase):
    def test_dataclasses_dicts_and_midi_are_the_same_piece(self):
        score = synth.Score(100, [note(), note(0.5, 64, "pluck", pan=-0.5)], controls=[synth.Control(0, "reverb", 0.3)])
        fields = score.to_dict()
        mixed = {**fields, "notes": [score.notes[0], {**fields["notes"][1], "key": numpy.int64(64)}]}
        sound = synth.render(score, seconds=1, rate=16_000)
        self.assertEqual((sound.shape, sound.dtype), ((2, 16_000), "f4"))
        self.assertGreater(numpy.abs(sound).max(), 0.05)
        for other in [fields, mixed]:
            numpy.testing.assert_array_equal(synth.render(other, seconds=1, rate=16_000), sound)
        self.assertEqual(synth.Score.from_dict(mixed), score)
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "x.mid")
            file = score.to_midi(path)
            again = synth.Score.from_midi(path)
        self.assertEqual(again, synth.Score.from_midi(file))
        self.assertEqual([(one.instrument, one.key) for one in again.notes], [("lead", 60), ("pluck", 64)])

    def test_presets(self):
        preset = synth.render("preset:bright", seconds=2, seed=5, rate=24_000)
        composed = synth.compose("bright", seconds=2, seed=5)
        numpy.testing.assert_array_equal(synth.render(composed, seconds=2, rate=24_000), preset)
        self.assertNotEqual(synth.compose("bright", seconds=2, seed=6), composed)
        quiet = synth.render("preset:bright", seconds=2, seed=5, rate=24_000, loudness=-30)
        self.assertLess(numpy.abs(quiet).max(), numpy.abs(preset).max() / 2)
        self.assertGreater(synth.render(synth.Score(notes=[note()]), rate=16_000).shape[1], 16_000 * 0.3)

    def test_what_is_refused(self):
        for text, work in {
            "unknown preset `loud`": lambda: synth.render("preset:loud"),
            "not a preset": lambda: synth.render("focus"),
            "list is not a score": lambda: synth.render([]),
            "tempo": lambda: synth.render({"notes": [], "tempo": 0}),
            "volume": lambda: synth.render({"tempo": 1, "notes": [], "volume": 3}),
            "velocity": lambda: synth.render(synth.Score(notes=[synth.Note("lead", 0, 1, 60, 2)])),
            "tuba": lambda: synth.render(synth.Score(notes=[note(instrument="tuba")])),
            "Out of range": lambda: synth.render(synth.Score(notes=[note(start=float("nan"))])),
            "object cannot be part": lambda: synth.render({"tempo": object()}),
            "seconds is 0": lambda: synth.render(synth.Score(notes=[note()]), seconds=0),
            "seconds is NaN": lambda: synth.render(synth.Score(notes=[note()]), seconds=float("nan")),
            "a piece of -1": lambda: synth.compose("focus", seconds=-1),
            "seed is -1": lambda: synth.compose("focus", seed=-1),
            "rate is 0": lambda: synth.render("preset:focus", rate=0),
            "100": lambda: synth.render("preset:focus", rate=100),
            "loudness of 3": lambda: synth.render("preset:focus", seconds=1, loudness=3),
            "unknown preset `5`": lambda: synth.compose("5"),
            "sample_rate is 1; 8000 to 192000": lambda: synth.render("preset:focus", seconds=1, rate=1, device="auto"),
            "sample_rate is 7999": lambda: synth.render("preset:focus", seconds=1, rate=7999, device="auto"),
            "8 bytes are announced": lambda: synth.Score.from_midi(b"MThd"),
        }.items():
            with self.assertRaisesRegex(ValueError, text):
                work()
        for wrong in [5, None, b"focus", ["focus"]]:
            with self.assertRaises(TypeError):
                synth.compose(wrong)


class Streams(unittest.TestCase):
    def test_any_block_size_gives_the_same_samples(self):
        whole = synth.Stream("focus", seed=1, rate=24_000).read(48_000)
        stream = synth.Stream("focus", seed=1, rate=24_000)
        pieces = [stream.read(n) for n in [1, 999, 20_000, 0, 27_000]]
        numpy.testing.assert_array_equal(numpy.concatenate(pieces, axis=1), whole)
        block = next(iter(stream))
        self.assertEqual((block.shape, stream.sample_rate), ((2, 240), 24_000))

    def test_notes_and_controls(self):
        stream = synth.Stream(rate=24_000)
        self.assertEqual(numpy.abs(stream.read(2_400)).max(), 0)
        name = stream.note_on("lead", 60)
        self.assertGreater(numpy.abs(stream.read(12_000)).max(), 0.01)
        stream.note_off(name)
        stream.set("reverb", 0)
        stream.set("delay", 0)
        stream.read(72_000)
        self.assertLess(numpy.abs(stream.read(2_400)).max(), 1e-3)
        stream.note("kick", 36, duration=0.1)
        self.assertGreater(numpy.abs(stream.read(12_000)).max(), 0.01)
        for text, work in {
            "unknown instrument `tuba`": lambda: stream.note("tuba", 60),
            "unknown parameter `pitch`": lambda: stream.set("pitch", 1),
            "reverb is 2": lambda: stream.set("reverb", 2),
            "a key is 200": lambda: stream.note_on("lead", 200),
            "duration is -1": lambda: stream.note("lead", 60, duration=-1),
            "samples at once": lambda: stream.read(1 << 40),
        }.items():
            with self.assertRaisesRegex(ValueError, text):
                work()
        with self.assertRaises(OverflowError):
            stream.read(-1)

    def test_a_note_ends_after_its_duration(self):
        held, timed = (synth.Stream(rate=24_000) for _ in range(2))
        name = held.note_on("lead", 60)
        pieces = [held.read(6_000)]
        held.note_off(name)
        pieces.append(held.read(18_000))
        timed.note("lead", 60, duration=0.25)
        numpy.testing.assert_array_equal(timed.read(24_000), numpy.concatenate(pieces, axis=1))


if __name__ == "__main__":
    unittest.main()
