"""Scores and generated music to audio."""

import json
import os
import pathlib
import tempfile
import unittest

import numpy

import melisma
import soundfont
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

    def test_seeds_are_texts_too(self):
        monday = synth.compose("bright", seconds=2, seed="monday")
        self.assertNotEqual(monday, synth.compose("bright", seconds=2))
        seventh = synth.compose("bright", seconds=2, seed=7)
        for seed in ("7", numpy.int64(7)):
            self.assertEqual(synth.compose("bright", seconds=2, seed=seed), seventh)
        played = synth.render("preset:bright", seconds=2, seed="monday", rate=24_000)
        numpy.testing.assert_array_equal(synth.render(monday, seconds=2, rate=24_000), played)
        numpy.testing.assert_array_equal(synth.render_all(["preset:bright"], seconds=2, seed="monday", rate=24_000)[0], played)
        streams = [synth.Stream("bright", seed=seed, rate=24_000).read(4_800) for seed in ("7", 7)]
        numpy.testing.assert_array_equal(*streams)

    def test_scores_are_files_too(self):
        score = synth.Score(100, [note(), note(0.5, 64, "pluck")])
        manner = {"seconds": 1, "rate": 16_000}
        with tempfile.TemporaryDirectory() as folder:
            midi, text = pathlib.Path(folder, "x.MID"), os.path.join(folder, "x.json")
            file = score.to_midi(midi)
            with open(text, "w") as opened:
                json.dump(score.to_dict(), opened)
            whole = synth.render(file, rate=16_000)
            for given in (midi, str(midi)):
                numpy.testing.assert_array_equal(synth.render(given, rate=16_000), whole)
            numpy.testing.assert_array_equal(synth.render(text, **manner), synth.render(score, **manner))
            tracks = [list(synth.stems(given, by="track", **manner)[1]) for given in (midi, file)]
            self.assertEqual(tracks[0], tracks[1])
            self.assertEqual(len(tracks[0]), 2)
            for text, work in {
                "one score": lambda: synth.render_all(midi),
                "tempo changes a preset": lambda: synth.render(midi, tempo=90),
                "not a preset, nor a .mid or .json file": lambda: synth.render(os.path.join(folder, "x.wav")),
            }.items():
                with self.assertRaisesRegex(ValueError, text):
                    work()
            with self.assertRaises(FileNotFoundError):
                synth.render(os.path.join(folder, "none.mid"))

    def test_changes_to_a_preset(self):
        given = {"key": "F#", "mode": "lydian", "tempo": 120, "intensity": 0.8, "voices": "melody", "reverb": 0.0}
        composed = synth.compose("bright", seconds=2, seed=5, **given)
        self.assertEqual(composed.tempo, 120)
        self.assertNotIn("pluck", {one.instrument for one in composed.notes})
        self.assertIn(synth.Control(0.0, "reverb", 0.0), composed.controls)
        rendered = synth.render("preset:bright", seconds=2, seed=5, rate=24_000, **given)
        numpy.testing.assert_array_equal(synth.render(composed, seconds=2, rate=24_000), rendered)
        numpy.testing.assert_array_equal(synth.render_all(["preset:bright"], seconds=2, seed=5, rate=24_000, **given)[0], rendered)
        # What the command line writes for the same changes.
        golden = pathlib.Path(__file__).parents[2] / "melisma-cli/tests/golden/synth_changes_midi.txt"
        same = synth.compose("focus", seconds=4, seed=7, **given)
        self.assertEqual(same.to_midi(), bytes.fromhex(golden.read_text()))
        texts = {name: str(value) for name, value in given.items()}
        self.assertEqual(synth.compose("bright", seconds=2, seed=5, **texts), composed)
        self.assertEqual(synth.compose("bright", seconds=2, key=None), synth.compose("bright", seconds=2))
        plain, changed = (synth.Stream("bright", rate=24_000, **one).read(24_000) for one in [{}, given])
        self.assertTrue((plain != changed).any())
        for text, work in {
            "tempo=29: expected 30 to 180": lambda: synth.compose("focus", tempo=29),
            "key=H: expected C, C#": lambda: synth.render("preset:focus", key="H"),
            "gain=NaN: expected 0 to 1": lambda: synth.Stream("focus", gain=float("nan")),
            "unknown change `volume`": lambda: synth.compose("focus", volume=1),
            "tempo changes a preset": lambda: synth.render(synth.Score(notes=[note()]), tempo=90),
            "changes without a preset": lambda: synth.Stream(tempo=90),
        }.items():
            with self.assertRaisesRegex(ValueError, text):
                work()
        with self.assertRaisesRegex(TypeError, "tempo: expected a text or a number"):
            synth.compose("focus", tempo=[90])
        # Every change that is listed is known.
        for name in synth.changes():
            with self.assertRaisesRegex(ValueError, f"{name}=x: expected "):
                synth.compose("focus", **{name: "x"})

    def test_presets_are_files_too(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "mine.yaml")
            with open(path, "w") as file:
                file.write(synth.preset_yaml("bright", key="A", tempo=60))
            expected = synth.compose("bright", seconds=2, seed=5, key="A", tempo=60)
            self.assertEqual(synth.compose(path, seconds=2, seed=5), expected)
            played = synth.render(f"preset:{path}", seconds=1, seed=5, rate=16_000)
            numpy.testing.assert_array_equal(synth.render("preset:bright", seconds=1, seed=5, rate=16_000, key="A", tempo=60), played)
            self.assertEqual(synth.Stream(path, rate=16_000).read(160).shape, (2, 160))
            with open(os.path.join(folder, "wrong.yaml"), "w") as file:
                file.write("volume: 3")
            with self.assertWarnsRegex(UserWarning, "not a preset: .*wrong.yaml") as warned:
                listed = synth.presets(folder)
            self.assertEqual(os.path.basename(warned.filename), "test_synth.py")
            self.assertEqual(set(listed) - set(synth.presets()), {path})
            self.assertEqual(synth.presets(path)[path], listed[path])
            self.assertEqual(synth.compose(max(listed, key=len), seconds=1).tempo, 60)
            with self.assertRaisesRegex(OSError, "nowhere"):
                synth.presets(os.path.join(folder, "nowhere"))
            with open(path, "w") as file:
                file.write("volume: 3")
            with self.assertRaisesRegex(ValueError, "volume"):
                synth.compose(path)
            with self.assertRaisesRegex(OSError, "none.yaml"):
                synth.compose(os.path.join(folder, "none.yaml"))

    def test_a_soundfont_plays_general_midi(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "tiny.sf2")
            with open(path, "wb") as file:
                file.write(soundfont.font())
            sound = synth.render(soundfont.midi(), seconds=1, rate=32_000, soundfont=path)
            spectrum = numpy.abs(numpy.fft.rfft(sound[0, :16_000]))
            self.assertAlmostEqual(float(spectrum.argmax()) * 2, 500 * 2**0.75, delta=4)
            own = synth.render(soundfont.midi(), seconds=1, rate=32_000)
            self.assertTrue((own != sound).any())
            both = synth.render_all([soundfont.midi(), synth.Score(notes=[note()])], seconds=1, rate=32_000, soundfont=path)
            numpy.testing.assert_array_equal(both[0], sound)
            self.assertGreater(numpy.abs(both[1]).max(), 0.01)
            for text, work in {
                "not a SoundFont": lambda: synth.render(soundfont.midi(), soundfont=__file__),
                "16000 to 192000": lambda: synth.render(soundfont.midi(), rate=8_000, soundfont=path),
                "played on the CPU": lambda: synth.render(soundfont.midi(), device="cuda", soundfont=path),
            }.items():
                with self.assertRaisesRegex(melisma.MelismaError, text):
                    work()
            with self.assertRaises(OSError):
                synth.render(soundfont.midi(), soundfont=os.path.join(folder, "none.sf2"))

    def test_stems_add_up_to_the_mix(self):
        notes = [note(instrument=name, start=0.1 * place) for place, name in enumerate(["lead", "bass", "pad"])]
        midi = synth.Score(notes=notes).to_midi()
        manner = {"seconds": 1, "rate": 16_000, "loudness": -40.0}
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "tiny.sf2")
            with open(path, "wb") as file:
                file.write(soundfont.font())
            for extra in [{}, {"soundfont": path}]:
                whole = synth.render(midi, **manner, **extra)
                for by, names in [("instrument", ["pad", "lead", "bass"]), ("track", ["02-lead", "03-bass", "04-pad"])]:
                    mix, stems = synth.stems(midi, by=by, **manner, **extra)
                    self.assertEqual(list(stems), names)
                    numpy.testing.assert_array_equal(mix, whole)
                    # Nothing is loud enough for the limiter.
                    numpy.testing.assert_allclose(sum(stems.values()), mix, atol=1e-6)
                    self.assertTrue(all(numpy.abs(stem).max() > 1e-4 for stem in stems.values()))
        _, stems = synth.stems("preset:focus", by="track", **manner)
        self.assertIn("pad", stems)
        self.assertEqual(synth.stems(synth.Score(), **manner)[1], {})
        with self.assertRaisesRegex(ValueError, "by is `voice`"):
            synth.stems(midi, by="voice", **manner)

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
            r"rate is 1\n.*8000 to 192000": lambda: synth.render("preset:focus", seconds=1, rate=1, device="auto"),
            "rate is 7999": lambda: synth.render("preset:focus", seconds=1, rate=7999, device="auto"),
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
