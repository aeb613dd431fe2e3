"""Audio files and resampling."""

import base64
import os
import re
import shutil
import tempfile
import unittest

import numpy

import melisma
from folder import FolderCase
from melisma import audio, dataset


def tone(n, channels=1):
    time = numpy.arange(n, dtype=numpy.float32)
    return numpy.stack([numpy.sin(time * (0.05 + 0.01 * channel)) * 0.4 for channel in range(channels)]).astype("f4")


class Files(FolderCase):

    def test_files_and_back(self):
        for suffix, sample_format, error in [("wav", "s16", 1 / 32768), ("wav", "f32", 0), ("flac", "s24", 1 / 2**23)]:
            for channels in [1, 2]:
                samples = tone(30_000, channels)
                audio.write(self.path(f"x.{suffix}"), samples, 22_050, sample_format=sample_format)
                clip = audio.read(self.path(f"x.{suffix}"))
                self.assertEqual((clip.samples.shape, clip.samples.dtype, clip.sample_rate), ((channels, 30_000), "f4", 22_050))
                numpy.testing.assert_allclose(clip.samples, samples, atol=error, rtol=0)
        audio.write(self.path("x.mp3"), tone(30_000), 24_000)
        self.assertEqual(audio.read(self.path("x.mp3")).sample_rate, 48_000)

    def test_opus_in_any_container(self):
        golden = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../../golden/audio")
        expected = audio.read(os.path.join(golden, "hybrid_20ms.flac"))
        for name in ("hybrid_20ms.opus", "hybrid_20ms.webm"):
            found = audio.read(os.path.join(golden, name))
            self.assertEqual((found.sample_rate, found.samples.shape), (48_000, expected.samples.shape), name)
            # opusdec rounds to 16 bits.
            numpy.testing.assert_allclose(found.samples, expected.samples, atol=4e-5, rtol=0)
            shutil.copy(os.path.join(golden, name), self.path(name))
        report = dataset.build(self.folder, self.path("x.h5"), dataset.Mel(segment=0.1), progress=False)
        self.assertEqual((report.files_ok, report.files_failed, report.rows), (2, 0, 6))

    def test_a_long_file(self):
        samples = tone(300_000, 2)
        audio.write(self.path("x.wav"), samples, 48_000, sample_format="f32")
        numpy.testing.assert_array_equal(audio.read(self.path("x.wav")).samples, samples)

    def test_one_axis_strides_and_other_types(self):
        samples = tone(9_000)[0]
        strided = numpy.zeros(18_000, "f8")[::-2]
        strided[:] = samples
        for given in [samples, strided, samples.tolist(), (samples * 32768).round().astype("i2")]:
            audio.write(self.path("x.wav"), given, 8_000)
            numpy.testing.assert_allclose(audio.read(self.path("x.wav")).samples[0], samples, atol=1 / 32768)

    def test_rates_and_the_mean_of_channels(self):
        audio.write(self.path("x.wav"), tone(24_000, 2), 24_000, sample_format="f32")
        self.assertEqual(audio.read(self.path("x.wav"), sample_rate=16_000).samples.shape, (2, 16_000))
        mono = audio.read(self.path("x.wav"), mono=True).samples
        numpy.testing.assert_allclose(mono[0], tone(24_000, 2).mean(axis=0), atol=1e-7)

    def test_resampling(self):
        samples = tone(4_410, 3).reshape(3, 1, 4_410)
        found = audio.resample(samples, 44_100, 16_000)
        self.assertEqual((found.shape, found.dtype), ((3, 1, 1_600), "f4"))
        numpy.testing.assert_array_equal(found[1, 0], audio.resample(samples[1, 0], 44_100, 16_000))
        expected = numpy.sin(numpy.arange(1_600) * 0.05 * 44_100 / 16_000) * 0.4
        numpy.testing.assert_allclose(found[0, 0, 200:-200], expected[200:-200], atol=1e-4)
        self.assertEqual(audio.resample(numpy.zeros((0, 5), "f4"), 8, 4).shape, (0, 3))

    def test_bad_files_and_values(self):
        with open(self.path("noise.wav"), "wb") as file:
            file.write(b"RIFF" + bytes(range(256)))
        os.mkfifo(self.path("pipe"))
        write = audio.write
        for exception, text, work in [
            (OSError, "none.wav", lambda: audio.read(self.path("none.wav"))),
            (ValueError, "noise.wav", lambda: audio.read(self.path("noise.wav"))),
            (melisma.MelismaError, "pipe", lambda: audio.read(self.path("pipe"))),
            (OSError, "no/such", lambda: write(self.path("no/such/x.wav"), tone(9), 8_000)),
            (RuntimeError, "x.xyz", lambda: write(self.path("x.xyz"), tone(9), 8_000)),
            (ValueError, "int64", lambda: write(self.path("x.wav"), [1, 2], 8_000)),
            (ValueError, r"shape \(0, 3\)", lambda: write(self.path("x.wav"), numpy.zeros((0, 3)), 8_000)),
            (ValueError, "complex", lambda: write(self.path("x.wav"), numpy.zeros(3, "c8"), 8_000)),
            (ValueError, "object", lambda: write(self.path("x.wav"), [None], 8_000)),
            (ValueError, "sample_rate is 0", lambda: write(self.path("x.wav"), tone(9), 0)),
            (ValueError, "sample_rate is -1", lambda: write(self.path("x.wav"), tone(9), -1)),
            (ValueError, "unknown sample format", lambda: write(self.path("x.wav"), tone(9), 8_000, sample_format="s8")),
            (ValueError, "from_rate is 1.5", lambda: audio.resample(tone(9), 1.5, 3)),
            (ValueError, "an axis", lambda: audio.resample(numpy.float32(3), 2, 3)),
        ]:
            with self.assertRaisesRegex(exception, text):
                work()
        self.assertEqual(sorted(os.listdir(self.folder)), ["noise.wav", "pipe"])


class Notebooks(unittest.TestCase):
    def test_the_player_has_the_samples_as_they_are(self):
        clip = audio.Clip(tone(8_000) * numpy.float32(0.01), 8_000)
        shown = clip._repr_html_()
        wav = base64.b64decode(re.search("audio/wav;base64,([^\"]*)", shown).group(1))
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "x.wav")
            with open(path, "wb") as file:
                file.write(wav)
            numpy.testing.assert_allclose(audio.read(path).samples, clip.samples, atol=1 / 32768)
        self.assertIn("data:image/png", shown)
        self.assertEqual(clip.seconds, 1)

    def test_long_and_loud_clips(self):
        shown = audio.Clip(numpy.full((1, 8_000 * 40), 2, "f4"), 8_000)._repr_html_()
        self.assertIn("first 30 s", shown)
        self.assertIn("beyond full scale", shown)
        self.assertLess(len(shown), 900_000)
        for clip in [audio.Clip(numpy.zeros((1, 9), "f4"), 2**32 - 1), audio.Clip(numpy.zeros((70_000, 1), "f4"), 8_000)]:
            self.assertIn("no player", clip._repr_html_())
        with self.assertRaisesRegex(ValueError, "sample_rate is 0"):
            audio.Clip(numpy.zeros((1, 9), "f4"), 0)._repr_html_()
        self.assertIn("0.00 s", audio.Clip(numpy.zeros((1, 0), "f4"), 8_000)._repr_html_())


if __name__ == "__main__":
    unittest.main()
