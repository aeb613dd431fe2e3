"""Many notes and many scores in one call."""

import unittest

import numpy

import test_tensor  # It clears the environment.
from melisma import synth

RATE = 16_000
NAMES = ["pad", "lead", "pluck", "bass", "kick", "hat", "swell"]


class Voices(unittest.TestCase):
    def test_a_row_is_the_note_alone(self):
        pitches = [36, 46, 60.25, 72]
        for name in NAMES:
            rows = synth.voices(pitches, instrument=name, seconds=0.3, duration=0.2, rate=RATE)
            self.assertEqual((rows.shape, rows.dtype), ((4, 4_800), "f4"))
            self.assertTrue((numpy.abs(rows).max(axis=1) > 1e-3).all(), name)
            for pitch, row in zip(pitches, rows, strict=True):
                alone = synth.voices([pitch], instrument=name, seconds=0.3, duration=0.2, rate=RATE)
                numpy.testing.assert_array_equal(alone[0], row)

    def test_a_row_is_what_a_score_of_that_note_plays(self):
        # Without effects, and before the fade that ends a piece.
        quiet = [synth.Control(0.0, "reverb", 0.0), synth.Control(0.0, "delay", 0.0)]
        start, n = 0.5, RATE // 2
        for name in NAMES:
            note = synth.Note(name, start, 0.3, 57, 0.6)
            sound = synth.render(synth.Score(notes=[note], controls=quiet), seconds=4, rate=RATE, loudness=None)
            row = synth.voices([57], instrument=name, seconds=0.5, duration=0.3, velocity=0.6, rate=RATE)[0]
            for side in sound[:, int(start * RATE):][:, :n]:
                numpy.testing.assert_allclose(side, row, atol=2e-6, err_msg=name)

    def test_velocities_durations_and_rooms(self):
        rows = synth.voices(numpy.array([60, 60], "u1"), velocity=[0.2, 0.8], seconds=0.1, rate=RATE)
        self.assertGreater(numpy.abs(rows[1]).max(), 4 * numpy.abs(rows[0]).max())
        room = numpy.empty((2, 1_600), "f4")
        self.assertIs(synth.voices((60, 60), velocity=[0.2, 0.8], rate=RATE, out=room), room)
        numpy.testing.assert_array_equal(room, rows)
        short = synth.voices([60], duration=0.01, seconds=1, rate=RATE)[0]
        self.assertEqual(numpy.abs(short[-RATE // 4 :]).max(), 0)
        self.assertEqual(synth.voices([]).shape, (0, 48_000))
        numpy.testing.assert_array_equal(synth.synthesize_batch([60], rate=RATE), synth.voices([60], seconds=1, rate=RATE))

    def test_what_is_refused(self):
        for text, work in {
            "voice 1: the pitch is 128": lambda: synth.voices([60, 128]),
            "voice 0: the pitch is -1": lambda: synth.voices([-1]),
            "the pitch is NaN": lambda: synth.voices([float("nan")]),
            "the velocity is 2": lambda: synth.voices([60], velocity=2),
            "the duration is -1": lambda: synth.voices([60], duration=-1),
            "seconds is 0": lambda: synth.voices([60], seconds=0),
            "seconds is NaN": lambda: synth.voices([60], seconds=float("nan")),
            "unknown instrument `tuba`": lambda: synth.voices([60], instrument="tuba"),
            "rate is 0": lambda: synth.voices([60], rate=0),
            "rate is 100": lambda: synth.voices([60], rate=100),
            r"rate is 1000000000000\n.*8000 to 192000": lambda: synth.voices([60], rate=10**12),
            r"the pitch is 1e\+?300;": lambda: synth.voices([1e300]),
            "out: 5 samples are not nan s": lambda: synth.voices([60], seconds=float("nan"), out=numpy.empty((1, 5), "f4")),
            "out: 5 samples are not inf s": lambda: synth.voices([60], seconds=float("inf"), out=numpy.empty((1, 5), "f4")),
            "pitches of shape": lambda: synth.voices([[60]]),
            r"pitches of shape \(\)": lambda: synth.voices(60),
            "pitches of type": lambda: synth.voices(["C4"]),
            "velocity of shape": lambda: synth.voices([60], velocity=[0.1, 0.2]),
            r"out: shape \(5,\)": lambda: synth.voices([60], out=numpy.empty(5, "f4")),
            "out: 5 samples are not 1 s": lambda: synth.voices([60], seconds=1, out=numpy.empty((1, 5), "f4")),
            "out: found shape .* is needed": lambda: synth.voices([60], out=numpy.empty((2, 5), "f4")),
            "out: found shape .*float64": lambda: synth.voices([60], out=numpy.empty((1, 5))),
        }.items():
            with self.assertRaisesRegex(ValueError, text):
                work()
        for text, work in {
            "seconds: str is not a number": lambda: synth.voices([60], seconds="1"),
            "duration: str is not a number": lambda: synth.voices([60], duration="1"),
            "instrument: NoneType is not a str": lambda: synth.voices([60], instrument=None),
            "device: int is not a str": lambda: synth.voices([60], device=3),
            "seconds: str is": lambda: synth.voices([60], seconds="a", out=numpy.empty((1, 5), "f4")),
        }.items():
            with self.assertRaisesRegex(TypeError, text):
                work()


class Scores(unittest.TestCase):
    def test_each_score_is_as_it_is_alone(self):
        score = synth.Score(notes=[synth.Note("lead", 0.0, 0.2, 60, 0.8)])
        scores = [score, "preset:focus", score.to_dict(), "preset:sleep", {"notes": []}]
        for loudness in [None, -20.0]:
            many = synth.render_all(scores, seconds=0.5, seed=7, rate=RATE, loudness=loudness)
            for index, (one, found) in enumerate(zip(scores, many, strict=True)):
                alone = synth.render(one, seconds=0.5, seed=7 + index, rate=RATE, loudness=loudness)
                numpy.testing.assert_array_equal(found, alone)

    def test_lengths_and_rooms(self):
        notes = [synth.Note("lead", 0.0, 0.1 * n, 60, 0.8) for n in (1, 9)]
        scores = [synth.Score(notes=[note]) for note in notes]
        for score, found in zip(scores, synth.render_all(scores, rate=RATE, loudness=None), strict=True):
            numpy.testing.assert_array_equal(found, synth.render(score, rate=RATE, loudness=None))
        room = numpy.empty((2, 2, 800), "f4")
        self.assertIs(synth.render_all(scores, rate=RATE, out=room), room)
        for score, found in zip(scores, room, strict=True):
            numpy.testing.assert_array_equal(found, synth.render(score, seconds=0.05, rate=RATE))
        self.assertEqual(synth.render_all([]), [])
        self.assertEqual([one.shape for one in synth.render_all(["preset:focus"], rate=8_000, loudness=None)], [(2, 480_000)])

    def test_what_is_refused(self):
        for text, work in {
            "str is one score": lambda: synth.render_all("preset:focus"),
            "dict is one score": lambda: synth.render_all({"notes": []}),
            "unknown preset `loud`": lambda: synth.render_all(["preset:focus", "preset:loud"]),
            "int is not a score": lambda: synth.render_all([3]),
            "for 1 scores": lambda: synth.render_all(["preset:focus"], out=numpy.empty((2, 2, 5), "f4")),
            "out: shape": lambda: synth.render_all(["preset:focus"], out=numpy.empty((2, 5), "f4")),
            "loudness of 3": lambda: synth.render_all(["preset:focus"] * 2, seconds=1, loudness=3),
            "seconds is 0": lambda: synth.render_all([{"notes": []}] * 2, seconds=0),
            "seed is -1": lambda: synth.render_all(["preset:focus"], seed=-1),
            "seed is None": lambda: synth.render_all([{"notes": []}], seed=None),
        }.items():
            with self.assertRaisesRegex(ValueError, text):
                work()
        for text, work in {
            "seconds: str is not a number": lambda: synth.render("preset:focus", seconds="1"),
            "loudness: str is not a number": lambda: synth.render_all(["preset:focus"], loudness="1"),
            "device: NoneType is not a str": lambda: synth.render("preset:focus", device=None),
        }.items():
            with self.assertRaisesRegex(TypeError, text):
                work()


if __name__ == "__main__":
    unittest.main()
